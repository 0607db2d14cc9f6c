#include "run/device/cuda/cublas_lt.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static sl_status load(sl_cuda_blas *blas) {
    const char *set = secure_getenv("SLACKLINE_CUBLASLT"), *names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    if (set && *set) {
        blas->library = dlopen(set, RTLD_NOW | RTLD_LOCAL);
        return blas->library ? SL_OK : sl_error(SL_ESYS, "SLACKLINE_CUBLASLT: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && !blas->library; i++)
        blas->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return blas->library ? SL_OK
                         : sl_error(SL_ESYS,
                                    "neither libcublasLt.so.13 nor libcublasLt.so.12 can be loaded (%s): "
                                    "SLACKLINE_CUBLASLT may name the file",
                                    dlerror());
}

static sl_status find(sl_cuda_blas *blas, const char *name, void *function) {
    void *found = dlsym(blas->library, name);
    memcpy(function, &found, sizeof found);
    return found ? SL_OK : sl_error(SL_ESYS, "cuBLASLt has no %s", name);
}

static sl_status fill(sl_cuda_blas *blas) {
    SL_TRY(load(blas));
#define SL_FIND(type, name, parameters) SL_TRY(find(blas, #name, &blas->name));
    SL_CUBLAS_LT(SL_FIND)
#undef SL_FIND
    const int status = blas->cublasLtCreate(&blas->handle);
    return status ? sl_error(SL_ESYS, "cublasLtCreate: %s", blas->cublasLtGetStatusString(status)) : SL_OK;
}

sl_status sl_cuda_blas_open(sl_cuda_blas **out) {
    sl_cuda_blas *blas;
    SL_TRY(sl_alloc(&blas, 1, sizeof *blas));
    const sl_status status = fill(blas);
    if (status != SL_OK) {
        sl_cuda_blas_close(blas);
        return status;
    }
    *out = blas;
    return SL_OK;
}

/* The library stays loaded: its threads and its memory on the card outlive a handle. */
void sl_cuda_blas_close(sl_cuda_blas *blas) {
    if (blas && blas->handle)
        blas->cublasLtDestroy(blas->handle);
    sl_free(blas);
}
