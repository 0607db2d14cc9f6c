/* Attention in f32 arithmetic, blocks of TILE queries by TILE keys on CUDA cores (FlashAttention-2,
 * algorithms 1 and 2; see attention_inside.cuh). The 256 threads of a block form a square: thread (y, x) has
 * rows TILE / 16 * y and on of a product, columns x, x + 16, ... of scores and columns 4 x to 4 x + 3, and 64
 * further, ... of sums over keys. */
#include "run/device/cuda/attention_inside.cuh"
#include "run/device/cuda/cuda_attention.h"

#define THREADS 256

/* A tile's rows in shared memory are 4 floats longer than WIDTH, so that 8 rows lie in different banks. */
template <int TILE, int WIDTH, typename T>
SL_DEVICE void load_tile(float *tile, const T *from, size_t row, int rows, int size) {
    for (int i = threadIdx.x; i < TILE * WIDTH; i += THREADS) {
        const int r = i / WIDTH, c = i % WIDTH;
        tile[r * (WIDTH + 4) + c] = r < rows && c < size ? to_float(from[(size_t)r * row + c]) : 0.0f;
    }
}

/** s = a b' of two tiles. */
template <int TILE, int WIDTH>
SL_DEVICE void scores(float s[TILE / 16][TILE / 16], const float *a, const float *b, int y, int x) {
    constexpr int N = TILE / 16, ROW = WIDTH + 4;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            s[i][j] = 0.0f;
    for (int c = 0; c < WIDTH; c += 4) {
        float4 u[N], v[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            u[i] = *(const float4 *)(a + (y * N + i) * ROW + c);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = *(const float4 *)(b + (x + 16 * j) * ROW + c);
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < N; j++) {
                s[i][j] = fmaf(u[i].x, v[j].x, s[i][j]);
                s[i][j] = fmaf(u[i].y, v[j].y, s[i][j]);
                s[i][j] = fmaf(u[i].z, v[j].z, s[i][j]);
                s[i][j] = fmaf(u[i].w, v[j].w, s[i][j]);
            }
    }
}

/** sum[row][column] += over k of weight(row, k) * b[k][column]; weight(row, k) is p[row * P_ROW + k *
 * P_STEP]. */
template <int TILE, int WIDTH, int P_ROW, int P_STEP>
SL_DEVICE void mix(float sum[TILE / 16][WIDTH / 16], const float *p, const float *b, int y, int x) {
    constexpr int N = TILE / 16;
    for (int k = 0; k < TILE; k++) {
        float w[N];
#pragma unroll
        for (int i = 0; i < N; i++)
            w[i] = p[(y * N + i) * P_ROW + k * P_STEP];
#pragma unroll
        for (int c = 0; c < WIDTH / 64; c++) {
            const float4 v = *(const float4 *)(b + k * (WIDTH + 4) + 64 * c + 4 * x);
#pragma unroll
            for (int i = 0; i < N; i++) {
                sum[i][4 * c] = fmaf(w[i], v.x, sum[i][4 * c]);
                sum[i][4 * c + 1] = fmaf(w[i], v.y, sum[i][4 * c + 1]);
                sum[i][4 * c + 2] = fmaf(w[i], v.z, sum[i][4 * c + 2]);
                sum[i][4 * c + 3] = fmaf(w[i], v.w, sum[i][4 * c + 3]);
            }
        }
    }
}

template <int TILE, int WIDTH, typename T>
SL_DEVICE void write_sums(T *to, size_t row, int rows, int size, const float sum[TILE / 16][WIDTH / 16],
                          const float *factor, int y, int x) {
    constexpr int N = TILE / 16;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (y * N + i < rows)
#pragma unroll
            for (int c = 0; c < WIDTH / 16; c++) {
                const int column = c / 4 * 64 + 4 * x + c % 4;
                if (column < size)
                    put(to + (size_t)(y * N + i) * row + column, sum[i][c] * factor[i]);
            }
}

/** The 16 threads of a row combine their values; all get the same bits. */
template <typename F> SL_DEVICE float over_row(float value, F both) {
    for (int i = 8; i; i /= 2)
        value = both(value, __shfl_xor_sync(0xffffffffu, value, i));
    return value;
}

struct larger {
    __device__ float operator()(float a, float b) const {
        return fmaxf(a, b);
    }
};

struct total {
    __device__ float operator()(float a, float b) const {
        return a + b;
    }
};

