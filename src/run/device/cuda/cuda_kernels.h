/* The inside of the cuda device: its kernels by file. All work of a device is queued on one stream of its
 * own, so that kernels run in the order of their calls, and no call waits for the card.
 *
 * As on the cpu, contraction is off: a product is rounded before it is added. A sum over a row or over rows
 * is kept in a fixed number of lanes and added in one fixed tree, which depends neither on the grid nor on
 * the card. There are no atomics on numbers.
 *
 * A failed launch is kept in the device: the first error stays until `finish` reports it. */
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "run/device/device.h"

typedef struct sl_cuda_blas sl_cuda_blas;       /* cuBLASLt (cublas_lt.h) */
typedef struct sl_cuda_product sl_cuda_product; /* a product (cuda_matmul.c) */

typedef struct sl_cuda {
    sl_device device; /* first: a device is cast to this */
    int ordinal;
    size_t shared_bytes;    /* the most of a block, when asked for */
    cudaEvent_t mark[SL_DEVICE_MARKS];
    cudaStream_t stream;    /* of all kernels, copies and products */
    pthread_mutex_t mutex;  /* guards the next two */
    cudaError_t error;      /* the first that was seen, */
    const char *error_call; /* and the call that saw it */
    sl_cuda_blas *blas;
    sl_cuda_product *products; /* a list; a model has some thirty */
    float *sums;               /* parts of sums over rows, and losses of rows: SL_CUDA_SUMS floats */
    unsigned *counted;         /* how many blocks of a tile of columns have left theirs; 0 between kernels */
    char isa[400];
} sl_cuda;

/* Columns of a sum over rows: parts of two sums fit into `sums`, in tiles of 128. */
enum { SL_CUDA_COLUMNS = 65536, SL_CUDA_PARTS = 16, SL_CUDA_SUMS = 2 * SL_CUDA_PARTS * SL_CUDA_COLUMNS };

/** Makes the card that of the calling thread. */
void sl_cuda_enter(const sl_cuda *cuda);

/** Keeps `error` if it is one and the first. `call` is a text that stays. */
void sl_cuda_keep(sl_cuda *cuda, cudaError_t error, const char *call);

/** The error kept, as a status with its text. */
sl_status sl_cuda_kept_error(sl_cuda *cuda);

/** Keeps "invalid value" unless `holds`: a shape that the kernels cannot take. Returns `holds`. */
int sl_cuda_expect(sl_cuda *cuda, int holds, const char *what);

sl_status sl_cuda_matmul_prepare(sl_device *device, const sl_matmul_shape *shape, sl_matmul **product,
                                 size_t *scratch_bytes);
size_t sl_cuda_matmul_packed_bytes(const sl_matmul *product);
sl_status sl_cuda_matmul_pack(sl_device *device, sl_matmul *product, const float *b, void *packed);
sl_status sl_cuda_matmul(sl_device *device, sl_matmul *product, const float *a, const void *b,
                         const float *bias, float *c, void *scratch);
void sl_cuda_matmul_close(sl_cuda *cuda);

/** out[out_rows][out_stride], of that type, = x[rows][stride], `columns` of each row, and 0 in what is
 * beyond. out_stride is a multiple of 8. */
void sl_cuda_pad(sl_cuda *cuda, int type, int rows, int columns, int stride, const float *x, int out_rows,
                 int out_stride, void *out);
/** The same of the transpose: out[out_rows][out_stride], of x[rows][stride] with `columns` of each row. */
void sl_cuda_pad_turned(sl_cuda *cuda, int type, int rows, int columns, int stride, const float *x,
                        int out_rows, int out_stride, void *out);
/** c[rows][c_stride] = x[rows][stride], `columns` of each row. */
void sl_cuda_take_product(sl_cuda *cuda, int rows, int columns, int stride, const float *x, int c_stride,
                          float *c);

/** Whether the program has code for the current card: cudaErrorNoKernelImageForDevice if not. */
cudaError_t sl_cuda_find_code(void);

/** Each fills its part of the table. */
void sl_cuda_fill_memory(sl_device *device);
void sl_cuda_fill_update(sl_device *device);
void sl_cuda_fill_norms(sl_device *device);
void sl_cuda_fill_sums(sl_device *device);
void sl_cuda_fill_pointwise(sl_device *device);
void sl_cuda_fill_embed(sl_device *device);
void sl_cuda_fill_entropy(sl_device *device);

size_t sl_cuda_attention_scratch(const sl_device *device, const sl_attention_shape *shape);
void sl_cuda_attention(sl_device *device, const sl_attention_shape *shape, const float *q, const float *k,
                       const float *v, float *out, float *lse, float *scratch);
void sl_cuda_attention_grad(sl_device *device, const sl_attention_shape *shape, const float *q,
                            const float *k, const float *v, const float *out, const float *lse,
                            const float *dout, float *dq, float *dk, float *dv, float *scratch);

#ifdef __cplusplus
}
#endif

/* Queues kernel<<<grid, block, shared bytes>>>(...) on the stream of `cuda` and keeps an error of the launch.
 */
#ifndef SL_CUDA_LAUNCH
#define SL_CUDA_LAUNCH(cuda, kernel, grid, block, shared, ...)                                               \
    do {                                                                                                     \
        sl_cuda_enter((cuda));                                                                               \
        kernel<<<(grid), (block), (shared), (cuda)->stream>>>(__VA_ARGS__);                                  \
        sl_cuda_keep((cuda), cudaGetLastError(), #kernel);                                                   \
    } while (0)
#endif
