/* Attention of bf16 operands on compute capability 9.0: the algorithms of attention_bf16.cu with products of
 * whole warpgroups, which read shared memory themselves and run while the softmax of the next block is
 * computed (Shah et al., FlashAttention-3, arXiv 2407.08608, section 3.2). */
#include "run/device/cuda/attention_tiles.cuh"
#include "run/device/cuda/warpgroup.cuh"

/* A tile is WIDTH / 64 panels of [ROWS][64]. */
template <int ROWS> SL_DEVICE int slot(int row, int chunk) {
    return chunk / 8 * (ROWS * 64) + row * 64 + ((chunk % 8 ^ (row & 7)) << 3);
}

template <int ROWS, int WIDTH, int THREADS>
SL_DEVICE void load_tile(bf16 *tile, const bf16 *from, size_t row, int rows) {
    constexpr int CHUNKS = WIDTH / 8;
#pragma unroll
    for (int n = 0; n < (ROWS * CHUNKS + THREADS - 1) / THREADS; n++) {
        const int r = n * (THREADS / CHUNKS) + threadIdx.x / CHUNKS, c = threadIdx.x % CHUNKS;
        if (ROWS * CHUNKS % THREADS == 0 || r < ROWS)
            copy_async(tile + slot<ROWS>(r, c), from + (r < rows ? (size_t)r * row : 0) + c * 8, r < rows);
    }
}

/** c[64][8 N] = a b', over WIDTH columns of two tiles, from row `a_row` of a and `b_row` of b on. Starts
 * only. */
template <int N, int WIDTH, int A_ROWS, int B_ROWS>
SL_DEVICE void start_scores(float (&c)[N][4], const bf16 *a, int a_row, const bf16 *b, int b_row) {
#pragma unroll
    for (int i = 0; i < WIDTH / 16; i++) {
        const int panel = i / 4, column = i % 4 * 16;
        multiply_group<0, 0>(c, describe_rows(a + panel * A_ROWS * 64 + a_row * 64 + column),
                             describe_rows(b + panel * B_ROWS * 64 + b_row * 64 + column), i > 0);
    }
    end_products();
}

/** sum[64][WIDTH] += p b, with p[64][8 K] in registers, from row `row` of b on. Starts only. */
template <int K, int N, int ROWS>
SL_DEVICE void start_mix(float (&sum)[N][4], uint32_t (&p)[K / 2][4], const bf16 *b, int row) {
#pragma unroll
    for (int k = 0; k < K / 2; k++)
        multiply_group<1>(sum, p[k], describe_depth(b + (row + 16 * k) * 64, ROWS * 64), 1);
    end_products();
}

