#include "notice/gpu/rates.h"
#include "base/clock.h"
#include "notice/gpu/driver.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS 9
#define THREADS 256
#define BLOCKS 4         /* per multiprocessor */
#define ROUNDS_BF16 4096 /* of products_bf16: its sums stay below 2^24 */
#define ROUNDS_F32 32768
#define COPIED ((size_t)128 << 20)
#define COPIED_MIN ((size_t)8 << 20)
enum { MULTIPROCESSORS = 16, CAPABILITY = 75 }; /* CUdevice_attribute */

extern const char sl_gpu_kernels[];

typedef struct test {
    const sl_cuda_driver *cuda;
    sl_gpu_rates *rates;
    int device, multiprocessors;
    SL_CU_CONTEXT context;
    SL_CU_MODULE module;
    SL_CU_STREAM stream;
    SL_CU_EVENT begin, end;
    SL_CU_MEMORY verdict, from, to;
    uint32_t *host;
    size_t bytes; /* of `from`, `to` and `host` */
} test;

#define CU(call, ...) sl_cuda_error(t->cuda, #call, t->cuda->call(__VA_ARGS__))

static sl_status start(test *t, const char *pci) {
    SL_TRY(CU(cuDeviceGetByPCIBusId, &t->device, pci));
    SL_TRY(CU(cuDeviceGetAttribute, &t->multiprocessors, MULTIPROCESSORS, t->device));
    SL_TRY(CU(cuCtxCreate_v2, &t->context, 0, t->device));
    SL_TRY(CU(cuStreamCreate, &t->stream, 1));
    SL_TRY(CU(cuEventCreate, &t->begin, 0));
    SL_TRY(CU(cuEventCreate, &t->end, 0));
    SL_TRY(CU(cuMemAlloc_v2, &t->verdict, 2 * sizeof(uint32_t)));
    return CU(cuMemsetD32Async, t->verdict, 0, 2, t->stream);
}

static void stop(test *t) {
    if (t->host)
        t->cuda->cuMemFreeHost(t->host);
    if (t->context)
        t->cuda->cuCtxDestroy_v2(t->context); /* with all that belongs to it */
}

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Seconds that the GPU took since `begin` was recorded. */
static sl_status since(test *t, double *seconds) {
    float ms = 0;
    SL_TRY(CU(cuEventRecord, t->end, t->stream));
    SL_TRY(CU(cuStreamSynchronize, t->stream));
    SL_TRY(CU(cuEventElapsedTime, &ms, t->begin, t->end));
    *seconds = ms / 1e3;
    return SL_OK;
}

/* ---- products ---- */

static sl_status launch(test *t, SL_CU_FUNCTION function, int rounds) {
    void *parameters[] = {&t->verdict, &rounds};
    unsigned blocks = (unsigned)(BLOCKS * t->multiprocessors);
    return CU(cuLaunchKernel, function, blocks, 1, 1, THREADS, 1, 1, 0, t->stream, parameters, NULL);
}

/* Products for a third of the window unmeasured, then in chunks. */
static sl_status multiply(test *t, const char *name, int rounds, double flops, sl_time window,
                          void (*loaded)(void *), void *context, double *tflops) {
    SL_CU_FUNCTION function;
    double chunk[CHUNKS];
    SL_TRY(CU(cuModuleGetFunction, &function, t->module, name));
    sl_time begin = sl_now();
    int once = 0;
    do {
        SL_TRY(launch(t, function, rounds));
        once++;
        SL_TRY(CU(cuStreamSynchronize, t->stream));
    } while (sl_now() - begin < window / 3);
    int each = 1 + 2 * once / CHUNKS;
    for (int c = 0; c < CHUNKS; c++) {
        SL_TRY(CU(cuEventRecord, t->begin, t->stream));
        for (int i = 0; i < each; i++)
            SL_TRY(launch(t, function, rounds));
        if (c == CHUNKS - 1 && loaded)
            loaded(context);
        SL_TRY(since(t, &chunk[c]));
        chunk[c] = flops * rounds * each / chunk[c] / 1e12;
    }
    qsort(chunk, CHUNKS, sizeof chunk[0], by_size);
    *tflops = chunk[CHUNKS / 2];
    return SL_OK;
}

