/* Attention by its formula, in f64 with one row of the whole matrix at a time, and what tests of a device
 * compare with it. */
#ifndef SL_TESTS_ATTENTION_FORMULA_H
#define SL_TESTS_ATTENTION_FORMULA_H

#include "numbers.h"

#include "run/device/device.h"
#include <math.h>

static inline float *numbers(size_t count, float scale) {
    float *x = aligned_alloc(64, (count + 15) / 16 * 64);
    for (size_t i = 0; i < count; i++)
        x[i] = scale * any();
    return x;
}

/* Everything of one trial: inputs, and results of one way to compute them. */
typedef struct trial {
    sl_attention_shape shape;
    size_t rows, q, kv, o, l; /* floats of q, of k or v, of out, of lse */
    float *queries, *keys, *values, *dout;
} trial;

typedef struct results {
    float *out, *lse, *dq, *dk, *dv;
} results;

static inline trial make(int batch, int context, int heads, int kv_heads, int size, int gap, float scale) {
    trial t = {.shape = {.batch = batch,
                         .context = context,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .size = size,
                         .q_stride = heads * size + gap,
                         .kv_stride = kv_heads * size + 2 * gap,
                         .out_stride = heads * size + 3 * gap}};
    t.rows = (size_t)batch * (size_t)context;
    t.q = t.rows * (size_t)t.shape.q_stride;
    t.kv = t.rows * (size_t)t.shape.kv_stride;
    t.o = t.rows * (size_t)t.shape.out_stride;
    t.l = t.rows * (size_t)heads;
    t.queries = numbers(t.q, scale);
    t.keys = numbers(t.kv, scale);
    t.values = numbers(t.kv, 1);
    t.dout = numbers(t.o, 1);
    return t;
}

static inline void free_trial(trial *t) {
    free(t->queries);
    free(t->keys);
    free(t->values);
    free(t->dout);
}

/* Filled with a mark, so that what lies between rows is seen to stay. */
static inline results room(const trial *t) {
    results r = {numbers(t->o, 0), numbers(t->l, 0), numbers(t->q, 0), numbers(t->kv, 0), numbers(t->kv, 0)};
    for (size_t i = 0; i < t->o; i++)
        r.out[i] = 77;
    for (size_t i = 0; i < t->q; i++)
        r.dq[i] = 77;
    for (size_t i = 0; i < t->kv; i++)
        r.dk[i] = r.dv[i] = 77;
    return r;
}

static inline void free_results(results *r) {
    free(r->out);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

static inline void same(const trial *t, const results *x, const results *y) {
    assert_memory_equal(x->out, y->out, t->o * sizeof(float));
    assert_memory_equal(x->lse, y->lse, t->l * sizeof(float));
    assert_memory_equal(x->dq, y->dq, t->q * sizeof(float));
    assert_memory_equal(x->dk, y->dk, t->kv * sizeof(float));
    assert_memory_equal(x->dv, y->dv, t->kv * sizeof(float));
}

static inline void near(double ours, double exact, double allowed, const char *what) {
    if (!(fabs(ours - exact) <= allowed))
        fail_msg("%s: %.9g, exactly %.9g, allowed %.2g", what, ours, exact, allowed);
}

/* The formula, f64, one row of the full matrix at a time. */
typedef struct exact {
    double *out, *lse, *dq, *dk, *dv;
    /* of each sum, the sum of magnitudes: a bound of the error per relative error of the weights, and of the
     * slopes of scores, in its terms */
    double *out_size, *dq_size, *dk_size, *dv_size;
} exact;

static inline exact follow_formula(const trial *t) {
    const sl_attention_shape *s = &t->shape;
    const size_t T = (size_t)s->context, D = (size_t)s->size;
    exact e = {calloc(t->o, 8), calloc(t->l, 8), calloc(t->q, 8),  calloc(t->kv, 8), calloc(t->kv, 8),
               calloc(t->o, 8), calloc(t->q, 8), calloc(t->kv, 8), calloc(t->kv, 8)};
    double *p = malloc(T * sizeof *p), f = 1 / sqrt((double)s->size);
    for (size_t b = 0; b < (size_t)s->batch; b++)
        for (size_t h = 0; h < (size_t)s->heads; h++)
            for (size_t r = 0; r < T; r++) {
                const size_t g = h / (size_t)(s->heads / s->kv_heads);
                const size_t q = (b * T + r) * (size_t)s->q_stride + h * D,
                             o = (b * T + r) * (size_t)s->out_stride + h * D;
                double sum = 0, dot = 0, dot_size = 0;
                for (size_t c = 0; c <= r; c++) {
                    const size_t k = (b * T + c) * (size_t)s->kv_stride + g * D;
                    double score = 0;
                    for (size_t i = 0; i < D; i++)
                        score += (double)t->queries[q + i] * (double)t->keys[k + i];
                    sum += p[c] = exp(f * score);
                }
                e.lse[(b * (size_t)s->heads + h) * T + r] = log(sum);
                for (size_t c = 0; c <= r; c++)
                    for (size_t i = 0; i < D; i++) {
                        const double v = (double)t->values[(b * T + c) * (size_t)s->kv_stride + g * D + i];
                        e.out[o + i] += p[c] / sum * v;
                        e.out_size[o + i] += p[c] / sum * fabs(v);
                    }
                for (size_t i = 0; i < D; i++) {
                    dot += e.out[o + i] * (double)t->dout[o + i];
                    dot_size += e.out_size[o + i] * fabs((double)t->dout[o + i]);
                }
                for (size_t c = 0; c <= r; c++) {
                    const size_t k = (b * T + c) * (size_t)s->kv_stride + g * D;
                    double dp = 0;
                    for (size_t i = 0; i < D; i++)
                        dp += (double)t->dout[o + i] * (double)t->values[k + i];
                    const double w = p[c] / sum, ds = f * w * (dp - dot),
                                 ds_size = f * w * (fabs(dp - dot) + dot_size);
                    for (size_t i = 0; i < D; i++) {
                        const double x = (double)t->queries[q + i], y = (double)t->keys[k + i],
                                     z = (double)t->dout[o + i];
                        e.dq[q + i] += ds * y;
                        e.dk[k + i] += ds * x;
                        e.dv[k + i] += w * z;
                        e.dq_size[q + i] += ds_size * fabs(y);
                        e.dk_size[k + i] += ds_size * fabs(x);
                        e.dv_size[k + i] += w * fabs(z);
                    }
                }
            }
    free(p);
    return e;
}

static inline void free_exact(exact *e) {
    free(e->out);
    free(e->lse);
    free(e->dq);
    free(e->dk);
    free(e->dv);
    free(e->out_size);
    free(e->dq_size);
    free(e->dk_size);
    free(e->dv_size);
}

/* Elements of heads are near, floats between rows keep their mark. */
static inline void compare(const float *ours, const double *exactly, const sl_attention_shape *s, int heads,
                           int stride, double allowed, const char *what) {
    for (size_t row = 0; row < (size_t)s->batch * (size_t)s->context; row++)
        for (size_t i = 0; i < (size_t)stride; i++) {
            const size_t at = row * (size_t)stride + i;
            if (i < (size_t)(heads * s->size))
                near(ours[at], exactly[at], allowed * (1 + fabs(exactly[at])), what);
            else
                assert_true(ours[at] == 77);
        }
}

#endif
