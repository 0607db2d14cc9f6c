#include "plan/search/exact_model.h"
#include "base/memory.h"
#include "plan/search/exact_memory.h"

#include <stdlib.h>
#include <string.h>

#define MOST_OPS 60000             /* the model grows with the square of what a rank's ops share */
#define HORIZON ((int64_t)1 << 48) /* units; CP-SAT adds coefficients times these in int64 */

/* Numbers of the fields in cp_model.proto */
enum {
    MODEL_VARIABLES = 2,
    MODEL_CONSTRAINTS = 3,
    MODEL_OBJECTIVE = 4,
    MODEL_HINT = 6,
    VARIABLE_DOMAIN = 2,
    CONSTRAINT_IF = 2,
    CONSTRAINT_LINEAR = 12,
    CONSTRAINT_INTERVAL = 19,
    CONSTRAINT_NO_OVERLAP = 20,
    CONSTRAINT_CUMULATIVE = 22,
    CONSTRAINT_RESERVOIR = 24,
    LINEAR_VARIABLES = 1,
    LINEAR_COEFFICIENTS = 2,
    LINEAR_DOMAIN = 3,
    EXPRESSION_VARIABLES = 1,
    EXPRESSION_COEFFICIENTS = 2,
    EXPRESSION_OFFSET = 3,
    INTERVAL_START = 4,
    INTERVAL_END = 5,
    INTERVAL_SIZE = 6,
    NO_OVERLAP_INTERVALS = 1,
    CUMULATIVE_CAPACITY = 1,
    CUMULATIVE_INTERVALS = 2,
    CUMULATIVE_DEMANDS = 3,
    RESERVOIR_LEAST = 1,
    RESERVOIR_MOST = 2,
    RESERVOIR_TIMES = 3,
    RESERVOIR_CHANGES = 6,
    OBJECTIVE_VARIABLES = 1,
    OBJECTIVE_COEFFICIENTS = 4,
    HINT_VARIABLES = 1,
    HINT_VALUES = 2
};

/* A time of the model: a variable and an offset; variable -1: the offset alone. */
typedef struct moment {
    int32_t variable;
    int64_t offset;
} moment;

typedef struct list {
    int64_t *item;
    size_t count, capacity;
} list;

typedef struct builder {
    const sl_problem *p;
    sl_exact_model *model;
    const sl_timeline *hint;
    int64_t *hint_value; /* of each variable */
    size_t hint_capacity;
    sl_time *hint_start; /* as model->start; ascending in microbatches */
    int constraints;
    int32_t makespan; /* variable of the end of all */
    list intervals;   /* of the rank or wire in hand */
    sl_protobuf one, two, three;
    sl_exact_memory memory;
    sl_status status;
} builder;

/* ---- pieces of the model ---- */

static void fail(builder *b, sl_status status) {
    if (b->status == SL_OK)
        b->status = status;
}

static void add_item(builder *b, list *items, int64_t value) {
    sl_status status = sl_grow(&items->item, &items->capacity, items->count + 1, sizeof *items->item);
    if (status != SL_OK)
        fail(b, status);
    else
        items->item[items->count++] = value;
}

static int32_t add_variable(builder *b, int64_t least, int64_t most, int64_t hint) {
    int64_t domain[2] = {least, most};
    sl_protobuf_clear(&b->one);
    sl_protobuf_ints(&b->one, VARIABLE_DOMAIN, domain, 2);
    sl_protobuf_nest(&b->model->proto, MODEL_VARIABLES, &b->one);
    int32_t variable = b->model->variables++;
    sl_status status =
        sl_grow(&b->hint_value, &b->hint_capacity, (size_t)b->model->variables, sizeof *b->hint_value);
    if (status != SL_OK)
        fail(b, status);
    else
        b->hint_value[variable] = hint;
    return variable;
}

#define ALWAYS INT32_MAX

/* A literal: a variable of 0 and 1, or with `negated` its contrary. */
static int32_t negated(int32_t literal) {
    return -literal - 1;
}

