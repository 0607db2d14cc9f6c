/* The building blocks of the exact solver's model: variables, constraints, and the times of ops in the model.
 * Functions store the first failure in the builder's `status`. Internal to plan/exact/exact_*.c. */
#pragma once

#include "plan/exact/exact_memory.h"
#include "plan/exact/exact_model.h"

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
    RESERVOIR_MIN = 1,
    RESERVOIR_MAX = 2,
    RESERVOIR_TIMES = 3,
    RESERVOIR_CHANGES = 6,
    OBJECTIVE_VARIABLES = 1,
    OBJECTIVE_COEFFICIENTS = 4,
    HINT_VARIABLES = 1,
    HINT_VALUES = 2
};

/* A time of the model: a variable and an offset; variable -1: the offset alone. */
typedef struct sl_exact_time {
    int32_t variable;
    int64_t offset;
} sl_exact_time;

typedef struct sl_items {
    int64_t *item;
    size_t count, capacity;
} sl_items;

typedef struct sl_builder {
    const sl_problem *p;
    sl_exact_model *model;
    const sl_timeline *hint;
    int64_t *hint_value; /* of each variable */
    size_t hint_capacity;
    sl_time *hint_start; /* as model->start; ascending in microbatches */
    int constraints;
    int32_t makespan;   /* variable of the end of all */
    sl_items intervals; /* of the current rank or wire */
    sl_protobuf one, two, three;
    sl_exact_memory memory;
    sl_status status;
} sl_builder;

/* The messages from one stage to another: F or I of each of its microbatches. */
typedef struct sl_exact_flow {
    int stage, to, kind;
    int wire;
    int64_t transfer, latency;
} sl_exact_flow;

/* ---- variables and constraints, with values of the hint ---- */

#define SL_ALWAYS INT32_MAX /* in place of a literal: the constraint always holds */

/** Sets the builder's status if it is still SL_OK. */
void sl_build_fail(sl_builder *b, sl_status status);
void sl_build_item(sl_builder *b, sl_items *items, int64_t value);

/** In least .. most; returns its number. */
int32_t sl_build_variable(sl_builder *b, int64_t least, int64_t most, int64_t hint);
/** A literal is a 0-1 variable or its negation. */
int32_t sl_build_negated(int32_t literal);

/** A ConstraintProto of this field around the content of b->two, enforced if `literal` is true. Returns its
 * number. */
int sl_build_constraint_if(sl_builder *b, int32_t literal, unsigned kind);
int sl_build_constraint(sl_builder *b, unsigned kind);
/** after - before >= lag */
void sl_build_precedence_if(sl_builder *b, int32_t literal, sl_exact_time before, sl_exact_time after,
                            int64_t lag);
void sl_build_precedence(sl_builder *b, sl_exact_time before, sl_exact_time after, int64_t lag);
/** A LinearExpressionProto into b->two. */
void sl_build_nest_moment(sl_builder *b, unsigned field, sl_exact_time at);
int sl_build_interval(sl_builder *b, sl_exact_time start, sl_exact_time size, sl_exact_time end);
int sl_build_fixed_interval(sl_builder *b, sl_exact_time start, int64_t size);
/** Of b->intervals, which it then clears. */
void sl_build_no_overlap(sl_builder *b);

/* ---- ops; times in the model's units ---- */

/** Index into model->start. */
size_t sl_build_index(const sl_problem *p, int stage, int microbatch, int kind);
sl_exact_time sl_build_start_of(const sl_builder *b, int stage, int microbatch, int kind);
sl_exact_time sl_build_end_of(const sl_builder *b, int stage, int microbatch, int kind);
int64_t sl_build_length(const sl_builder *b, int stage, int kind);
/** The hint's value of a time. */
int64_t sl_build_hinted(const sl_builder *b, sl_exact_time at);
int sl_build_stages_of(const sl_problem *p, int rank);
/** a / b, rounded up; 0 for a below 0. */
int64_t sl_build_divide_up(int64_t a, int64_t b);

/* ---- messages (exact_links.c) and memory (exact_limits.c) ---- */

/** 0 if the stage sends no such message. */
int sl_build_flow_of(const sl_builder *b, int stage, int kind, sl_exact_flow *f);
void sl_build_messages(sl_builder *b);
/** The problem has limits. */
void sl_build_memory(sl_builder *b, int rank);
