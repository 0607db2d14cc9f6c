#include "run/train/leader.h"
#include "base/memory.h"
#include "run/arrange/planning.h"

#include <stdio.h>
#include <string.h>

sl_status sl_leader_open(sl_trainer *t, sl_leader **leader) {
    sl_leader *l;
    SL_TRY(sl_alloc(leader, 1, sizeof **leader));
    l = *leader;
    l->t = t;
    SL_TRY(sl_alloc(&l->replica, (size_t)t->run->parallel.data, sizeof *l->replica));
    for (int r = 0; r < t->run->parallel.data; r++) {
        SL_TRY(sl_alloc(&l->replica[r].peak, 2 * (size_t)t->ranks, sizeof *l->replica[r].peak));
        l->replica[r].peak_before = l->replica[r].peak + t->ranks;
    }
    sl_leader_rearranged(l, 0);
    return SL_OK;
}

void sl_leader_close(sl_leader *l) {
    if (!l)
        return;
    for (int r = 0; l->replica && r < l->t->run->parallel.data; r++)
        sl_free(l->replica[r].peak);
    SL_FREE(l->replica, l);
}

void sl_leader_rearranged(sl_leader *l, int iteration) {
    const sl_replica_plan *plans = sl_planning_plans(l->t);
    for (int r = 0; r < l->t->run->parallel.data; r++) {
        sl_leader_replica *one = &l->replica[r];
        one->program = &plans[r].plan.program;
        one->ran = 0;
        memset(one->peak, 0, 2 * (size_t)l->t->ranks * sizeof *one->peak);
        snprintf(one->schedule, sizeof one->schedule, "%s", plans[r].plan.schedule);
    }
    l->fresh = iteration;
    sl_leader_name_schedule(l);
}

void sl_leader_name_schedule(sl_leader *l) {
    size_t at = 0;
    int same = 1, replicas = l->t->run->parallel.data;
    for (int r = 1; r < replicas; r++)
        same &= strcmp(l->replica[r].schedule, l->replica[0].schedule) == 0;
    for (int r = 0; r < (same ? 1 : replicas) && at < sizeof l->schedule; r++)
        at += (size_t)snprintf(l->schedule + at, sizeof l->schedule - at, "%s%s", r ? " | " : "",
                               l->replica[r].schedule);
}
