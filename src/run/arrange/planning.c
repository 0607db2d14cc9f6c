#include "run/arrange/planning.h"
#include "base/memory.h"
#include "pack/unpack.h"
#include "plan/family/family.h"
#include "plan/lower/written.h"
#include "plan/search/plan_read.h"
#include "run/arrange/exchange.h"
#include "run/arrange/rank_state.h"
#include "run/binding/reduce.h"

#include <string.h>

#define FIRST_RATE 1e9 /* bytes/s of a reduction until one was measured */

static sl_status read_plan(const char *file, const sl_problem *problem, sl_order *order) {
    sl_plan_reader *reader;
    SL_TRY(sl_plan_reader_open(file, 1, &reader));
    sl_status status = sl_unpack_file(file, SL_PLAN_BYTES, &(sl_unpack_sink){sl_plan_reader_feed, reader});
    SL_THEN(status, sl_plan_reader_end_order(reader, file, problem, order));
    sl_plan_reader_close(reader);
    return status;
}

static sl_status read_order(const char *file, const sl_problem *problem, sl_plan *plan) {
    sl_order order = {0};
    SL_TRY(sl_run_is_plan(file) ? read_plan(file, problem, &order)
                                : sl_order_read_csv(file, problem, &order));
    sl_status status;
    SL_TRY_GOTO(out, status, sl_order_check_ascending(&order));
    SL_TRY_GOTO(out, status, sl_plan_of_order(problem, &order, "file", plan));
    if (!plan->memory_ok)
        status = sl_error(SL_ENONE, "%s: the order exceeds device.memory_mb", file);
out:
    sl_order_free(&order);
    return status;
}

/* The replica's problem; the same on all ranks, which know sizes[ranks] of all. */
static sl_status make_problem(const sl_trainer *t, int replica, const sl_binding_sizes *sizes,
                              sl_problem *problem) {
    double *forward, *backward, *fixed;
    sl_problem shape = sl_run_shape(t->run);
    SL_TRY(sl_alloc(&forward, 2 * (size_t)shape.stages + (size_t)shape.ranks, sizeof *forward));
    backward = forward + shape.stages;
    fixed = backward + shape.stages;
    for (int stage = 0; stage < shape.stages; stage++) {
        forward[stage] = sizes[sl_problem_rank(&shape, stage)].forward_bytes;
        backward[stage] = sizes[sl_problem_rank(&shape, stage)].backward_bytes;
    }
    size_t message = 0; /* all are of one size */
    for (int rank = 0; rank < shape.ranks; rank++) {
        fixed[rank] = sizes[rank].fixed_bytes;
        message = sizes[rank].message_bytes > message ? sizes[rank].message_bytes : message;
    }
    sl_status status = sl_run_replica_problem(t->run, replica, forward, backward, fixed, problem);
    for (int i = 0; i < shape.ranks * shape.ranks && status == SL_OK; i++)
        problem->link[i].bytes = (double)message; /* whether it is eager (fifo) */
    for (int stage = 0; stage < shape.stages && status == SL_OK; stage++) {
        const int holders = sl_run_holders(t->run, sl_problem_rank(&shape, stage));
        double bytes = sl_reduce_bytes(sl_binding_elements(t->run, stage), holders);
        problem->reduce[stage] = sl_from_ms(1e3 * bytes / FIRST_RATE);
    }
    sl_free(forward);
    return status;
}

/* Takes an order made for the same number of microbatches. *taken 0: it needs too much memory, or does not
 * fit. */
static sl_status take_order(const sl_plan *from, int fits, sl_replica_plan *mine, int *taken) {
    *taken = 0;
    if (!fits)
        return SL_OK;
    sl_status status = sl_plan_of_order(&mine->problem, &from->order, from->schedule, &mine->plan);
    *taken = status == SL_OK && mine->plan.memory_ok;
    if (*taken)
        return SL_OK;
    sl_plan_free(&mine->plan);
    mine->plan = (sl_plan){0};
    return status == SL_ENOMEM ? status : SL_OK;
}

/* A replica with as many microbatches as an earlier one runs that one's order; in an arrangement, also that
 * of one in the previous arrangement. An order from a file is for its number of microbatches; for another
 * number a plan is made. */
