#include "base/median.h"
#include "base/memory.h"
#include "plan/timing/profile.h"
#include "run/train/exchange.h"
#include "run/train/path.h"
#include "run/train/state.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define LEAD (2 * SL_MS) /* from the broadcast of an iteration's begin to that begin */
#define LATE SL_MS       /* an arrival later than this marks its iteration */

/* ---- one iteration, on every rank ---- */

static int fault_active(const sl_fault *f, int iteration) {
    return iteration >= f->first && iteration < f->end;
}

static int is_paced(const sl_trainer *t) {
    return t->run->device.pace_ms[SL_F] != NULL;
}

static void set_pace(sl_trainer *t, double slowdown) {
    sl_pace pace = {.saved = t->saved, .offload = t->problem.offload};
    for (int stage = 0; stage < t->problem.stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            t->paced[kind][stage] = (sl_time)((double)t->problem.time[kind][stage] * slowdown);
        t->saved[stage] = (sl_time)((double)t->problem.saved[stage] * slowdown);
    }
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        pace.time[kind] = t->paced[kind];
    sl_engine_pace(t->engine, &pace);
}

static void apply_faults(sl_trainer *t, int iteration) {
    double slowdown = 1;
    for (int peer = 0; peer < t->ranks; peer++) {
        if (!sl_run_has_link(t->run, t->rank, peer))
            continue;
        sl_link_emulation link = {0};
        for (int i = 0; i < t->run->faults; i++) {
            const sl_fault *f = &t->run->fault[i];
            if (!fault_active(f, iteration) || f->from != t->rank || f->to != peer)
                continue;
            link.latency += sl_from_ms(f->latency_ms);
            if (f->bandwidth_gbps > 0)
                link.bytes_per_second = f->bandwidth_gbps * 1e9 / 8;
            link.per_queue |= f->per_queue;
        }
        sl_transport_emulate(t->transport, peer, link);
    }
    for (int i = 0; i < t->run->faults; i++) {
        const sl_fault *f = &t->run->fault[i];
        if (!fault_active(f, iteration))
            continue;
        if (f->kill == t->rank)
            kill(getpid(), SIGKILL);
        if (f->rank == t->rank)
            slowdown *= f->slowdown;
    }
    if (is_paced(t))
        set_pace(t, slowdown);
    else
        sl_engine_pace(t->engine, &(sl_pace){.offload = t->problem.offload});
}

/* What a rank reports at the end of an iteration, in front of its records. */
typedef struct report {
    sl_time ops_end, end; /* its own clock */
    double loss;
    int32_t ops, overruns;
} report;

static sl_status run_iteration(sl_trainer *t, int iteration, sl_time begin, report *mine) {
    sl_engine_result result;
    apply_faults(t, iteration);
    SL_TRY(sl_binding_begin(t->binding, iteration));
    SL_TRY(sl_engine_run(t->engine, (uint32_t)iteration, begin, &result));
    mine->ops_end = result.end;
    mine->loss = sl_binding_loss(t->binding);
    mine->ops = result.ops;
    t->moves += result.moves;
    mine->overruns = result.overruns;
    SL_TRY(sl_binding_update(t->binding, t->group, iteration));
    mine->end = sl_clock_now(t->clock);
    return SL_OK;
}

/* All ranks hold begin from the same broadcast; a rank on another host translates it to its own clock. */
static sl_status begin_iteration(sl_trainer *t, sl_time *begin) {
    sl_time *begins;
    SL_TRY(sl_alloc(&begins, (size_t)t->ranks, sizeof *begins));
    if (t->rank == 0) {
        sl_time now = sl_clock_now(t->clock) + LEAD;
        for (int r = 0; r < t->ranks; r++)
            begins[r] = now + t->clocks[r].offset;
    }
    sl_status status = sl_group_broadcast(t->group, 0, begins, (size_t)t->ranks * sizeof *begins);
    *begin = begins[t->rank];
    sl_free(begins);
    return status;
}

static sl_status gather_records(sl_trainer *t, const report *mine, report *reports, int *count) {
    size_t read = sl_record_read(t->ring, &t->position, t->records, t->record_capacity, &t->lost);
    if (t->lost > 0)
        return sl_error(SL_ESYS, "%llu records of rank %d were lost", (unsigned long long)t->lost, t->rank);
    size_t *sizes;
    SL_TRY(sl_alloc(&sizes, (size_t)t->ranks, sizeof *sizes));
    sl_status status =
        sl_group_gather(t->group, 0, mine, sizeof *mine, reports, (size_t)t->ranks * sizeof *mine, sizes);
    if (status == SL_OK)
        status = sl_group_gather(t->group, 0, t->records, read * sizeof *t->records, t->gathered,
                                 t->gathered_capacity * sizeof *t->gathered, sizes);
    size_t sum = 0;
    for (int r = 0; r < t->ranks; r++)
        sum += sizes[r];
    *count = t->rank == 0 ? (int)(sum / sizeof *t->gathered) : 0;
    sl_free(sizes);
    return status;
}

