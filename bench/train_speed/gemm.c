/* The machine's own rate of matrix products, as oneDNN reaches it: 2048 cubed, weights packed or not,
 * whichever is faster, best of some.
 *
 *   bench_gemm THREADS f32|bf16
 *
 * Prints GFLOP/s. */
#include "run/device/device.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 2048, TRIES = 8 };

static void must(sl_status status) {
    if (status == SL_OK)
        return;
    fprintf(stderr, "bench_gemm: %s\n", sl_error_text());
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *memory(size_t bytes) {
    float *x = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    for (size_t i = 0; x && i < bytes / sizeof *x; i++)
        x[i] = (float)(i * 2654435761u >> 16 & 0xff) / 256.0f - 0.5f;
    return x;
}

static double rate(sl_device *device, int type, int packed) {
    const size_t bytes = (size_t)SIZE * SIZE * sizeof(float);
    sl_matmul_shape shape = {.rows = SIZE,
                             .columns = SIZE,
                             .inner = SIZE,
                             .a_stride = SIZE,
                             .b_stride = SIZE,
                             .c_stride = SIZE,
                             .type = type,
                             .packed = packed};
    sl_matmul *product;
    size_t scratch_bytes;
    double best = 1e9;
    must(device->matmul_prepare(device, &shape, &product, &scratch_bytes));
    float *a = memory(bytes), *b = memory(bytes), *c = memory(bytes);
    void *scratch = memory(scratch_bytes), *weights = memory(device->matmul_packed_bytes(product));
    if (packed)
        must(device->matmul_pack(device, product, b, weights));
    for (int i = 0; i < TRIES; i++) {
        double begin = seconds();
        must(device->matmul(device, product, a, packed ? weights : b, NULL, c, scratch));
        double took = seconds() - begin;
        best = took < best ? took : best;
    }
    free(a);
    free(b);
    free(c);
    free(scratch);
    free(weights);
    return 2e-9 * SIZE * SIZE * SIZE / best;
}

int main(int argc, char **argv) {
    sl_device *device;
    if (argc != 3) {
        fprintf(stderr, "usage: bench_gemm THREADS f32|bf16\n");
        return 2;
    }
    const int type = strcmp(argv[2], "bf16") == 0 ? SL_BF16 : SL_F32;
    must(sl_device_open_cpu(atoi(argv[1]), &device));
    double plain = rate(device, type, 0), packed = rate(device, type, 1);
    printf("%.1f\n", plain > packed ? plain : packed);
    device->close(device);
    return 0;
}
