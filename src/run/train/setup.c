#include "run/train/setup.h"
#include "base/memory.h"
#include "run/arrange/faults.h"
#include "run/arrange/path.h"
#include "run/arrange/planning.h"
#include "run/arrange/seated.h"
#include "run/train/searcher.h"

#include <string.h>

#define TRACED 400 /* iterations in timeline.json */

/* The initial rank map, and a copy of the run whose split may change. */
sl_status sl_trainer_take_run(sl_trainer *t, const sl_run *run) {
    size_t replicas = (size_t)run->parallel.data;
    t->own = *run;
    t->own.batch.split = NULL;
    t->run = &t->own;
    SL_TRY(sl_alloc(&t->own.batch.split, replicas, sizeof *t->own.batch.split));
    memcpy(t->own.batch.split, run->batch.split, replicas * sizeof *t->own.batch.split);
    SL_TRY(sl_alloc(&t->home, (size_t)t->world, sizeof *t->home));
    for (int w = 0; w < t->world; w++)
        t->home[w] = w;
    return SL_OK;
}

/* ---- the rank that leads ---- */

static sl_status open_leader(sl_trainer *t) {
    double tokens = (double)t->run->batch.microbatches * t->run->batch.size * t->run->model.context;
    size_t replicas = (size_t)t->run->parallel.data;
    sl_journal_layout layout = {.pipeline = t->ranks,
                                .data = t->run->parallel.data,
                                .tensor = t->run->parallel.tensor,
                                .zero = t->run->parallel.zero};
    if (!sl_trainer_leads(t))
        return SL_OK;
    SL_TRY(sl_journal_open(t->place->folder, t->resume.asked ? t->resume.first : -1, layout, tokens,
                           t->run->iterations, TRACED, &t->journal));
    if (t->place->run_file)
        sl_journal_keep(t->journal, t->place->run_file);
    SL_TRY(sl_resume_report(&t->resume, t->journal));
    SL_TRY(sl_alloc(&t->measured, replicas, sizeof(sl_measured *)));
    SL_TRY(sl_alloc(&t->pending_timeline, replicas, sizeof *t->pending_timeline));
    sl_terminal terminal;
    sl_terminal_find(&terminal);
    SL_TRY(sl_progress_open(stdout, &terminal, t->clock, t->run->iterations, tokens, &t->progress));
    SL_TRY(sl_alloc(&t->ping, (size_t)t->ranks * (size_t)t->ranks, sizeof *t->ping));
    return SL_OK;
}

/* Kernels of different instruction sets give different bits (docs/design.md, rules that keep every bit). */
static sl_status refuse_mixed_hosts(sl_trainer *t) {
    char mine[64] = "", (*all)[64];
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

/* sizes[ranks] */
static sl_status open_all(sl_trainer *t, sl_binding_sizes *sizes) {
    int in_flight;
    const sl_run_site *place = t->place;
    SL_TRY(sl_planning_measure(t, sizes));
    SL_TRY(sl_planning_make(t, sizes, NULL, NULL));
    SL_TRY(sl_planning_in_flight(t, &in_flight));
    SL_TRY(sl_binding_open(t->run, &t->groups, in_flight, sl_planning_hosted(t), &t->binding));
    SL_TRY(refuse_mixed_hosts(t));
    t->message_bytes = (double)sizes[t->rank].message_bytes;
    SL_TRY(sl_resume_open(t->run, place->folder, place->resume, t->binding, t->groups.world, &t->resume));
    SL_TRY(sl_saving_open(t->run, place->folder, t->resume.first, t->binding, &t->groups, &t->saving));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        SL_TRY(sl_alloc(&t->paced[kind], (size_t)t->problem.stages, sizeof *t->paced[kind]));
    SL_TRY(sl_alloc(&t->saved, (size_t)t->problem.stages, sizeof *t->saved));
    SL_TRY(sl_seated_open(t));
    SL_TRY(open_leader(t));
    int delegates = t->run->network.queues > 0 ? t->run->network.queues : 1;
    if (t->run->transport == SL_RUN_DELEGATED)
        SL_TRY(sl_path_change(t, delegates));
    return SL_OK;
}

sl_status sl_trainer_open(sl_trainer *t) {
    sl_binding_sizes *sizes;
    t->rank = t->groups.seat.pipeline;
    t->ranks = t->run->parallel.pipeline;
    SL_TRY(sl_alloc(&t->clocks, (size_t)t->world, sizeof *t->clocks));
    SL_TRY(sl_alloc(&t->remote, (size_t)t->world, sizeof *t->remote));
    SL_TRY(sl_faults_open(t));
    SL_TRY(sl_alloc(&sizes, (size_t)t->ranks, sizeof *sizes));
    sl_status status = open_all(t, sizes);
    sl_free(sizes);
    return status;
}

static void close_leader(sl_trainer *t) {
    for (int r = 0; t->measured && r < t->run->parallel.data; r++)
        sl_measured_drop(t->measured[r]);
    for (int r = 0; t->pending_timeline && r < t->run->parallel.data; r++)
        sl_timeline_free(&t->pending_timeline[r]);
    sl_searcher_close(t->searcher);
    sl_orchestrator_close(t->orchestrator);
    sl_journal_close(t->journal);
    sl_progress_close(t->progress);
    sl_free(t->ping);
    sl_network_profile_free(&t->network);
    sl_arrivals_free(&t->arrivals);
    sl_planning_free(t, t->replica);
    SL_FREE(t->measured, t->pending_timeline);
}

void sl_trainer_close(sl_trainer *t) {
    sl_saving_close(t->saving);
    sl_resume_close(&t->resume);
    sl_seated_close(t);
    sl_faults_close(t);
    sl_binding_close(t->binding);
    close_leader(t);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        sl_free(t->paced[kind]);
    sl_free(t->saved);
    sl_free(t->clocks);
    sl_free(t->remote);
    sl_group *world = t->groups.world == t->origin ? NULL : t->groups.world;
    sl_groups_close(&t->groups);
    sl_group_close(world);
    SL_FREE(t->home, t->own.batch.split);
}