/* Algorithm 1: a block of queries against the blocks of keys from 0 to its own. */
template <int TILE, int WIDTH, typename T>
__global__ void __launch_bounds__(THREADS)
    attend_f32(sizes z, rows<const T> q, rows<const T> k, rows<const T> v, rows<T> out, float *lse) {
    constexpr int N = TILE / 16, SIZE = TILE * (WIDTH + 4);
    float *qs = (float *)shared_memory(), *ks = qs + SIZE, *vs = ks + SIZE, *ps = vs + SIZE;
    const int blocks = (z.context + TILE - 1) / TILE, lanes = z.batch * z.heads;
    const int block = blocks - 1 - blockIdx.x / lanes, batch = blockIdx.x % lanes / z.heads,
              head = blockIdx.x % z.heads, group = head / (z.heads / z.kv_heads);
    const int y = threadIdx.x / 16, x = threadIdx.x % 16, first = block * TILE;
    float o[N][WIDTH / 16] = {}, top[N], sum[N] = {};
    for (int i = 0; i < N; i++)
        top[i] = -INFINITY;
    load_tile<TILE, WIDTH>(qs, q.at(batch, head, first), q.row, z.context - first, z.size);
    for (int j = 0; j <= block; j++) {
        float s[N][N];
        __syncthreads();
        load_tile<TILE, WIDTH>(ks, k.at(batch, group, j * TILE), k.row, z.context - j * TILE, z.size);
        load_tile<TILE, WIDTH>(vs, v.at(batch, group, j * TILE), v.row, z.context - j * TILE, z.size);
        __syncthreads();
        scores<TILE, WIDTH>(s, qs, ks, y, x);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float now = top[i], share = 0.0f;
#pragma unroll
            for (int c = 0; c < N; c++) {
                s[i][c] = j == block && x + 16 * c > y * N + i ? -INFINITY : s[i][c] * z.factor;
                now = fmaxf(now, s[i][c]);
            }
            now = over_row(now, larger());
#pragma unroll
            for (int c = 0; c < N; c++) {
                const float p = expf(s[i][c] - now);
                ps[(y * N + i) * (TILE + 4) + x + 16 * c] = p;
                share += p;
            }
            const float shrink = expf(top[i] - now);
            sum[i] = sum[i] * shrink + over_row(share, total());
            top[i] = now;
#pragma unroll
            for (int c = 0; c < WIDTH / 16; c++)
                o[i][c] *= shrink;
        }
        __syncthreads();
        mix<TILE, WIDTH, TILE + 4, 1>(o, ps, vs, y, x);
    }
    for (int i = 0; i < N; i++) {
        const int row = first + y * N + i;
        if (x == 0 && row < z.context)
            lse[((size_t)batch * z.heads + head) * z.context + row] = top[i] + logf(sum[i]);
        sum[i] = 1.0f / sum[i];
    }
    write_sums<TILE, WIDTH>(out.at(batch, head, first), out.row, z.context - first, z.size, o, sum, y, x);
}

/* Algorithm 2: a block of keys, with all heads that share it, against the blocks of queries from its own on.
 */
template <int TILE, int WIDTH, typename T>
__global__ void __launch_bounds__(THREADS)
    differentiate_f32(sizes z, rows<const T> q, rows<const T> k, rows<const T> v, rows<const T> dout,
                      backward_room room, rows<T> dq, rows<T> dk, rows<T> dv) {
    constexpr int N = TILE / 16, SIZE = TILE * (WIDTH + 4);
    float *ks = (float *)shared_memory(), *vs = ks + SIZE, *qs = vs + SIZE, *dos = qs + SIZE,
          *ps = dos + SIZE, *ds = ps + TILE * (TILE + 4);
    const int ticket = take_ticket(room.ticket), pair = ticket / room.steps,
              j = room.steps - 1 - ticket % room.steps;
    const int batch = pair / z.kv_heads, group = pair % z.kv_heads, shared = z.heads / z.kv_heads;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    float sum_k[N][WIDTH / 16] = {}, sum_v[N][WIDTH / 16] = {}, factor[N], one[N];
    for (int i = 0; i < N; i++) {
        factor[i] = z.factor;
        one[i] = 1.0f;
    }
    load_tile<TILE, WIDTH>(ks, k.at(batch, group, j * TILE), k.row, z.context - j * TILE, z.size);
    load_tile<TILE, WIDTH>(vs, v.at(batch, group, j * TILE), v.row, z.context - j * TILE, z.size);
    for (int head = group * shared; head < (group + 1) * shared; head++)
        for (int i = j; i < room.steps; i++) {
            const int first = i * TILE;
            const size_t lane = (size_t)batch * z.heads + head, step = lane * room.steps + i;
            const float *top = room.top + step * TILE, *dot = room.dot + step * TILE;
            float s[N][N], dp[N][N];
            __syncthreads();
            load_tile<TILE, WIDTH>(qs, q.at(batch, head, first), q.row, z.context - first, z.size);
            load_tile<TILE, WIDTH>(dos, dout.at(batch, head, first), dout.row, z.context - first, z.size);
            __syncthreads();
            scores<TILE, WIDTH>(s, qs, ks, y, x);
            scores<TILE, WIDTH>(dp, dos, vs, y, x);
#pragma unroll
            for (int r = 0; r < N; r++)
#pragma unroll
                for (int c = 0; c < N; c++) {
                    const int row = y * N + r, column = x + 16 * c;
                    const float p =
                        i == j && column > row ? 0.0f : exp2f(s[r][c] * (z.factor * LOG2E) - top[row]);
                    ps[row * (TILE + 4) + column] = p;
                    ds[row * (TILE + 4) + column] = p * (dp[r][c] - dot[row]);
                }
            __syncthreads();
            mix<TILE, WIDTH, 1, TILE + 4>(sum_v, ps, dos, y, x);
            mix<TILE, WIDTH, 1, TILE + 4>(sum_k, ds, qs, y, x);
            float sum_q[N][WIDTH / 16] = {};
            mix<TILE, WIDTH, TILE + 4, 1>(sum_q, ds, ks, y, x);
            int *turn = room.turn + step * WARPS + threadIdx.x / 32;
            wait_turn(turn, i - j, threadIdx.x % 32);
            float *so_far = room.dq + step * TILE * WIDTH + threadIdx.x;
#pragma unroll
            for (int n = 0; n < N * WIDTH / 16; n++) {
                float *sum = &sum_q[n / (WIDTH / 16)][n % (WIDTH / 16)];
                if (i > j)
                    *sum += __ldcg(so_far + n * THREADS);
                if (j > 0)
                    __stcg(so_far + n * THREADS, *sum);
            }
            if (j == 0)
                write_sums<TILE, WIDTH>(dq.at(batch, head, first), dq.row, z.context - first, z.size, sum_q,
                                        factor, y, x);
            end_turn(turn, i - j, threadIdx.x % 32);
        }
    write_sums<TILE, WIDTH>(dk.at(batch, group, j * TILE), dk.row, z.context - j * TILE, z.size, sum_k,
                            factor, y, x);
    write_sums<TILE, WIDTH>(dv.at(batch, group, j * TILE), dv.row, z.context - j * TILE, z.size, sum_v, one,
                            y, x);
}

