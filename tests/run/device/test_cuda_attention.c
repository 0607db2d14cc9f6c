/* labels: gpu */
/* Attention on a CUDA card and its gradient, in f32 and of bf16 operands, against the formula in f64 with the
 * whole matrix; the same bits in every run and for a sequence alone or among others. */
#include "attention_formula.h"

#ifdef SL_CUDA
#include "run/device/cuda/cuda_attention.h"
#include "run/device/cuda/cuda_kernels.h"
#endif

static sl_device *card;

/* What computes, and what q, k, v, out and their gradients are in memory. `capability` 0: the device's table
 * decides, with f32 in memory; else of that compute capability. */
typedef struct how {
    int type, capability, memory;
} how;

static const how in_f32 = {SL_F32, 0, SL_F32}, in_bf16 = {SL_BF16, 0, SL_F32};

/* The table's, and those that it has no use for on this card, or not yet. */
static const how all_ways[] = {
    {SL_F32, 0, SL_F32},  {SL_BF16, 0, SL_F32},
#ifdef SL_CUDA
    {SL_F32, 9, SL_BF16}, {SL_BF16, 9, SL_BF16}, {SL_BF16, 8, SL_F32}, {SL_BF16, 8, SL_BF16},
#endif
};
enum { WAYS = sizeof all_ways / sizeof *all_ways };

/* Numbers that bf16 holds, so that rounding an operand changes nothing. */
static void round_all(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0xffff0000u;
        memcpy(x + i, &bits, sizeof bits);
    }
}

static trial make_rounded(int batch, int context, int heads, int kv_heads, int size, int gap, float scale) {
    trial t = make(batch, context, heads, kv_heads, size, gap, scale);
    round_all(t.queries, t.q);
    round_all(t.keys, t.kv);
    round_all(t.values, t.kv);
    round_all(t.dout, t.o);
    return t;
}

/* ---- arrays on the card ---- */

static float *on_card(const float *x, size_t count) {
    float *copy;
    assert_ok(card->memory_open(card, count * sizeof *copy + 64, &copy));
    card->write(card, copy, x, count * sizeof *copy);
    assert_ok(card->finish(card));
    return copy;
}

static float *poison(size_t count) {
    float *nan = numbers(count, NAN), *x = on_card(nan, count);
    free(nan);
    return x;
}

static void fetch(float *to, float *from, size_t count) {
    card->read(card, to, from, count * sizeof *to);
    assert_ok(card->finish(card));
    card->memory_close(card, from);
}

/* Rows in the memory of `h`; numbers in between are cut off. */
static float *rows_on_card(how h, const float *x, size_t count) {
    if (h.memory == SL_F32)
        return on_card(x, count);
    uint16_t *half = malloc((count + 1) * sizeof *half);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        half[i] = (uint16_t)(bits >> 16);
    }
    float *copy;
    assert_ok(card->memory_open(card, count * sizeof *half + 64, &copy));
    card->write(card, copy, half, count * sizeof *half);
    assert_ok(card->finish(card));
    free(half);
    return copy;
}

static void fetch_rows(how h, float *to, float *from, size_t count) {
    if (h.memory == SL_F32) {
        fetch(to, from, count);
        return;
    }
    uint16_t *half = malloc((count + 1) * sizeof *half);
    card->read(card, half, from, count * sizeof *half);
    assert_ok(card->finish(card));
    card->memory_close(card, from);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)half[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
    free(half);
}

/* A trial's arrays on the card. */
typedef struct arrays {
    float *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv, *scratch;
} arrays;

static size_t scratch_of(how h, const sl_attention_shape *s) {
#ifdef SL_CUDA
    if (h.capability)
        return sl_cuda_attention_floats(s, h.capability);
#endif
    (void)h;
    return card->attention_scratch(card, s);
}

static void forward(how h, const sl_attention_shape *s, const arrays *x) {
#ifdef SL_CUDA
    if (h.capability) {
        assert_int_equal(sl_cuda_attention_forward(s, h.capability, (sl_type)h.memory, x->q, x->k, x->v,
                                                   x->out, x->lse, x->scratch, ((sl_cuda *)card)->stream),
                         cudaSuccess);
        return;
    }
#endif
    (void)h;
    card->attention(card, s, x->q, x->k, x->v, x->out, x->lse, x->scratch);
}

static void backward(how h, const sl_attention_shape *s, const arrays *x) {
#ifdef SL_CUDA
    if (h.capability) {
        assert_int_equal(sl_cuda_attention_backward(s, h.capability, (sl_type)h.memory, x->q, x->k, x->v,
                                                    x->out, x->lse, x->dout, x->dq, x->dk, x->dv, x->scratch,
                                                    ((sl_cuda *)card)->stream),
                         cudaSuccess);
        return;
    }
#endif
    (void)h;
    card->attention_grad(card, s, x->q, x->k, x->v, x->out, x->lse, x->dout, x->dq, x->dk, x->dv, x->scratch);
}

