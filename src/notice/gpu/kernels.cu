// The products by which a GPU is tested (rates.h). All numbers are small integers, so that every sum is exact in f32, whatever its order.
// kernels.ptx is made of this file: nvcc -O3 -arch=compute_80 -ptx, and then ".version 7.0", which every driver since CUDA 11 takes.

// Counts threads with a wrong result, and remembers the multiprocessor of one.
struct Verdict {
    unsigned wrong, multiprocessor;
};

__device__ void count_wrong(Verdict *verdict, bool wrong) {
    if (!wrong)
        return;
    unsigned multiprocessor;
    asm("mov.u32 %0, %smid;" : "=r"(multiprocessor));
    verdict->multiprocessor = multiprocessor;
    atomicAdd(&verdict->wrong, 1u);
}

__device__ unsigned pair_of(float low, float high) {
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ void multiply(float *c, const unsigned *a, unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#define SUMS 8

// bf16 products with f32 sums: C += A B with A[i][k] = u(i) v(k) and B[k][j] = w(j), v(k) = 1 for even k, else 2, in turns with u + 1.
// So C[i][j] = rounds * 24 * w(j) * (2 u(i) + 1).
extern "C" __global__ void products_bf16(Verdict *verdict, int rounds) {
    int lane = threadIdx.x & 31, row = lane >> 2, column = 2 * (lane & 3);
    float u0 = 1 + (row & 3), u1 = u0; // of rows `row` and row + 8
    float w = 1 + (row & 3);           // the fragment of B has column j = row
    unsigned a[4] = {pair_of(u0, 2 * u0), pair_of(u1, 2 * u1), pair_of(u0, 2 * u0), pair_of(u1, 2 * u1)};
    unsigned other[4] = {pair_of(u0 + 1, 2 * u0 + 2), pair_of(u1 + 1, 2 * u1 + 2), pair_of(u0 + 1, 2 * u0 + 2), pair_of(u1 + 1, 2 * u1 + 2)};
    unsigned b = pair_of(w, w);
    float c[SUMS][4] = {};
#pragma unroll 1
    for (int i = 0; i < rounds; i++)
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            multiply(c[s], a, b, b);
            multiply(c[s], other, b, b);
        }
    float scale = 24.0f * (float)rounds * (2 * u0 + 1), left = scale * (float)(1 + (column & 3)), right = scale * (float)(1 + ((column + 1) & 3));
    bool wrong = false;
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        wrong |= c[s][0] != left || c[s][1] != right || c[s][2] != left || c[s][3] != right;
    count_wrong(verdict, wrong);
}

// f32: sums of x * y, with x and y small integers of each thread.
extern "C" __global__ void products_f32(Verdict *verdict, int rounds) {
    float x = (float)(1 + (threadIdx.x & 7)), y = (float)(1 + (threadIdx.x & 3)), sum[SUMS] = {};
#pragma unroll 1
    for (int i = 0; i < rounds; i++)
#pragma unroll
        for (int s = 0; s < SUMS; s++) {
            asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum[s]) : "f"(x), "f"(y));
            asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum[s]) : "f"(y), "f"(y));
        }
    bool wrong = false;
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        wrong |= sum[s] != (float)rounds * (x * y + y * y);
    count_wrong(verdict, wrong);
}
