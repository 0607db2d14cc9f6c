#include "worker/about.h"

#include "run/device/device.h"
#include "run/transport/scheduling.h"
#ifdef SL_UCX
#include "run/rail/ucx.h"
#endif

#include <dlfcn.h>
#include <hwloc.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <xxhash.h>

static sl_status say_device(void) {
    sl_device *device;
    SL_TRY(sl_device_open_cpu(1, &device));
    const dnnl_version_t *version = dnnl_version();
    printf("oneDNN: %d.%d.%d\n", version->major, version->minor, version->patch);
    printf("isa: %s\nbf16: %s\n", device->isa, device->has_bf16 ? "yes" : "no");
    device->close(device);
    return SL_OK;
}

static void say_libraries(void) {
    unsigned hwloc = hwloc_get_api_version(), xxhash = XXH_versionNumber();
    printf("hwloc: interface %u.%u.%u, built with %s\n", hwloc >> 16, hwloc >> 8 & 0xff, hwloc & 0xff,
           HWLOC_VERSION);
    printf("xxHash: %u.%u.%u\n", xxhash / 10000, xxhash / 100 % 100, xxhash % 100);
}

/* Loaded and asked, as a rail does. */
static void say_ucx(void) {
#ifdef SL_UCX
    const sl_ucx *ucx;
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("UCX is not there: %s\n", dlerror());
        return;
    }
    const char *(*version)(void) = NULL;
    *(void **)&version = dlsym(library, "ucp_get_version_string");
    if (sl_ucx_load(&ucx) == SL_OK)
        printf("UCX: %s\n", version ? version() : "version unknown");
    else
        printf("UCX fails: %s\n", sl_error_text());
#endif
}

int sl_worker_about(void) {
    printf("version: %s\n", SL_VERSION);
    if (say_device() != SL_OK) {
        fprintf(stderr, "slackline-worker: %s\n", sl_error_text());
        return 1;
    }
    say_libraries();
    say_ucx();
    printf("scheduling: %s\n", sl_scheduling_obtain(SL_CLASS_FIFO));
    return fflush(stdout) == 0 ? 0 : 1;
}
