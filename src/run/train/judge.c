#include "run/train/judge.h"

#include "base/median.h"
#include "base/memory.h"
#include "plan/timing/profile.h"
#include "run/arrange/run_events.h"
#include "run/journal/run_profile.h"
#include "run/train/body.h"

#include <math.h>
#include <string.h>

#define LATE SL_MS /* an arrival later than this marks its iteration */

/* ---- measuring ---- */

/* Converts to the leader's clock: times are stamped at the sender, arrivals at the receiver. */
static void shift_record(const sl_trainer *t, sl_run_position seat, sl_record *r) {
    sl_run_position peer = {.pipeline = r->peer, .replica = seat.replica, .tensor = seat.tensor};
    int transfer = r->kind == SL_RECORD_TRANSFER && r->peer >= 0 && r->peer < t->ranks;
    sl_time here = t->clocks[sl_run_world_rank(t->run, seat)].offset;
    r->start -= here;
    r->end -= here;
    r->arrive -= transfer ? t->clocks[sl_run_world_rank(t->run, peer)].offset : here;
}

/* Collects the records of a replica: its tensor ranks run the same program, so their records are merged into
 * one. */
static sl_status collect_records(sl_trainer *t, int replica, int *count) {
    sl_record *out = t->gathered.replica;
    *count = 0;
    size_t *start;
    SL_TRY(sl_alloc(&start, (size_t)t->world + 1, sizeof *start));
    for (int w = 0; w < t->world; w++)
        start[w + 1] = start[w] + t->gathered.record_bytes[w] / sizeof *out;
    sl_status status = SL_OK;
    for (int rank = 0; rank < t->ranks && status == SL_OK; rank++)
        for (int tensor = 0; tensor < t->run->parallel.tensor && status == SL_OK; tensor++) {
            sl_run_position seat = {.pipeline = rank, .replica = replica, .tensor = tensor};
            int w = sl_run_world_rank(t->run, seat), records = (int)(start[w + 1] - start[w]);
            sl_record *from = t->gathered.records + start[w];
            for (int i = 0; i < records; i++)
                shift_record(t, seat, &from[i]);
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
        sl_run_position seat = {.pipeline = rank, .replica = replica};
        (*clock)[rank] = t->clocks[sl_run_world_rank(t->run, seat)];
        (*clock)[rank].offset = 0;
    }
    return SL_OK;
}

static sl_status measure_replica(sl_trainer *t, int replica, int iteration, sl_time begin) {
    sl_trainer_replica *r = &t->replica[replica];
    sl_measured **measured = &t->measured[replica];
    sl_timeline *timeline = &t->pending_timeline[replica];
    sl_offset *clock;
    int count;
    sl_timeline_free(timeline);
    sl_measured_drop(*measured);
    *measured = NULL;
    SL_TRY(collect_records(t, replica, &count));
    SL_TRY(make_clocks(t, replica, &clock));
    sl_status status =
        sl_measure_timeline(&r->problem, t->gathered.replica, count, iteration, begin, clock, timeline);
    SL_THEN(status, sl_measured_make(&r->problem, timeline, NULL, NULL, measured));
    if (status == SL_OK)
        sl_profile_divide(timeline, &r->problem, t->run->device.pace_ms[SL_F] != NULL, &(*measured)->problem);
    if (status == SL_OK)
        sl_measure_level_directions(clock, &(*measured)->problem);
    sl_free(clock);
    return status;
}

static sl_status measure(sl_trainer *t, int iteration, sl_time begin, sl_time *worst) {
    size_t count = 0;
    for (int w = 0; w < t->world; w++)
        count += t->gathered.record_bytes[w] / sizeof *t->gathered.records;
    SL_TRY(sl_arrivals_add(&t->arrivals, t->gathered.records, (int)count, iteration, worst));
    for (int replica = 0; replica < t->run->parallel.data; replica++)
        SL_TRY(measure_replica(t, replica, iteration, begin));
    if (t->run->parallel.data > 1)
        sl_measure_reductions(t->pending_timeline, t->run->parallel.data, t->measured);
    return SL_OK;
}

/* What the ranks reported, all replicas together. */
typedef struct totals {
    sl_time end; /* this clock */
    double loss; /* mean over all microbatches, added in their global order */
} totals;

static totals read_reports(sl_trainer *t) {
    totals all = {0};
    double sum = 0;
    const char *at = t->gathered.reports;
    for (int w = 0; w < t->world; w++) { /* of the last stage's ranks, replica after replica */
        sl_rank_report report;
        double loss;
        memcpy(&report, at, sizeof report);
        for (size_t i = sizeof report; i < t->gathered.report_bytes[w]; i += sizeof loss) {
            memcpy(&loss, at + i, sizeof loss);
            sum += loss;
        }
        at += t->gathered.report_bytes[w];
        sl_time end = report.end - t->clocks[w].offset;
        all.end = end > all.end ? end : all.end;
        t->ops += report.ops;
        t->overruns += report.overruns;
        t->warned |= report.warned;
    }
    all.loss = sum / t->run->batch.microbatches;
    return all;
}