/* ConstraintProto around what is in b->two, in force where `literal` is true. */
static int add_constraint_if(builder *b, int32_t literal, unsigned kind) {
    int64_t value = literal;
    sl_protobuf_clear(&b->one);
    if (literal != ALWAYS)
        sl_protobuf_ints(&b->one, CONSTRAINT_IF, &value, 1);
    sl_protobuf_nest(&b->one, kind, &b->two);
    sl_protobuf_nest(&b->model->proto, MODEL_CONSTRAINTS, &b->one);
    return b->constraints++;
}

static int add_constraint(builder *b, unsigned kind) {
    return add_constraint_if(b, ALWAYS, kind);
}

/* after - before >= lag, where `literal` is true */
static void add_precedence_if(builder *b, int32_t literal, moment before, moment after, int64_t lag) {
    int64_t variables[2], coefficients[2], domain[2] = {lag + before.offset - after.offset, INT64_MAX};
    size_t count = 0;
    if (after.variable >= 0) {
        variables[count] = after.variable;
        coefficients[count++] = 1;
    }
    if (before.variable >= 0) {
        variables[count] = before.variable;
        coefficients[count++] = -1;
    }
    sl_protobuf_clear(&b->two);
    sl_protobuf_ints(&b->two, LINEAR_VARIABLES, variables, count);
    sl_protobuf_ints(&b->two, LINEAR_COEFFICIENTS, coefficients, count);
    sl_protobuf_ints(&b->two, LINEAR_DOMAIN, domain, 2);
    add_constraint_if(b, literal, CONSTRAINT_LINEAR);
}

static void add_precedence(builder *b, moment before, moment after, int64_t lag) {
    add_precedence_if(b, ALWAYS, before, after, lag);
}

static void nest_moment(builder *b, unsigned field, moment at) {
    int64_t one = 1, variable = at.variable;
    sl_protobuf_clear(&b->three);
    if (at.variable >= 0) {
        sl_protobuf_ints(&b->three, EXPRESSION_VARIABLES, &variable, 1);
        sl_protobuf_ints(&b->three, EXPRESSION_COEFFICIENTS, &one, 1);
    }
    sl_protobuf_int(&b->three, EXPRESSION_OFFSET, at.offset);
    sl_protobuf_nest(&b->two, field, &b->three);
}

static int add_interval(builder *b, moment start, moment size, moment end) {
    sl_protobuf_clear(&b->two);
    nest_moment(b, INTERVAL_START, start);
    nest_moment(b, INTERVAL_END, end);
    nest_moment(b, INTERVAL_SIZE, size);
    return add_constraint(b, CONSTRAINT_INTERVAL);
}

static int add_fixed_interval(builder *b, moment start, int64_t size) {
    return add_interval(b, start, (moment){-1, size}, (moment){start.variable, start.offset + size});
}

/* Of the intervals in hand, which it then drops. */
static void add_no_overlap(builder *b) {
    if (b->intervals.count > 1) {
        sl_protobuf_clear(&b->two);
        sl_protobuf_ints(&b->two, NO_OVERLAP_INTERVALS, b->intervals.item, b->intervals.count);
        add_constraint(b, CONSTRAINT_NO_OVERLAP);
    }
    b->intervals.count = 0;
}

/* ---- ops ---- */

static size_t place(const sl_problem *p, int stage, int microbatch, int kind) {
    return ((size_t)stage * (size_t)p->microbatches + (size_t)microbatch) * 3 + (size_t)kind;
}

static moment start_of(const builder *b, int stage, int microbatch, int kind) {
    return (moment){b->model->start[place(b->p, stage, microbatch, kind)], 0};
}

static int64_t length(const builder *b, int stage, int kind) {
    return b->p->time[kind][stage] / b->model->unit;
}

static moment end_of(const builder *b, int stage, int microbatch, int kind) {
    moment at = start_of(b, stage, microbatch, kind);
    at.offset += length(b, stage, kind);
    return at;
}