/* `in_place`: gradients replace their operands, of shapes without a gap. */
static results run(trial *t, how h, int in_place) {
    t->shape.type = h.type;
    const size_t scratch_count = scratch_of(h, &t->shape);
    results r = room(t);
    arrays x = {.q = rows_on_card(h, t->queries, t->q),
                .k = rows_on_card(h, t->keys, t->kv),
                .v = rows_on_card(h, t->values, t->kv),
                .out = rows_on_card(h, r.out, t->o),
                .dout = rows_on_card(h, t->dout, t->o),
                .lse = poison(t->l),
                .scratch = poison(scratch_count)};
    forward(h, &t->shape, &x);
    card->memory_close(card, x.scratch);
    x.scratch = poison(scratch_count);
    x.dq = in_place ? x.q : rows_on_card(h, r.dq, t->q);
    x.dk = in_place ? x.k : rows_on_card(h, r.dk, t->kv);
    x.dv = in_place ? x.v : rows_on_card(h, r.dv, t->kv);
    backward(h, &t->shape, &x);
    fetch_rows(h, r.out, x.out, t->o);
    fetch(r.lse, x.lse, t->l);
    fetch_rows(h, r.dq, x.dq, t->q);
    fetch_rows(h, r.dk, x.dk, t->kv);
    fetch_rows(h, r.dv, x.dv, t->kv);
    for (int i = 0; i < 3 && !in_place; i++)
        card->memory_close(card, (float *[]){x.q, x.k, x.v}[i]);
    card->memory_close(card, x.dout);
    card->memory_close(card, x.scratch);
    return r;
}

/* ---- what is promised ---- */

static const int shapes[][6] = {
    /* batch, context, heads, kv_heads, size, gap */
    {1, 1, 1, 1, 1, 0},     {2, 5, 2, 1, 3, 1},     {1, 64, 2, 2, 64, 0},   {2, 65, 2, 2, 16, 5},
    {1, 130, 4, 2, 20, 16}, {1, 200, 6, 2, 64, 0},  {1, 67, 3, 1, 80, 2},   {3, 63, 4, 4, 33, 0},
    {1, 257, 2, 1, 48, 7},  {1, 128, 1, 1, 128, 0}, {2, 300, 4, 2, 128, 8}, {1, 129, 5, 5, 64, 3},
    {1, 140, 2, 1, 200, 3}, {1, 97, 1, 1, 256, 0},  {1, 1024, 2, 2, 64, 4}, {1, 640, 2, 1, 128, 0},
};

/* Elements of heads are as far from the formula as roundings of the weights, and of their slopes, by `share`
 * may take them; floats between rows keep their mark. */
static void within(const float *ours, const double *exactly, const double *size, const sl_attention_shape *s,
                   int heads, int stride, double share, const char *what) {
    for (size_t row = 0; row < (size_t)s->batch * (size_t)s->context; row++)
        for (size_t i = 0; i < (size_t)stride; i++) {
            const size_t at = row * (size_t)stride + i;
            if (i < (size_t)(heads * s->size))
                near(ours[at], exactly[at], share * size[at] + 1e-5 * (1 + fabs(exactly[at])), what);
            else
                assert_true(ours[at] == 77);
        }
}

static void attention_and_its_gradients_follow_the_formula(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int *x = shapes[i];
        trial t = make_rounded(x[0], x[1], x[2], x[3], x[4], x[5], 1.5f);
        const sl_attention_shape *s = &t.shape;
        exact e = follow_formula(&t);
        for (int way = 0; way < WAYS; way++) {
            const how h = all_ways[way];
            results r = run(&t, h, 0);
            if (h.type == SL_F32 && h.memory == SL_F32) {
                compare(r.out, e.out, s, s->heads, s->out_stride, 4e-6, "out");
                compare(r.dq, e.dq, s, s->heads, s->q_stride, 1e-5, "dq");
                compare(r.dk, e.dk, s, s->kv_heads, s->kv_stride, 3e-5, "dk");
                compare(r.dv, e.dv, s, s->kv_heads, s->kv_stride, 3e-5, "dv");
            } else { /* half a unit in the last place of bf16, of: P and dS; out; results */
                const double half = 0x1p-8, share = h.memory == SL_BF16 ? 3 * half : half;
                within(r.out, e.out, e.out_size, s, s->heads, s->out_stride, share, "out, bf16");
                within(r.dq, e.dq, e.dq_size, s, s->heads, s->q_stride, share, "dq, bf16");
                within(r.dk, e.dk, e.dk_size, s, s->kv_heads, s->kv_stride, share, "dk, bf16");
                within(r.dv, e.dv, e.dv_size, s, s->kv_heads, s->kv_stride, share, "dv, bf16");
            }
            for (size_t k = 0; k < t.l; k++)
                near(r.lse[k], e.lse[k], 4e-6 * (1 + fabs(e.lse[k])), "lse");
            free_results(&r);
        }
        free_exact(&e);
        free_trial(&t);
    }
}