/* ---- rank 0: measuring and deciding ---- */

static sl_time median_time(const sl_time *values, int count) {
    sl_time sorted[64];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    return sl_median(sorted, count);
}

/* An iteration's line waits until the next begin tells its period. */
static sl_status flush_pending(sl_trainer *t, sl_time next_begin) {
    if (t->pending.timeline == NULL)
        return SL_OK;
    t->pending.period = next_begin - t->last_begin;
    sl_status status = sl_journal_iteration(t->journal, &t->pending);
    t->pending.timeline = NULL;
    return status;
}

static sl_phase phase_of(sl_trainer *t, const sl_decision *d) {
    t->troubled_before |= d->troubled;
    if (d->adapted)
        return d->troubled ? SL_PHASE_ADAPTED : SL_PHASE_BETWEEN;
    if (d->troubled && t->delegates && t->run->transport == SL_RUN_AUTO)
        return SL_PHASE_DELEGATED;
    return d->troubled ? SL_PHASE_SLOW : t->troubled_before ? SL_PHASE_RELIEVED : SL_PHASE_HEALTHY;
}

static sl_status write_faults(sl_trainer *t, int iteration) {
    for (int i = 0; i < t->run->faults; i++) {
        const sl_fault *f = &t->run->fault[i];
        if (iteration != f->first && iteration != f->end)
            continue;
        sl_event event = {.kind = SL_EVENT_FAULT,
                          .time = sl_clock_now(t->clock) - t->started,
                          .iteration = iteration,
                          .from = f->from,
                          .to = f->to,
                          .rank = f->rank >= 0 ? f->rank : f->kill};
        snprintf(event.decided, sizeof event.decided, "%s", iteration == f->first ? "injected" : "removed");
        if (f->from >= 0)
            snprintf(event.why, sizeof event.why, "latency %g ms, bandwidth %g Gbit/s (0: unchanged)",
                     f->latency_ms, f->bandwidth_gbps);
        else if (f->rank >= 0)
            snprintf(event.why, sizeof event.why, "ops take %g times their pace", f->slowdown);
        SL_TRY(sl_journal_event(t->journal, &event));
    }
    return SL_OK;
}

static void print_iteration(const sl_trainer *t, const sl_iteration *it) {
    if (it->iteration % 10 != 0 && it->iteration + 1 != t->run->iterations && it->phase == t->pending.phase)
        return;
    printf("iteration %4d  loss %.4f  %7.1f ms", it->iteration, it->loss, sl_to_ms(it->time));
    if (it->predicted >= 0)
        printf(" (predicted %.1f)", sl_to_ms(it->predicted));
    printf("  %s\n", it->schedule);
    fflush(stdout);
}

static sl_status write_events(sl_trainer *t, sl_decision *d) {
    for (int i = 0; i < d->events; i++) {
        sl_event *event = &d->event[i];
        event->time = sl_clock_now(t->clock) - t->started;
        SL_TRY(sl_journal_event(t->journal, event));
        printf("iteration %4d  %s%s%s%s%s%s%s\n", event->iteration, sl_event_names[event->kind].name,
               event->seen[0] ? ": " : "", event->seen, event->decided[0] ? "; " : "", event->decided,
               event->why[0] ? ", because " : "", event->why);
    }
    fflush(stdout);
    return SL_OK;
}

static sl_status measure(sl_trainer *t, int iteration, sl_time begin, int count, sl_time *worst) {
    sl_timeline_free(&t->pending_timeline);
    sl_problem_free(&t->pending_problem);
    SL_TRY(sl_measure_timeline(&t->problem, t->gathered, count, iteration, begin, t->clocks,
                               &t->pending_timeline));
    SL_TRY(sl_arrivals_add(&t->arrivals, t->gathered, count, iteration, worst));
    SL_TRY(sl_problem_copy(&t->problem, &t->pending_problem));
    SL_TRY(sl_profile(&t->pending_timeline, &t->pending_problem));
    sl_measure_level_directions(t->clocks, &t->pending_problem);
    return SL_OK;
}

