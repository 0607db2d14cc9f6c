#include "run/model/parameter.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* ---- slices ---- */

void sl_slice_range(int length, int rank, int ranks, int *first, int *end) {
    *first = (int)((int64_t)length * rank / ranks);
    *end = (int)((int64_t)length * (rank + 1) / ranks);
}

size_t sl_parameter_full_count(const sl_parameter *p) {
    return (size_t)(p->full_rows ? p->full_rows : 1) * (size_t)p->full_columns;
}

sl_parameter sl_parameter_slice(const sl_parameter *p, int rank, int ranks) {
    sl_parameter s = *p;
    int first, end;
    s.weight = s.gradient = s.moment1 = s.moment2 = NULL;
    s.tensor_rank = rank;
    s.tensor_ranks = ranks;
    s.rows = p->full_rows;
    s.columns = p->full_columns;
    if (p->axis != SL_AXIS_NONE) {
        int *length = p->axis == SL_AXIS_ROWS ? &s.rows : &s.columns;
        sl_slice_range(*length / p->pieces, rank, ranks, &first, &end);
        *length = p->pieces * (end - first);
    }
    s.count = (size_t)(s.rows ? s.rows : 1) * (size_t)s.columns;
    return s;
}

/* A slice is runs of consecutive elements of the full tensor: one for each piece of each cut row, or for each
 * piece of the rows. */
typedef struct runs {
    size_t number, length; /* of them; of each, in the slice */
    size_t step, first;    /* in the full tensor: from run to run; of the first */
} runs;

static runs runs_of(const sl_parameter *p) {
    int first, end;
    if (p->axis == SL_AXIS_NONE)
        return (runs){.number = 1, .length = p->count};
    int by_rows = p->axis == SL_AXIS_ROWS, length = (by_rows ? p->full_rows : p->full_columns) / p->pieces;
    size_t unit = by_rows ? (size_t)p->full_columns : 1;
    size_t outer = by_rows || p->full_rows == 0 ? 1 : (size_t)p->full_rows;
    sl_slice_range(length, p->tensor_rank, p->tensor_ranks, &first, &end);
    return (runs){.number = outer * (size_t)p->pieces,
                  .length = (size_t)(end - first) * unit,
                  .step = (size_t)length * unit,
                  .first = (size_t)first * unit};
}

void sl_parameter_cut(const sl_parameter *p, const float *full, float *slice) {
    const runs r = runs_of(p);
    for (size_t i = 0; i < r.number; i++)
        memcpy(slice + i * r.length, full + r.first + i * r.step, r.length * sizeof *slice);
}

void sl_parameter_paste(const sl_parameter *p, const float *slice, float *full) {
    const runs r = runs_of(p);
    for (size_t i = 0; i < r.number; i++)
        memcpy(full + r.first + i * r.step, slice + i * r.length, r.length * sizeof *slice);
}

/* ---- initial values ---- */

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *name) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

/* Box-Muller: the two normal numbers of counter `pair`, from two uniform ones of 53 bits. */
static void normal_pair(uint64_t key, uint64_t pair, double *two) {
    uint64_t a = sl_random_mix(key + 2 * pair * SL_RANDOM_STEP);
    uint64_t b = sl_random_mix(key + (2 * pair + 1) * SL_RANDOM_STEP);
    double u = sl_random_unit(a), v = (double)(b >> 11) * 0x1p-53;
    double length = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
    two[0] = length * cos(angle);
    two[1] = length * sin(angle);
}

/* Elements [first, first + count) of the full tensor. */
static void fill_normal(uint64_t key, double deviation, size_t first, size_t count, float *out) {
    double two[2];
    for (size_t i = first; i < first + count; i++) {
        if (i == first || i % 2 == 0)
            normal_pair(key, i / 2, two);
        out[i - first] = (float)(deviation * two[i % 2]);
    }
}

void sl_parameter_initialise(const sl_parameter *p, uint64_t seed, int layers) {
    const uint64_t key = sl_random_mix(sl_random_mix(seed + SL_RANDOM_STEP) ^ hash_name(p->name));
    const double deviation = p->kind == SL_PARAMETER_RESIDUAL ? 0.02 / sqrt(2.0 * layers) : 0.02;
    if (p->kind == SL_PARAMETER_ONES || p->kind == SL_PARAMETER_ZEROS) {
        for (size_t i = 0; i < p->count; i++)
            p->weight[i] = p->kind == SL_PARAMETER_ONES ? 1.0f : 0.0f;
        return;
    }
    const runs r = runs_of(p);
    for (size_t i = 0; i < r.number; i++)
        fill_normal(key, deviation, r.first + i * r.step, r.length, p->weight + i * r.length);
}
