/* The part of cuBLASLt that we call, declared here and loaded at run time, so that neither building nor a
 * run on the cpu needs it. Handles and descriptors are opaque pointers; numbers are those of cublasLt.h,
 * which a test compares. */
#pragma once

#include "base/status.h"
#include <cuda_runtime_api.h>
#include <stdint.h>

/* An algorithm with all its settings: valid for the version that chose it. */
typedef struct sl_lt_algo {
    uint64_t data[8];
} sl_lt_algo;

typedef struct sl_lt_choice {
    sl_lt_algo algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} sl_lt_choice;

enum {
    SL_LT_F32 = 0, /* cudaDataType */
    SL_LT_BF16 = 14,
    SL_LT_SUM_F32 = 68, /* cublasComputeType_t: bf16 operands, sums in f32 */
    SL_LT_STRICT_F32 = 69,
    SL_LT_TRANSPOSE_A = 3, /* cublasLtMatmulDescAttributes_t */
    SL_LT_TRANSPOSE_B = 4,
    SL_LT_EPILOGUE = 7,
    SL_LT_BIAS_POINTER = 8,
    SL_LT_EPILOGUE_BIAS = 4,
    SL_LT_WORKSPACE_BYTES = 1, /* cublasLtMatmulPreferenceAttributes_t */
    SL_LT_REDUCTION_SCHEMES = 3,
    SL_LT_ALIGNMENT_A = 5, /* B, C and D follow */
    SL_LT_REDUCTION_IN_COMPUTE_TYPE = 2,
    SL_LT_ALGO_ID =
        0, /* cublasLtMatmulAlgoConfigAttributes_t; up to the cluster's shape, all of 4 bytes or less */
    SL_LT_ALGO_SETTINGS = 9,
};

/* X(type of the result, name, parameters) */
#define SL_CUBLAS_LT(X)                                                                                      \
    X(int, cublasLtCreate, (void **handle))                                                                  \
    X(int, cublasLtDestroy, (void *handle))                                                                  \
    X(size_t, cublasLtGetVersion, (void))                                                                    \
    X(const char *, cublasLtGetStatusString, (int status))                                                   \
    X(int, cublasLtMatmulDescCreate, (void **operation, int compute, int scale))                             \
    X(int, cublasLtMatmulDescDestroy, (void *operation))                                                     \
    X(int, cublasLtMatmulDescSetAttribute, (void *operation, int key, const void *value, size_t bytes))      \
    X(int, cublasLtMatrixLayoutCreate,                                                                       \
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride))                            \
    X(int, cublasLtMatrixLayoutDestroy, (void *layout))                                                      \
    X(int, cublasLtMatmulPreferenceCreate, (void **preference))                                              \
    X(int, cublasLtMatmulPreferenceDestroy, (void *preference))                                              \
    X(int, cublasLtMatmulPreferenceSetAttribute,                                                             \
      (void *preference, int key, const void *value, size_t bytes))                                          \
    X(int, cublasLtMatmulAlgoGetHeuristic,                                                                   \
      (void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int wanted,      \
       sl_lt_choice *choices, int *found))                                                                   \
    X(int, cublasLtMatmulAlgoConfigGetAttribute,                                                             \
      (const sl_lt_algo *algo, int key, void *value, size_t bytes, size_t *written))                         \
    X(int, cublasLtMatmulAlgoCheck,                                                                          \
      (void *handle, void *operation, void *a, void *b, void *c, void *d, const sl_lt_algo *algo,            \
       sl_lt_choice *choice))                                                                                \
    X(int, cublasLtMatmul,                                                                                   \
      (void *handle, void *operation, const void *alpha, const void *a, void *a_layout, const void *b,       \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,             \
       const sl_lt_algo *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream))

typedef struct sl_cuda_blas {
    void *library, *handle;
#define SL_POINTER(type, name, parameters) type(*name) parameters;
    SL_CUBLAS_LT(SL_POINTER)
#undef SL_POINTER
} sl_cuda_blas;

/** Loads the library: SLACKLINE_CUBLASLT names its file; else libcublasLt.so.13 or .12 as the loader finds
 * it. The current device is the one it is for. SL_ESYS with what was tried; SL_ENOMEM. */
sl_status sl_cuda_blas_open(sl_cuda_blas **blas);
void sl_cuda_blas_close(sl_cuda_blas *blas);
