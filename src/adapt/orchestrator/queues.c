#include "adapt/orchestrator/queues.h"

int sl_queues_for(sl_time production, sl_time consumption) {
    if (consumption <= 0)
        return 1;
    if (production <= 0 || consumption > production * SL_QUEUES_MAX)
        return SL_QUEUES_MAX;
    return (int)((consumption + production - 1) / production);
}

/* The least time between two messages that a rank produces for another. */
static sl_time production(const sl_problem *p, int from, int to) {
    sl_time least = 0;
    for (int stage = 0; stage < p->stages; stage++)
        for (int other = stage - 1; other <= stage + 1; other += 2) {
            if (other < 0 || other >= p->stages || sl_problem_rank(p, stage) != from ||
                sl_problem_rank(p, other) != to)
                continue;
            sl_time time = p->time[other > stage ? SL_F : SL_I][stage];
            if (other < stage && time == 0)
                time = p->time[SL_B][stage];
            least = least == 0 || time < least ? time : least;
        }
    return least;
}

int sl_queues_needed(const sl_problem *measured, int *from, int *to) {
    int most = 1;
    *from = *to = -1;
    for (int r = 0; r < measured->ranks; r++)
        for (int s = 0; s < measured->ranks; s++) {
            const sl_link *link = &measured->link[r * measured->ranks + s];
            sl_time transfer = link->transfer * (link->lanes > 1 ? link->lanes : 1);
            sl_time interval = transfer > 0 && link->lanes != 1 ? production(measured, r, s) : 0;
            int needed = interval > 0 ? sl_queues_for(interval, transfer) : 1;
            if (needed > most) {
                most = needed;
                *from = r;
                *to = s;
            }
        }
    return most;
}