template <int TILE, int WIDTH, typename T>
static cudaError_t start_forward(const sizes &z, rows<const T> q, rows<const T> k, rows<const T> v,
                                 rows<T> out, float *lse, cudaStream_t stream) {
    const unsigned blocks = (unsigned)((z.context + TILE - 1) / TILE * z.batch * z.heads);
    const size_t shared = sizeof(float) * (3 * TILE * (WIDTH + 4) + TILE * (TILE + 4));
    return launch(attend_f32<TILE, WIDTH, T>, blocks, THREADS, shared, stream, z, q, k, v, out, lse);
}

template <typename T>
cudaError_t forward_f32(const sizes &z, rows<const T> q, rows<const T> k, rows<const T> v, rows<T> out,
                        float *lse, cudaStream_t stream) {
    switch (width_of(z.size)) {
    case 64:
        return start_forward<64, 64, T>(z, q, k, v, out, lse, stream);
    case 128:
        return start_forward<64, 128, T>(z, q, k, v, out, lse, stream);
    default:
        return start_forward<32, 256, T>(z, q, k, v, out, lse, stream);
    }
}

template <int TILE, int WIDTH, typename T>
static cudaError_t start_backward(const sizes &z, rows<const T> q, rows<const T> k, rows<const T> v,
                                  rows<const T> dout, const backward_room &room, rows<T> dq, rows<T> dk,
                                  rows<T> dv, cudaStream_t stream) {
    const unsigned blocks = (unsigned)(room.steps * z.batch * z.kv_heads);
    const size_t shared = sizeof(float) * (4 * TILE * (WIDTH + 4) + 2 * TILE * (TILE + 4));
    return launch(differentiate_f32<TILE, WIDTH, T>, blocks, THREADS, shared, stream, z, q, k, v, dout, room,
                  dq, dk, dv);
}

template <typename T>
cudaError_t backward_f32(const sizes &z, rows<const T> q, rows<const T> k, rows<const T> v,
                         rows<const T> dout, const backward_room &room, rows<T> dq, rows<T> dk, rows<T> dv,
                         cudaStream_t stream) {
    switch (width_of(z.size)) {
    case 64:
        return start_backward<64, 64, T>(z, q, k, v, dout, room, dq, dk, dv, stream);
    case 128:
        return start_backward<64, 128, T>(z, q, k, v, dout, room, dq, dk, dv, stream);
    default:
        return start_backward<32, 256, T>(z, q, k, v, dout, room, dq, dk, dv, stream);
    }
}

#define INSTANCES(T)                                                                                         \
    template cudaError_t forward_f32(const sizes &, rows<const T>, rows<const T>, rows<const T>, rows<T>,    \
                                     float *, cudaStream_t);                                                 \
    template cudaError_t backward_f32(const sizes &, rows<const T>, rows<const T>, rows<const T>,            \
                                      rows<const T>, const backward_room &, rows<T>, rows<T>, rows<T>,       \
                                      cudaStream_t);
INSTANCES(float)
INSTANCES(bf16)
