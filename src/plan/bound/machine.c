#include "plan/bound/machine.h"

#include <stddef.h>

static sl_time head_of(const sl_job_chain *c) {
    return c->head[c->next] + c->before;
}

static sl_time tail_of(const sl_job_chain *c) {
    return c->tail[c->next] + c->after;
}

/* Only the first job of a chain matters, because the others come later and have shorter tails. */
sl_time sl_preemptive_bound(sl_job_chain *chains, int count) {
    sl_time now = 0, bound = 0;
    for (int c = 0; c < count; c++)
        chains[c].left = chains[c].time;
    for (;;) {
        sl_job_chain *best = NULL;
        sl_time arrival = SL_TIME_NEVER;
        for (int c = 0; c < count; c++) {
            if (chains[c].next >= chains[c].count)
                continue;
            if (head_of(&chains[c]) > now)
                arrival = head_of(&chains[c]) < arrival ? head_of(&chains[c]) : arrival;
            else if (!best || tail_of(&chains[c]) > tail_of(best))
                best = &chains[c];
        }
        if (!best && arrival == SL_TIME_NEVER)
            return bound;
        if (!best) {
            now = arrival;
            continue;
        }
        if (now + best->left > arrival) {
            best->left -= arrival - now;
            now = arrival;
            continue;
        }
        now += best->left;
        bound = sl_later(bound, now + tail_of(best));
        best->next++;
        best->left = best->time;
    }
}