/** As round_sums, in the order in which a product takes them. */
template <int N> SL_DEVICE void round_operand(const float (&s)[N][4], uint32_t (&p)[N / 2][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            p[n / 2][n % 2 * 2 + half] = pack_bf16(s[n][2 * half], s[n][2 * half + 1]);
}

/* ---- algorithm 1 ---- */

/* GROUPS groups of 64 queries compute, and a thread of one more starts the copies for them. A block stays for
 * several tiles of queries, so that the copies of the next begin while the last one's results are written. */
template <int WIDTH, int GROUPS, int KEYS> struct forward_plan {
    static constexpr int STAGES = KEYS == 64 ? 4 : 2, QUERIES = 64 * GROUPS, THREADS = 128 * (GROUPS + 1),
                         TILE = KEYS * WIDTH;
    static constexpr int REGISTERS = GROUPS == 2 ? 240 : 160, FEW = GROUPS == 2 ? 24 : 32;
    static constexpr size_t SHARED =
        sizeof(bf16) * (QUERIES * WIDTH + 2 * STAGES * TILE) + sizeof(uint64_t) * (2 + 4 * STAGES);
};

/* A ring of stages: copies wait until a stage is empty, products until it is full. */
template <int STAGES> struct ring {
    uint64_t *full, *empty;
    int next = 0; /* uses so far */
    __device__ int stage() const {
        return next % STAGES;
    }
    __device__ void await_full() const {
        await_barrier(full + next % STAGES, next / STAGES & 1);
    }
    __device__ void await_empty() const {
        await_barrier(empty + next % STAGES, ~(next / STAGES) & 1);
    }
};

template <int ROWS, int WIDTH>
SL_DEVICE void copy_tile(bf16 *to, const tile_map *map, int row, int head, int batch, uint64_t *full) {
    expect_bytes(full, ROWS * WIDTH * (int)sizeof(bf16));
#pragma unroll
    for (int panel = 0; panel < WIDTH / 64; panel++)
        copy_panel(to + panel * ROWS * 64, map, panel * 64, row, head, batch, full);
}

/* A tile of queries. */
struct query_tile {
    int batch, head, group, first, blocks; /* `blocks` of keys are seen */
};

template <int QUERIES, int KEYS> SL_DEVICE query_tile find_tile(int index, const sizes &z, int at_once) {
    const section at = find_section(index, z.batch * z.heads, (z.context + QUERIES - 1) / QUERIES, at_once);
    const int head = at.head % z.heads, first = at.block * QUERIES, end = min(first + QUERIES, z.context);
    return {at.head / z.heads, head, head / (z.heads / z.kv_heads), first, (end + KEYS - 1) / KEYS};
}

template <int WIDTH, int GROUPS, int KEYS, typename T>
__global__ void __launch_bounds__(128 * (GROUPS + 1), 1)
    attend_hopper(sizes z, const __grid_constant__ tile_map q, const __grid_constant__ tile_map k,
                  const __grid_constant__ tile_map v, rows<T> out, bool paired, float *lse, int at_once,
                  int tiles) {
    typedef forward_plan<WIDTH, GROUPS, KEYS> plan;
    constexpr int N = KEYS / 8, STAGES = plan::STAGES;
    bf16 *qs = (bf16 *)shared_memory(), *ks = qs + plan::QUERIES * WIDTH, *vs = ks + STAGES * plan::TILE;
    uint64_t *barriers = (uint64_t *)(vs + STAGES * plan::TILE);
    ring<1> queries = {barriers, barriers + 1};
    ring<STAGES> keys = {barriers + 2, barriers + 2 + STAGES},
                 values = {barriers + 2 + 2 * STAGES, barriers + 2 + 3 * STAGES};
    if (threadIdx.x == 0) {
        /* full: the thread that copies arrives; empty: every warp that computes */
        for (int i = 0; i < 2 + 4 * STAGES; i++)
            open_barrier(barriers + i, i < 2 ? (i ? 4 * GROUPS : 1) : (i - 2) / STAGES % 2 ? 4 * GROUPS : 1);
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x / 128 == GROUPS) {
        give_registers<plan::FEW>();
        if (threadIdx.x % 128)
            return;
        for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
            const query_tile at = find_tile<plan::QUERIES, KEYS>(index, z, at_once);
            queries.await_empty();
            copy_tile<plan::QUERIES, WIDTH>(qs, &q, at.first, at.head, at.batch, queries.full);
            queries.next++;
            for (int j = 0; j < at.blocks; j++, keys.next++, values.next++) {
                keys.await_empty();
                copy_tile<KEYS, WIDTH>(ks + keys.stage() * plan::TILE, &k, j * KEYS, at.group, at.batch,
                                       keys.full + keys.stage());
                values.await_empty();
                copy_tile<KEYS, WIDTH>(vs + values.stage() * plan::TILE, &v, j * KEYS, at.group, at.batch,
                                       values.full + values.stage());
            }
        }
        return;
    }
    take_registers<plan::REGISTERS>();
    const int lane = threadIdx.x % 32, inside = threadIdx.x / 128 * 64;
    const float scale = z.factor * LOG2E;
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
        const query_tile at = find_tile<plan::QUERIES, KEYS>(index, z, at_once);
        const int mine = at.first + threadIdx.x / 32 * 16; /* first query of the warp */
        float o[WIDTH / 8][4] = {}, s[N][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
        uint32_t p[N / 2][4];
        queries.await_full();
        for (int j = 0; j < at.blocks; j++) { /* the scores of block j, and the values of block j - 1 */
            const int key = j * KEYS;
            keys.await_full();
            begin_products();
            start_scores<N, WIDTH, plan::QUERIES, KEYS>(s, qs, inside, ks + keys.stage() * plan::TILE, 0);
            if (j > 0) {
                values.await_full();
                start_mix<N, WIDTH / 8, KEYS>(o, p, vs + values.stage() * plan::TILE, 0);
                wait_products<1>();
            } else
                wait_products<0>();
            if (lane == 0)
                arrive(keys.empty + keys.stage());
            keys.next++;
            if (j + 1 == at.blocks && lane == 0)
                arrive(queries.empty);
            if (key + KEYS - 1 > at.first)
                hide_later<N>(s, mine + lane / 4 - key - lane % 4 * 2);
            float shrink[2];
#pragma unroll
            for (int half = 0; half < 2; half++)
                shrink[half] = go_on<N>(s, half, scale, &top[half], &sum[half]);
            wait_products<0>();
            if (j > 0) {
                if (lane == 0)
                    arrive(values.empty + values.stage());
                values.next++;
            }
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    o[n][i] *= shrink[i / 2];
            round_operand<N>(s, p);
        }
        queries.next++;
        values.await_full();
        begin_products();
        start_mix<N, WIDTH / 8, KEYS>(o, p, vs + values.stage() * plan::TILE, 0);
        wait_products<0>();
        if (lane == 0)
            arrive(values.empty + values.stage());
        values.next++;
        finish_rows<WIDTH / 8>(out, paired, lse, at.batch, at.head, mine, z, o, top, sum, lane);
    }
}