/* ---- reports ---- */

/* The memory of the program that ran, from the measured times: moves to host memory depend on them. */
static sl_status foretell_memory(sl_trainer *t) {
    sl_time makespan;
    for (int r = 0; r < t->run->parallel.data; r++) {
        t->replica[r].ran = 1;
        SL_TRY(sl_profile_predict(&t->measured[r]->problem, t->replica[r].program, &makespan,
                                  t->replica[r].peak));
    }
    return SL_OK;
}

static sl_run_phase phase_of(sl_trainer *t, int adapted) {
    int troubled = sl_orchestrator_troubled(t->orchestrator);
    t->troubled_before |= troubled;
    if (adapted)
        return troubled ? SL_PHASE_ADAPTED : SL_PHASE_BETWEEN;
    if (troubled && t->delegates && t->run->transport == SL_RUN_AUTO)
        return SL_PHASE_DELEGATED;
    return troubled ? SL_PHASE_SLOW : t->troubled_before ? SL_PHASE_RELIEVED : SL_PHASE_HEALTHY;
}

static int is_adapted(const sl_trainer *t) {
    int adapted = 0;
    for (int r = 0; r < t->run->parallel.data; r++)
        adapted |= sl_orchestrator_adapted(t->orchestrator, r);
    return adapted;
}

static void print_iteration(const sl_trainer *t, const sl_iteration *it) {
    int incidents;
    const sl_incident_view *incident = sl_orchestrator_incidents(t->orchestrator, &incidents);
    const sl_job job = {
        .replicas = t->run->parallel.data, .ranks = t->ranks, .tensor = t->run->parallel.tensor};
    sl_progress_iteration(t->progress,
                          &(sl_progress_view){.iteration = it->iteration,
                                              .loss = it->loss,
                                              .time = it->time,
                                              .predicted = it->predicted,
                                              .schedule = it->schedule,
                                              .job = &job,
                                              .incidents = incident,
                                              .incident_count = incidents},
                          it->phase != t->pending.phase);
}

static sl_status foretell(sl_trainer *t) {
    for (int r = 0; r < t->run->parallel.data; r++)
        SL_TRY(sl_orchestrator_forecast(t->orchestrator, r, &t->replica[r].expected));
    return SL_OK;
}

/* The slowest replica's ops determine the iteration; `around` is added for the time before the first and
 * after the last. */
static sl_time predict(const sl_trainer *t, int iteration) {
    int known = t->arounds > 0 && (t->run->device.pace_ms[SL_F] != NULL || iteration > t->fresh);
    sl_time slowest = 0, around[9];
    int arounds = t->arounds < 9 ? t->arounds : 9;
    if (!known)
        return -1;
    for (int r = 0; r < t->run->parallel.data; r++)
        slowest = t->replica[r].expected > slowest ? t->replica[r].expected : slowest;
    memcpy(around, t->around, sizeof around);
    return slowest + sl_median(around, arounds);
}

/* The time of an iteration besides its ops: before them the first stage's update, which the first iteration
 * of an attempt does not have, and after them the norm. */
static void note_around(sl_trainer *t, int iteration, sl_time time) {
    sl_time longest = 0;
    for (int r = 0; r < t->run->parallel.data; r++) {
        sl_time makespan = sl_timeline_makespan(&t->pending_timeline[r]);
        longest = makespan > longest ? makespan : longest;
    }
    if (iteration == t->resume.first + 1)
        t->arounds = 0;
    t->around[t->arounds++ % 9] = time - longest;
}

sl_status sl_judge(sl_trainer *t, int iteration, sl_time begin) {
    sl_time worst;
    SL_TRY(measure(t, iteration, begin, &worst));
    totals all = read_reports(t);
    SL_TRY(foretell_memory(t));
    SL_TRY(foretell(t));
    int adapted = is_adapted(t); /* in this iteration; its measurements may change it */
    SL_TRY(sl_body_observe(t, iteration, all.end - begin));
    sl_iteration it = {.iteration = iteration,
                       .loss = all.loss,
                       .validation = NAN,
                       .time = all.end - begin,
                       .predicted = predict(t, iteration),
                       .schedule = t->schedule,
                       .delegates = t->delegates,
                       .phase = phase_of(t, adapted),
                       .late = worst > LATE,
                       .begin = begin - t->started,
                       .replicas = t->run->parallel.data,
                       .measured = t->measured,
                       .timeline = t->pending_timeline};
    note_around(t, iteration, it.time);
    print_iteration(t, &it);
    t->pending = it;
    memcpy(t->pending_schedule, t->schedule, sizeof t->schedule);
    t->pending.schedule = t->pending_schedule;
    t->last_begin = begin;
    return SL_OK;
}