/* The value that the hint gives to a moment. */
static int64_t hinted(const builder *b, moment at) {
    return at.offset + (at.variable >= 0 && b->hint_value ? b->hint_value[at.variable] : 0);
}

/* The microbatch that runs through the stage before `microbatch`; -1: none. With `microbatches`: the last. */
static int microbatch_before(const sl_problem *p, int stage, int microbatch) {
    for (microbatch--; microbatch >= 0 && !sl_problem_runs(p, stage, microbatch); microbatch--)
        ;
    return microbatch;
}

static int stages_of(const sl_problem *p, int rank) {
    int stages = 0;
    for (int stage = 0; stage < p->stages; stage++)
        stages += sl_problem_rank(p, stage) == rank;
    return stages;
}

static void add_rank(builder *b, int rank) {
    const sl_problem *p = b->p;
    for (int stage = 0; stage < p->stages; stage++)
        for (int m = 0; sl_problem_rank(p, stage) == rank && m < p->microbatches; m++)
            for (int kind = 0; sl_problem_runs(p, stage, m) && kind <= SL_W; kind++) {
                size_t at = place(p, stage, m, kind);
                int32_t variable =
                    add_variable(b, 0, b->model->upper, b->hint ? b->hint_start[at] / b->model->unit : 0);
                b->model->start[at] = variable;
                add_item(b, &b->intervals,
                         add_fixed_interval(b, (moment){variable, 0}, length(b, stage, kind)));
                int before = microbatch_before(p, stage, m);
                if (before >= 0)
                    add_precedence(b, end_of(b, stage, before, kind), (moment){variable, 0}, 0);
                if (kind > SL_F)
                    add_precedence(b, end_of(b, stage, m, kind - 1), (moment){variable, 0}, 0);
            }
    add_no_overlap(b);
}

/* ---- messages ---- */

/* What one stage sends to another: F or I of each of its microbatches. */
typedef struct flow {
    int stage, to, kind;
    int wire;
    int64_t transfer, latency;
} flow;

static int flow_of(const builder *b, int stage, int kind, flow *f) {
    const sl_problem *p = b->p;
    int to = kind == SL_F ? sl_problem_next(p, stage) : sl_problem_previous(p, stage);
    if (to < 0)
        return 0;
    int from_rank = sl_problem_rank(p, stage), to_rank = sl_problem_rank(p, to);
    int link = from_rank * p->ranks + to_rank, own = from_rank == to_rank;
    *f = (flow){.stage = stage,
                .to = to,
                .kind = kind,
                .wire = own       ? -1
                        : p->wire ? p->wire[link]
                                  : link,
                .transfer = own ? 0 : p->link[link].transfer / b->model->unit,
                .latency = own ? 0 : p->link[link].latency / b->model->unit};
    return 1;
}

/* Messages of a flow never wait for each other where its ops take as long as its transfers; they wait for
 * those of another flow on the same wire. */
static int waits(const builder *b, const flow *f) {
    if (f->transfer == 0)
        return 0;
    if (f->transfer > length(b, f->stage, f->kind))
        return 1;
    for (int stage = 0; stage < b->p->stages; stage++)
        for (int kind = SL_F; kind <= SL_I; kind++) {
            flow other;
            if ((stage != f->stage || kind != f->kind) && flow_of(b, stage, kind, &other) &&
                other.wire == f->wire && other.transfer > 0)
                return 1;
        }
    return 0;
}

/* In the hint's timeline the k-th message of a flow leaves as its k-th op does: no earlier than that ends,
 * and after the message before it. */
