/* Tables that convert struct members to JSON and back, so that a recording (recording.h) names each member
 * once. Numbers are restored bit for bit; a non-finite one is written as null, which is never read.
 *
 * A scalar is written as a value. An array is written as its elements that differ from a base (without a
 * base, from 0), as {"index": value}. So the size of a measured problem depends only on what was measured. */
#pragma once

#include "adapt/orchestrator/orchestrator_types.h"

#include <jansson.h>

typedef enum sl_recorded_call {
    SL_CALL_OPEN,
    SL_CALL_OBSERVE,
    SL_CALL_REPORT,
    SL_CALL_NETWORK,
    SL_CALL_MOVED,
    SL_CALL_OFFER,
    SL_CALL_SKIP,
    SL_CALL_ESTIMATE,
    SL_CALL_MAY_LEAVE,
    SL_CALL_IMPROVE,
    SL_CALL_KEEP_SUMS,
    SL_CALL_LOAD,
    SL_CALL_NEXT,
    SL_CALL_CARRIED_OUT,
    SL_RECORDED_CALLS
} sl_recorded_call;

/* Numbers and the text of a call without a struct of its own. */
typedef struct sl_recorded_values {
    int id, outcome, strategy, iterations, may, replica, what;
    sl_time now, took, cost;
    int64_t work;
    const char *text;
} sl_recorded_values;

typedef enum sl_field_type { SL_FIELD_INT, SL_FIELD_LONG, SL_FIELD_REAL, SL_FIELD_BYTE } sl_field_type;

/* Number of elements of an array: given by the field inside the struct, else by the job's shape. */
typedef enum sl_field_many {
    SL_MANY_INSIDE,
    SL_MANY_STAGES,
    SL_MANY_RANKS,
    SL_MANY_LINKS, /* ranks * ranks */
    SL_MANY_OPS,   /* SL_OP_KINDS * stages */
    SL_MANY_REPLICAS,
    SL_MANY_PROCESSES,
    SL_MANY_KINDS
} sl_field_many;

typedef struct sl_field_shape {
    size_t many[SL_MANY_KINDS];
} sl_field_shape;

typedef struct sl_field {
    const char *name; /* NULL: the table ends */
    sl_field_type type;
    sl_field_many many;
    int optional;         /* the pointer may be NULL */
    int newer;            /* recordings of before lack it: it is 0 there */
    size_t count, offset; /* INSIDE: 1 is a scalar; offset: of the value or of the pointer to the array */
    size_t stride, inner; /* of the array's elements, and of the value in one */
    double least, most;   /* accepted on reading */
} sl_field;

sl_field_shape sl_field_shape_of(int replicas, int ranks, int stages, int tensor);

/* clang-format off */
extern const sl_field sl_fields_config[], sl_fields_config_arrays[], sl_fields_problem[], sl_fields_measured[],
    sl_fields_iteration[], sl_fields_unknown[], sl_fields_layout[], sl_fields_report[], sl_fields_network[];
/* clang-format on */

/* A call's name, its numbers, and the key of its text (NULL: none). */
typedef struct sl_recorded_form {
    const char *name;
    const sl_field *numbers;
    const char *text;
} sl_recorded_form;

extern const sl_recorded_form sl_recorded_forms[SL_RECORDED_CALLS];

/** Adds the members of *object to `to`, except those equal to *base. base NULL: all scalars are written.
 * Returns 0: no memory. */
int sl_fields_put(json_t *to, const sl_field *field, const sl_field_shape *shape, const void *object,
                  const void *base);

/** Reads the members from `from` into *object, which initially equals the base; its arrays that are not
 * optional are allocated. `all`: no scalar may be missing. SL_EINVAL names the member. */
sl_status sl_fields_get(json_t *from, const sl_field *field, const sl_field_shape *shape, int all,
                        void *object);