static sl_status judge(sl_trainer *t, int iteration, sl_time begin, const report *reports, int count,
                       sl_decision *d) {
    sl_time worst, ops_end = 0, end = 0, expected = sl_adaptation_forecast(t->adaptation);
    SL_TRY(measure(t, iteration, begin, count, &worst));
    for (int r = 0; r < t->ranks; r++) {
        sl_time o = reports[r].ops_end - t->clocks[r].offset, e = reports[r].end - t->clocks[r].offset;
        ops_end = o > ops_end ? o : ops_end;
        end = e > end ? e : end;
        t->ops += reports[r].ops;
        t->overruns += reports[r].overruns;
    }
    int known = t->tails > 0 && (is_paced(t) || iteration > 0);
    sl_time tail = known ? median_time(t->tail, t->tails < 9 ? t->tails : 9) : 0;
    t->tail[t->tails++ % 9] = end - ops_end;
    sl_phase before = t->pending.phase;
    SL_TRY(sl_adaptation_observe(t->adaptation, iteration, &t->pending_problem, d));
    sl_iteration it = {.iteration = iteration,
                       .loss = reports[sl_problem_rank(&t->problem, t->problem.stages - 1)].loss,
                       .validation = NAN,
                       .time = end - begin,
                       .predicted = known ? expected + tail : -1,
                       .schedule = t->schedule,
                       .delegates = t->delegates,
                       .phase = phase_of(t, d),
                       .late = worst > LATE,
                       .begin = begin - t->started,
                       .measured = &t->pending_problem,
                       .timeline = &t->pending_timeline};
    t->pending.phase = before;
    print_iteration(t, &it);
    t->pending = it;
    memcpy(t->pending_schedule, t->schedule, sizeof t->schedule);
    t->pending.schedule = t->pending_schedule;
    t->last_begin = begin;
    return write_events(t, d);
}

/* ---- swapping, on every rank ---- */

/* Delegates come and go before the schedule changes, so that the swap's cost is the swap's. */
static sl_status exchange_path(sl_trainer *t, const sl_decision *d) {
    int delegates = t->rank == 0 ? d->delegates : 0;
    SL_TRY(sl_group_broadcast(t->group, 0, &delegates, sizeof delegates));
    return sl_path_change(t, delegates);
}

static sl_status exchange_swap(sl_trainer *t, const sl_decision *d) {
    int swaps = t->rank == 0 && d->verdict != SL_VERDICT_KEEP;
    SL_TRY(sl_group_broadcast(t->group, 0, &swaps, sizeof swaps));
    if (!swaps)
        return SL_OK;
    sl_time before = sl_clock_now(t->clock);
    sl_order order = {0};
    sl_status status = t->rank == 0 ? sl_order_copy(&d->plan->order, &order) : SL_OK;
    if (status == SL_OK)
        status = sl_exchange_order(t->group, &t->problem, &order);
    if (status == SL_OK)
        status = sl_trainer_run_order(t, &order);
    sl_order_free(&order);
    SL_TRY(status);
    SL_TRY(sl_group_barrier(t->group));
    if (t->rank == 0) {
        sl_time cost = sl_clock_now(t->clock) - before;
        sl_adaptation_swap_took(t->adaptation, cost);
        t->swap_cost[t->swaps++ % 64] = cost;
        snprintf(t->schedule, sizeof t->schedule, "%s%s", d->plan->schedule,
                 d->verdict == SL_VERDICT_SWAP ? " (adapted)" : "");
    }
    return SL_OK;
}

static sl_status one_iteration(sl_trainer *t, int iteration, report *reports) {
    sl_time begin;
    sl_decision decision = {0};
    report mine;
    int count = 0;
    int suspect = t->pending.phase == SL_PHASE_SLOW || t->pending.phase == SL_PHASE_DELEGATED ||
                  t->pending.phase == SL_PHASE_ADAPTED; /* known on rank 0 */
    SL_TRY(sl_exchange_clocks(t->group, t->clock, t->remote, suspect, t->clocks));
    SL_TRY(begin_iteration(t, &begin));
    if (t->rank == 0) {
        SL_TRY(flush_pending(t, begin));
        SL_TRY(write_faults(t, iteration));
    }
    SL_TRY(run_iteration(t, iteration, begin, &mine));
    SL_TRY(gather_records(t, &mine, reports, &count));
    if (t->rank == 0)
        SL_TRY(judge(t, iteration, begin, reports, count, &decision));
    SL_TRY(sl_path_news(t, iteration));
    SL_TRY(exchange_path(t, &decision));
    SL_TRY(exchange_swap(t, &decision));
    int every = t->run->validate_every;
    if (every > 0 && (iteration + 1) % every == 0 && iteration + 1 < t->run->iterations)
        return sl_binding_validate(t->binding, t->group, &t->pending.validation);
    return SL_OK;
}