/* ---- algorithm 2 ---- */

/* A group has 64 keys; a step STEP queries, of which 64 at once are scored. dQ of a step is computed by all
 * groups: of 64 queries and 64 columns each. */
template <int WIDTH, int STEP> struct backward_plan {
    static constexpr int GROUPS = 2, THREADS = 128 * GROUPS, KEYS = 64 * GROUPS, TILE = STEP * WIDTH;
    static constexpr size_t SHARED =
        sizeof(bf16) * (2 * KEYS * WIDTH + 4 * TILE + 2 * KEYS * STEP) + sizeof(float) * 4 * STEP;
    static_assert(STEP / 64 * (WIDTH / 64) == GROUPS, "dQ of a step is 64 x 64 per group");
};

template <int WIDTH, int STEP, int THREADS>
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

/* A choice at compile time, as an argument. */
template <bool VALUE> struct choice { static constexpr bool value = VALUE; };

template <int WIDTH, int STEP, typename T>
__global__ void __launch_bounds__(256, 1)
    differentiate_hopper(sizes z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                         rows<const bf16> dout, backward_room room, rows<T> dq, rows<T> dk, rows<T> dv,
                         bool paired) {
    typedef backward_plan<WIDTH, STEP> plan;
    bf16 *ks = (bf16 *)shared_memory(), *vs = ks + plan::KEYS * WIDTH, *qs = vs + plan::KEYS * WIDTH,
         *dos = qs + 2 * plan::TILE, *dss = dos + 2 * plan::TILE;
    float *stats = (float *)(dss + 2 * plan::KEYS * STEP);
    const int blocks = (z.context + plan::KEYS - 1) / plan::KEYS, shared = z.heads / z.kv_heads;
    const int ticket = take_ticket(room.ticket), j = blocks - 1 - ticket % blocks;
    const int batch = ticket / blocks / z.kv_heads, group = ticket / blocks % z.kv_heads,
              key = j * plan::KEYS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, inside = warp / 4 * 64, mine = warp * 16;
    const int row_q = STEP == 64 ? 0 : inside, panel_q = STEP == 64 ? warp / 4 : 0, begin = key / STEP;
    const int steps = (room.steps - begin) * shared;
    const float scale = z.factor * LOG2E;
    float sum_k[WIDTH / 8][4] = {}, sum_v[WIDTH / 8][4] = {}, sum_q[8][4];

    auto load = [&](int n) {
        const int head = group * shared + n / (room.steps - begin), i = begin + n % (room.steps - begin),
                  stage = n % 2;
        load_step<WIDTH, STEP, plan::THREADS>(qs + stage * plan::TILE, dos + stage * plan::TILE,
                                              stats + stage * 2 * STEP, q, dout, room, z, batch, head, i);
    };
    /* dQ of 64 queries and 64 columns of step n */
    auto start_dq = [&](int n) {
        const bf16 *ds = dss + n % 2 * plan::KEYS * STEP + row_q * plan::KEYS;
#pragma unroll
        for (int c = 0; c < plan::KEYS; c += 16)
            multiply_group<1, 1>(sum_q, describe_depth(ds + c * 64, 0),
                                 describe_depth(ks + panel_q * plan::KEYS * 64 + c * 64, 0), c > 0);
        end_products();
    };
    /* onto what keys from the diagonal down to here gave */
    auto add_dq = [&](int n) {
        const int head = group * shared + n / (room.steps - begin), i = begin + n % (room.steps - begin);
        const int before = i * STEP / plan::KEYS - j; /* blocks of keys whose turn is earlier */
        const size_t step = ((size_t)batch * z.heads + head) * room.steps + i;
        int *turn = room.turn + step * WARPS + warp;
        wait_turn(turn, before, lane);
        add_sums<8, true>(sum_q, (float4 *)(room.dq + step * plan::TILE) + warp * 256 + lane, before == 0,
                          j == 0);
        end_turn(turn, before, lane);
        if (j == 0)
            write_rows<8>(dq, paired, batch, head, i * STEP + row_q + warp % 4 * 16, panel_q * 64, z, sum_q,
                          z.factor, z.factor, lane);
    };

    load_tile<plan::KEYS, WIDTH, plan::THREADS>(ks, k.at(batch, group, key), k.row, z.context - key);
    load_tile<plan::KEYS, WIDTH, plan::THREADS>(vs, v.at(batch, group, key), v.row, z.context - key);
    load(0);
    /* dQ of a step is computed in the next one, if that is PENDING */
    auto run = [&](int n, auto pending) {
        constexpr bool PENDING = decltype(pending)::value;
        const int i = begin + n % (room.steps - begin);
        const bf16 *q_now = qs + n % 2 * plan::TILE, *do_now = dos + n % 2 * plan::TILE;
        const float *top = stats + n % 2 * 2 * STEP, *dot = top + STEP;
        bf16 *ds_now = dss + n % 2 * plan::KEYS * STEP;
        finish_copies();
        publish_shared();
        __syncthreads(); /* copies and dS of all are there, and the other stage is free */
        if (n + 1 < steps)
            load(n + 1);
#pragma unroll
        for (int part = 0; part < STEP; part += 64) {
            float s[8][4], dp[8][4];
            uint32_t p[4][4], ds[4][4];
            begin_products();
            if constexpr (PENDING)
                if (part == 0)
                    start_dq(n - 1);
            start_scores<8, WIDTH, plan::KEYS, STEP>(s, ks, inside, q_now, part);
            start_scores<8, WIDTH, plan::KEYS, STEP>(dp, vs, inside, do_now, part);
            if constexpr (PENDING)
                if (part == 0) {
                    wait_products<2>();
                    add_dq(n - 1);
                }
            wait_products<1>();
            weigh<8>(s, top + part, scale, i * STEP < key + plan::KEYS,
                     i * STEP + part + lane % 4 * 2 - key - mine - lane / 4, lane);
            round_operand<8>(s, p);
            begin_products();
            start_mix<8, WIDTH / 8, STEP>(sum_v, p, do_now, part);
            wait_products<1>();
            slope<8>(dp, s, dot + part, lane);
            round_operand<8>(dp, ds);
#pragma unroll
            for (int c = 0; c < 8; c++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    *(uint32_t *)(ds_now + slot<plan::KEYS>(mine + 8 * half + lane / 4, part / 8 + c) +
                                  lane % 4 * 2) = ds[c / 2][c % 2 * 2 + half];
            begin_products();
            start_mix<8, WIDTH / 8, STEP>(sum_k, ds, q_now, part);
            wait_products<0>();
        }
    };
    run(0, choice<false>());
    for (int n = 1; n < steps; n++)
        run(n, choice<true>());
    publish_shared();
    __syncthreads();
    begin_products();
    start_dq(steps - 1);
    wait_products<0>();
    add_dq(steps - 1);
    write_rows<WIDTH / 8>(dk, paired, batch, group, key + mine, 0, z, sum_k, z.factor, z.factor, lane);
    write_rows<WIDTH / 8>(dv, paired, batch, group, key + mine, 0, z, sum_v, 1.0f, 1.0f, lane);
}

/* ---- starts ---- */

static cudaError_t map_rows(tile_map *map, const sizes &z, const rows<const bf16> &x, int heads, int box) {
    return make_map(map, x.data, z.batch, heads, z.context, width_of(z.size), x.batch, x.head, x.row, box);
}

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        const cudaError_t error_ = (call);                                                                   \
        if (error_ != cudaSuccess)                                                                           \
            return error_;                                                                                   \
    } while (0)

