#include "run/train/assess.h"

#include "base/memory.h"
#include "base/numbers.h"
#include "plan/timing/profile.h"
#include "run/arrange/path.h"
#include "run/arrange/planning.h"
#include "run/journal/run_profile.h"
#include "run/train/body.h"

#include <math.h>
#include <string.h>

#define LATE SL_MS /* an arrival later than this marks its iteration */

typedef struct sl_assess_state {
    sl_measured **measured; /* [data] in the last iteration */
    sl_timeline *timeline;  /* [data] likewise */
    sl_arrivals arrivals;
    long ops, overruns;
    sl_time around[9]; /* time of the last iterations before their first op and after their last */
    int arounds;
    int troubled_before;
} sl_assess_state;

sl_status sl_assess_open(sl_leader *l) {
    const size_t replicas = (size_t)l->t->run->parallel.data;
    SL_TRY(sl_alloc(&l->assess, 1, sizeof *l->assess));
    SL_TRY(sl_alloc(&l->assess->measured, replicas, sizeof(sl_measured *)));
    return sl_alloc(&l->assess->timeline, replicas, sizeof *l->assess->timeline);
}

void sl_assess_close(sl_leader *l) {
    sl_assess_state *j = l->assess;
    if (!j)
        return;
    for (int r = 0; j->measured && r < l->t->run->parallel.data; r++)
        sl_measured_drop(j->measured[r]);
    for (int r = 0; j->timeline && r < l->t->run->parallel.data; r++)
        sl_timeline_free(&j->timeline[r]);
    sl_arrivals_free(&j->arrivals);
    SL_FREE(j->measured, j->timeline, j);
}

void sl_assess_sum(const sl_leader *l, sl_summary *summary) {
    summary->arrivals = &l->assess->arrivals;
    summary->ops = l->assess->ops;
    summary->overruns = l->assess->overruns;
}

/* ---- measuring ---- */

/* Converts to the leader's clock: times are stamped at the sender, arrivals at the receiver. */
static void shift_record(const sl_trainer *t, sl_run_position position, sl_record *r) {
    sl_run_position peer = {.pipeline = r->peer, .replica = position.replica, .tensor = position.tensor};
    int transfer = r->kind == SL_RECORD_TRANSFER && r->peer >= 0 && r->peer < t->ranks;
    sl_time here = t->clocks[sl_run_world_rank(t->run, position)].offset;
    r->start -= here;
    r->end -= here;
    r->arrive -= transfer ? t->clocks[sl_run_world_rank(t->run, peer)].offset : here;
}

/* Collects the records of a replica: its tensor ranks run the same program, so their records are merged into
 * one. */
static sl_status collect_records(const sl_trainer *t, sl_rank_reports *all, int replica, int *count) {
    sl_record *out = all->replica;
    *count = 0;
    size_t *start;
    SL_TRY(sl_alloc(&start, (size_t)t->world + 1, sizeof *start));
    for (int w = 0; w < t->world; w++)
        start[w + 1] = start[w] + all->record_bytes[w] / sizeof *out;
    sl_status status = SL_OK;
    for (int rank = 0; rank < t->ranks && status == SL_OK; rank++)
        for (int tensor = 0; tensor < t->run->parallel.tensor && status == SL_OK; tensor++) {
            sl_run_position position = {.pipeline = rank, .replica = replica, .tensor = tensor};
            int w = sl_run_world_rank(t->run, position), records = (int)(start[w + 1] - start[w]);
            sl_record *from = all->records + start[w];
            for (int i = 0; i < records; i++)
                shift_record(t, position, &from[i]);
            if (tensor > 0) {
                int first = sl_run_world_rank(t->run, (sl_run_position){rank, replica, 0});
                int merged = (int)(start[first + 1] - start[first]);
                status = sl_measure_merge(out + *count - merged, merged, from, records);
            } else {
                memcpy(out + *count, from, (size_t)records * sizeof *out);
                *count += records;
            }
        }
    sl_free(start);
    return status;
}

