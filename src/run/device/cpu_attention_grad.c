#include "run/device/cpu_attention.h"

/* With p = softmax(f q k') and y = p v, a row's: dp = dy v', ds = p (dp - dy . y), dv = p' dy, dq = f ds k,
 * dk = ds' (f q). Blocks of keys go from first to last, and for each of them blocks of queries from the
 * diagonal on; so each sum runs in ascending order. */

/* A thread's scratch; of keys and values for the group, of the rest for the head at hand. */
typedef struct backward_room {
    float *keys, *values;  /* [blocks][size][64] */
    float *k;              /* [padded][width] */
    float *dk, *dv;        /* [padded][width] */
    float *q, *dy, *dq;    /* [padded][width]; q times the factor */
    float *weight, *slope; /* [64][64]: p, ds */
    float *dot;            /* [padded]: dy . y of each row */
} backward_room;

static backward_room lay_backward(const sl_attention_sizes *z, float *at) {
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

size_t sl_attention_backward_scratch(const sl_attention_sizes *z) {
    return 8 * z->padded * z->width + 2 * SL_TILE * SL_TILE + z->padded;
}

/* The weights of a strip of 4 queries and their gradient; 0 where a query does not see a key, and for rows
 * beyond the context. */
SL_INLINE void strip_weights(const sl_attention_sizes *z, const backward_room *room, size_t row, int rows,
                             int end, int diagonal, const float *keys, const float *values, const float *lse,
                             float *restrict p, float *restrict d) {
    const int columns = (int)sl_tile_round((size_t)end, SL_LANES), r = (int)(row % SL_TILE);
    sl_tile_strip(columns, (int)z->size, room->q + row * z->width, z->width, 1, keys, SL_TILE, 0, p, SL_TILE);
    sl_tile_strip(columns, (int)z->size, room->dy + row * z->width, z->width, 1, values, SL_TILE, 0, d,
                  SL_TILE);
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
SL_INLINE void backward_pair(const sl_attention_sizes *z, const backward_room *room, size_t i, size_t j,
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
        sl_tile_strip(width, end, d, SL_TILE, 1, room->k + to * z->width, z->width, j > 0,
                      room->dq + row * z->width, z->width);
    }
    /* a strip of keys is seen by the queries from its own row on */
    const int seen = diagonal ? (int)sl_tile_round((size_t)rows, SL_TILE_STRIP) : SL_TILE;
    for (int c = 0; c < seen; c += SL_TILE_STRIP) {
        const size_t first = diagonal ? (size_t)c : 0, row = to + (size_t)c;
        const float *p = room->weight + first * SL_TILE + (size_t)c,
                    *d = room->slope + first * SL_TILE + (size_t)c;
        sl_tile_strip(width, rows - (int)first, p, 1, SL_TILE, dy + first * z->width, z->width, 1,
                      room->dv + row * z->width, z->width);
        sl_tile_strip(width, rows - (int)first, d, 1, SL_TILE, q + first * z->width, z->width, 1,
                      room->dk + row * z->width, z->width);
    }
}

/* Rows of a dense gradient times `factor`, out to where they belong. */
SL_INLINE void unpack(const sl_attention_sizes *z, const float *x, float factor, float *out, size_t stride) {
    for (size_t r = 0; r < z->context; r++) {
        const float *restrict from = x + r * z->width;
        float *restrict to = out + r * stride;
        for (size_t i = 0; i < z->size; i++)
            to[i] = factor * from[i];
    }
}

SL_INLINE void backward_head(const sl_attention_work *w, const sl_attention_sizes *z,
                             const backward_room *room, int sequence, int head) {
    const sl_attention_shape *s = w->shape;
    const size_t first = (size_t)sequence * z->context, column = (size_t)head * z->size;
    const size_t q_at = first * (size_t)s->q_stride + column, out_at = first * (size_t)s->out_stride + column;
    const float *lse = w->kept_lse + ((size_t)sequence * (size_t)s->heads + (size_t)head) * z->context;
    sl_tile_pack(z->context, z->padded, z->size, z->width, w->q + q_at, (size_t)s->q_stride, z->factor,
                 room->q);
    sl_tile_pack(z->context, z->padded, z->size, z->width, w->dout + out_at, (size_t)s->out_stride, 1.0f,
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
void sl_cpu_attention_grad_group(const sl_attention_work *w, int sequence, int group, float *scratch) {
    const sl_attention_shape *s = w->shape;
    const sl_attention_sizes z = sl_attention_size(s);
    const backward_room room = lay_backward(&z, scratch);
    const int shared = s->heads / s->kv_heads;
    const size_t stride = (size_t)s->kv_stride, matrix = z.padded * z.width;
    const size_t kv = (size_t)sequence * z.context * stride + (size_t)group * z.size;
    sl_tile_pack(z.context, z.padded, z.size, z.width, w->v + kv, stride, 1.0f, room.k);
    sl_tile_turn(z.padded, z.size, z.width, room.k, room.values);
    sl_tile_pack(z.context, z.padded, z.size, z.width, w->k + kv, stride, 1.0f, room.k);
    sl_tile_turn(z.padded, z.size, z.width, room.k, room.keys);
    memset(room.dk, 0, 2 * matrix * sizeof *room.dk);
    for (int head = group * shared; head < (group + 1) * shared; head++)
        backward_head(w, &z, &room, sequence, head);
    unpack(&z, room.dk, 1.0f, w->dk + kv, stride);
    unpack(&z, room.dv, 1.0f, w->dv + kv, stride);
}
