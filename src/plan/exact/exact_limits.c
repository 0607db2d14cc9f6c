#include "base/memory.h"
#include "plan/exact/exact_model_inside.h"

/* ---- memory ---- */

static sl_status too_little(const sl_builder *b, int rank) {
    return sl_error(SL_ENONE, "rank %d: no schedule keeps the memory limit of %g", rank, b->p->limit[rank]);
}

/* If memory only grows with F and shrinks with I and W, the k-th F of a stage needs this many I and W before
 * it, for any memory of other stages: nI inputs and nW <= nI weights with
 *     (k + 1) forward - nI input - nW weight <= limit,   nI <= k. */
typedef struct need {
    int64_t forward, input, weight, limit;
} need;

/* Fewest I if at most `weights` W are done. */
static int64_t inputs_with(const need *n, int64_t k, int64_t weights) {
    int64_t over = (k + 1) * n->forward - n->limit - weights * n->weight;
    return over <= 0 ? 0 : n->input == 0 ? k + 1 : sl_build_divide_up(over, n->input);
}

static int64_t fewest_inputs(const need *n, int64_t k) {
    int64_t over = (k + 1) * n->forward - n->limit;
    return over <= 0 ? 0 : n->input + n->weight == 0 ? k + 1 : sl_build_divide_up(over, n->input + n->weight);
}

static int64_t fewest_weights(const need *n, int64_t k) {
    int64_t over = (k + 1) * n->forward - n->limit - k * n->input;
    return over <= 0 ? 0 : n->weight == 0 ? k + 1 : sl_build_divide_up(over, n->weight);
}

/* Between the fewest W and the fewest I: while W number w is not done, more I must be. */
static void add_trade(sl_builder *b, const need *n, int stage, int64_t k, const int64_t *microbatch) {
    sl_exact_time forward = sl_build_start_of(b, stage, (int)microbatch[k], SL_F),
                  forward_end = sl_build_end_of(b, stage, (int)microbatch[k], SL_F);
    int64_t inputs = fewest_inputs(n, k);
    for (int64_t w = fewest_weights(n, k); w < k; w++) {
        int64_t wanted = inputs_with(n, k, w);
        if (wanted <= inputs)
            break;
        sl_exact_time weight = sl_build_start_of(b, stage, (int)microbatch[w], SL_W),
                      weight_end = sl_build_end_of(b, stage, (int)microbatch[w], SL_W);
        int32_t done =
            sl_build_variable(b, 0, 1, sl_build_hinted(b, weight_end) <= sl_build_hinted(b, forward));
        sl_build_precedence_if(b, done, weight_end, forward, 0);
        sl_build_precedence_if(b, sl_build_negated(done), forward_end, weight, 0);
        sl_build_precedence_if(b, sl_build_negated(done),
                               sl_build_end_of(b, stage, (int)microbatch[wanted - 1], SL_I), forward, 0);
    }
}

/* Returns whether these constraints are sufficient (for a rank with one stage). */
static int add_memory_precedences(sl_builder *b, int rank, int stage, int alone) {
    const sl_exact_change *change = &b->memory.change[stage];
    need n = {change->forward, -change->input, -change->weight, b->memory.limit[rank]};
    if (n.forward <= 0 || change->early != 0 || n.input < 0 || n.weight < 0)
        return 0;
    sl_items *order = &b->intervals; /* the stage's microbatches */
    order->count = 0;
    for (int m = 0, k = 0; m < b->p->microbatches && b->status == SL_OK; m++) {
        if (!sl_problem_runs(b->p, stage, m))
            continue;
        int64_t inputs = fewest_inputs(&n, k), weights = fewest_weights(&n, k);
        if (inputs > k || weights > k) {
            sl_build_fail(b, too_little(b, rank));
            break;
        }
        sl_exact_time forward = sl_build_start_of(b, stage, m, SL_F);
        if (inputs > 0)
            sl_build_precedence(b, sl_build_end_of(b, stage, (int)order->item[inputs - 1], SL_I), forward, 0);
        if (weights > 0)
            sl_build_precedence(b, sl_build_end_of(b, stage, (int)order->item[weights - 1], SL_W), forward,
                                0);
        sl_build_item(b, order, m);
        if (alone && b->status == SL_OK)
            add_trade(b, &n, stage, k, order->item);
        k++;
    }
    order->count = 0;
    return 1;
}

