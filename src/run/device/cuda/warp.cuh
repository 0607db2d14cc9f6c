/* What attention's kernels need of the processor beyond CUDA C++: products of a warp on tensor cores,
 * asynchronous copies into shared memory, and flags between blocks. PTX ISA, sections "mma.m16n8k16",
 * "ldmatrix", "cp.async". */
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

#define SL_DEVICE static __device__ __forceinline__

/** The block's dynamic shared memory, 1,024-byte aligned. */
SL_DEVICE unsigned char *shared_memory(void) {
    extern __shared__ __align__(1024) unsigned char sl_shared[];
    return sl_shared;
}

/* Of an 8 x 8 matrix, lane l holds columns 2 (l % 4) and the next of row l / 4; lanes 8 m to 8 m + 7 give the
 * rows' addresses of matrix m. `turned`: of the matrix transposed. */
SL_DEVICE void load_matrices(uint32_t x[4], const bf16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

SL_DEVICE void load_turned_matrices(uint32_t x[4], const bf16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/** c[16][8] += a[16][16] b[16][8]. With g = lane / 4 and t = lane % 4: a[0] has row g and columns 2 t and 2 t
 * + 1, a[1] row g + 8, a[2] and a[3] columns 8 further; b0 has rows 2 t and 2 t + 1 of column g, b1 rows 8
 * further; c[0] and c[1] are row g, columns 2 t and 2 t + 1; c[2] and c[3] row g + 8. */
SL_DEVICE void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/** Copies 16 bytes, or writes zeros if not `real`. */
SL_DEVICE void copy_async(void *to, const void *from, bool real) {
    const int bytes = real ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes)
                 : "memory");
}

SL_DEVICE void finish_copies(void) {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/** 2^x to two units in the last place; 0 for -inf. */
SL_DEVICE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

SL_DEVICE uint32_t pack_bf16(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* A flag in device memory: what a block wrote before `release_flag` is seen by those who read its value. */
SL_DEVICE int acquire_flag(const int *flag) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

SL_DEVICE void release_flag(int *flag, int value) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" : : "l"(flag), "r"(value) : "memory");
}

/** *at += x, computed where the memory is. From compute capability 9.0 on. */
SL_DEVICE void add_at_memory(float4 *at, float4 x) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(at), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
                 : "memory");
#endif
}

/** Starts a kernel; `shared`: bytes of dynamic shared memory. */
template <typename... Parameters, typename... Arguments>
static cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, int threads, size_t shared,
                          cudaStream_t stream, Arguments... arguments) {
    if (shared > 48 * 1024) {
        const cudaError_t error =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (error != cudaSuccess)
            return error;
    }
    kernel<<<blocks, threads, shared, stream>>>(arguments...);
    return cudaGetLastError();
}