/* Scores far beyond exp's range: the softmax is taken relative to the largest one, also when that comes in a
 * later block. */
static void large_scores_do_not_overflow(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        trial t = make(1, 150, 1, 1, 16, 0, 1);
        for (int c = 0; c < 150; c++) /* query 149 wants key 140, and nothing else */
            for (int i = 0; i < 16; i++) {
                t.queries[c * 16 + i] = 30;
                t.keys[c * 16 + i] = c == 140 ? 30.0f : (float)(c % 7);
            }
        round_all(t.values, t.kv);
        results r = run(&t, all_ways[way], 0);
        for (int i = 0; i < 16; i++)
            near(r.out[149 * 16 + i], t.values[140 * 16 + i],
                 all_ways[way].type == SL_BF16 || all_ways[way].memory == SL_BF16 ? 0x1p-8 : 1e-6,
                 "the value of the key that is wanted");
        near(r.lse[149], 3600, 1e-3, "lse");
        for (size_t i = 0; i < t.q; i++)
            assert_true(isfinite(r.dq[i]) && isfinite(r.dk[i]) && isfinite(r.dv[i]));
        free_results(&r);
        free_trial(&t);
    }
}

/* More blocks than the card runs at once, so that their order differs from run to run. */
static void every_run_gives_the_same_bits(void **state) {
    (void)state;
    static const int sizes[] = {64, 128, 200};
    for (int i = 0; i < 3 * WAYS; i++) {
        const int size = sizes[i / WAYS], heads = 768 / size;
        trial t = make(2, 1500, heads, heads, size, 0, 1);
        results first = run(&t, all_ways[i % WAYS], 0);
        for (int again = 0; again < 3; again++) {
            results r = run(&t, all_ways[i % WAYS], again == 2); /* in place, too */
            same(&t, &first, &r);
            free_results(&r);
        }
        free_results(&first);
        free_trial(&t);
    }
}

/* The last sequence of three, and its first rows only: what comes after a row never reaches it. */
static void a_row_depends_on_itself_and_those_before(void **state) {
    (void)state;
    static const int sizes[] = {24, 64, 128, 200};
    for (int i = 0; i < 4 * WAYS; i++) {
        const how h = all_ways[i % WAYS];
        const size_t width = 2 * (size_t)sizes[i / WAYS], rows = 333;
        trial t = make(3, (int)rows, 2, 2, sizes[i / WAYS], 0, 1), last = t;
        results all = run(&t, h, 0);
        const size_t at = 2 * rows * width;
        last.shape.batch = 1;
        last.queries += at;
        last.keys += at;
        last.values += at;
        last.dout += at;
        last.rows = rows;
        last.q = last.kv = last.o = rows * width;
        last.l = 2 * rows;
        results alone = run(&last, h, 0);
        assert_memory_equal(alone.out, all.out + at, last.o * sizeof(float));
        assert_memory_equal(alone.lse, all.lse + 4 * rows, last.l * sizeof(float));
        assert_memory_equal(alone.dq, all.dq + at, last.q * sizeof(float));
        assert_memory_equal(alone.dk, all.dk + at, last.kv * sizeof(float));
        assert_memory_equal(alone.dv, all.dv + at, last.kv * sizeof(float));
        last.shape.context = 171;
        last.o = last.q = last.kv = 171 * width;
        last.l = 342;
        results begin = run(&last, h, 0);
        assert_memory_equal(begin.out, all.out + at, last.o * sizeof(float));
        free_results(&begin);
        free_results(&alone);
        free_results(&all);
        free_trial(&t);
    }
}

/* 16 times the context needs 16 times the memory, not 256 times. */
static void scratch_grows_with_the_context(void **state) {
    (void)state;
    sl_attention_shape s = {.batch = 1, .heads = 12, .kv_heads = 12, .size = 64};
    for (int way = 0; way < 2; way++) {
        s.type = (way ? in_bf16 : in_f32).type;
        s.context = 1024;
        const size_t small = card->attention_scratch(card, &s);
        s.context = 16384;
        assert_true(card->attention_scratch(card, &s) <= 16 * small);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_and_its_gradients_follow_the_formula),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(every_run_gives_the_same_bits),
        cmocka_unit_test(a_row_depends_on_itself_and_those_before),
        cmocka_unit_test(scratch_grows_with_the_context),
    };
    const sl_status status = sl_device_open_cuda(0, &card);
    if (status != SL_OK) {
        printf("%s%s\n", status == SL_EINVAL ? "skipped: " : "", sl_error_text());
        return status == SL_EINVAL ? 77 : 1;
    }
    start_numbers(4711);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    card->close(card);
    return failed;
}