/* The levels of one microbatch between F's start, I's start, I's end and W's end. */
static void levels_of(const sl_exact_change *change, int64_t level[4]) {
    level[0] = change->forward;
    level[1] = level[0] + change->early;
    level[2] = level[1] + change->input;
    level[3] = level[2] + change->weight;
}

static void moments_of(const sl_builder *b, int stage, int m, sl_exact_time at[4]) {
    at[0] = sl_build_start_of(b, stage, m, SL_F);
    at[1] = sl_build_start_of(b, stage, m, SL_I);
    at[2] = sl_build_end_of(b, stage, m, SL_I);
    at[3] = sl_build_end_of(b, stage, m, SL_W);
}

/* One interval per stretch of equal level, with the level as its demand. */
static void add_levels(sl_builder *b, int stage, int m, sl_items *demands) {
    int64_t level[4];
    sl_exact_time at[4];
    levels_of(&b->memory.change[stage], level);
    moments_of(b, stage, m, at);
    for (int i = 0, next; i < 3; i = next) {
        for (next = i + 1; next < 3 && level[next] == level[i]; next++)
            ;
        if (level[i] == 0)
            continue;
        sl_exact_time size = {sl_build_variable(b, 0, b->model->upper,
                                                sl_build_hinted(b, at[next]) - sl_build_hinted(b, at[i])),
                              0};
        sl_build_item(b, &b->intervals, sl_build_interval(b, at[i], size, at[next]));
        sl_build_item(b, demands, level[i]);
    }
}

static void add_cumulative(sl_builder *b, int rank) {
    sl_items demands = {0};
    for (int stage = 0; stage < b->p->stages; stage++)
        for (int m = 0; sl_problem_rank(b->p, stage) == rank && m < b->p->microbatches; m++)
            if (sl_problem_runs(b->p, stage, m))
                add_levels(b, stage, m, &demands);
    if (b->status == SL_OK && demands.count > 0) {
        sl_protobuf_clear(&b->two);
        sl_build_nest_moment(b, CUMULATIVE_CAPACITY, (sl_exact_time){-1, b->memory.limit[rank]});
        sl_protobuf_ints(&b->two, CUMULATIVE_INTERVALS, b->intervals.item, b->intervals.count);
        for (size_t i = 0; i < demands.count; i++)
            sl_build_nest_moment(b, CUMULATIVE_DEMANDS, (sl_exact_time){-1, demands.item[i]});
        sl_build_constraint(b, CONSTRAINT_CUMULATIVE);
    }
    b->intervals.count = 0;
    sl_free(demands.item);
}

/* Any changes at all. */
static void add_reservoir(sl_builder *b, int rank) {
    sl_protobuf_clear(&b->two);
    sl_protobuf_int(&b->two, RESERVOIR_MIN, -((int64_t)1 << 60));
    sl_protobuf_int(&b->two, RESERVOIR_MAX, b->memory.limit[rank]);
    for (int stage = 0; stage < b->p->stages; stage++)
        for (int m = 0; sl_problem_rank(b->p, stage) == rank && m < b->p->microbatches; m++) {
            sl_exact_time at[4];
            if (!sl_problem_runs(b->p, stage, m))
                continue;
            const sl_exact_change *change = &b->memory.change[stage];
            const int64_t changes[4] = {change->forward, change->early, change->input, change->weight};
            moments_of(b, stage, m, at);
            for (int i = 0; i < 4; i++)
                if (changes[i] != 0) {
                    sl_build_nest_moment(b, RESERVOIR_TIMES, at[i]);
                    sl_build_nest_moment(b, RESERVOIR_CHANGES, (sl_exact_time){-1, changes[i]});
                }
        }
    sl_build_constraint(b, CONSTRAINT_RESERVOIR);
}

void sl_build_memory(sl_builder *b, int rank) {
    int alone = sl_build_stages_of(b->p, rank) == 1, never_negative = 1, ends_at_zero = 1, said = alone;
    for (int stage = 0; stage < b->p->stages; stage++) {
        int64_t level[4];
        if (sl_problem_rank(b->p, stage) != rank)
            continue;
        levels_of(&b->memory.change[stage], level);
        for (int i = 0; i < 4; i++)
            never_negative &= level[i] >= 0;
        ends_at_zero &= level[3] == 0;
    }
    for (int stage = 0; stage < b->p->stages; stage++)
        if (sl_problem_rank(b->p, stage) == rank)
            said &= (alone || never_negative) && add_memory_precedences(b, rank, stage, alone);
    if (said)
        return;
    if (never_negative && ends_at_zero)
        add_cumulative(b, rank);
    else
        add_reservoir(b, rank);
}
