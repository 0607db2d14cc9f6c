/* Causal attention in blocks of 64 queries by 64 keys, never a matrix of context x context (Dao et al.,
 * FlashAttention, arXiv 2205.14135; online softmax by Milakov and Gimelshein, 1805.02867). Of a row of scores
 * only the logarithm of its sum of exponentials is kept, from which the backward pass recomputes any block of
 * weights. A thread takes a sequence and a head of keys with all heads of queries that share it, so that no
 * sum crosses threads. */
#include "run/device/cpu_lanes.h"
#include "run/device/threads.h"

#include <math.h>

/* Products of blocks in the cache, the inner loops of attention: strips of 4 rows by up to 4 vectors of 16
 * columns, held in registers. Each element is one sum in ascending order of the inner index, starting from 0
 * or from its old value, so its bits depend only on its row and its column. */

#define SL_TILE 64      /* queries and keys of a block */
#define SL_TILE_STRIP 4 /* rows of a strip */

SL_INLINE size_t tile_round(size_t n, size_t unit) {
    return (n + unit - 1) / unit * unit;
}

/** Rows [0, rows) of x times `factor`, dense with `width` columns; 0 beyond `size` columns, and for rows up
 * to `padded`. */
SL_INLINE void tile_pack(size_t rows, size_t padded, size_t size, size_t width, const float *x, size_t stride,
                         float factor, float *restrict out) {
    for (size_t r = 0; r < rows; r++) {
        const float *restrict from = x + r * stride;
        for (size_t i = 0; i < size; i++)
            out[r * width + i] = factor * from[i];
        for (size_t i = size; i < width; i++)
            out[r * width + i] = 0.0f;
    }
    memset(out + rows * width, 0, (padded - rows) * width * sizeof *out);
}