static void add_flow(builder *b, const flow *f, int with_transfers) {
    moment last = {-1, 0};
    for (int m = 0; m < b->p->microbatches; m++) {
        if (!sl_problem_runs(b->p, f->stage, m))
            continue;
        moment made = end_of(b, f->stage, m, f->kind), used = start_of(b, f->to, m, f->kind);
        if (!with_transfers) {
            add_precedence(b, made, used, f->transfer + f->latency);
            continue;
        }
        /* as late as its consumer allows, or as early as it can: the hint need not be complete */
        int64_t earliest = hinted(b, made), free = last.variable < 0 ? 0 : hinted(b, last) + f->transfer;
        moment sent = {add_variable(b, 0, b->model->upper, earliest > free ? earliest : free), 0};
        add_item(b, &b->intervals, add_fixed_interval(b, sent, f->transfer));
        add_precedence(b, made, sent, 0);
        add_precedence(b, sent, used, f->transfer + f->latency);
        if (last.variable >= 0)
            add_precedence(b, last, sent, f->transfer);
        last = sent;
    }
}

/* Wire by wire; a wire's first flow brings all of it. */
static void add_messages(builder *b) {
    const sl_problem *p = b->p;
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = SL_F; kind <= SL_I; kind++) {
            flow f, other;
            if (!flow_of(b, stage, kind, &f))
                continue;
            if (!waits(b, &f)) {
                add_flow(b, &f, 0);
                continue;
            }
            int first = 1, flows = 0;
            for (int s = 0; s < p->stages && first; s++)
                for (int k = SL_F; k <= SL_I; k++)
                    if (flow_of(b, s, k, &other) && other.wire == f.wire && other.transfer > 0 &&
                        (s < stage || (s == stage && k < kind)))
                        first = 0;
            for (int s = stage; s < p->stages && first; s++)
                for (int k = SL_F; k <= SL_I; k++)
                    if (flow_of(b, s, k, &other) && other.wire == f.wire && other.transfer > 0) {
                        add_flow(b, &other, 1);
                        flows++;
                    }
            if (flows > 1)
                add_no_overlap(b);
            b->intervals.count = 0; /* one flow alone is a chain already */
        }
}

/* ---- memory ---- */

static int64_t divide_up(int64_t a, int64_t b) {
    return a > 0 ? (a + b - 1) / b : 0;
}

static sl_status too_little(const builder *b, int rank) {
    return sl_error(SL_ENONE, "rank %d: no schedule keeps the memory limit of %g", rank, b->p->limit[rank]);
}

/* Where memory only grows with F and shrinks with I and W, the k-th F of a stage needs so many I and W before
 * it, whatever other stages hold: nI inputs and nW <= nI weights with
 *     (k + 1) forward - nI input - nW weight <= limit,   nI <= k. */
typedef struct need {
    int64_t forward, input, weight, limit;
} need;

/* Fewest I when `weights` W are done at most. */
static int64_t inputs_with(const need *n, int64_t k, int64_t weights) {
    int64_t over = (k + 1) * n->forward - n->limit - weights * n->weight;
    return over <= 0 ? 0 : n->input == 0 ? k + 1 : divide_up(over, n->input);
}

static int64_t fewest_inputs(const need *n, int64_t k) {
    int64_t over = (k + 1) * n->forward - n->limit;
    return over <= 0 ? 0 : n->input + n->weight == 0 ? k + 1 : divide_up(over, n->input + n->weight);
}

static int64_t fewest_weights(const need *n, int64_t k) {
    int64_t over = (k + 1) * n->forward - n->limit - k * n->input;
    return over <= 0 ? 0 : n->weight == 0 ? k + 1 : divide_up(over, n->weight);
}

/* What lies between the fewest W and the fewest I: as long as W number w is not done, more I must be. */
static void add_trade(builder *b, const need *n, int stage, int64_t k, const int64_t *microbatch) {
    moment forward = start_of(b, stage, (int)microbatch[k], SL_F),
           forward_end = end_of(b, stage, (int)microbatch[k], SL_F);
    int64_t inputs = fewest_inputs(n, k);
    for (int64_t w = fewest_weights(n, k); w < k; w++) {
        int64_t wanted = inputs_with(n, k, w);
        if (wanted <= inputs)
            break;
        moment weight = start_of(b, stage, (int)microbatch[w], SL_W),
               weight_end = end_of(b, stage, (int)microbatch[w], SL_W);
        int32_t done = add_variable(b, 0, 1, hinted(b, weight_end) <= hinted(b, forward));
        add_precedence_if(b, done, weight_end, forward, 0);
        add_precedence_if(b, negated(done), forward_end, weight, 0);
        add_precedence_if(b, negated(done), end_of(b, stage, (int)microbatch[wanted - 1], SL_I), forward, 0);
    }
}

