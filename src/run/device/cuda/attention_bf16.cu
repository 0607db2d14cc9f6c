/* Attention of bf16 operands with f32 sums on tensor cores (FlashAttention-2, algorithms 1 and 2; see
 * attention_inside.cuh). A head has WIDTH elements, 64 or 128; a warp has 16 or 32 rows of a product, and
 * blocks arrive in shared memory by asynchronous copies while the previous ones are used. */
#include "run/device/cuda/attention_tiles.cuh"

/* A tile has rows of WIDTH elements in shared memory, in chunks of 8 elements; chunk c of row r is in slot c
 * ^ (r % 8), so that the same chunk of 8 rows lies in different banks. */
template <int WIDTH> SL_DEVICE int slot(int row, int chunk) {
    return row * WIDTH + ((chunk ^ (row & 7)) << 3);
}

template <int ROWS, int WIDTH, int THREADS>
SL_DEVICE void load_tile(bf16 *tile, const bf16 *from, size_t row, int rows) {
    constexpr int CHUNKS = WIDTH / 8;
#pragma unroll
    for (int n = 0; n < ROWS * CHUNKS / THREADS; n++) {
        const int r = n * (THREADS / CHUNKS) + threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS;
        copy_async(tile + slot<WIDTH>(r, c), from + (r < rows ? (size_t)r * row : 0) + c * 8, r < rows);
    }
}

/* Operands of a product out of tiles: a is 16 x 16, b is two of 16 x 8 side by side. `turned`: the tile's
 * rows are the operand's columns. */

template <int WIDTH> SL_DEVICE void load_a(uint32_t a[4], const bf16 *tile, int row, int column, int lane) {
    load_matrices(a, tile + slot<WIDTH>(row + lane % 16, column / 8 + lane / 16));
}

