/* NVIDIA's driver, loaded at run time: no header and no library of CUDA is needed to build, and a node
 * without a GPU has none. The declarations are our own; a test compares them with the
 * real headers, if they are there. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifndef SL_CHECK_CUDA
typedef void *SL_CU_CONTEXT, *SL_CU_MODULE, *SL_CU_FUNCTION, *SL_CU_STREAM, *SL_CU_EVENT;
typedef unsigned long long SL_CU_MEMORY;
typedef int SL_CU_RESULT, SL_CU_DEVICE, SL_CU_ATTRIBUTE;
#endif

/* X(name, parameters): all functions of libcuda.so.1 that are used; each gives 0, or an error's number. */
#define SL_CUDA_CALLS(X)                                                                                     \
    X(cuInit, (unsigned flags))                                                                              \
    X(cuGetErrorString, (SL_CU_RESULT error, const char **text))                                             \
    X(cuDeviceGetByPCIBusId, (SL_CU_DEVICE * device, const char *pci))                                       \
    X(cuDeviceGetAttribute, (int *value, SL_CU_ATTRIBUTE attribute, SL_CU_DEVICE device))                    \
    X(cuCtxCreate_v2, (SL_CU_CONTEXT * context, unsigned flags, SL_CU_DEVICE device))                        \
    X(cuCtxDestroy_v2, (SL_CU_CONTEXT context))                                                              \
    X(cuModuleLoadData, (SL_CU_MODULE * module, const void *image))                                          \
    X(cuModuleGetFunction, (SL_CU_FUNCTION * function, SL_CU_MODULE module, const char *name))               \
    X(cuLaunchKernel,                                                                                        \
      (SL_CU_FUNCTION function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,  \
       unsigned threads_z, unsigned shared, SL_CU_STREAM stream, void **parameters, void **extra))           \
    X(cuMemGetInfo_v2, (size_t * available, size_t * total))                                                 \
    X(cuMemAlloc_v2, (SL_CU_MEMORY * memory, size_t bytes))                                                  \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                         \
    X(cuMemFreeHost, (void *memory))                                                                         \
    X(cuMemcpyHtoDAsync_v2, (SL_CU_MEMORY to, const void *from, size_t bytes, SL_CU_STREAM stream))          \
    X(cuMemcpyDtoHAsync_v2, (void *to, SL_CU_MEMORY from, size_t bytes, SL_CU_STREAM stream))                \
    X(cuMemcpyDtoDAsync_v2, (SL_CU_MEMORY to, SL_CU_MEMORY from, size_t bytes, SL_CU_STREAM stream))         \
    X(cuMemsetD32Async, (SL_CU_MEMORY memory, unsigned value, size_t count, SL_CU_STREAM stream))            \
    X(cuStreamCreate, (SL_CU_STREAM * stream, unsigned flags))                                               \
    X(cuStreamSynchronize, (SL_CU_STREAM stream))                                                            \
    X(cuEventCreate, (SL_CU_EVENT * event, unsigned flags))                                                  \
    X(cuEventRecord, (SL_CU_EVENT event, SL_CU_STREAM stream))                                               \
    X(cuEventElapsedTime, (float *ms, SL_CU_EVENT begin, SL_CU_EVENT end))

typedef struct sl_cuda_driver {
#define SL_FIELD(name, parameters) int(*name) parameters;
    SL_CUDA_CALLS(SL_FIELD)
#undef SL_FIELD
} sl_cuda_driver;

/** The driver's functions, loaded once and never unloaded. SL_ENONE: this node has no driver, or one that
 * finds no GPU; the text says which. SL_ESYS: it lacks a function, or fails. */
sl_status sl_cuda_open(const sl_cuda_driver **cuda);

/** SL_ESYS with the driver's own words on `error`, of the call `what`; SL_OK for 0. */
sl_status sl_cuda_error(const sl_cuda_driver *cuda, const char *what, int error);