static sl_status plan_replica(sl_trainer *t, const sl_replica_plan *before, const sl_plan *const *given,
                              int replica) {
    const char *schedule = t->run->schedule;
    int taken = 0, microbatches = t->run->batch.split[replica], replicas = t->run->parallel.data;
    sl_replica_plan *mine = &t->state->plan[replica];
    if (given)
        SL_TRY(take_order(given[replica], 1, mine, &taken));
    for (int r = 0; r < replicas && before && !taken; r++)
        SL_TRY(take_order(&before[r].plan, before[r].problem.microbatches == microbatches, mine, &taken));
    for (int r = 0; r < replica && !taken; r++)
        SL_TRY(take_order(&t->state->plan[r].plan, t->state->plan[r].problem.microbatches == microbatches,
                          mine, &taken));
    if (taken)
        return SL_OK;
    if (strcmp(schedule, "auto") == 0 || sl_family_find(schedule))
        return sl_plan_make(&mine->problem, schedule, &mine->plan);
    return before ? sl_plan_make(&mine->problem, "auto", &mine->plan)
                  : read_order(schedule, &mine->problem, &mine->plan);
}

sl_status sl_planning_make(sl_trainer *t, const sl_binding_sizes *sizes, const sl_replica_plan *before,
                           const sl_plan *const *given) {
    int replicas = t->run->parallel.data;
    SL_TRY(make_problem(t, t->groups.position.replica, sizes, &t->state->problem));
    if (sl_trainer_leads(t))
        SL_TRY(sl_alloc(&t->state->plan, (size_t)replicas, sizeof *t->state->plan));
    for (int r = 0; r < replicas; r++) {
        sl_problem shape = sl_run_replica_shape(t->run, r);
        sl_order order = {0};
        sl_status status = SL_OK;
        if (sl_trainer_leads(t)) {
            SL_TRY(make_problem(t, r, sizes, &t->state->plan[r].problem));
            SL_TRY(plan_replica(t, before, given, r));
            SL_TRY(sl_order_copy(&t->state->plan[r].plan.order, &order));
        }
        status = sl_exchange_order(t, &shape, &order);
        if (status == SL_OK && r == t->groups.position.replica)
            t->state->first = order;
        else
            sl_order_free(&order);
        SL_TRY(status);
    }
    return SL_OK;
}

void sl_planning_free(const sl_trainer *t, sl_replica_plan *plans) {
    for (int r = 0; plans && r < t->run->parallel.data; r++) {
        sl_plan_free(&plans[r].plan);
        sl_problem_free(&plans[r].problem);
    }
    sl_free(plans);
}

const sl_replica_plan *sl_planning_plans(const sl_trainer *t) {
    return t->state->plan;
}

/* sizes[ranks]: the largest of those that hold the same stages. */
sl_status sl_planning_measure(sl_trainer *t, sl_binding_sizes *sizes) {
    sl_binding_sizes mine, *all;
    SL_TRY(sl_binding_measure(t->run, t->groups.position, &mine));
    SL_TRY(sl_alloc(&all, (size_t)t->world, sizeof *all));
    sl_status status =
        sl_group_gather_all(t->groups.world, &mine, sizeof mine, all, (size_t)t->world * sizeof mine, NULL);
    for (int w = 0; w < t->world && status == SL_OK; w++) {
        sl_binding_sizes *most = &sizes[sl_run_position_of(t->run, w).pipeline];
        if (all[w].forward_bytes > most->forward_bytes)
            most->forward_bytes = all[w].forward_bytes;
        if (all[w].backward_bytes > most->backward_bytes)
            most->backward_bytes = all[w].backward_bytes;
        if (all[w].fixed_bytes > most->fixed_bytes)
            most->fixed_bytes = all[w].fixed_bytes;
        if (all[w].message_bytes > most->message_bytes)
            most->message_bytes = all[w].message_bytes;
    }
    sl_free(all);
    return status;
}

/* Max. buffers that the first order uses at the same time on this rank. */
static sl_status count_buffers(const sl_trainer *t, int *buffers) {
    sl_program program;
    SL_TRY(sl_lower(&t->state->problem, &t->state->first, &program));
    *buffers = program.rank[t->rank].buffers;
    sl_program_free(&program);
    return SL_OK;
}

/* An adapted plan may hold more than the first; without a limit all microbatches may be in flight on every
 * stage of the rank. */
sl_status sl_planning_in_flight(const sl_trainer *t, int *in_flight) {
    SL_TRY(count_buffers(t, in_flight));
    if (t->run->adapt)
        *in_flight = sl_problem_rank_ops(&t->state->problem, t->rank, 1) / t->state->problem.parts;
    return SL_OK;
}

int sl_planning_hosted(const sl_trainer *t) {
    return sl_problem_offloads(&t->state->problem) ? t->state->problem.host_limit[t->rank] : 0;
}