template <int WIDTH>
SL_DEVICE void load_a_turned(uint32_t a[4], const bf16 *tile, int row, int column, int lane) {
    load_turned_matrices(a, tile + slot<WIDTH>(column + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
}

template <int WIDTH> SL_DEVICE void load_b(uint32_t b[4], const bf16 *tile, int row, int column, int lane) {
    load_turned_matrices(b, tile + slot<WIDTH>(row + lane % 16, column / 8 + lane / 16));
}

template <int WIDTH>
SL_DEVICE void load_b_turned(uint32_t b[4], const bf16 *tile, int row, int column, int lane) {
    load_matrices(b, tile + slot<WIDTH>(column + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
}

/** c[16 M][8 N] = a b', over rows `a_row` and `b_row` and on of two tiles. */
template <int M, int N, int WIDTH>
SL_DEVICE void scores(float c[M][N][4], const bf16 *a_tile, int a_row, const bf16 *b_tile, int b_row,
                      int lane) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
            c[m][n][0] = c[m][n][1] = c[m][n][2] = c[m][n][3] = 0.0f;
#pragma unroll
    for (int i = 0; i < WIDTH; i += 16) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; m++)
            load_a<WIDTH>(a[m], a_tile, a_row + 16 * m, i, lane);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            load_b_turned<WIDTH>(b, b_tile, i, b_row + 8 * n, lane);
#pragma unroll
            for (int m = 0; m < M; m++) {
                multiply(c[m][n], a[m], b[0], b[1]);
                multiply(c[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/** sum[16 M][WIDTH] += p b, with p[16 M][8 N] as a product left it, rounded to bf16, and rows `row` and on of
 * a tile. */
template <int M, int N, int WIDTH>
SL_DEVICE void mix(float sum[M][WIDTH / 8][4], const uint32_t p[M][N][2], const bf16 *tile, int row,
                   int lane) {
#pragma unroll
    for (int k = 0; k < N; k += 2)
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n += 2) {
            uint32_t b[4];
            load_b<WIDTH>(b, tile, row + 8 * k, 8 * n, lane);
#pragma unroll
            for (int m = 0; m < M; m++) {
                const uint32_t a[4] = {p[m][k][0], p[m][k][1], p[m][k + 1][0], p[m][k + 1][1]};
                multiply(sum[m][n], a, b[0], b[1]);
                multiply(sum[m][n + 1], a, b[2], b[3]);
            }
        }
}

/* ---- algorithm 1 ---- */

/* A warp has 16 M queries. */
template <int WIDTH, int TEAM, int M, int KEYS, int BLOCKS, typename T>
__global__ void __launch_bounds__(32 * TEAM, BLOCKS)
    attend_bf16(sizes z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v, rows<T> out, bool paired,
                float *lse, int at_once) {
    constexpr int QUERIES = 16 * M * TEAM, THREADS = 32 * TEAM, N = KEYS / 8, TILE = KEYS * WIDTH;
    bf16 *qs = (bf16 *)shared_memory(), *ks = qs + QUERIES * WIDTH, *vs = ks + 2 * TILE;
    const section at =
        find_section(blockIdx.x, z.batch * z.heads, (z.context + QUERIES - 1) / QUERIES, at_once);
    const int batch = at.head / z.heads, head = at.head % z.heads, group = head / (z.heads / z.kv_heads);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = at.block * QUERIES,
              mine = first + 16 * M * warp;
    const int end = min(first + QUERIES, z.context), blocks = (end + KEYS - 1) / KEYS;
    const float scale = z.factor * LOG2E;
    float o[M][WIDTH / 8][4] = {}, top[M][2], sum[M][2] = {};
#pragma unroll
    for (int m = 0; m < M; m++)
        top[m][0] = top[m][1] = -INFINITY;

    load_tile<QUERIES, WIDTH, THREADS>(qs, q.at(batch, head, first), q.row, z.context - first);
    load_tile<KEYS, WIDTH, THREADS>(ks, k.at(batch, group, 0), k.row, z.context);
    load_tile<KEYS, WIDTH, THREADS>(vs, v.at(batch, group, 0), v.row, z.context);
    for (int j = 0; j < blocks; j++) {
        const int stage = j % 2 * TILE, key = j * KEYS;
        finish_copies();
        __syncthreads(); /* copies of all are there, and the other stage is free */
        if (j + 1 < blocks) {
            const int next = TILE - stage, left = z.context - key - KEYS;
            load_tile<KEYS, WIDTH, THREADS>(ks + next, k.at(batch, group, key + KEYS), k.row, left);
            load_tile<KEYS, WIDTH, THREADS>(vs + next, v.at(batch, group, key + KEYS), v.row, left);
        }
        if (key > mine + 16 * M - 1)
            continue; /* none of this warp's queries sees them */
        float s[M][N][4];
        uint32_t p[M][N][2];
        scores<M, N, WIDTH>(s, qs, 16 * M * warp, ks + stage, 0, lane);
        if (key + KEYS - 1 > mine) {
#pragma unroll
            for (int m = 0; m < M; m++)
                hide_later<N>(s[m], mine + 16 * m + lane / 4 - key - lane % 4 * 2);
        }
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float shrink = go_on<N>(s[m], half, scale, &top[m][half], &sum[m][half]);
#pragma unroll
                for (int n = 0; n < WIDTH / 8; n++) {
                    o[m][n][2 * half] *= shrink;
                    o[m][n][2 * half + 1] *= shrink;
                }
            }
            round_sums<N>(s[m], p[m]);
        }
        mix<M, N, WIDTH>(o, p, vs + stage, 0, lane);
    }
#pragma unroll
    for (int m = 0; m < M; m++)
        finish_rows<WIDTH / 8>(out, paired, lse, batch, head, mine + 16 * m, z, o[m], top[m], sum[m], lane);
}

/* ---- algorithm 2 ---- */

constexpr int STEP = 64; /* queries of a step */

/* A block has 16 M keys per warp. Their scores are computed transposed, keys by queries: so P' and dS' are
 * operands of dV = P' dO and dK = dS' Q where they are, in registers; only dS goes through shared memory, for
 * dQ = dS K. `PART` queries at once keep scores in registers. */
template <int WIDTH, int TEAM, int M, int PART> struct backward_plan {
    static constexpr int THREADS = 32 * TEAM, KEYS = 16 * M * TEAM, TILE = STEP * WIDTH;
    static constexpr size_t SHARED =
        sizeof(bf16) * (2 * KEYS * WIDTH + 4 * TILE + KEYS * STEP) + sizeof(float) * 4 * STEP;
};

template <int WIDTH, int THREADS>
SL_DEVICE void load_step(bf16 *qs, bf16 *dos, float *rows_of_step, const rows<const bf16> &q,
                         const rows<const bf16> &dout, const backward_room &room, const sizes &z, int batch,
                         int head, int i) {
    const size_t row = (((size_t)batch * z.heads + head) * room.steps + i) * STEP;
    const int first = i * STEP, left = z.context - first;
    load_tile<STEP, WIDTH, THREADS>(qs, q.at(batch, head, first), q.row, left);
    load_tile<STEP, WIDTH, THREADS>(dos, dout.at(batch, head, first), dout.row, left);
    if (threadIdx.x < STEP / 2) {
        const int at = threadIdx.x % (STEP / 4) * 4;
        if (threadIdx.x < STEP / 4)
            copy_async(rows_of_step + at, room.top + row + at, true);
        else
            copy_async(rows_of_step + STEP + at, room.dot + row + at, true);
    }
}

template <int WIDTH, int TEAM, int M, int PART, int BLOCKS, typename T>
__global__ void __launch_bounds__(32 * TEAM, BLOCKS)
    differentiate_bf16(sizes z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                       rows<const bf16> dout, backward_room room, rows<T> dq, rows<T> dk, rows<T> dv,
                       bool paired) {
    typedef backward_plan<WIDTH, TEAM, M, PART> plan;
    constexpr int N = PART / 8, COLUMNS = WIDTH / (TEAM / 2); /* of dQ, of which a warp has 32 rows */
    bf16 *ks = (bf16 *)shared_memory(), *vs = ks + plan::KEYS * WIDTH, *qs = vs + plan::KEYS * WIDTH,
         *dos = qs + 2 * plan::TILE, *dss = dos + 2 * plan::TILE;
    float *stats = (float *)(dss + plan::KEYS * STEP);
    const int blocks = (z.context + plan::KEYS - 1) / plan::KEYS, shared = z.heads / z.kv_heads;
    const int ticket = take_ticket(room.ticket), j = blocks - 1 - ticket % blocks;
    const int batch = ticket / blocks / z.kv_heads, group = ticket / blocks % z.kv_heads,
              key = j * plan::KEYS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
              mine = 16 * M * warp; /* first key of the warp */
    const int row_q = warp % 2 * 32, column_q = warp / 2 * COLUMNS, begin = key / STEP;
    const float scale = z.factor * LOG2E;
    float sum_k[M][WIDTH / 8][4] = {}, sum_v[M][WIDTH / 8][4] = {};

    load_tile<plan::KEYS, WIDTH, plan::THREADS>(ks, k.at(batch, group, key), k.row, z.context - key);
    load_tile<plan::KEYS, WIDTH, plan::THREADS>(vs, v.at(batch, group, key), v.row, z.context - key);
    load_step<WIDTH, plan::THREADS>(qs, dos, stats, q, dout, room, z, batch, group * shared, begin);
    int stage = 0;
    for (int head = group * shared; head < (group + 1) * shared; head++)
        for (int i = begin; i < room.steps; i++, stage ^= 1) {
            const size_t step = ((size_t)batch * z.heads + head) * room.steps + i;
            const int before = i * STEP / plan::KEYS - j; /* blocks of keys whose turn is earlier */
            finish_copies();
            __syncthreads(); /* copies of all are there, and the other stage and dss are free */
            if (i + 1 < room.steps || head + 1 < (group + 1) * shared) {
                const int last = i + 1 == room.steps;
                load_step<WIDTH, plan::THREADS>(qs + (stage ^ 1) * plan::TILE, dos + (stage ^ 1) * plan::TILE,
                                                stats + (stage ^ 1) * 2 * STEP, q, dout, room, z, batch,
                                                head + last, last ? begin : i + 1);
            }
            const bf16 *q_now = qs + stage * plan::TILE, *do_now = dos + stage * plan::TILE;
            const float *top = stats + stage * 2 * STEP, *dot = top + STEP;
#pragma unroll
            for (int part = 0; part < STEP; part += PART) {
                float s[M][N][4], dp[M][N][4];
                uint32_t p[M][N][2], ds[M][N][2];
                scores<M, N, WIDTH>(s, ks, mine, q_now, part, lane);
                scores<M, N, WIDTH>(dp, vs, mine, do_now, part, lane);
#pragma unroll
                for (int m = 0; m < M; m++) {
                    weigh<N>(s[m], top + part, scale, i * STEP < key + plan::KEYS,
                             i * STEP + part + lane % 4 * 2 - key - mine - 16 * m - lane / 4, lane);
                    slope<N>(dp[m], s[m], dot + part, lane);
                    round_sums<N>(s[m], p[m]);
                    round_sums<N>(dp[m], ds[m]);
                }
                mix<M, N, WIDTH>(sum_v, p, do_now, part, lane);
                mix<M, N, WIDTH>(sum_k, ds, q_now, part, lane);
#pragma unroll
                for (int m = 0; m < M; m++)
#pragma unroll
                    for (int n = 0; n < N; n++)
#pragma unroll
                        for (int half = 0; half < 2; half++)
                            *(uint32_t *)(dss +
                                          slot<STEP>(mine + 16 * m + 8 * half + lane / 4, part / 8 + n) +
                                          lane % 4 * 2) = ds[m][n][half];
            }
            __syncthreads(); /* dS of all is there */

            /* dQ of 32 queries and COLUMNS columns, onto what keys from the diagonal down to here gave */
            float sum_q[2][COLUMNS / 8][4] = {};
#pragma unroll
            for (int c = 0; c < plan::KEYS; c += 16) {
                uint32_t a[2][4];
                load_a_turned<STEP>(a[0], dss, row_q, c, lane);
                load_a_turned<STEP>(a[1], dss, row_q + 16, c, lane);
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; n += 2) {
                    uint32_t b[4];
                    load_b<WIDTH>(b, ks, c, column_q + 8 * n, lane);
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        multiply(sum_q[m][n], a[m], b[0], b[1]);
                        multiply(sum_q[m][n + 1], a[m], b[2], b[3]);
                    }
                }
            }
            int *turn = room.turn + step * WARPS + warp;
            wait_turn(turn, before, lane);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                float4 *so_far =
                    (float4 *)(room.dq + step * plan::TILE) + (2 * warp + m) * (COLUMNS * 4) + lane;
                add_sums<COLUMNS / 8, false>(sum_q[m], so_far, before == 0, j == 0);
                if (j == 0)
                    write_rows<COLUMNS / 8>(dq, paired, batch, head, i * STEP + row_q + 16 * m, column_q, z,
                                            sum_q[m], z.factor, z.factor, lane);
            }
            end_turn(turn, before, lane);
        }
#pragma unroll
    for (int m = 0; m < M; m++) {
        write_rows<WIDTH / 8>(dk, paired, batch, group, key + mine + 16 * m, 0, z, sum_k[m], z.factor,
                              z.factor, lane);
        write_rows<WIDTH / 8>(dv, paired, batch, group, key + mine + 16 * m, 0, z, sum_v[m], 1.0f, 1.0f,
                              lane);
    }
}