/* Clocks of a replica's ranks after shift_record: offset 0, unchanged uncertainty. */
static sl_status make_clocks(const sl_trainer *t, int replica, sl_offset **clock) {
    SL_TRY(sl_alloc(clock, (size_t)t->ranks, sizeof **clock));
    for (int rank = 0; rank < t->ranks; rank++) {
        sl_run_position position = {.pipeline = rank, .replica = replica};
        (*clock)[rank] = t->clocks[sl_run_world_rank(t->run, position)];
        (*clock)[rank].offset = 0;
    }
    return SL_OK;
}

static sl_status measure_replica(sl_leader *l, sl_rank_reports *all, int replica, int iteration,
                                 sl_time begin) {
    const sl_problem *problem = &sl_planning_plans(l->t)[replica].problem;
    sl_measured **measured = &l->assess->measured[replica];
    sl_timeline *timeline = &l->assess->timeline[replica];
    sl_offset *clock;
    sl_status status;
    int count;
    sl_timeline_free(timeline);
    sl_measured_drop(*measured);
    *measured = NULL;
    SL_TRY(collect_records(l->t, all, replica, &count));
    SL_TRY(make_clocks(l->t, replica, &clock));
    SL_TRY_GOTO(out, status,
                sl_measure_timeline(problem, all->replica, count, iteration, begin, clock, timeline));
    SL_TRY_GOTO(out, status, sl_measured_make(problem, timeline, NULL, NULL, measured));
    sl_profile_divide(timeline, problem, sl_leader_is_paced(l), &(*measured)->problem);
    sl_measure_level_directions(clock, &(*measured)->problem);
out:
    sl_free(clock);
    return status;
}

static sl_status measure(sl_leader *l, sl_rank_reports *all, int iteration, sl_time begin, sl_time *worst) {
    const int replicas = l->t->run->parallel.data;
    size_t count = 0;
    for (int w = 0; w < l->t->world; w++)
        count += all->record_bytes[w] / sizeof *all->records;
    SL_TRY(sl_arrivals_add(&l->assess->arrivals, all->records, (int)count, iteration, worst));
    for (int replica = 0; replica < replicas; replica++)
        SL_TRY(measure_replica(l, all, replica, iteration, begin));
    if (replicas > 1)
        sl_measure_reductions(l->assess->timeline, replicas, l->assess->measured);
    return SL_OK;
}

/* What the ranks reported, all replicas together. */
typedef struct totals {
    sl_time end;      /* this clock */
    uint64_t samples; /* sum over all ranks */
    double loss; /* mean over all microbatches, added in their global order; bidirectional: rank by rank */
} totals;

static totals read_reports(sl_leader *l, const sl_rank_reports *g) {
    const sl_trainer *t = l->t;
    totals all = {0};
    double sum = 0;
    const char *at = g->reports;
    for (int w = 0; w < t->world; w++) { /* of the last stage's ranks, replica after replica */
        sl_rank_report report;
        double loss;
        memcpy(&report, at, sizeof report);
        for (size_t i = sizeof report; i < g->report_bytes[w]; i += sizeof loss) {
            memcpy(&loss, at + i, sizeof loss);
            sum += loss;
        }
        at += g->report_bytes[w];
        sl_time end = report.end - t->clocks[w].offset;
        all.end = end > all.end ? end : all.end;
        l->assess->ops += report.ops;
        l->assess->overruns += report.overruns;
        l->warned |= report.warned;
        all.samples += report.samples;
    }
    all.loss = sum / t->run->batch.microbatches;
    return all;
}

/* ---- reports ---- */

/* The memory of the program that ran, from the measured times: moves to host memory depend on them. */
static sl_status predict_memory(sl_leader *l) {
    sl_time makespan;
    for (int r = 0; r < l->t->run->parallel.data; r++) {
        l->replica[r].ran = 1;
        SL_TRY(sl_profile_predict(&l->assess->measured[r]->problem, l->replica[r].program, &makespan,
                                  l->replica[r].peak));
    }
    return SL_OK;
}

