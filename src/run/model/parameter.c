#include "run/model/parameter.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>

typedef struct form {
    const char *name;
    sl_parameter_kind kind;
    int rows, columns; /* in widths; rows 0: a vector */
} form;

static const form block_forms[SL_BLOCK_PARAMETERS] = {
    [SL_LN_1_WEIGHT] = {"ln_1.weight", SL_PARAMETER_ONES, 0, 1},
    [SL_LN_1_BIAS] = {"ln_1.bias", SL_PARAMETER_ZEROS, 0, 1},
    [SL_ATTN_WEIGHT] = {"attn.c_attn.weight", SL_PARAMETER_NORMAL, 1, 3},
    [SL_ATTN_BIAS] = {"attn.c_attn.bias", SL_PARAMETER_ZEROS, 0, 3},
    [SL_ATTN_PROJ_WEIGHT] = {"attn.c_proj.weight", SL_PARAMETER_RESIDUAL, 1, 1},
    [SL_ATTN_PROJ_BIAS] = {"attn.c_proj.bias", SL_PARAMETER_ZEROS, 0, 1},
    [SL_LN_2_WEIGHT] = {"ln_2.weight", SL_PARAMETER_ONES, 0, 1},
    [SL_LN_2_BIAS] = {"ln_2.bias", SL_PARAMETER_ZEROS, 0, 1},
    [SL_FC_WEIGHT] = {"mlp.c_fc.weight", SL_PARAMETER_NORMAL, 1, 4},
    [SL_FC_BIAS] = {"mlp.c_fc.bias", SL_PARAMETER_ZEROS, 0, 4},
    [SL_FC_PROJ_WEIGHT] = {"mlp.c_proj.weight", SL_PARAMETER_RESIDUAL, 4, 1},
    [SL_FC_PROJ_BIAS] = {"mlp.c_proj.bias", SL_PARAMETER_ZEROS, 0, 1},
};

static void fill(const char *name, sl_parameter_kind kind, int rows, int columns, sl_parameter *out) {
    *out = (sl_parameter){.kind = kind, .rows = rows, .columns = columns};
    out->count = (size_t)(rows ? rows : 1) * (size_t)columns;
    snprintf(out->name, sizeof out->name, "%s", name);
}

void sl_parameter_embedding(int vocabulary, int width, sl_parameter *out) {
    fill("wte.weight", SL_PARAMETER_NORMAL, vocabulary, width, out);
}

void sl_parameter_position(int context, int width, sl_parameter *out) {
    fill("wpe.weight", SL_PARAMETER_NORMAL, context, width, out);
}

void sl_parameter_block(int layer, int index, int width, sl_parameter *out) {
    const form *f = &block_forms[index];
    char name[sizeof out->name];
    snprintf(name, sizeof name, "h.%d.%s", layer, f->name);
    fill(name, f->kind, f->rows * width, f->columns * width, out);
}

void sl_parameter_final(int index, int width, sl_parameter *out) {
    fill(index ? "ln_f.bias" : "ln_f.weight", index ? SL_PARAMETER_ZEROS : SL_PARAMETER_ONES, 0, width, out);
}

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *name) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

/* Box and Muller: the two normal numbers that counter `pair` gives, from two uniform ones of 53 bits. */
static void normal_pair(uint64_t key, uint64_t pair, double *even, double *odd) {
    uint64_t a = sl_random_mix(key + 2 * pair * SL_RANDOM_STEP);
    uint64_t b = sl_random_mix(key + (2 * pair + 1) * SL_RANDOM_STEP);
    double u = sl_random_unit(a), v = (double)(b >> 11) * 0x1p-53;
    double length = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
    *even = length * cos(angle);
    *odd = length * sin(angle);
}

void sl_parameter_initialise(const sl_parameter *p, uint64_t seed, int layers) {
    const uint64_t key = sl_random_mix(sl_random_mix(seed + SL_RANDOM_STEP) ^ hash_name(p->name));
    const double deviation = p->kind == SL_PARAMETER_RESIDUAL ? 0.02 / sqrt(2.0 * layers) : 0.02;
    if (p->kind == SL_PARAMETER_ONES || p->kind == SL_PARAMETER_ZEROS) {
        for (size_t i = 0; i < p->count; i++)
            p->weight[i] = p->kind == SL_PARAMETER_ONES ? 1.0f : 0.0f;
        return;
    }
    for (size_t i = 0; i < p->count; i += 2) {
        double even, odd;
        normal_pair(key, i / 2, &even, &odd);
        p->weight[i] = (float)(deviation * even);
        if (i + 1 < p->count)
            p->weight[i + 1] = (float)(deviation * odd);
    }
}
