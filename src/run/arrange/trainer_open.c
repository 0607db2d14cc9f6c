#include "run/arrange/trainer_open.h"
#include "base/memory.h"
#include "run/arrange/departure.h"
#include "run/arrange/faults.h"
#include "run/arrange/network_profile.h"
#include "run/arrange/planning.h"
#include "run/arrange/rank_open.h"
#include "run/arrange/rank_state.h"

#include <string.h>

/* The initial rank map, and a copy of the run whose split may change. */
static sl_status take_run(sl_trainer *t, const sl_run *run, sl_group *world) {
    size_t replicas = (size_t)run->parallel.data;
    SL_TRY(sl_alloc(&t->state, 1, sizeof *t->state));
    sl_run *own = &t->state->own;
    t->state->origin = world;
    *own = *run;
    own->batch.split = NULL;
    t->run = own;
    SL_TRY(sl_alloc(&own->batch.split, replicas, sizeof *own->batch.split));
    memcpy(own->batch.split, run->batch.split, replicas * sizeof *own->batch.split);
    SL_TRY(sl_alloc(&t->home, (size_t)t->world, sizeof *t->home));
    for (int w = 0; w < t->world; w++)
        t->home[w] = w;
    return SL_OK;
}

/* Kernels of different instruction sets give different bits (docs/design.md, rules that keep every bit). */
static sl_status refuse_mixed_hosts(sl_trainer *t) {
    char mine[160] = "", (*all)[160];
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    snprintf(mine, sizeof mine, "%s", sl_binding_isa(t->binding));
    sl_status status =
        sl_group_gather_all(t->groups.world, mine, sizeof mine, all, (size_t)t->world * sizeof *all, NULL);
    for (int r = 1; r < t->world && status == SL_OK; r++)
        if (strcmp(all[r], all[0]) != 0)
            status = sl_error(SL_ENONE,
                              "rank 0 computes with %s and rank %d with %s: results would not be "
                              "bit-identical; set DNNL_MAX_CPU_ISA alike or leave the host out",
                              all[0], r, all[r]);
    sl_free(all);
    return status;
}

static sl_status plan(sl_trainer *t) {
    sl_binding_sizes *sizes;
    SL_TRY(sl_alloc(&sizes, (size_t)t->ranks, sizeof *sizes));
    sl_status status = sl_planning_measure(t, sizes);
    SL_THEN(status, sl_planning_make(t, sizes, NULL, NULL));
    t->message_bytes = (double)sizes[t->rank].message_bytes;
    sl_free(sizes);
    return status;
}

static sl_status open_binding(sl_trainer *t) {
    const sl_run_site *site = t->site;
    sl_resume *resume = &t->state->resume;
    int in_flight;
    SL_TRY(sl_planning_in_flight(t, &in_flight));
    SL_TRY(sl_binding_open(t->run, &t->groups, in_flight, sl_planning_hosted(t), &t->binding));
    SL_TRY(refuse_mixed_hosts(t));
    SL_TRY(sl_resume_open(t->run, site->folder, site->resume, t->binding, t->groups.world, resume));
    t->first = resume->first;
    return sl_saving_open(t->run, site->folder, t->first, t->binding, &t->groups, &t->saving);
}

static sl_status open_log(sl_trainer *t) {
    const sl_resume *resume = &t->state->resume;
    if (!sl_trainer_leads(t))
        return SL_OK;
    SL_TRY(sl_run_log_open(t->run, t->site->folder, t->site->run_file, resume->asked ? t->first : -1,
                           t->clock, &t->log));
    return sl_resume_report(resume, t->log);
}

sl_status sl_trainer_open(const sl_run *run, const sl_run_site *site, sl_group *world, sl_trainer *t) {
    *t = (sl_trainer){.run = run,
                      .site = site,
                      .clock = sl_clock_real(),
                      .world = sl_group_size(world),
                      .world_rank = sl_group_rank(world),
                      .ranks = run->parallel.pipeline};
    SL_TRY(take_run(t, run, world));
    SL_TRY(sl_groups_open(t->run, world, t->leader, &t->groups));
    t->rank = t->groups.position.pipeline;
    SL_TRY(sl_departure_open(t));
    SL_TRY(sl_alloc(&t->clocks, (size_t)t->world, sizeof *t->clocks));
    SL_TRY(sl_alloc(&t->state->remote, (size_t)t->world, sizeof *t->state->remote));
    SL_TRY(sl_faults_open(t));
    SL_TRY(sl_network_profile_open(t));
    SL_TRY(plan(t));
    SL_TRY(open_binding(t));
    SL_TRY(sl_rank_state_open(t));
    return open_log(t);
}

void sl_trainer_close(sl_trainer *t) {
    sl_rank_state *s = t->state;
    if (!s)
        return;
    sl_saving_close(t->saving);
    sl_resume_close(&s->resume);
    sl_rank_state_close(t);
    sl_faults_close(t);
    sl_binding_close(t->binding);
    sl_run_log_close(t->log);
    sl_network_profile_close(t);
    sl_planning_free(t, s->plan);
    sl_departure_close(t);
    sl_group *world = t->groups.world == s->origin ? NULL : t->groups.world;
    sl_groups_close(&t->groups);
    sl_group_close(world);
    SL_FREE(t->clocks, t->home, s->remote, s->own.batch.split, s);
}
