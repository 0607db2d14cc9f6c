/* The order that is replayed for every replica, and a bound of its replay.
 *
 * The bound follows chains that every replay has. For stage p, with m microbatches and x of them in flight:
 * its first op waits for a forward through the previous stages (head). A microbatch needs a round trip from p
 * to the last stage and back; F number k + x begins after the backward of k has ended, so there are floor((m
 * - 1) / x) + 1 consecutive round trips. The last forward waits for m - 1 forwards, or messages, of the
 * previous stages and then makes its own round trip. All ops of the stage run one after the other. Its last
 * backward comes after the last one of the next stage. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"

#include <string.h>

/* Whether F, and the backwards, of a rank follow the order of the microbatches; *most: max. in flight. */
static int ascending(const sl_op *op, int ops, int *most) {
    int next[2] = {0, 0};
    *most = 0;
    for (int i = 0; i < ops; i++) {
        if (op[i].kind == SL_W)
            continue;
        int *expected = &next[op[i].kind != SL_F];
        if (op[i].microbatch != (*expected)++)
            return 0;
        *most = next[0] - next[1] > *most ? next[0] - next[1] : *most;
    }
    return 1;
}

static sl_status count_ops(const sl_cluster *c, sl_frame *f) {
    const sl_order *order = &f->plan.order;
    size_t stages = (size_t)c->pipeline;
    SL_TRY(sl_alloc(&f->ops[0], stages * (SL_OP_KINDS + 1), sizeof *f->ops[0]));
    for (int kind = 1; kind < SL_OP_KINDS; kind++)
        f->ops[kind] = f->ops[0] + stages * (size_t)kind;
    f->flight = f->ops[0] + stages * SL_OP_KINDS;
    long long full = 0, all = 0;
    for (int stage = 0; stage < c->pipeline; stage++) {
        for (int i = 0; i < order->count[stage]; i++)
            f->ops[order->ops[stage][i].kind][stage]++;
        if (!ascending(order->ops[stage], order->count[stage], &f->flight[stage]))
            f->flight[stage] = 0;
        full += f->ops[SL_B][stage];
        all += f->ops[SL_B][stage] + f->ops[SL_I][stage];
    }
    f->full = full == 0 ? 0 : full == all ? 1 : -1;
    return SL_OK;
}

sl_status sl_frame_make(const sl_cluster *c, sl_frame *f) {
    *f = (sl_frame){0};
    SL_TRY(sl_problem_make(c->pipeline, c->pipeline, c->microbatches, &f->problem));
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        memcpy(f->problem.time[kind], c->time[kind], (size_t)c->pipeline * sizeof(sl_time));
    SL_TRY(sl_plan_make(&f->problem, c->schedule, &f->plan));
    SL_TRY(count_ops(c, f));
    return sl_replayer_open(&f->problem, &f->plan.program, &f->replayer);
}

void sl_frame_free(sl_frame *f) {
    sl_replayer_close(f->replayer);
    sl_plan_free(&f->plan);
    sl_problem_free(&f->problem);
    sl_free(f->ops[0]);
    *f = (sl_frame){0};
}

void sl_frame_replay(sl_frame *f, const sl_stage_times *cell, const sl_hop *hop, sl_time *end) {
    sl_problem *p = &f->problem;
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = cell[stage].time[kind];
        for (int back = 0; back < 2 && stage + 1 < p->stages; back++) {
            sl_link *link = &p->link[back ? (stage + 1) * p->ranks + stage : stage * p->ranks + stage + 1];
            link->latency = hop[stage].latency[back];
            link->transfer = hop[stage].transfer[back];
        }
        end[stage] = 0;
    }
    const sl_timeline *timeline;
    if (sl_replayer_run(f->replayer, &timeline) == SL_TIME_NEVER) {
        for (int stage = 0; stage < p->stages; stage++)
            end[stage] = SL_TIME_NEVER / 4;
        return;
    }
    for (int i = 0; i < timeline->spans; i++) {
        const sl_span *span = &timeline->span[i];
        end[span->rank] = sl_later(end[span->rank], span->end);
    }
    f->replayed += timeline->spans;
}

long long sl_frame_ops(const sl_frame *f) {
    long long ops = 0;
    for (int stage = 0; stage < f->plan.order.ranks; stage++)
        ops += f->plan.order.count[stage];
    return ops;
}

/* Time of the op that sends a gradient back, and of the work after it. */
static sl_time backward(const sl_frame *f, const sl_stage_times *cell) {
    if (f->full > 0)
        return cell->time[SL_B];
    if (f->full < 0 && cell->time[SL_B] < cell->time[SL_I])
        return cell->time[SL_B];
    return cell->time[SL_I];
}

static sl_time across(const sl_hop *hop, int back) {
    return hop->latency[back] + hop->transfer[back];
}

void sl_frame_bound(const sl_frame *f, const sl_stage_times *cell, const sl_hop *hop, sl_time *scratch,
                    sl_time *end) {
    int stages = f->problem.stages;
    sl_time m = f->problem.microbatches, *head = scratch, *last = head + stages, *trip = last + stages;
    head[0] = 0;
    last[0] = (m - 1) * cell[0].time[SL_F];
    for (int p = 1; p < stages; p++) {
        sl_time there = cell[p - 1].time[SL_F] + across(&hop[p - 1], 0);
        head[p] = head[p - 1] + there;
        last[p] = sl_later(head[p] + (m - 1) * sl_later(cell[p].time[SL_F], hop[p - 1].transfer[0]),
                           last[p - 1] + there);
    }
    trip[stages - 1] = cell[stages - 1].time[SL_F] + backward(f, &cell[stages - 1]);
    for (int p = stages - 2; p >= 0; p--)
        trip[p] = cell[p].time[SL_F] + across(&hop[p], 0) + trip[p + 1] + across(&hop[p], 1) +
                  backward(f, &cell[p]);
    sl_time next_done = 0; /* end of the last backward of the next stage */
    for (int p = stages - 1; p >= 0; p--) {
        sl_time own = backward(f, &cell[p]), work = 0;
        sl_time done = head[p] + m * (cell[p].time[SL_F] + own);
        if (f->flight[p] > 0) {
            done = sl_later(done, head[p] + ((m - 1) / f->flight[p] + 1) * trip[p]);
            done = sl_later(done, last[p] + trip[p]);
        }
        if (p + 1 < stages) {
            done = sl_later(done, next_done + across(&hop[p], 1) + own);
            done =
                sl_later(done, head[p + 1] + trip[p + 1] + m * hop[p].transfer[1] + hop[p].latency[1] + own);
        }
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            work += f->ops[kind][p] * cell[p].time[kind];
        end[p] = sl_later(head[p] + work, done + (f->full == 0 ? cell[p].time[SL_W] : 0));
        next_done = done;
    }
}
