#include "run/device/cpu_attention.h"
#include "run/device/threads.h"

#include <math.h>

sl_attention_sizes sl_attention_size(const sl_attention_shape *s) {
    sl_attention_sizes z = {.context = (size_t)s->context, .size = (size_t)s->size};
    z.padded = sl_tile_round(z.context, SL_TILE);
    z.width = sl_tile_round(z.size, SL_LANES);
    z.blocks = z.padded / SL_TILE;
    z.factor = 1.0f / sqrtf((float)s->size);
    return z;
}

/* ---- forward ---- */

/* A thread's scratch. */
typedef struct forward_room {
    float *keys;      /* [blocks][size][64] */
    float *values;    /* [padded][width] */
    float *q, *mix;   /* [64][width] of a block of queries: scaled queries; sum of weighted values */
    float *weight;    /* [64][64] */
    float *top, *sum; /* [64] largest score so far, and the sum of exponentials relative to it */
} forward_room;

static forward_room lay_forward(const sl_attention_sizes *z, float *at) {
    forward_room r;
    r.keys = at;
    r.values = r.keys + z->padded * z->width;
    r.q = r.values + z->padded * z->width;
    r.mix = r.q + SL_TILE * z->width;
    r.weight = r.mix + SL_TILE * z->width;
    r.top = r.weight + SL_TILE * SL_TILE;
    r.sum = r.top + SL_TILE;
    return r;
}

size_t sl_attention_forward_scratch(const sl_attention_sizes *z) {
    return 2 * (z->padded + SL_TILE) * z->width + SL_TILE * SL_TILE + 2 * SL_TILE;
}

/* The softmax of a row goes on: `width` new scores become weights relative to the largest score so far, 0 up
 * to `end`; what has been summed before is brought to the same measure. */
SL_INLINE void go_on(float *restrict p, int width, int end, float *top, float *sum, float *restrict mix,
                     size_t mixed) {
    const float block = sl_row_max(p, width), now = block > *top ? block : *top;
    const float shrink = sl_exp(*top - now);
    for (int i = 0; i < width; i++)
        p[i] = sl_exp(p[i] - now);
    for (int i = width; i < end; i++)
        p[i] = 0.0f;
    *sum = *sum * shrink + sl_row_sum(p, width);
    *top = now;
    for (size_t i = 0; i < mixed; i++)
        mix[i] = mix[i] * shrink;
}

/* A block of queries against a block of keys; `diagonal`: query r sees keys 0..r of it. */
SL_INLINE void forward_pair(const sl_attention_sizes *z, const forward_room *room, size_t block, int rows,
                            int diagonal) {
    const float *keys = room->keys + block * z->size * SL_TILE,
                *values = room->values + block * SL_TILE * z->width;
    for (int r = 0; r < rows; r += SL_TILE_STRIP) {
        const int end = diagonal ? r + SL_TILE_STRIP : SL_TILE;
        const size_t at = (size_t)r;
        float *p = room->weight + at * SL_TILE, *mix = room->mix + at * z->width;
        sl_tile_strip((int)sl_tile_round((size_t)end, SL_LANES), (int)z->size, room->q + at * z->width,
                      z->width, 1, keys, SL_TILE, 0, p, SL_TILE);
        for (int i = 0; i < SL_TILE_STRIP; i++)
            go_on(p + i * SL_TILE, diagonal ? r + i + 1 : SL_TILE, end, &room->top[r + i], &room->sum[r + i],
                  mix + (size_t)i * z->width, block ? z->width : 0);
        sl_tile_strip((int)z->width, end, p, SL_TILE, 1, values, z->width, block > 0, mix, z->width);
    }
}

SL_INLINE void finish_rows(const sl_attention_shape *s, const sl_attention_sizes *z, const forward_room *room,
                           int rows, float *out, float *lse) {
    for (int r = 0; r < rows; r++) {
        const float share = 1.0f / room->sum[r];
        const float *restrict mix = room->mix + (size_t)r * z->width;
        float *restrict o = out + (size_t)r * (size_t)s->out_stride;
        for (size_t i = 0; i < z->size; i++)
            o[i] = mix[i] * share;
        lse[r] = (float)((double)room->top[r] + log((double)room->sum[r]));
    }
}