template <int WIDTH, int GROUPS, int KEYS, typename T>
static cudaError_t start_forward(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                                 rows<T> out, float *lse, cudaStream_t stream) {
    typedef forward_plan<WIDTH, GROUPS, KEYS> plan;
    const int tiles = (z.context + plan::QUERIES - 1) / plan::QUERIES * z.batch * z.heads;
    tile_map of_q, of_k, of_v;
    int device, processors;
    TRY(cudaGetDevice(&device));
    TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    TRY(map_rows(&of_q, z, q, z.heads, plan::QUERIES));
    TRY(map_rows(&of_k, z, k, z.kv_heads, KEYS));
    TRY(map_rows(&of_v, z, v, z.kv_heads, KEYS));
    return launch(attend_hopper<WIDTH, GROUPS, KEYS, T>, (unsigned)(tiles < processors ? tiles : processors),
                  plan::THREADS, plan::SHARED, stream, z, of_q, of_k, of_v, out, pairs_fit(out), lse,
                  heads_at_once(z, WIDTH), tiles);
}

template <typename T>
cudaError_t forward_hopper(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                           rows<T> out, float *lse, cudaStream_t stream) {
    return width_of(z.size) == 64 ? start_forward<64, 2, 128, T>(z, q, k, v, out, lse, stream)
                                  : start_forward<128, 2, 128, T>(z, q, k, v, out, lse, stream);
}