/* Returns whether that is all there is to say (for a rank with one stage). */
static int add_memory_precedences(builder *b, int rank, int stage, int alone) {
    const sl_exact_change *change = &b->memory.change[stage];
    need n = {change->forward, -change->input, -change->weight, b->memory.limit[rank]};
    if (n.forward <= 0 || change->early != 0 || n.input < 0 || n.weight < 0)
        return 0;
    list *order = &b->intervals; /* the stage's microbatches */
    order->count = 0;
    for (int m = 0, k = 0; m < b->p->microbatches && b->status == SL_OK; m++) {
        if (!sl_problem_runs(b->p, stage, m))
            continue;
        int64_t inputs = fewest_inputs(&n, k), weights = fewest_weights(&n, k);
        if (inputs > k || weights > k) {
            fail(b, too_little(b, rank));
            break;
        }
        moment forward = start_of(b, stage, m, SL_F);
        if (inputs > 0)
            add_precedence(b, end_of(b, stage, (int)order->item[inputs - 1], SL_I), forward, 0);
        if (weights > 0)
            add_precedence(b, end_of(b, stage, (int)order->item[weights - 1], SL_W), forward, 0);
        add_item(b, order, m);
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

static void moments_of(const builder *b, int stage, int m, moment at[4]) {
    at[0] = start_of(b, stage, m, SL_F);
    at[1] = start_of(b, stage, m, SL_I);
    at[2] = end_of(b, stage, m, SL_I);
    at[3] = end_of(b, stage, m, SL_W);
}

/* One interval for each stretch of equal level, as many as it takes. */
static void add_levels(builder *b, int stage, int m, list *demands) {
    int64_t level[4];
    moment at[4];
    levels_of(&b->memory.change[stage], level);
    moments_of(b, stage, m, at);
    for (int i = 0, next; i < 3; i = next) {
        for (next = i + 1; next < 3 && level[next] == level[i]; next++)
            ;
        if (level[i] == 0)
            continue;
        moment size = {add_variable(b, 0, b->model->upper, hinted(b, at[next]) - hinted(b, at[i])), 0};
        add_item(b, &b->intervals, add_interval(b, at[i], size, at[next]));
        add_item(b, demands, level[i]);
    }
}

static void add_cumulative(builder *b, int rank) {
    list demands = {0};
    for (int stage = 0; stage < b->p->stages; stage++)
        for (int m = 0; sl_problem_rank(b->p, stage) == rank && m < b->p->microbatches; m++)
            if (sl_problem_runs(b->p, stage, m))
                add_levels(b, stage, m, &demands);
    if (b->status == SL_OK && demands.count > 0) {
        sl_protobuf_clear(&b->two);
        nest_moment(b, CUMULATIVE_CAPACITY, (moment){-1, b->memory.limit[rank]});
        sl_protobuf_ints(&b->two, CUMULATIVE_INTERVALS, b->intervals.item, b->intervals.count);
        for (size_t i = 0; i < demands.count; i++)
            nest_moment(b, CUMULATIVE_DEMANDS, (moment){-1, demands.item[i]});
        add_constraint(b, CONSTRAINT_CUMULATIVE);
    }
    b->intervals.count = 0;
    sl_free(demands.item);
}

/* Any changes whatever. */
static void add_reservoir(builder *b, int rank) {
    sl_protobuf_clear(&b->two);
    sl_protobuf_int(&b->two, RESERVOIR_LEAST, -((int64_t)1 << 60));
    sl_protobuf_int(&b->two, RESERVOIR_MOST, b->memory.limit[rank]);
    for (int stage = 0; stage < b->p->stages; stage++)
        for (int m = 0; sl_problem_rank(b->p, stage) == rank && m < b->p->microbatches; m++) {
            moment at[4];
            if (!sl_problem_runs(b->p, stage, m))
                continue;
            const sl_exact_change *change = &b->memory.change[stage];
            const int64_t changes[4] = {change->forward, change->early, change->input, change->weight};
            moments_of(b, stage, m, at);
            for (int i = 0; i < 4; i++)
                if (changes[i] != 0) {
                    nest_moment(b, RESERVOIR_TIMES, at[i]);
                    nest_moment(b, RESERVOIR_CHANGES, (moment){-1, changes[i]});
                }
        }
    add_constraint(b, CONSTRAINT_RESERVOIR);
}

static void add_memory(builder *b, int rank) {
    int alone = stages_of(b->p, rank) == 1, never_negative = 1, ends_at_zero = 1, said = alone;
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

/* ---- the ends ---- */

static void add_gathers(builder *b, int rank) {
    const sl_problem *p = b->p;
    for (int stage = 0; stage < p->stages; stage++) {
        int first = sl_problem_runs(p, stage, 0) ? 0 : 1;
        if (sl_problem_rank(p, stage) != rank || p->gather[stage] == 0 || first >= p->microbatches)
            continue;
        moment forward = start_of(b, stage, first, SL_F);
        int64_t size = p->gather[stage] / b->model->unit;
        if (stages_of(p, rank) == 1) {
            add_precedence(b, (moment){-1, 0}, forward, size);
            continue;
        }
        moment start = {add_variable(b, 0, b->model->upper, 0), 0};
        add_item(b, &b->intervals, add_fixed_interval(b, start, size));
        add_precedence(b, start, forward, size);
    }
    add_no_overlap(b);
}

/* All ends before the makespan's; with the rank's whole work before it, which the solver would have to find
 * out. */
static void add_end(builder *b, int rank) {
    const sl_problem *p = b->p;
    moment end = {b->makespan, 0};
    int alone = stages_of(p, rank) == 1;
    for (int stage = 0; stage < p->stages; stage++) {
        int last = microbatch_before(p, stage, p->microbatches);
        if (sl_problem_rank(p, stage) != rank || last < 0)
            continue;
        int64_t size = p->reduce[stage] / b->model->unit;
        moment done = end_of(b, stage, last, SL_W);
        if (alone || size == 0) {
            add_precedence(b, done, end, size);
        } else {
            moment start = {add_variable(b, 0, b->model->upper, hinted(b, done)), 0};
            add_item(b, &b->intervals, add_fixed_interval(b, start, size));
            add_precedence(b, done, start, 0);
            add_precedence(b, start, end, size);
        }
        if (alone) {
            int64_t work = 0;
            for (int kind = SL_F; kind <= SL_W; kind++)
                work += sl_problem_microbatches(p, stage) * length(b, stage, kind);
            add_precedence(b, start_of(b, stage, 0, SL_F), end, work + size);
        }
    }
    add_no_overlap(b);
}

/* Whether the first F of all starts at a time that is known: behind stage 0's gather, or at 0. Of the two
 * first stages of a bidirectional placement either may be the first where gathers hold one up. */
static int known_begin(const sl_problem *p, int64_t unit, int64_t *begin) {
    *begin = p->placement == SL_BIDIRECTIONAL ? 0 : p->gather[0] / unit;
    for (int stage = 0; p->placement == SL_BIDIRECTIONAL && stage < p->stages; stage++)
        if (p->gather[stage] > 0)
            return 0;
    return 1;
}

/* The end of all less the start of the first F. */
static void add_objective(builder *b, sl_time known_bound, int64_t horizon) {
    int64_t variables[2] = {b->makespan, -1}, coefficients[2] = {1, -1}, begin;
    moment first = {-1, 0}, end = {b->makespan, 0}, down = start_of(b, 0, 0, SL_F), up = {-1, 0};
    if (b->p->placement == SL_BIDIRECTIONAL && b->p->microbatches > 1)
        up = start_of(b, b->p->ranks, 1, SL_F);
    if (known_begin(b->p, b->model->unit, &begin)) {
        first.offset = begin;
        if (b->p->placement != SL_BIDIRECTIONAL) /* on its rank every other op comes behind it */
            add_precedence(b, down, first, 0);
    } else {
        int64_t hint = hinted(b, down);
        if (up.variable >= 0 && hinted(b, up) < hint)
            hint = hinted(b, up);
        first.variable = add_variable(b, 0, horizon, hint);
        add_precedence(b, first, down, 0);
        if (up.variable >= 0)
            add_precedence(b, first, up, 0);
    }
    variables[1] = first.variable;
    add_precedence(b, first, end, divide_up(known_bound, b->model->unit));
    add_precedence(b, end, first, -b->model->upper);
    b->model->begin = first.offset;
    sl_protobuf_clear(&b->one);
    sl_protobuf_ints(&b->one, OBJECTIVE_VARIABLES, variables, first.variable < 0 ? 1 : 2);
    sl_protobuf_ints(&b->one, OBJECTIVE_COEFFICIENTS, coefficients, first.variable < 0 ? 1 : 2);
    sl_protobuf_nest(&b->model->proto, MODEL_OBJECTIVE, &b->one);
}

static void add_hint(builder *b) {
    list variables = {0};
    for (int i = 0; i < b->model->variables; i++)
        add_item(b, &variables, i);
    if (b->status == SL_OK) {
        sl_protobuf_clear(&b->one);
        sl_protobuf_ints(&b->one, HINT_VARIABLES, variables.item, variables.count);
        sl_protobuf_ints(&b->one, HINT_VALUES, b->hint_value, variables.count);
        sl_protobuf_nest(&b->model->proto, MODEL_HINT, &b->one);
    }
    sl_free(variables.item);
}

/* ---- units, horizon, hint ---- */

static sl_time divisor(sl_time a, sl_time b) {
    while (b) {
        sl_time rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static sl_time unit_of(const sl_problem *p) {
    sl_time unit = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        for (int kind = SL_F; kind <= SL_W; kind++)
            unit = divisor(unit, p->time[kind][stage]);
        unit = divisor(divisor(unit, p->gather[stage]), p->reduce[stage]);
    }
    for (int i = 0; i < p->ranks * p->ranks; i++)
        unit = divisor(divisor(unit, p->link[i].latency), p->link[i].transfer);
    return unit ? unit : 1;
}

/* Everything in a row. */
static double total(const builder *b) {
    const sl_problem *p = b->p;
    double sum = 0;
    for (int stage = 0; stage < p->stages; stage++) {
        double n = sl_problem_microbatches(p, stage);
        flow f;
        for (int kind = SL_F; kind <= SL_W; kind++) {
            sum += n * (double)length(b, stage, kind);
            if (kind <= SL_I && flow_of(b, stage, kind, &f))
                sum += n * (double)(f.transfer + f.latency);
        }
        sum += (double)((p->gather[stage] + p->reduce[stage]) / b->model->unit);
    }
    return sum;
}

static int ascending(const void *a, const void *b) {
    const sl_time *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The hint's starts of each kind and stage, in ascending order for ascending microbatches: a schedule stays
 * one when microbatches, which are alike, change names. */
static sl_status sort_hint(builder *b) {
    const sl_problem *p = b->p;
    sl_time *starts;
    for (int i = 0; i < b->hint->spans; i++) {
        const sl_span *span = &b->hint->span[i];
        b->hint_start[place(p, span->op.stage, span->op.microbatch, span->op.kind)] = span->start;
    }
    SL_TRY(sl_alloc(&starts, (size_t)p->microbatches, sizeof *starts));
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = SL_F; kind <= SL_W; kind++) {
            size_t count = 0, next = 0;
            for (int m = 0; m < p->microbatches; m++)
                if (sl_problem_runs(p, stage, m))
                    starts[count++] = b->hint_start[place(p, stage, m, kind)];
            qsort(starts, count, sizeof *starts, ascending);
            for (int m = 0; m < p->microbatches; m++)
                if (sl_problem_runs(p, stage, m))
                    b->hint_start[place(p, stage, m, kind)] = starts[next++];
        }
    sl_free(starts);
    return SL_OK;
}

static sl_status prepare(builder *b) {
    const sl_problem *p = b->p;
    size_t ops = (size_t)p->stages * (size_t)p->microbatches * 3;
    if (ops > MOST_OPS)
        return sl_error(SL_ENONE, "the exact solver takes %d ops, this problem has %zu", MOST_OPS, ops);
    SL_TRY(sl_alloc(&b->model->start, ops, sizeof *b->model->start));
    for (size_t i = 0; i < ops; i++)
        b->model->start[i] = -1;
    b->model->unit = unit_of(p);
    b->model->memory_exact = 1;
    double row = total(b);
    if (row > (double)HORIZON)
        return sl_error(SL_ENONE, "the times of this problem are too fine for the exact solver");
    b->model->upper = (int64_t)row;
    if (b->hint) {
        SL_TRY(sl_alloc(&b->hint_start, ops, sizeof *b->hint_start));
        SL_TRY(sort_hint(b));
        b->model->upper = sl_timeline_makespan(b->hint) / b->model->unit;
    }
    if (!p->limit)
        return SL_OK;
    SL_TRY(sl_exact_memory_make(p, &b->memory));
    b->model->memory_exact = b->memory.exact;
    return SL_OK;
}

static sl_status build(builder *b, sl_time known_bound) {
    sl_time length =
        b->model->upper; /* of the makespan; ops end later where the first F waits for a gather */
    int64_t begin, latest = 0, horizon;
    for (int i = 0; b->hint && i < b->hint->spans; i++)
        latest = b->hint->span[i].end > latest ? b->hint->span[i].end : latest;
    for (int i = 0; b->hint && i < b->hint->collectives; i++)
        latest = b->hint->collective[i].end > latest ? b->hint->collective[i].end : latest;
    latest /= b->model->unit;
    /* where the begin is not known, a shorter schedule may end later */
    if (b->hint)
        b->model->upper = known_begin(b->p, b->model->unit, &begin) ? latest : (int64_t)total(b);
    for (int rank = 0; rank < b->p->ranks; rank++)
        add_rank(b, rank);
    add_messages(b);
    for (int rank = 0; b->p->limit && rank < b->p->ranks; rank++)
        add_memory(b, rank);
    b->makespan = add_variable(b, 0, b->model->upper, latest);
    for (int rank = 0; rank < b->p->ranks; rank++) {
        add_gathers(b, rank);
        add_end(b, rank);
    }
    horizon = b->model->upper;
    b->model->upper = length;
    add_objective(b, known_bound, horizon);
    if (b->hint)
        add_hint(b);
    return b->status != SL_OK ? b->status : b->model->proto.status;
}

sl_status sl_exact_model_make(const sl_problem *problem, const sl_timeline *hint, sl_time known_bound,
                              sl_exact_model *model) {
    builder b = {.p = problem, .model = model, .hint = hint};
    *model = (sl_exact_model){0};
    sl_status status = prepare(&b);
    if (status == SL_OK)
        status = build(&b, known_bound);
    sl_exact_memory_free(&b.memory);
    sl_protobuf_free(&b.one);
    sl_protobuf_free(&b.two);
    sl_protobuf_free(&b.three);
    sl_free(b.intervals.item);
    sl_free(b.hint_value);
    sl_free(b.hint_start);
    return status;
}

void sl_exact_model_free(sl_exact_model *model) {
    sl_protobuf_free(&model->proto);
    sl_free(model->start);
    *model = (sl_exact_model){0};
}
