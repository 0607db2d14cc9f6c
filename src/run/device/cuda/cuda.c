#include "base/memory.h"
#include "run/device/cpu_kernels.h"
#include "run/device/cuda/cublas_lt.h"
#include "run/device/cuda/cuda_kernels.h"

#include <stdio.h>

void sl_cuda_enter(const sl_cuda *cuda) {
    cudaSetDevice(cuda->ordinal); /* what fails then fails in the next call, too */
}

void sl_cuda_keep(sl_cuda *cuda, cudaError_t error, const char *call) {
    if (error == cudaSuccess)
        return;
    pthread_mutex_lock(&cuda->mutex);
    if (cuda->error == cudaSuccess) {
        cuda->error = error;
        cuda->error_call = call;
    }
    pthread_mutex_unlock(&cuda->mutex);
}

sl_status sl_cuda_kept_error(sl_cuda *cuda) {
    pthread_mutex_lock(&cuda->mutex);
    const cudaError_t error = cuda->error;
    pthread_mutex_unlock(&cuda->mutex);
    return error == cudaSuccess
               ? SL_OK
               : sl_error(SL_ESYS, "CUDA: %s: %s", cuda->error_call, cudaGetErrorString(error));
}

int sl_cuda_expect(sl_cuda *cuda, int holds, const char *what) {
    if (!holds)
        sl_cuda_keep(cuda, cudaErrorInvalidValue, what);
    return holds;
}

static sl_status check(cudaError_t error, const char *what) {
    return error == cudaSuccess ? SL_OK : sl_error(SL_ESYS, "CUDA: %s: %s", what, cudaGetErrorString(error));
}

/* All that the bits of a run may depend on. */
static sl_status describe(sl_cuda *cuda) {
    struct cudaDeviceProp card;
    int driver, runtime;
    SL_TRY(check(cudaGetDeviceProperties(&card, cuda->ordinal), "the card's properties"));
    SL_TRY(check(cudaDriverGetVersion(&driver), "the driver's version"));
    SL_TRY(check(cudaRuntimeGetVersion(&runtime), "the runtime's version"));
    if (sl_cuda_find_code() != cudaSuccess)
        return sl_error(SL_EINVAL,
                        "%s: this program has no code for compute capability %d.%d: build it with "
                        "-DCMAKE_CUDA_ARCHITECTURES=%d%d",
                        card.name, card.major, card.minor, card.major, card.minor);
    cuda->shared_bytes = card.sharedMemPerBlockOptin;
    snprintf(cuda->isa, sizeof cuda->isa, "%s, %d processors, driver %d.%d, CUDA %d.%d, cuBLASLt %zu",
             card.name, card.multiProcessorCount, driver / 1000, driver % 1000 / 10, runtime / 1000,
             runtime % 1000 / 10, cuda->blas->cublasLtGetVersion());
    return SL_OK;
}

static sl_status open_card(sl_cuda *cuda) {
    const size_t counts = SL_CUDA_COLUMNS / 128 * sizeof *cuda->counted;
    SL_TRY(check(cudaSetDevice(cuda->ordinal), "opening the card"));
    SL_TRY(sl_cuda_blas_open(&cuda->blas));
    SL_TRY(describe(cuda));
    SL_TRY(check(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "a stream"));
    for (int i = 0; i < SL_DEVICE_MARKS; i++)
        SL_TRY(check(cudaEventCreateWithFlags(&cuda->mark[i], cudaEventDisableTiming), "an event"));
    SL_TRY(check(cudaMalloc((void **)&cuda->sums, SL_CUDA_SUMS * sizeof *cuda->sums), "memory for sums"));
    SL_TRY(check(cudaMalloc((void **)&cuda->counted, counts), "memory for sums"));
    return check(cudaMemset(cuda->counted, 0, counts), "memory for sums");
}

static void close_cuda(sl_device *device) {
    sl_cuda *cuda = (sl_cuda *)device;
    sl_cuda_enter(cuda);
    if (cuda->stream)
        cudaStreamSynchronize(cuda->stream);
    if (cuda->blas)
        sl_cuda_matmul_close(cuda);
    sl_cuda_blas_close(cuda->blas);
    cudaFree(cuda->counted);
    cudaFree(cuda->sums);
    for (int i = 0; i < SL_DEVICE_MARKS; i++)
        if (cuda->mark[i])
            cudaEventDestroy(cuda->mark[i]);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    pthread_mutex_destroy(&cuda->mutex);
    sl_free(cuda);
}

sl_status sl_device_cuda_cards(int *cards) {
    const cudaError_t error = cudaGetDeviceCount(cards);
    return error == cudaSuccess ? SL_OK
                                : sl_error(SL_EINVAL, "there is no CUDA card: %s", cudaGetErrorString(error));
}

sl_status sl_device_open_cuda(int ordinal, sl_device **device) {
    sl_cuda *cuda;
    int cards;
    SL_TRY(sl_device_cuda_cards(&cards));
    if (ordinal < 0 || ordinal >= cards)
        return sl_error(SL_EINVAL, "there is no CUDA card %d, only %d", ordinal, cards);
    SL_TRY(sl_alloc(&cuda, 1, sizeof *cuda));
    cuda->ordinal = ordinal;
    pthread_mutex_init(&cuda->mutex, NULL);
    cuda->device = (sl_device){.kind = "cuda",
                               .isa = cuda->isa,
                               .threads = 1,
                               .has_bf16 = 1,
                               .matmul_prepare = sl_cuda_matmul_prepare,
                               .matmul_packed_bytes = sl_cuda_matmul_packed_bytes,
                               .matmul_pack = sl_cuda_matmul_pack,
                               .matmul = sl_cuda_matmul,
                               .attention_scratch = sl_cuda_attention_scratch,
                               .attention = sl_cuda_attention,
                               .attention_grad = sl_cuda_attention_grad,
                               .rope_table = sl_cpu_rope_table, /* on the host */
                               .close = close_cuda};
    sl_cuda_fill_memory(&cuda->device);
    sl_cuda_fill_update(&cuda->device);
    sl_cuda_fill_norms(&cuda->device);
    sl_cuda_fill_sums(&cuda->device);
    sl_cuda_fill_pointwise(&cuda->device);
    sl_cuda_fill_embed(&cuda->device);
    sl_cuda_fill_entropy(&cuda->device);
    const sl_status status = open_card(cuda);
    if (status != SL_OK) {
        close_cuda(&cuda->device);
        return status;
    }
    *device = &cuda->device;
    return SL_OK;
}
