#include "base/memory.h"
#include "library/library_orchestrator.h"

#include <string.h>

/* ---- measurements ---- */

/* The sum of a stage's gradients over the replicas. */
typedef struct stage_sum {
    sl_time came, done;   /* the latest */
    int replicas, latest; /* that have reported it; the last one's number plus 1 */
} stage_sum;

static void take_sums(const sl_timeline *timeline, int replica, stage_sum *sums) {
    for (int i = 0; i < timeline->collectives; i++) {
        const sl_span *span = &timeline->collective[i];
        stage_sum *s = &sums[span->op.stage];
        if (span->op.kind != SL_REDUCE)
            continue;
        s->came = s->replicas == 0 || span->start > s->came ? span->start : s->came;
        s->done = s->replicas == 0 || span->end > s->done ? span->end : s->done;
        s->replicas += s->latest != replica + 1;
        s->latest = replica + 1;
    }
}

static sl_status measure(const slackline_orchestrator *o, int replica, const slackline_measurements *from,
                         stage_sum *sums, sl_measured **measured) {
    const sl_problem expected = sl_library_shape(o, replica, o->expected[replica]);
    sl_timeline timeline = {0};
    double *work = NULL;
    sl_status status = sl_library_timeline(&expected, from, &timeline, &work);
    SL_THEN(status, sl_measured_make(&expected, &timeline, work, from->transfer_work, measured));
    if (status == SL_OK)
        take_sums(&timeline, replica, sums);
    sl_timeline_free(&timeline);
    sl_free(work);
    return status;
}

/* Whether two iterations have equal measurements, to the ns: slackline_orchestrator_idle counts them as
 * one. */
static int is_same(const sl_measured *a, const sl_measured *b) {
    const sl_problem *p = &a->problem, *q = &b->problem;
    size_t stages = (size_t)p->stages, links = (size_t)p->ranks * (size_t)p->ranks,
           times = stages * sizeof(sl_time);
    if (p->microbatches != q->microbatches || memcmp(a->op, b->op, SL_OP_KINDS * stages * sizeof *a->op) ||
        memcmp(a->link, b->link, links * sizeof *a->link) || memcmp(a->summed, b->summed, stages) ||
        memcmp(p->reduce, q->reduce, times) || memcmp(p->gather, q->gather, times) ||
        memcmp(p->saved, q->saved, times) || memcmp(p->offload, q->offload, times))
        return 0;
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        if (memcmp(p->time[kind], q->time[kind], times))
            return 0;
    for (size_t i = 0; i < links; i++)
        if (p->link[i].latency != q->link[i].latency || p->link[i].transfer != q->link[i].transfer ||
            p->link[i].lanes != q->link[i].lanes)
            return 0;
    return 1;
}

static sl_status measure_all(const slackline_orchestrator *o, const slackline_measurements *from,
                             stage_sum *sums, sl_measured **measured) {
    const int stages = o->expected[0]->problem.stages;
    for (int r = 0; r < o->replicas; r++)
        if (from[r].spans || from[r].transfers)
            SL_TRY(measure(o, r, &from[r], sums, &measured[r]));
    for (int r = 0; r < o->replicas; r++)
        for (int s = 0; measured[r] && s < stages; s++)
            if (sums[s].replicas == o->replicas) {
                measured[r]->problem.reduce[s] = sums[s].done - sums[s].came;
                measured[r]->summed[s] = 1;
            }
    for (int r = 0; r < o->replicas; r++)
        if (measured[r] && o->last[r] && is_same(measured[r], o->last[r])) {
            sl_measured_drop(measured[r]);
            measured[r] = sl_measured_keep(o->last[r]);
        }
    return SL_OK;
}

static sl_status check_iteration(const slackline_iteration *i) {
    SL_TRY(sl_library_need(i, "iteration"));
    SL_TRY(sl_library_between("iteration", i->iteration, 0, INT32_MAX));
    SL_TRY(sl_library_between("now_ns", i->now_ns, -SL_LIBRARY_LATEST, SL_LIBRARY_LATEST));
    SL_TRY(sl_library_between("time_ns", i->time_ns, 0, SL_LIBRARY_DURATION));
    SL_TRY(sl_library_between("clock_error_ns", i->clock_error_ns, 0, SL_LIBRARY_DURATION));
    return sl_library_number("work", i->work, 0, 1e300);
}