static sl_run_phase phase_of(sl_leader *l, int adapted) {
    int troubled = sl_orchestrator_troubled(l->orchestrator);
    l->assess->troubled_before |= troubled;
    if (adapted)
        return troubled ? SL_PHASE_ADAPTED : SL_PHASE_BETWEEN;
    if (troubled && sl_path_delegates(l->t) && l->t->run->transport == SL_RUN_AUTO)
        return SL_PHASE_DELEGATED;
    return troubled ? SL_PHASE_SLOW : l->assess->troubled_before ? SL_PHASE_RELIEVED : SL_PHASE_HEALTHY;
}

static int is_adapted(const sl_leader *l) {
    int adapted = 0;
    for (int r = 0; r < l->t->run->parallel.data; r++)
        adapted |= sl_orchestrator_adapted(l->orchestrator, r);
    return adapted;
}

static void log_iteration(const sl_leader *l, const sl_iteration *it) {
    int incidents;
    const sl_incident_view *incident = sl_orchestrator_incidents(l->orchestrator, &incidents);
    const sl_job job = {
        .replicas = l->t->run->parallel.data, .ranks = l->t->ranks, .tensor = l->t->run->parallel.tensor};
    sl_run_log_iteration(l->t->log, it, &job, incident, incidents);
}

static sl_status forecast(sl_leader *l) {
    for (int r = 0; r < l->t->run->parallel.data; r++)
        SL_TRY(sl_orchestrator_forecast(l->orchestrator, r, &l->replica[r].expected));
    return SL_OK;
}

/* The slowest replica's ops determine the iteration; `around` is added for the time before the first and
 * after the last. */
static sl_time predict(const sl_leader *l, int iteration) {
    const sl_assess_state *j = l->assess;
    int known = j->arounds > 0 && (sl_leader_is_paced(l) || iteration > l->fresh);
    sl_time slowest = 0, around[9];
    int arounds = j->arounds < 9 ? j->arounds : 9;
    if (!known)
        return -1;
    for (int r = 0; r < l->t->run->parallel.data; r++)
        slowest = l->replica[r].expected > slowest ? l->replica[r].expected : slowest;
    memcpy(around, j->around, sizeof around);
    return slowest + sl_median(around, arounds);
}

/* The time of an iteration outside its ops: before them the first stage's update, which the first iteration
 * of an attempt does not have, and after them the norm. */
static void note_around(const sl_leader *l, int iteration, sl_time time) {
    sl_assess_state *j = l->assess;
    sl_time longest = 0;
    for (int r = 0; r < l->t->run->parallel.data; r++) {
        sl_time makespan = sl_timeline_makespan(&j->timeline[r]);
        longest = makespan > longest ? makespan : longest;
    }
    if (iteration == l->t->first + 1)
        j->arounds = 0;
    j->around[j->arounds++ % 9] = time - longest;
}

sl_status sl_assess_iteration(sl_leader *l, sl_rank_reports *gathered, int iteration, sl_time begin) {
    const sl_trainer *t = l->t;
    sl_time worst;
    SL_TRY(measure(l, gathered, iteration, begin, &worst));
    totals all = read_reports(l, gathered);
    SL_TRY(predict_memory(l));
    SL_TRY(forecast(l));
    int adapted = is_adapted(l); /* in this iteration; its measurements may change it */
    SL_TRY(sl_body_observe(l, iteration, all.end - begin, l->assess->measured));
    sl_iteration it = {.iteration = iteration,
                       .loss = all.loss,
                       .samples = all.samples,
                       .validation = NAN,
                       .time = all.end - begin,
                       .predicted = predict(l, iteration),
                       .schedule = l->schedule,
                       .delegates = sl_path_delegates(t),
                       .phase = phase_of(l, adapted),
                       .late = worst > LATE,
                       .begin = sl_run_log_time(t->log, begin),
                       .replicas = t->run->parallel.data,
                       .measured = l->assess->measured,
                       .timeline = l->assess->timeline};
    note_around(l, iteration, it.time);
    log_iteration(l, &it);
    return SL_OK;
}
