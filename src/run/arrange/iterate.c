#include "run/arrange/iterate.h"
#include "base/memory.h"
#include "run/arrange/faults.h"
#include "run/arrange/rank_state.h"

#include <string.h>

struct sl_iteration_records {
    sl_record_ring *ring;
    uint64_t position, lost;
    sl_record *own; /* of this rank, one iteration */
    size_t capacity;
    sl_reduction *reduction; /* [stages held] */
    char *report;            /* a report and losses */
    size_t report_bytes;
    sl_rank_reports gathered; /* on the leader */
};

static sl_status open_gathered(const sl_trainer *t, sl_iteration_records *r) {
    sl_rank_reports *g = &r->gathered;
    size_t world = (size_t)t->world;
    g->records_capacity = r->capacity * world;
    g->reports_capacity =
        world * sizeof(sl_rank_report) + (size_t)t->run->batch.microbatches * sizeof(double);
    SL_TRY(sl_alloc(&g->reports, g->reports_capacity, 1));
    SL_TRY(sl_alloc(&g->report_bytes, world, sizeof *g->report_bytes));
    SL_TRY(sl_alloc(&g->records, g->records_capacity, sizeof *g->records));
    SL_TRY(sl_alloc(&g->record_bytes, world, sizeof *g->record_bytes));
    return sl_alloc(&g->replica, r->capacity * (size_t)t->ranks, sizeof *g->replica);
}

sl_status sl_iterate_open(sl_trainer *t) {
    const sl_problem *p = &t->state->problem;
    sl_iteration_records *r;
    /* F, I, W in parts, two messages, four moves to or from host memory, and a reduction and an update per
     * stage; twice, so that none is lost. SL_MAX_OPS bounds it. */
    uint32_t capacity = 64, stages = (uint32_t)(p->stages / t->ranks), most = 0;
    for (int replica = 0; replica < t->run->parallel.data; replica++)
        if ((uint32_t)t->run->batch.split[replica] > most)
            most = (uint32_t)t->run->batch.split[replica];
    uint32_t records = (3 * (uint32_t)p->parts + 6) * most * stages + 2 * stages;
    while (capacity < 2 * records)
        capacity *= 2;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    t->state->records = r;
    SL_TRY(sl_alloc(&r->ring, 1, sl_record_ring_bytes(capacity)));
    if (sl_record_ring_init(r->ring, capacity) != 0)
        return sl_error(SL_EINVAL, "a ring of %u records", capacity);
    r->capacity = capacity;
    SL_TRY(sl_alloc(&r->own, capacity, sizeof *r->own));
    SL_TRY(sl_alloc(&r->reduction, stages, sizeof *r->reduction));
    SL_TRY(sl_alloc(&r->report, sizeof(sl_rank_report) + (size_t)p->microbatches * sizeof(double), 1));
    return sl_trainer_leads(t) ? open_gathered(t, r) : SL_OK;
}

void sl_iterate_close(sl_trainer *t) {
    sl_iteration_records *r = t->state->records;
    if (!r)
        return;
    sl_rank_reports *g = &r->gathered;
    SL_FREE(g->reports, g->report_bytes, g->records, g->record_bytes, g->replica, r->ring, r->own,
            r->reduction, r->report, r);
    t->state->records = NULL;
}

sl_record_ring *sl_iterate_ring(const sl_trainer *t) {
    return t->state->records->ring;
}

int sl_iterate_is_warned(const sl_trainer *t) {
    return t->site->warned && t->site->warned();
}

/* By this thread: a ring has one writer. */
static void record_reductions(const sl_trainer *t, int iteration) {
    sl_iteration_records *records = t->state->records;
    for (int i = 0, stage; (stage = sl_binding_stage_at(t->binding, i)) >= 0; i++) {
        const sl_reduction *r = &records->reduction[i];
        if (r->end == 0)
            continue;
        sl_record record = {.kind = SL_RECORD_REDUCE,
                            .op = SL_REDUCE,
                            .iteration = iteration,
                            .rank = t->rank,
                            .peer = -1,
                            .stage = stage,
                            .microbatch = -1,
                            .start = r->start,
                            .end = r->end,
                            .arrive = r->end};
        sl_record_write(records->ring, records->ring->capacity, &record);
    }
}

sl_status sl_iterate(sl_trainer *t, int iteration, sl_time begin) {
    sl_iteration_records *r = t->state->records;
    sl_engine_result result;
    sl_faults_apply(t, iteration);
    sl_binding_begin(t->binding, iteration);
    SL_TRY(sl_engine_run(t->state->engine, (uint32_t)iteration, begin, &result));
    SL_TRY(sl_binding_reduce(t->binding, r->reduction));
    sl_rank_report mine = {
        .ops = result.ops, .overruns = result.overruns, .samples = sl_binding_samples(t->binding)};
    record_reductions(t, iteration);
    t->moves += result.moves;
    int losses = sl_binding_losses(t->binding, (double *)(void *)(r->report + sizeof mine));
    r->report_bytes = sizeof mine + (size_t)losses * sizeof(double);
    SL_TRY(sl_binding_join(t->binding));
    if (iteration < t->run->dump_gradients)
        SL_TRY(sl_gradients_write(t->binding, sl_trainer_leads(t), t->site->folder, iteration));
    SL_TRY(sl_binding_clip(t->binding));
    mine.end = sl_clock_now(t->clock);
    mine.warned = sl_iterate_is_warned(t);
    memcpy(r->report, &mine, sizeof mine);
    return SL_OK;
}

sl_status sl_iterate_gather(sl_trainer *t, sl_rank_reports **all) {
    sl_iteration_records *r = t->state->records;
    sl_rank_reports *g = *all = &r->gathered;
    size_t read = sl_record_read(r->ring, r->ring->capacity, &r->position, r->own, r->capacity, &r->lost);
    if (r->lost > 0)
        return sl_error(SL_ESYS, "%llu records of rank %d were lost", (unsigned long long)r->lost,
                        t->world_rank);
    SL_TRY(sl_group_gather(t->groups.world, t->leader, r->report, r->report_bytes, g->reports,
                           g->reports_capacity, g->report_bytes));
    return sl_group_gather(t->groups.world, t->leader, r->own, read * sizeof *r->own, g->records,
                           g->records_capacity * sizeof *g->records, g->record_bytes);
}