/* Without a pipeline, only the times of an iteration can be measured. */
static sl_status observe_program(slackline_orchestrator *o, const slackline_iteration *i) {
    for (int r = 0; i->replica && r < o->replicas; r++)
        if (i->replica[r].spans || i->replica[r].transfers)
            return sl_error(SL_EINVAL, "ops and messages were measured, but the job's problem is not known");
    return sl_orchestrator_observe(
        o->inner, &(sl_orchestrator_iteration){
                      .iteration = i->iteration, .now = i->now_ns, .time = i->time_ns, .work = i->work});
}

SL_PUBLIC slackline_status slackline_orchestrator_observe(slackline_orchestrator *orchestrator,
                                                          const slackline_iteration *iteration) {
    SL_PLAIN_NUMBERS;
    sl_measured **measured = NULL;
    stage_sum *sums = NULL;
    sl_status status;
    SL_LIBRARY_TRY(sl_library_need(orchestrator, "orchestrator"));
    SL_LIBRARY_TRY(check_iteration(iteration));
    if (!orchestrator->expected)
        return sl_library_status(observe_program(orchestrator, iteration));
    SL_LIBRARY_TRY(sl_alloc(&measured, (size_t)orchestrator->replicas, sizeof *measured));
    if (iteration->replica) {
        SL_TRY_GOTO(done, status,
                    sl_alloc(&sums, (size_t)orchestrator->expected[0]->problem.stages, sizeof *sums));
        SL_TRY_GOTO(done, status, measure_all(orchestrator, iteration->replica, sums, measured));
    }
    SL_TRY_GOTO(done, status,
                sl_orchestrator_observe(orchestrator->inner,
                                        &(sl_orchestrator_iteration){.iteration = iteration->iteration,
                                                                     .now = iteration->now_ns,
                                                                     .time = iteration->time_ns,
                                                                     .work = iteration->work,
                                                                     .clock_error = iteration->clock_error_ns,
                                                                     .replica = measured}));
    for (int r = 0; r < orchestrator->replicas; r++)
        if (measured[r] && measured[r] != orchestrator->last[r]) {
            sl_measured_drop(orchestrator->last[r]);
            orchestrator->last[r] = sl_measured_keep(measured[r]);
        }
done:
    for (int r = 0; r < orchestrator->replicas; r++)
        sl_measured_drop(measured[r]);
    SL_FREE(sums, measured);
    return sl_library_status(status);
}

/* ---- other reports ---- */

_Static_assert((int)SLACKLINE_DEVICE == (int)SL_PART_DEVICE && (int)SLACKLINE_LINK == (int)SL_PART_LINK &&
                   (int)SLACKLINE_CARD == (int)SL_PART_CARD,
               "parts");

static sl_status check_slow(const slackline_orchestrator *o, const slackline_slow *slow) {
    SL_TRY(sl_library_between("slow.part", slow->part, SLACKLINE_DEVICE, SLACKLINE_CARD));
    SL_TRY(sl_library_between("slow.a", slow->a, 0, o->processes - 1));
    if (slow->part == SLACKLINE_LINK) {
        SL_TRY(sl_library_between("slow.b", slow->b, 0, o->processes - 1));
        if (slow->a == slow->b || slow->host)
            return sl_error(SL_EINVAL, "a link is between two processes, got %d and %d%s", slow->a, slow->b,
                            slow->host ? ", of a host" : "");
    }
    if (slow->part == SLACKLINE_DEVICE)
        return sl_library_number("slow.slowdown", slow->slowdown, 1, 1e6);
    for (int way = 0; way < 2; way++) {
        SL_TRY(sl_library_number("slow.latency_ns", slow->latency_ns[way], 0, 1e12));
        SL_TRY(sl_library_number("slow.ns_per_byte", slow->ns_per_byte[way], 0, 1e6));
    }
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_orchestrator_report(slackline_orchestrator *o, int64_t now_ns,
                                                         const slackline_report *r) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_need(r, "report"));
    SL_LIBRARY_TRY(sl_library_between("now_ns", now_ns, -SL_LIBRARY_LATEST, SL_LIBRARY_LATEST));
    SL_LIBRARY_TRY(sl_library_between("report->id", r->id, 0, INT32_MAX));
    if (!r->over) {
        SL_LIBRARY_TRY(check_slow(o, &r->slow));
        SL_LIBRARY_TRY(sl_library_number("report->loss", r->loss, -1, 1));
    }
    const slackline_slow *s = &r->slow;
    sl_orchestrator_report reported = {.id = r->id,
                                       .over = r->over != 0,
                                       .part = {.kind = (sl_part_kind)s->part,
                                                .a = s->a,
                                                .b = s->part == SLACKLINE_LINK ? s->b : -1,
                                                .slowdown = s->slowdown,
                                                .latency = {s->latency_ns[0], s->latency_ns[1]},
                                                .pace = {s->ns_per_byte[0], s->ns_per_byte[1]}},
                                       .host = s->host != 0,
                                       .loss = r->loss};
    snprintf(reported.seen, sizeof reported.seen, "%s", r->seen ? r->seen : "");
    return sl_library_status(sl_orchestrator_report_slow(o->inner, now_ns, &reported));
}

