/* Products of a warpgroup (4 warps) on the tensor cores of compute capability 9.0, with operands in shared
 * memory. PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
 *
 * An operand in shared memory is panels of [rows][64] bf16, each row 128 bytes, a panel 1,024-byte aligned;
 * the 16-byte chunk c of row r is in slot c ^ (r % 8) of its row (the layout "128-byte swizzle"). A product
 * is 64 rows by 8 N columns, 16 deep; warp w of the group has its rows 16 w and on, spread over lanes as in
 * `multiply` of warp.cuh.
 *
 * Products run asynchronously. Until `wait_products`, their sums and their left operand in registers must not
 * be touched, nor their operands in shared memory be overwritten. */
#pragma once

#include "run/device/cuda/warp.cuh"
#include <cuda.h>

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SL_WARPGROUPS 1 /* the instructions exist */
#endif

/** Operand whose rows are rows (left) or columns (right) of the product; `at`: its first row and column in a
 * panel. */
SL_DEVICE uint64_t describe_rows(const bf16 *at) {
    const uint64_t address = (uint32_t)__cvta_generic_to_shared(at);
    return (address & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

/** Operand whose rows are the depth of the product; of more than 64 columns, panels are `apart` elements
 * apart. */
SL_DEVICE uint64_t describe_depth(const bf16 *at, int apart) {
    const uint64_t address = (uint32_t)__cvta_generic_to_shared(at);
    return (address & 0x3ffff) >> 4 | (uint64_t)(apart * 2 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/** Before products: what this thread wrote to registers and, after `publish_shared`, to shared memory is seen
 * by them. */
SL_DEVICE void begin_products(void) {
#ifdef SL_WARPGROUPS
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
    __trap(); /* built for another card: never a wrong result */
#endif
}

/** Products since the last call are a group. */
SL_DEVICE void end_products(void) {
#ifdef SL_WARPGROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/** Until at most `LEFT` groups run. */
template <int LEFT> SL_DEVICE void wait_products(void) {
#ifdef SL_WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(LEFT) : "memory");
#endif
}

/** What this thread wrote to shared memory is seen by products of all threads that it meets at a barrier
 * next. */
SL_DEVICE void publish_shared(void) {
#ifdef SL_WARPGROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#define C1(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define C4(i) C1(i), C1(i + 1), C1(i + 2), C1(i + 3)
#define C8(i) C4(i), C4(i + 4)
#define C16(i) C8(i), C8(i + 8)

/* c (+)= a b. `add` 0: c is overwritten. DEPTH_A, DEPTH_B: the operand is of describe_depth. */

#define SUMS_8                                                                                               \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "             \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

template <int DEPTH_A, int DEPTH_B>
SL_DEVICE void multiply_group(float (&c)[8][4], uint64_t a, uint64_t b, int add) {
#ifdef SL_WARPGROUPS
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_8
                 "}, %32, %33, p, 1, 1, %35, %36; }"
                 : C8(0)
                 : "l"(a), "l"(b), "r"(add), "n"(DEPTH_A), "n"(DEPTH_B));
#endif
}

template <int DEPTH_B>
SL_DEVICE void multiply_group(float (&c)[8][4], const uint32_t (&a)[4], uint64_t b, int add) {
#ifdef SL_WARPGROUPS
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_8
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38; }"
                 : C8(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(DEPTH_B));
#endif
}

#define SUMS_16                                                                                              \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "             \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "             \
    "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "             \
    "%56, %57, %58, %59, %60, %61, %62, %63"

template <int DEPTH_A, int DEPTH_B>
SL_DEVICE void multiply_group(float (&c)[16][4], uint64_t a, uint64_t b, int add) {
#ifdef SL_WARPGROUPS
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SUMS_16
                 "}, %64, %65, p, 1, 1, %67, %68; }"
                 : C16(0)
                 : "l"(a), "l"(b), "r"(add), "n"(DEPTH_A), "n"(DEPTH_B));
#endif
}

template <int DEPTH_B>
SL_DEVICE void multiply_group(float (&c)[16][4], const uint32_t (&a)[4], uint64_t b, int add) {
#ifdef SL_WARPGROUPS
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SUMS_16
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70; }"
                 : C16(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(DEPTH_B));
#endif
}

/* ---- copies of tiles by the memory's own engine, and barriers that wait for them ---- */

/* Rows of heads in memory as the engine knows them; a kernel takes it as __grid_constant__. */
typedef CUtensorMap tile_map;

/** The map of x[batch][heads][context][64 panels], of which a copy takes one panel of `box` rows. Beyond the
 * context are zeros. All addresses and strides are multiples of 16 bytes. */
static inline cudaError_t make_map(tile_map *map, const bf16 *x, int batch, int heads, int context, int width,
                                   size_t batch_stride, size_t head_stride, size_t row_stride, int box) {
    typedef CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                               const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                               CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                               CUtensorMapFloatOOBfill);
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                               cudaEnableDefault, &found);
    if (error != cudaSuccess || !function)
        return error != cudaSuccess ? error : cudaErrorNotSupported;
    const cuuint64_t sizes[] = {(cuuint64_t)width, (cuuint64_t)context, (cuuint64_t)heads, (cuuint64_t)batch},
                     strides[] = {2 * row_stride, 2 * head_stride, 2 * batch_stride};
    const cuuint32_t part[] = {64, (cuuint32_t)box, 1, 1}, steps[] = {1, 1, 1, 1};
    return ((encode)function)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, (void *)x, sizes, strides, part,
                              steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

SL_DEVICE void open_barrier(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(arrivals)
                 : "memory");
}

/** After open_barrier, before threads meet: copies see the barriers. */
SL_DEVICE void publish_barriers(void) {
#ifdef SL_WARPGROUPS
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

SL_DEVICE void arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
}

/** Arrives, and makes the phase wait for `bytes` of copies. */
SL_DEVICE void expect_bytes(uint64_t *barrier, int bytes) {
#ifdef SL_WARPGROUPS
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(bytes)
                 : "memory");
#endif
}

/** Until the phase of this parity has ended; parity 1 is over at once for a new barrier. */
SL_DEVICE void await_barrier(uint64_t *barrier, int parity) {
#ifdef SL_WARPGROUPS
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra done; "
                 "bra again; "
                 "done: }"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(barrier)), "r"(parity)
                 : "memory");
#endif
}

/** Starts the copy of a panel: columns from `column`, rows from `row` on. The barrier expects its bytes. */
SL_DEVICE void copy_panel(bf16 *to, const tile_map *map, int column, int row, int head, int batch,
                          uint64_t *barrier) {
#ifdef SL_WARPGROUPS
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, "
                 "%4, %5}], [%6];"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(map), "r"(column), "r"(row), "r"(head),
                   "r"(batch), "r"((uint32_t)__cvta_generic_to_shared(barrier))
                 : "memory");
#endif
}

/* A group that only starts copies leaves registers to those that compute. */
template <int COUNT> SL_DEVICE void give_registers(void) {
#ifdef SL_WARPGROUPS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(COUNT));
#endif
}

template <int COUNT> SL_DEVICE void take_registers(void) {
#ifdef SL_WARPGROUPS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(COUNT));
#endif
}