template <int WIDTH, int STEP, typename T>
static cudaError_t start_backward(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                                  rows<const bf16> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                                  rows<T> dv, cudaStream_t stream) {
    typedef backward_plan<WIDTH, STEP> plan;
    const unsigned blocks = (unsigned)((z.context + plan::KEYS - 1) / plan::KEYS * z.batch * z.kv_heads);
    return launch(differentiate_hopper<WIDTH, STEP, T>, blocks, plan::THREADS, plan::SHARED, stream, z, q, k,
                  v, dout, room, dq, dk, dv, pairs_fit(dq) && pairs_fit(dk) && pairs_fit(dv));
}

template <typename T>
cudaError_t backward_hopper(const sizes &z, rows<const bf16> q, rows<const bf16> k, rows<const bf16> v,
                            rows<const bf16> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                            rows<T> dv, cudaStream_t stream) {
    return width_of(z.size) == 64 ? start_backward<64, 128, T>(z, q, k, v, dout, room, dq, dk, dv, stream)
                                  : start_backward<128, 64, T>(z, q, k, v, dout, room, dq, dk, dv, stream);
}

#define INSTANCES(T)                                                                                         \
    template cudaError_t forward_hopper(const sizes &, rows<const bf16>, rows<const bf16>, rows<const bf16>, \
                                        rows<T>, float *, cudaStream_t);                                     \
    template cudaError_t backward_hopper(const sizes &, rows<const bf16>, rows<const bf16>,                  \
                                         rows<const bf16>, rows<const bf16>, const backward_room &, rows<T>, \
                                         rows<T>, rows<T>, cudaStream_t);
INSTANCES(float)
INSTANCES(bf16)