SL_PUBLIC slackline_status slackline_orchestrator_network(slackline_orchestrator *o, int64_t now_ns,
                                                          const slackline_network *pair, size_t pairs) {
    SL_PLAIN_NUMBERS;
    sl_network_measure *measure;
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_between("now_ns", now_ns, -SL_LIBRARY_LATEST, SL_LIBRARY_LATEST));
    if (pairs > SL_MAX_OPS)
        return sl_library_status(sl_error(SL_EINVAL, "more than %d pairs", SL_MAX_OPS));
    if (pairs)
        SL_LIBRARY_TRY(sl_library_need(pair, "pair"));
    for (size_t i = 0; i < pairs; i++) {
        SL_LIBRARY_TRY(sl_library_between("from", pair[i].from, 0, o->processes - 1));
        SL_LIBRARY_TRY(sl_library_between("to", pair[i].to, 0, o->processes - 1));
        if (pair[i].from == pair[i].to)
            return sl_library_status(
                sl_error(SL_EINVAL, "pair %zu: from process %d to itself", i, pair[i].from));
        SL_LIBRARY_TRY(sl_library_number("latency_ns", pair[i].latency_ns, 0, 1e12));
        SL_LIBRARY_TRY(sl_library_number("ns_per_byte", pair[i].ns_per_byte, 0, 1e6));
    }
    SL_LIBRARY_TRY(sl_alloc(&measure, pairs, sizeof *measure));
    for (size_t i = 0; i < pairs; i++)
        measure[i] = (sl_network_measure){.from = pair[i].from,
                                          .to = pair[i].to,
                                          .latency = pair[i].latency_ns,
                                          .pace = pair[i].ns_per_byte};
    sl_status status = sl_orchestrator_network(o->inner, now_ns, measure, (int)pairs);
    sl_free(measure);
    return sl_library_status(status);
}

SL_PUBLIC slackline_status slackline_orchestrator_estimate(slackline_orchestrator *o,
                                                           slackline_strategy strategy, int64_t cost_ns) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_between("strategy", strategy, 0, SLACKLINE_STRATEGIES - 1));
    SL_LIBRARY_TRY(sl_library_between("cost_ns", cost_ns, 0, SL_LIBRARY_DURATION));
    return sl_library_status(sl_orchestrator_estimate(o->inner, (sl_strategy_kind)strategy, cost_ns));
}

SL_PUBLIC slackline_status slackline_orchestrator_improve(slackline_orchestrator *o, int64_t work) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_between("work", work, 0, SL_LIBRARY_DURATION));
    return sl_library_status(sl_orchestrator_improve(o->inner, work));
}

SL_PUBLIC slackline_status slackline_orchestrator_keep_sums(slackline_orchestrator *o, int keep) {
    SL_LIBRARY_TRY(sl_library_need(o, "orchestrator"));
    return sl_library_status(sl_orchestrator_keep_sums(o->inner, keep));
}

SL_PUBLIC slackline_status slackline_orchestrator_may_leave(slackline_orchestrator *orchestrator,
                                                            const char *host, int may) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_need(orchestrator, "orchestrator"));
    SL_LIBRARY_TRY(sl_library_need(host, "host"));
    return sl_library_status(sl_orchestrator_may_leave(orchestrator->inner, host, may != 0));
}

SL_PUBLIC slackline_status slackline_orchestrator_offer(slackline_orchestrator *o, int replica,
                                                        const slackline_plan *plan) {
    SL_PLAIN_NUMBERS;
    SL_LIBRARY_TRY(sl_library_replica(o, replica));
    SL_LIBRARY_TRY(sl_library_need(plan, "plan"));
    const sl_problem expected = sl_library_shape(o, replica, o->expected[replica]), *p = &plan->problem;
    if (p->ranks != expected.ranks || p->stages != expected.stages || p->placement != expected.placement ||
        p->parts != expected.parts || p->microbatches != expected.microbatches)
        return sl_library_status(sl_error(
            SL_EINVAL, "the plan is not for replica %d: %d ranks, %d stages, %d microbatches, %s", replica,
            expected.ranks, expected.stages, expected.microbatches, sl_placement_name(expected.placement)));
    return sl_library_status(sl_orchestrator_offer(o->inner, replica, &plan->plan));
}
