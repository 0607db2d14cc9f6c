#include "notice/gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#define LIBRARY "libcuda.so.1"

static struct {
    pthread_once_t once;
    int opened;
    const char *missing; /* a function */
    int error;           /* of cuInit */
    sl_cuda_driver cuda;
} driver = {.once = PTHREAD_ONCE_INIT};

static void load(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    driver.opened = 1;
#define SL_LOAD(name, parameters)                                                                            \
    *(void **)&driver.cuda.name = dlsym(library, #name);                                                     \
    if (!driver.cuda.name)                                                                                   \
        driver.missing = #name;
    SL_CUDA_CALLS(SL_LOAD)
#undef SL_LOAD
    if (!driver.missing)
        driver.error = driver.cuda.cuInit(0);
}

#define NO_DEVICE 100

sl_status sl_cuda_open(const sl_cuda_driver **cuda) {
    pthread_once(&driver.once, load);
    if (!driver.opened)
        return sl_error(SL_ENONE, "no driver of NVIDIA: " LIBRARY " is not there");
    if (driver.missing)
        return sl_error(SL_ESYS, LIBRARY " has no %s", driver.missing);
    if (driver.error == NO_DEVICE)
        return sl_error(SL_ENONE, "NVIDIA's driver finds no GPU");
    *cuda = &driver.cuda;
    return sl_cuda_error(&driver.cuda, "cuInit", driver.error);
}

sl_status sl_cuda_error(const sl_cuda_driver *cuda, const char *what, int error) {
    const char *text = NULL;
    if (error == 0)
        return SL_OK;
    if (cuda->cuGetErrorString(error, &text) != 0 || !text)
        text = "unknown error";
    return sl_error(SL_ESYS, "%s: %s (%d)", what, text, error);
}