/* a of row r and inner index i is at a[r * a_row + i * a_inner]; b has rows of b_stride, c of c_stride. */
SL_INLINE void tile_part(int vectors, int inner, const float *restrict a, size_t a_row, size_t a_inner,
                         const float *restrict b, size_t b_stride, int onto, float *restrict c,
                         size_t c_stride) {
    sl_lanes sum[SL_TILE_STRIP][4], x[4];
#pragma GCC unroll 4
    for (int r = 0; r < SL_TILE_STRIP; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = (sl_lanes){0};
            if (onto)
                memcpy(&sum[r][v], c + (size_t)r * c_stride + (size_t)(v * SL_LANES), sizeof sum[r][v]);
        }
    for (int i = 0; i < inner; i++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            memcpy(&x[v], b + (size_t)i * b_stride + (size_t)(v * SL_LANES), sizeof x[v]);
#pragma GCC unroll 4
        for (int r = 0; r < SL_TILE_STRIP; r++) {
            const float s = a[(size_t)r * a_row + (size_t)i * a_inner];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] += s * x[v];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < SL_TILE_STRIP; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            memcpy(c + (size_t)r * c_stride + (size_t)(v * SL_LANES), &sum[r][v], sizeof sum[r][v]);
}

/* 4 rows of c[.][columns] (+)= a * b; `columns` a multiple of 16. a of row r and inner index i is at a[r *
 * a_row + i * a_inner]; b has rows of b_stride, c of c_stride. */
SL_VECTORISED
static void tile_strip(int columns, int inner, const float *a, size_t a_row, size_t a_inner, const float *b,
                       size_t b_stride, int onto, float *c, size_t c_stride) {
    for (; columns >= 4 * SL_LANES; columns -= 4 * SL_LANES, b += 4 * SL_LANES, c += 4 * SL_LANES)
        tile_part(4, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
    if (columns == 3 * SL_LANES)
        tile_part(3, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
    else if (columns == 2 * SL_LANES)
        tile_part(2, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
    else if (columns == SL_LANES)
        tile_part(1, inner, a, a_row, a_inner, b, b_stride, onto, c, c_stride);
}

/* Blocks of SL_TILE rows of a dense x[padded][width], each transposed into [size][SL_TILE]. */
SL_VECTORISED
static void tile_turn(size_t padded, size_t size, size_t width, const float *restrict x,
                      float *restrict out) {
    for (size_t block = 0; block < padded; block += SL_TILE, out += size * SL_TILE)
        for (size_t r = 0; r < SL_TILE; r += SL_LANES)
            for (size_t i = 0; i < size; i += SL_LANES) {
                sl_lanes row[SL_LANES];
                for (size_t l = 0; l < SL_LANES; l++)
                    memcpy(&row[l], x + (block + r + l) * width + i, sizeof row[l]);
                sl_lanes_turn(row);
                for (size_t l = 0; l < SL_LANES && i + l < size; l++)
                    memcpy(out + (i + l) * SL_TILE + r, &row[l], sizeof row[l]);
            }
}

/* All that both passes are given. */
typedef struct work {
    const sl_attention_shape *shape;
    const float *q, *k, *v, *dout;
    const float *kept_out, *kept_lse; /* backward: what forward gave */
    float *out, *lse;                 /* forward's results */
    float *dq, *dk, *dv;
    float *scratch;
    size_t each; /* floats of scratch of a thread */
} work;

/* Sizes that follow from the shape. */
typedef struct sizes {
    size_t context, padded; /* rows; rounded up to whole blocks */
    size_t size, width;     /* of a head; rounded up to whole vectors */
    size_t blocks;
    float factor; /* 1 / sqrt(size) */
} sizes;

static sizes sizes_of(const sl_attention_shape *s) {
    sizes z = {.context = (size_t)s->context, .size = (size_t)s->size};
    z.padded = tile_round(z.context, SL_TILE);
    z.width = tile_round(z.size, SL_LANES);
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

static forward_room lay_forward(const sizes *z, float *at) {
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

/* Floats of scratch for each of them, a multiple of 16. */
static size_t forward_scratch(const sizes *z) {
    return 2 * (z->padded + SL_TILE) * z->width + SL_TILE * SL_TILE + 2 * SL_TILE;
}

/* Continues the softmax of a row: `width` new scores become weights relative to the largest score so far, 0
 * up to `end`; the earlier sums are rescaled accordingly. */
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
SL_INLINE void forward_pair(const sizes *z, const forward_room *room, size_t block, int rows, int diagonal) {
    const float *keys = room->keys + block * z->size * SL_TILE,
                *values = room->values + block * SL_TILE * z->width;
    for (int r = 0; r < rows; r += SL_TILE_STRIP) {
        const int end = diagonal ? r + SL_TILE_STRIP : SL_TILE;
        const size_t at = (size_t)r;
        float *p = room->weight + at * SL_TILE, *mix = room->mix + at * z->width;
        tile_strip((int)tile_round((size_t)end, SL_LANES), (int)z->size, room->q + at * z->width, z->width, 1,
                   keys, SL_TILE, 0, p, SL_TILE);
        for (int i = 0; i < SL_TILE_STRIP; i++)
            go_on(p + i * SL_TILE, diagonal ? r + i + 1 : SL_TILE, end, &room->top[r + i], &room->sum[r + i],
                  mix + (size_t)i * z->width, block ? z->width : 0);
        tile_strip((int)z->width, end, p, SL_TILE, 1, values, z->width, block > 0, mix, z->width);
    }
}

SL_INLINE void finish_rows(const sl_attention_shape *s, const sizes *z, const forward_room *room, int rows,
                           float *out, float *lse) {
    for (int r = 0; r < rows; r++) {
        const float share = 1.0f / room->sum[r];
        const float *restrict mix = room->mix + (size_t)r * z->width;
        float *restrict o = out + (size_t)r * (size_t)s->out_stride;
        for (size_t i = 0; i < z->size; i++)
            o[i] = mix[i] * share;
        lse[r] = (float)((double)room->top[r] + log((double)room->sum[r]));
    }
}

/* One sequence and head of keys; `scratch` is the thread's. */
/* One sequence and head of keys; `scratch` is the thread's. */
SL_VECTORISED
static void forward_group(const work *w, int sequence, int group, float *scratch) {
    const sl_attention_shape *s = w->shape;
    const sizes z = sizes_of(s);
    const forward_room room = lay_forward(&z, scratch);
    const int shared = s->heads / s->kv_heads;
    const size_t first = (size_t)sequence * z.context,
                 kv = first * (size_t)s->kv_stride + (size_t)group * z.size;
    tile_pack(z.context, z.padded, z.size, z.width, w->k + kv, (size_t)s->kv_stride, 1.0f, room.values);
    tile_turn(z.padded, z.size, z.width, room.values, room.keys);
    tile_pack(z.context, z.padded, z.size, z.width, w->v + kv, (size_t)s->kv_stride, 1.0f, room.values);
    for (int head = group * shared; head < (group + 1) * shared; head++)
        for (size_t block = 0; block < z.blocks; block++) {
            const size_t from = block * SL_TILE, left = z.context - from,
                         rows = left < SL_TILE ? left : SL_TILE;
            const size_t row = first + from, column = (size_t)head * z.size;
            tile_pack(rows, tile_round(rows, SL_TILE_STRIP), z.size, z.width,
                      w->q + row * (size_t)s->q_stride + column, (size_t)s->q_stride, z.factor, room.q);
            for (int r = 0; r < SL_TILE; r++) {
                room.top[r] = -INFINITY;
                room.sum[r] = 0.0f;
            }
            for (size_t b = 0; b < block; b++)
                forward_pair(&z, &room, b, (int)rows, 0);
            forward_pair(&z, &room, block, (int)rows, 1);
            finish_rows(s, &z, &room, (int)rows, w->out + row * (size_t)s->out_stride + column,
                        w->lse + ((size_t)sequence * (size_t)s->heads + (size_t)head) * z.context + from);
        }
}

/* ---- backward ---- */

/* With p = softmax(f q k') and y = p v, a row's: dp = dy v', ds = p (dp - dy . y), dv = p' dy, dq = f ds k,
 * dk = ds' (f q). Blocks of keys go from first to last, and for each of them blocks of queries from the
 * diagonal on; so each sum runs in ascending order. */

/* A thread's scratch; keys and values for the group, the rest for the current head. */
typedef struct backward_room {
    float *keys, *values;  /* [blocks][size][64] */
    float *k;              /* [padded][width] */
    float *dk, *dv;        /* [padded][width] */
    float *q, *dy, *dq;    /* [padded][width]; q times the factor */
    float *weight, *slope; /* [64][64]: p, ds */
    float *dot;            /* [padded]: dy . y of each row */
} backward_room;

static backward_room lay_backward(const sizes *z, float *at) {
    const size_t matrix = z->padded * z->width;
    backward_room r;
    r.keys = at;
    r.values = r.keys + matrix;
    r.k = r.values + matrix;
    r.dk = r.k + matrix;
    r.dv = r.dk + matrix;
    r.q = r.dv + matrix;
    r.dy = r.q + matrix;
    r.dq = r.dy + matrix;
    r.weight = r.dq + matrix;
    r.slope = r.weight + SL_TILE * SL_TILE;
    r.dot = r.slope + SL_TILE * SL_TILE;
    return r;
}

static size_t backward_scratch(const sizes *z) {
    return 8 * z->padded * z->width + 2 * SL_TILE * SL_TILE + z->padded;
}

/* The weights of a strip of 4 queries and their gradient; 0 where a query does not see a key, and for rows
 * beyond the context. */
SL_INLINE void strip_weights(const sizes *z, const backward_room *room, size_t row, int rows, int end,
                             int diagonal, const float *keys, const float *values, const float *lse,
                             float *restrict p, float *restrict d) {
    const int columns = (int)tile_round((size_t)end, SL_LANES), r = (int)(row % SL_TILE);
    tile_strip(columns, (int)z->size, room->q + row * z->width, z->width, 1, keys, SL_TILE, 0, p, SL_TILE);
    tile_strip(columns, (int)z->size, room->dy + row * z->width, z->width, 1, values, SL_TILE, 0, d, SL_TILE);
    for (int i = 0; i < SL_TILE_STRIP; i++, p += SL_TILE, d += SL_TILE) {
        const int width = i >= rows ? 0 : diagonal ? r + i + 1 : SL_TILE;
        const float from = width ? lse[row + (size_t)i] : 0.0f,
                    dot = width ? room->dot[row + (size_t)i] : 0.0f;
        for (int c = 0; c < width; c++) {
            p[c] = sl_exp(p[c] - from);
            d[c] = p[c] * (d[c] - dot);
        }
        for (int c = width; c < SL_TILE; c++)
            p[c] = d[c] = 0.0f;
    }
}

/* Block `i` of queries against block `j` of keys, j <= i. */
SL_INLINE void backward_pair(const sizes *z, const backward_room *room, size_t i, size_t j,
                             const float *lse) {
    const size_t from = i * SL_TILE, to = j * SL_TILE, left = z->context - from;
    const int rows = left < SL_TILE ? (int)left : SL_TILE, diagonal = i == j, width = (int)z->width;
    const float *keys = room->keys + j * z->size * SL_TILE, *values = room->values + j * z->size * SL_TILE;
    const float *q = room->q + from * z->width, *dy = room->dy + from * z->width;
    for (int r = 0; r < rows; r += SL_TILE_STRIP) {
        const int end = diagonal ? r + SL_TILE_STRIP : SL_TILE;
        const size_t row = from + (size_t)r;
        float *p = room->weight + r * SL_TILE, *d = room->slope + r * SL_TILE;
        strip_weights(z, room, row, rows - r, end, diagonal, keys, values, lse, p, d);
        tile_strip(width, end, d, SL_TILE, 1, room->k + to * z->width, z->width, j > 0,
                   room->dq + row * z->width, z->width);
    }
    /* a strip of keys is seen by the queries from its own row on */
    const int seen = diagonal ? (int)tile_round((size_t)rows, SL_TILE_STRIP) : SL_TILE;
    for (int c = 0; c < seen; c += SL_TILE_STRIP) {
        const size_t first = diagonal ? (size_t)c : 0, row = to + (size_t)c;
        const float *p = room->weight + first * SL_TILE + (size_t)c,
                    *d = room->slope + first * SL_TILE + (size_t)c;
        tile_strip(width, rows - (int)first, p, 1, SL_TILE, dy + first * z->width, z->width, 1,
                   room->dv + row * z->width, z->width);
        tile_strip(width, rows - (int)first, d, 1, SL_TILE, q + first * z->width, z->width, 1,
                   room->dk + row * z->width, z->width);
    }
}

/* Writes the rows of a dense gradient times `factor` to their destination. */
SL_INLINE void unpack(const sizes *z, const float *x, float factor, float *out, size_t stride) {
    for (size_t r = 0; r < z->context; r++) {
        const float *restrict from = x + r * z->width;
        float *restrict to = out + r * stride;
        for (size_t i = 0; i < z->size; i++)
            to[i] = factor * from[i];
    }
}

SL_INLINE void backward_head(const work *w, const sizes *z, const backward_room *room, int sequence,
                             int head) {
    const sl_attention_shape *s = w->shape;
    const size_t first = (size_t)sequence * z->context, column = (size_t)head * z->size;
    const size_t q_at = first * (size_t)s->q_stride + column, out_at = first * (size_t)s->out_stride + column;
    const float *lse = w->kept_lse + ((size_t)sequence * (size_t)s->heads + (size_t)head) * z->context;
    tile_pack(z->context, z->padded, z->size, z->width, w->q + q_at, (size_t)s->q_stride, z->factor, room->q);
    tile_pack(z->context, z->padded, z->size, z->width, w->dout + out_at, (size_t)s->out_stride, 1.0f,
              room->dy);
    for (size_t r = 0; r < z->context; r++)
        room->dot[r] = sl_row_dot(room->dy + r * z->width, w->kept_out + out_at + r * (size_t)s->out_stride,
                                  (int)z->size);
    for (size_t j = 0; j < z->blocks; j++)
        for (size_t i = j; i < z->blocks; i++)
            backward_pair(z, room, i, j, lse);
    unpack(z, room->dq, z->factor, w->dq + q_at, (size_t)s->q_stride);
}

SL_VECTORISED
static void backward_group(const work *w, int sequence, int group, float *scratch) {
    const sl_attention_shape *s = w->shape;
    const sizes z = sizes_of(s);
    const backward_room room = lay_backward(&z, scratch);
    const int shared = s->heads / s->kv_heads;
    const size_t stride = (size_t)s->kv_stride, matrix = z.padded * z.width;
    const size_t kv = (size_t)sequence * z.context * stride + (size_t)group * z.size;
    tile_pack(z.context, z.padded, z.size, z.width, w->v + kv, stride, 1.0f, room.k);
    tile_turn(z.padded, z.size, z.width, room.k, room.values);
    tile_pack(z.context, z.padded, z.size, z.width, w->k + kv, stride, 1.0f, room.k);
    tile_turn(z.padded, z.size, z.width, room.k, room.keys);
    memset(room.dk, 0, 2 * matrix * sizeof *room.dk);
    for (int head = group * shared; head < (group + 1) * shared; head++)
        backward_head(w, &z, &room, sequence, head);
    unpack(&z, room.dk, 1.0f, w->dk + kv, stride);
    unpack(&z, room.dv, 1.0f, w->dv + kv, stride);
}

/* ---- both passes, divided among threads ---- */

size_t sl_cpu_attention_scratch(const sl_device *device, const sl_attention_shape *shape) {
    const sizes z = sizes_of(shape);
    const size_t forward = forward_scratch(&z), backward = backward_scratch(&z);
    return (size_t)device->threads * (forward > backward ? forward : backward);
}

static void share_forward(void *object, int thread, int threads) {
    const work *w = object;
    const int groups = w->shape->kv_heads;
    for (int i = thread; i < w->shape->batch * groups; i += threads)
        forward_group(w, i / groups, i % groups, w->scratch + (size_t)thread * w->each);
}

static void share_backward(void *object, int thread, int threads) {
    const work *w = object;
    const int groups = w->shape->kv_heads;
    for (int i = thread; i < w->shape->batch * groups; i += threads)
        backward_group(w, i / groups, i % groups, w->scratch + (size_t)thread * w->each);
}

void sl_cpu_attention(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                      const float *v, float *out, float *lse, float *scratch) {
    const sizes z = sizes_of(shape);
    work w = {.shape = shape, .q = q, .k = k, .v = v, .out = out, .lse = lse, .scratch = scratch};
    w.each = forward_scratch(&z);
    sl_threads_run(device->threads, share_forward, &w);
}

void sl_cpu_attention_grad(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                           const float *v, const float *out, const float *lse, const float *dout, float *dq,
                           float *dk, float *dv, float *scratch) {
    const sizes z = sizes_of(shape);
    work w = {.shape = shape,
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
    w.each = backward_scratch(&z);
    sl_threads_run(device->threads, share_backward, &w);
}
