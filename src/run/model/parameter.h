/* Parameters by their Hugging Face names, shapes and order (architecture.c): the one canonical list, used by
 * hash, norm and checkpoints.
 *
 * Of a parameter that is cut over tensor ranks, a rank holds a slice: along one axis, made of `pieces` equal
 * pieces, it has its share of every piece (c_attn's columns are q, k and v: three pieces). Element `i` of a
 * piece of length L belongs to rank r if L * r / ranks <= i < L * (r + 1) / ranks, rounded down. The others
 * are whole on every tensor rank, bit-identical. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef enum sl_parameter_kind {
    SL_PARAMETER_ONES,     /* gains of normalizations */
    SL_PARAMETER_ZEROS,    /* biases */
    SL_PARAMETER_NORMAL,   /* N(0, 0.02) */
    SL_PARAMETER_RESIDUAL, /* N(0, 0.02 / sqrt(2 layers)): weights that add to the residual stream */
} sl_parameter_kind;

typedef enum sl_shard_axis { SL_AXIS_NONE, SL_AXIS_ROWS, SL_AXIS_COLUMNS } sl_shard_axis;

typedef struct sl_parameter {
    char name[64];
    sl_parameter_kind kind;
    int rows, columns; /* held here; rows 0: a vector of `columns` */
    size_t count;
    sl_shard_axis axis; /* cut axis; SL_AXIS_NONE: held whole by every tensor rank */
    int pieces;
    int full_rows, full_columns;
    int tensor_rank, tensor_ranks; /* owner of the slice; 0 of 1: the full tensor */
    float *weight, *gradient;
    float *moment1, *moment2; /* AdamW's; NULL for the head's copy */
} sl_parameter;

/** Elements of the full tensor. */
size_t sl_parameter_full_count(const sl_parameter *parameter);

/** Name and shapes of the slice of another tensor rank; pointers NULL. */
sl_parameter sl_parameter_slice(const sl_parameter *parameter, int tensor_rank, int tensor_ranks);

/** Copies the slice described by `parameter` out of the full tensor and into it. [count] and [full count]. */
void sl_parameter_cut(const sl_parameter *parameter, const float *full, float *slice);
void sl_parameter_paste(const sl_parameter *parameter, const float *slice, float *full);

/** Initial weights: element i of the full tensor is a pure function of (seed, name, i), independent of the
 * rank that holds it. */
void sl_parameter_initialise(const sl_parameter *parameter, uint64_t seed, int layers);

/** The elements of a rank among `length`: [*first, *end). */
void sl_slice_range(int length, int rank, int ranks, int *first, int *end);