SL_VECTORISED
void sl_cpu_attention_group(const sl_attention_work *work, int sequence, int group, float *scratch) {
    const sl_attention_shape *s = work->shape;
    const sl_attention_sizes z = sl_attention_size(s);
    const forward_room room = lay_forward(&z, scratch);
    const int shared = s->heads / s->kv_heads;
    const size_t first = (size_t)sequence * z.context,
                 kv = first * (size_t)s->kv_stride + (size_t)group * z.size;
    sl_tile_pack(z.context, z.padded, z.size, z.width, work->k + kv, (size_t)s->kv_stride, 1.0f, room.values);
    sl_tile_turn(z.padded, z.size, z.width, room.values, room.keys);
    sl_tile_pack(z.context, z.padded, z.size, z.width, work->v + kv, (size_t)s->kv_stride, 1.0f, room.values);
    for (int head = group * shared; head < (group + 1) * shared; head++)
        for (size_t block = 0; block < z.blocks; block++) {
            const size_t from = block * SL_TILE, left = z.context - from,
                         rows = left < SL_TILE ? left : SL_TILE;
            const size_t row = first + from, column = (size_t)head * z.size;
            sl_tile_pack(rows, sl_tile_round(rows, SL_TILE_STRIP), z.size, z.width,
                         work->q + row * (size_t)s->q_stride + column, (size_t)s->q_stride, z.factor, room.q);
            for (int r = 0; r < SL_TILE; r++) {
                room.top[r] = -INFINITY;
                room.sum[r] = 0.0f;
            }
            for (size_t b = 0; b < block; b++)
                forward_pair(&z, &room, b, (int)rows, 0);
            forward_pair(&z, &room, block, (int)rows, 1);
            finish_rows(s, &z, &room, (int)rows, work->out + row * (size_t)s->out_stride + column,
                        work->lse + ((size_t)sequence * (size_t)s->heads + (size_t)head) * z.context + from);
        }
}

/* ---- both passes, divided among threads ---- */

size_t sl_cpu_attention_scratch(const sl_device *device, const sl_attention_shape *shape) {
    const sl_attention_sizes z = sl_attention_size(shape);
    const size_t forward = sl_attention_forward_scratch(&z), backward = sl_attention_backward_scratch(&z);
    return (size_t)device->threads * (forward > backward ? forward : backward);
}

static void share_forward(void *object, int thread, int threads) {
    const sl_attention_work *w = object;
    const int groups = w->shape->kv_heads;
    for (int i = thread; i < w->shape->batch * groups; i += threads)
        sl_cpu_attention_group(w, i / groups, i % groups, w->scratch + (size_t)thread * w->each);
}

static void share_backward(void *object, int thread, int threads) {
    const sl_attention_work *w = object;
    const int groups = w->shape->kv_heads;
    for (int i = thread; i < w->shape->batch * groups; i += threads)
        sl_cpu_attention_grad_group(w, i / groups, i % groups, w->scratch + (size_t)thread * w->each);
}

void sl_cpu_attention(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                      const float *v, float *out, float *lse, float *scratch) {
    const sl_attention_sizes z = sl_attention_size(shape);
    sl_attention_work work = {
        .shape = shape, .q = q, .k = k, .v = v, .out = out, .lse = lse, .scratch = scratch};
    work.each = sl_attention_forward_scratch(&z);
    sl_threads_run(device->threads, share_forward, &work);
}

void sl_cpu_attention_grad(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                           const float *v, const float *out, const float *lse, const float *dout, float *dq,
                           float *dk, float *dv, float *scratch) {
    const sl_attention_sizes z = sl_attention_size(shape);
    sl_attention_work work = {.shape = shape,
                              .q = q,
                              .k = k,
                              .v = v,
                              .kept_out = out,
                              .kept_lse = lse,
                              .dout = dout,
                              .dq = dq,
                              .dk = dk,
                              .dv = dv,
                              .scratch = scratch};
    work.each = sl_attention_backward_scratch(&z);
    sl_threads_run(device->threads, share_backward, &work);
}
