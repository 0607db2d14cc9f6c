#include "notice/round/gemm.h"
#include "base/clock.h"
#include "base/memory.h"
#include "run/device/device.h"

#include <stdlib.h>

#define N SL_GEMM_SIZE

struct sl_gemm {
    sl_device *device;
    sl_matmul *product;
    void *scratch;
    float *a, *b, *c;
};

static sl_status allocate(sl_gemm *gemm, size_t scratch) {
    float *memory = aligned_alloc(64, 3 * sizeof(float) * N * N);
    gemm->a = memory;
    gemm->scratch = aligned_alloc(64, (scratch + 127) / 64 * 64);
    if (!memory || !gemm->scratch)
        return sl_error(SL_ENOMEM, "out of memory for the test of a device");
    gemm->b = memory + (size_t)N * N;
    gemm->c = memory + 2 * (size_t)N * N;
    /* small integers: every sum is exact, so that a result can be checked */
    for (size_t i = 0; i < (size_t)N * N; i++) {
        gemm->a[i] = (float)((i * 7 + i / N) % 5) - 2;
        gemm->b[i] = (float)((i * 3 + i / N) % 7) - 3;
    }
    return SL_OK;
}

sl_status sl_gemm_open(int threads, sl_gemm **out) {
    const sl_matmul_shape shape = {
        .rows = N, .columns = N, .inner = N, .a_stride = N, .b_stride = N, .c_stride = N};
    sl_gemm *gemm;
    size_t scratch;
    SL_TRY(sl_alloc(&gemm, 1, sizeof *gemm));
    sl_status status;
    SL_TRY_GOTO(err_close, status, sl_device_open_cpu(threads, &gemm->device));
    SL_TRY_GOTO(err_close, status,
                gemm->device->matmul_prepare(gemm->device, &shape, &gemm->product, &scratch));
    SL_TRY_GOTO(err_close, status, allocate(gemm, scratch));
    *out = gemm;
    return SL_OK;
err_close:
    sl_gemm_close(gemm);
    return status;
}

void sl_gemm_close(sl_gemm *gemm) {
    if (!gemm)
        return;
    free(gemm->a);
    free(gemm->scratch);
    if (gemm->device)
        gemm->device->close(gemm->device);
    sl_free(gemm);
}

static sl_status multiply(sl_gemm *gemm) {
    return gemm->device->matmul(gemm->device, gemm->product, gemm->a, gemm->b, NULL, gemm->c, gemm->scratch);
}

/* A device that computes wrongly is worse than a slow one. */
static sl_status check(const sl_gemm *gemm) {
    for (size_t i = 0; i < N; i += 37) {
        size_t row = i, column = (i * 11) % N;
        float sum = 0;
        for (size_t k = 0; k < N; k++)
            sum += gemm->a[row * N + k] * gemm->b[k * N + column];
        if (gemm->c[row * N + column] < sum || gemm->c[row * N + column] > sum)
            return sl_error(SL_ESYS, "the device computes wrongly: %g instead of %g",
                            (double)gemm->c[row * N + column], (double)sum);
    }
    return SL_OK;
}

sl_status sl_gemm_warm(sl_gemm *gemm) {
    for (int i = 0; i < 2; i++)
        SL_TRY(multiply(gemm));
    return check(gemm);
}

sl_status sl_gemm_run(sl_gemm *gemm, sl_time window, double *gflops) {
    sl_time begin = sl_now(), now;
    double products = 0;
    do {
        SL_TRY(multiply(gemm));
        products++;
        now = sl_now();
    } while (now - begin < window);
    *gflops = products * 2.0 * N * N * N / (double)(now - begin);
    return check(gemm);
}