static sl_status products(test *t, sl_time window, void (*loaded)(void *), void *context) {
    double threads = (double)BLOCKS * t->multiprocessors * THREADS;
    uint32_t verdict[2];
    int capability = 0;
    SL_TRY(CU(cuDeviceGetAttribute, &capability, CAPABILITY, t->device));
    if (capability < 8) {
        snprintf(t->rates->why, sizeof t->rates->why,
                 "products need a GPU of compute capability 8.0 or later");
        return SL_OK;
    }
    SL_TRY(CU(cuModuleLoadData, &t->module, sl_gpu_kernels));
    /* a warp multiplies 16 x 16 by 16 x 8, twice for each of 8 sums */
    SL_TRY(multiply(t, "products_bf16", ROUNDS_BF16, threads / 32 * 16 * 2 * 16 * 16 * 8, window, loaded,
                    context, &t->rates->rate[SL_GPU_BF16]));
    SL_TRY(multiply(t, "products_f32", ROUNDS_F32, threads * 16 * 2, window, NULL, NULL,
                    &t->rates->rate[SL_GPU_F32]));
    SL_TRY(CU(cuMemcpyDtoHAsync_v2, verdict, t->verdict, sizeof verdict, t->stream));
    SL_TRY(CU(cuStreamSynchronize, t->stream));
    t->rates->wrong = verdict[0];
    t->rates->multiprocessor = verdict[0] ? (int)verdict[1] : -1;
    return SL_OK;
}

/* ---- copies ---- */

typedef enum direction { INSIDE, TO_GPU, FROM_GPU } direction;

static sl_status copy(test *t, direction where) {
    if (where == TO_GPU)
        return CU(cuMemcpyHtoDAsync_v2, t->from, t->host, t->bytes, t->stream);
    if (where == INSIDE)
        return CU(cuMemcpyDtoDAsync_v2, t->to, t->from, t->bytes, t->stream);
    return CU(cuMemcpyDtoHAsync_v2, t->host, t->to, t->bytes, t->stream);
}

static sl_status rate(test *t, direction where, int each, double *gb_s) {
    double chunk[CHUNKS], seconds;
    SL_TRY(copy(t, where));
    for (int c = 0; c < CHUNKS; c++) {
        SL_TRY(CU(cuEventRecord, t->begin, t->stream));
        for (int i = 0; i < each; i++)
            SL_TRY(copy(t, where));
        SL_TRY(since(t, &seconds));
        chunk[c] = (where == INSIDE ? 2.0 : 1.0) * each * (double)t->bytes / seconds / 1e9;
    }
    qsort(chunk, CHUNKS, sizeof chunk[0], by_size);
    *gb_s = chunk[CHUNKS / 2];
    return SL_OK;
}

static uint32_t pattern(size_t i) {
    return (uint32_t)i * UINT32_C(2654435761);
}

/* The host's bytes go to the GPU, from there to another part of its memory, and back. */
static sl_status copies(test *t) {
    size_t available = 0, total;
    SL_TRY(CU(cuMemGetInfo_v2, &available, &total));
    t->bytes = COPIED;
    while (t->bytes > available / 4)
        t->bytes /= 2;
    if (t->bytes < COPIED_MIN) {
        snprintf(t->rates->why, sizeof t->rates->why,
                 "copies were not measured: %zu MB of its memory are free", available >> 20);
        return SL_OK;
    }
    SL_TRY(CU(cuMemAlloc_v2, &t->from, t->bytes));
    SL_TRY(CU(cuMemAlloc_v2, &t->to, t->bytes));
    SL_TRY(CU(cuMemHostAlloc, (void **)&t->host, t->bytes, 0));
    size_t words = t->bytes / sizeof *t->host;
    for (size_t i = 0; i < words; i++)
        t->host[i] = pattern(i);
    SL_TRY(rate(t, TO_GPU, 1, &t->rates->rate[SL_GPU_TO]));
    SL_TRY(rate(t, INSIDE, 8, &t->rates->rate[SL_GPU_MEMORY]));
    memset(t->host, 0, t->bytes);
    SL_TRY(rate(t, FROM_GPU, 1, &t->rates->rate[SL_GPU_FROM]));
    for (size_t i = 0; i < words; i++)
        t->rates->corrupt += t->host[i] != pattern(i);
    return SL_OK;
}

sl_status sl_gpu_measure(const char *pci, sl_time window, void (*loaded)(void *), void *context,
                         sl_gpu_rates *rates) {
    test one = {.rates = rates}, *t = &one;
    sl_status status;
    *rates = (sl_gpu_rates){.multiprocessor = -1};
    SL_TRY(sl_cuda_open(&t->cuda));
    SL_TRY_GOTO(done, status, start(t, pci));
    SL_TRY_GOTO(done, status, products(t, window, loaded, context));
    SL_TRY_GOTO(done, status, copies(t));
done:
    stop(t);
    return status;
}