template <int WIDTH, int TEAM, int M, int KEYS, int BLOCKS, typename T>
static cudaError_t start_forward(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                                 rows<T> out, float *lse, cudaStream_t stream) {
    constexpr int QUERIES = 16 * M * TEAM;
    const int lanes = z.batch * z.heads;
    const unsigned blocks = (unsigned)((z.context + QUERIES - 1) / QUERIES * lanes);
    const size_t shared = sizeof(bf16) * (QUERIES + 4 * KEYS) * WIDTH;
    return launch(attend_bf16<WIDTH, TEAM, M, KEYS, BLOCKS, T>, blocks, 32 * TEAM, shared, stream, z, q, k, v,
                  out, pairs_fit(out), lse, heads_at_once(z, WIDTH));
}

template <typename T>
cudaError_t forward_bf16(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                         rows<T> out, float *lse, cudaStream_t stream) {
    return width_of(z.size) == 64 ? start_forward<64, 4, 2, 64, 2, T>(z, q, k, v, out, lse, stream)
                                  : start_forward<128, 4, 2, 64, 2, T>(z, q, k, v, out, lse, stream);
}

template <int WIDTH, int TEAM, int M, int PART, int BLOCKS, typename T>
static cudaError_t start_backward(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                                  rows<const bf16> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                                  rows<T> dv, cudaStream_t stream) {
    typedef backward_plan<WIDTH, TEAM, M, PART> plan;
    const unsigned blocks = (unsigned)((z.context + plan::KEYS - 1) / plan::KEYS * z.batch * z.kv_heads);
    return launch(differentiate_bf16<WIDTH, TEAM, M, PART, BLOCKS, T>, blocks, plan::THREADS, plan::SHARED,
                  stream, z, q, k, v, dout, room, dq, dk, dv,
                  pairs_fit(dq) && pairs_fit(dk) && pairs_fit(dv));
}

template <typename T>
cudaError_t backward_bf16(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                          rows<const bf16> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                          rows<T> dv, cudaStream_t stream) {
    return width_of(z.size) == 64
               ? start_backward<64, 4, 2, 32, 2, T>(z, q, k, v, dout, room, dq, dk, dv, stream)
               : start_backward<128, 8, 1, 64, 1, T>(z, q, k, v, dout, room, dq, dk, dv, stream);
}

#define INSTANCES(T)                                                                                         \
    template cudaError_t forward_bf16(const sizes &, rows<const bf16>, rows<const bf16>, rows<const bf16>,   \
                                      rows<T>, float *, cudaStream_t);                                       \
    template cudaError_t backward_bf16(const sizes &, rows<const bf16>, rows<const bf16>, rows<const bf16>,  \
                                       rows<const bf16>, const backward_room &, rows<T>, rows<T>, rows<T>,   \
                                       cudaStream_t);
INSTANCES(float)
INSTANCES(bf16)