/* ---- beginning and end ---- */

static sl_status write_start(sl_trainer *t) {
    if (t->rank != 0)
        return SL_OK;
    sl_event event = {.kind = SL_EVENT_START, .from = -1, .to = -1, .rank = -1};
    snprintf(event.decided, sizeof event.decided, "schedule %s, predicted %.2f ms of ops an iteration",
             t->plan.schedule, sl_to_ms(t->plan.makespan));
    snprintf(event.seen, sizeof event.seen, "%d ranks, %s, communication thread %s", t->ranks,
             sl_binding_isa(t->binding), t->transport ? sl_transport_scheduling(t->transport) : "none");
    printf("slackline: %d pipeline ranks", t->ranks);
    if (t->problem.placement != SL_LINEAR)
        printf(", %d stages (%s)", t->problem.stages, sl_placement_name(t->problem.placement));
    printf(", %d microbatches, schedule %s\n", t->problem.microbatches, t->plan.schedule);
    fflush(stdout);
    return sl_journal_event(t->journal, &event);
}

static sl_status finish(sl_trainer *t) {
    static const char *const regimes[] = {"decoupled", "inorder", "batched"};
    sl_summary s = {.scheduling = t->transport ? sl_transport_scheduling(t->transport) : "none",
                    .isa = sl_binding_isa(t->binding),
                    .regime = regimes[t->problem.communication],
                    .arrivals = &t->arrivals,
                    .ops = t->ops,
                    .overruns = t->overruns,
                    .swaps = t->swaps,
                    .byte_entropy = sl_binding_entropy(t->binding)};
    if (t->rank == 0)
        SL_TRY(flush_pending(t, sl_clock_now(t->clock)));
    const long mine[3] = {(long)sl_binding_peak(t->binding), (long)sl_binding_host_peak(t->binding),
                          t->moves};
    long *all;
    SL_TRY(sl_binding_validate(t->binding, t->group, &s.validation));
    SL_TRY(sl_binding_hash(t->binding, t->group, &s.weights_hash));
    SL_TRY(sl_alloc(&all, 3 * (size_t)t->ranks, sizeof *all));
    sl_status status =
        sl_group_gather(t->group, 0, mine, sizeof mine, all, (size_t)t->ranks * sizeof mine, NULL);
    for (int r = 0; r < t->ranks; r++) {
        s.memory_peak = all[3 * r] > s.memory_peak ? all[3 * r] : s.memory_peak;
        s.host_peak = all[3 * r + 1] > s.host_peak ? all[3 * r + 1] : s.host_peak;
        s.moves += all[3 * r + 2];
    }
    sl_free(all);
    SL_TRY(status);
    if (t->rank != 0)
        return SL_OK;
    s.path_cost = t->path_settled > 0 ? t->path_cost : -1;
    s.swap_cost = t->swaps ? median_time(t->swap_cost, t->swaps < 64 ? t->swaps : 64) : -1;
    s.seconds = (double)(sl_clock_now(t->clock) - t->started) / 1e9;
    sl_event event = {.kind = SL_EVENT_END,
                      .time = sl_clock_now(t->clock) - t->started,
                      .iteration = t->run->iterations,
                      .from = -1,
                      .to = -1,
                      .rank = -1};
    SL_TRY(sl_journal_event(t->journal, &event));
    return sl_journal_finish(t->journal, &s, stdout);
}

sl_status sl_train(const sl_run *run, const sl_place *place, sl_group *group) {
    sl_trainer t = {.run = run,
                    .group = group,
                    .rank = sl_group_rank(group),
                    .ranks = sl_group_size(group),
                    .clock = sl_clock_real()};
    report *reports = NULL;
    sl_status status = sl_alloc(&reports, (size_t)t.ranks, sizeof *reports);
    if (status == SL_OK)
        status = sl_trainer_open(&t, place);
    t.started = sl_clock_now(t.clock);
    if (status == SL_OK)
        status = write_start(&t);
    for (int iteration = 0; iteration < run->iterations && status == SL_OK; iteration++)
        status = one_iteration(&t, iteration, reports);
    if (status == SL_OK)
        status = finish(&t);
    sl_free(reports);
    sl_trainer_close(&t);
    return status;
}
