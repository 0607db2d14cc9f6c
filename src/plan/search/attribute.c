#include "plan/search/attribute.h"
#include "base/memory.h"
#include "plan/timing/replay.h"

#include <string.h>

/* The makespan of the plan's order on `p`, decoupled. */
static sl_status decoupled(const sl_problem *p, const sl_program *program, sl_time *makespan) {
    sl_timeline timeline;
    SL_TRY(sl_replay(p, program, SL_DECOUPLED, p->queue, &timeline));
    *makespan = sl_timeline_makespan(&timeline);
    sl_timeline_free(&timeline);
    return SL_OK;
}

static void measure_work(const sl_problem *p, const sl_plan *plan, sl_attribution *a) {
    sl_time sum = 0, most = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        sl_time work = sl_timeline_work(&plan->timeline, rank);
        sum += work;
        most = work > most ? work : most;
    }
    a->work = sum / p->ranks;
    a->imbalance = most - a->work;
}

/* `free` is a copy of the problem that loses its links, then its collectives. */
static sl_status measure_parts(const sl_plan *plan, sl_problem *free, sl_attribution *a) {
    size_t ranks = (size_t)free->ranks, stages = (size_t)free->stages;
    sl_time with, without;
    memset(free->link, 0, ranks * ranks * sizeof *free->link);
    SL_TRY(decoupled(free, &plan->program, &with));
    memset(free->gather, 0, stages * sizeof *free->gather);
    memset(free->reduce, 0, stages * sizeof *free->reduce);
    SL_TRY(decoupled(free, &plan->program, &without));
    a->fill = without - a->work - a->imbalance;
    a->collectives = with - without;
    a->dependency = plan->dependency_loss;
    a->blocking = plan->blocking_loss;
    return SL_OK;
}

/* ---- costs ---- */

typedef struct trial {
    sl_problem *problem; /* a copy, changed temporarily */
    sl_replayer *replayer;
    sl_time makespan;
} trial;

/* The additional ms of the iteration if `*changed` is 1 ms longer. */
static double cost_of(const trial *t, sl_time *changed) {
    *changed += SL_MS;
    sl_time longer = sl_replayer_run(t->replayer, NULL);
    *changed -= SL_MS;
    return (double)(longer - t->makespan) / (double)SL_MS;
}

static sl_status measure_links(const trial *t, const sl_program *program, sl_attribution *a) {
    int ranks = t->problem->ranks;
    unsigned char *used;
    SL_TRY(sl_alloc(&used, (size_t)ranks * (size_t)ranks, 1));
    for (int m = 0; m < program->messages; m++) {
        unsigned char *link = &used[program->message[m].from * ranks + program->message[m].to];
        a->links += !*link;
        *link = 1;
    }
    sl_status status = sl_alloc(&a->link, (size_t)a->links, sizeof *a->link);
    a->links = 0;
    for (int i = 0; i < ranks * ranks && status == SL_OK; i++)
        if (used[i])
            a->link[a->links++] = (sl_link_cost){
                .from = i / ranks, .to = i % ranks, .cost = cost_of(t, &t->problem->link[i].latency)};
    sl_free(used);
    return status;
}

static sl_status measure_ops(const trial *t, const sl_order *order, sl_attribution *a) {
    int stages = t->problem->stages;
    unsigned char *used;
    SL_TRY(sl_alloc(&used, (size_t)stages * SL_OP_KINDS, 1));
    for (int rank = 0; rank < order->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++) {
            unsigned char *op = &used[order->ops[rank][i].stage * SL_OP_KINDS + order->ops[rank][i].kind];
            a->ops += !*op;
            *op = 1;
        }
    sl_status status = sl_alloc(&a->op, (size_t)a->ops, sizeof *a->op);
    a->ops = 0;
    for (int i = 0; i < stages * SL_OP_KINDS && status == SL_OK; i++) {
        int stage = i / SL_OP_KINDS, kind = i % SL_OP_KINDS;
        if (used[i])
            a->op[a->ops++] = (sl_op_cost){
                .stage = stage, .kind = kind, .cost = cost_of(t, &t->problem->time[kind][stage])};
    }
    sl_free(used);
    return status;
}

static sl_status measure_costs(const sl_problem *p, const sl_plan *plan, sl_attribution *a) {
    sl_problem copy;
    trial t = {.problem = &copy, .makespan = plan->makespan};
    SL_TRY(sl_problem_copy(p, &copy));
    sl_status status = sl_replayer_open(&copy, &plan->program, &t.replayer);
    SL_THEN(status, measure_links(&t, &plan->program, a));
    SL_THEN(status, measure_ops(&t, &plan->order, a));
    sl_replayer_close(t.replayer);
    sl_problem_free(&copy);
    return status;
}

sl_status sl_attribute(const sl_problem *p, const sl_plan *plan, sl_attribution *a) {
    sl_problem free;
    *a = (sl_attribution){0};
    measure_work(p, plan, a);
    SL_TRY(sl_problem_copy(p, &free));
    sl_status status = measure_parts(plan, &free, a);
    sl_problem_free(&free);
    SL_THEN(status, measure_costs(p, plan, a));
    return status;
}

void sl_attribution_free(sl_attribution *a) {
    SL_FREE(a->link, a->op);
    *a = (sl_attribution){0};
}

sl_status sl_plan_add_attribution(const sl_problem *problem, sl_plan *plan) {
    if (plan->attribution)
        sl_attribution_free(plan->attribution);
    else
        SL_TRY(sl_alloc(&plan->attribution, 1, sizeof *plan->attribution));
    return sl_attribute(problem, plan, plan->attribution);
}
