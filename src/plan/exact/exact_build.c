#include "base/memory.h"
#include "plan/exact/exact_model_inside.h"

/* ---- pieces of the model ---- */

void sl_build_fail(sl_builder *b, sl_status status) {
    if (b->status == SL_OK)
        b->status = status;
}

void sl_build_item(sl_builder *b, sl_items *items, int64_t value) {
    sl_status status = sl_grow(&items->item, &items->capacity, items->count + 1, sizeof *items->item);
    if (status != SL_OK)
        sl_build_fail(b, status);
    else
        items->item[items->count++] = value;
}

int32_t sl_build_variable(sl_builder *b, int64_t least, int64_t most, int64_t hint) {
    int64_t domain[2] = {least, most};
    sl_protobuf_clear(&b->one);
    sl_protobuf_ints(&b->one, VARIABLE_DOMAIN, domain, 2);
    sl_protobuf_nest(&b->model->proto, MODEL_VARIABLES, &b->one);
    int32_t variable = b->model->variables++;
    sl_status status =
        sl_grow(&b->hint_value, &b->hint_capacity, (size_t)b->model->variables, sizeof *b->hint_value);
    if (status != SL_OK)
        sl_build_fail(b, status);
    else
        b->hint_value[variable] = hint;
    return variable;
}

/* A literal: a 0-1 variable, or with `negated` its negation. */
int32_t sl_build_negated(int32_t literal) {
    return -literal - 1;
}

/* ConstraintProto around the content of b->two, enforced if `literal` is true. */
int sl_build_constraint_if(sl_builder *b, int32_t literal, unsigned kind) {
    int64_t value = literal;
    sl_protobuf_clear(&b->one);
    if (literal != SL_ALWAYS)
        sl_protobuf_ints(&b->one, CONSTRAINT_IF, &value, 1);
    sl_protobuf_nest(&b->one, kind, &b->two);
    sl_protobuf_nest(&b->model->proto, MODEL_CONSTRAINTS, &b->one);
    return b->constraints++;
}

int sl_build_constraint(sl_builder *b, unsigned kind) {
    return sl_build_constraint_if(b, SL_ALWAYS, kind);
}

/* after - before >= lag, if `literal` is true */
void sl_build_precedence_if(sl_builder *b, int32_t literal, sl_exact_time before, sl_exact_time after,
                            int64_t lag) {
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
    sl_build_constraint_if(b, literal, CONSTRAINT_LINEAR);
}

void sl_build_precedence(sl_builder *b, sl_exact_time before, sl_exact_time after, int64_t lag) {
    sl_build_precedence_if(b, SL_ALWAYS, before, after, lag);
}

void sl_build_nest_moment(sl_builder *b, unsigned field, sl_exact_time at) {
    int64_t one = 1, variable = at.variable;
    sl_protobuf_clear(&b->three);
    if (at.variable >= 0) {
        sl_protobuf_ints(&b->three, EXPRESSION_VARIABLES, &variable, 1);
        sl_protobuf_ints(&b->three, EXPRESSION_COEFFICIENTS, &one, 1);
    }
    sl_protobuf_int(&b->three, EXPRESSION_OFFSET, at.offset);
    sl_protobuf_nest(&b->two, field, &b->three);
}

int sl_build_interval(sl_builder *b, sl_exact_time start, sl_exact_time size, sl_exact_time end) {
    sl_protobuf_clear(&b->two);
    sl_build_nest_moment(b, INTERVAL_START, start);
    sl_build_nest_moment(b, INTERVAL_END, end);
    sl_build_nest_moment(b, INTERVAL_SIZE, size);
    return sl_build_constraint(b, CONSTRAINT_INTERVAL);
}

int sl_build_fixed_interval(sl_builder *b, sl_exact_time start, int64_t size) {
    return sl_build_interval(b, start, (sl_exact_time){-1, size},
                             (sl_exact_time){start.variable, start.offset + size});
}

/* Of the current intervals, which it then clears. */
void sl_build_no_overlap(sl_builder *b) {
    if (b->intervals.count > 1) {
        sl_protobuf_clear(&b->two);
        sl_protobuf_ints(&b->two, NO_OVERLAP_INTERVALS, b->intervals.item, b->intervals.count);
        sl_build_constraint(b, CONSTRAINT_NO_OVERLAP);
    }
    b->intervals.count = 0;
}

/* ---- ops ---- */

size_t sl_build_index(const sl_problem *p, int stage, int microbatch, int kind) {
    return ((size_t)stage * (size_t)p->microbatches + (size_t)microbatch) * 3 + (size_t)kind;
}

sl_exact_time sl_build_start_of(const sl_builder *b, int stage, int microbatch, int kind) {
    return (sl_exact_time){b->model->start[sl_build_index(b->p, stage, microbatch, kind)], 0};
}

int64_t sl_build_length(const sl_builder *b, int stage, int kind) {
    return b->p->time[kind][stage] / b->model->unit;
}

sl_exact_time sl_build_end_of(const sl_builder *b, int stage, int microbatch, int kind) {
    sl_exact_time at = sl_build_start_of(b, stage, microbatch, kind);
    at.offset += sl_build_length(b, stage, kind);
    return at;
}

/* The hint's value of a time. */
int64_t sl_build_hinted(const sl_builder *b, sl_exact_time at) {
    return at.offset + (at.variable >= 0 && b->hint_value ? b->hint_value[at.variable] : 0);
}

int sl_build_stages_of(const sl_problem *p, int rank) {
    int stages = 0;
    for (int stage = 0; stage < p->stages; stage++)
        stages += sl_problem_rank(p, stage) == rank;
    return stages;
}

int64_t sl_build_divide_up(int64_t a, int64_t b) {
    return a > 0 ? (a + b - 1) / b : 0;
}
