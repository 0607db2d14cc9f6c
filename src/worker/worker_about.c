#include "base/build_id.h"
#include "base/memory.h"
#include "run/device/device.h"
#include "run/transport/scheduling.h"
#include "worker/worker_inside.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <mpi.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#ifdef SL_UCX
#include "run/rail/ucx.h"
#endif

static sl_status say_device(void) {
    sl_device *device;
    SL_TRY(sl_device_open_cpu(1, &device));
    const dnnl_version_t *version = dnnl_version();
    printf("oneDNN: %d.%d.%d\n", version->major, version->minor, version->patch);
    printf("isa: %s\nbf16: %s\n", device->isa, device->has_bf16 ? "yes" : "no");
    device->close(device);
    return SL_OK;
}

/* The first card, opened, so that its libraries are found, too. */
static void say_card(void) {
    sl_device *device;
    int cards;
    sl_status status = sl_device_cuda_cards(&cards);
    SL_THEN(status, sl_device_open_cuda(0, &device));
    if (status != SL_OK) {
        printf("CUDA is not there: %s\n", sl_error_text());
        return;
    }
    printf("CUDA: %d of: %s\n", cards, device->isa);
    device->close(device);
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
    printf("version: %s\n", sl_build_id());
    if (say_device() != SL_OK) {
        fprintf(stderr, "slackline-worker: %s\n", sl_error_text());
        return 1;
    }
    say_card();
    say_libraries();
    say_ucx();
    printf("scheduling: %s\n", sl_scheduling_obtain(SL_CLASS_FIFO));
    return fflush(stdout) == 0 ? 0 : 1;
}

enum { SIZE = 1 << 20 };

static unsigned char letter(int rank, int at) {
    return (unsigned char)(rank * 131 + at * 7 + (at >> 8));
}

/* Each rank sends to the next and receives from the previous one. */
static int ring(int rank, int ranks, unsigned char *out, unsigned char *in) {
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < SIZE; i++)
        out[i] = letter(rank, i);
    if (MPI_Sendrecv(out, SIZE, MPI_BYTE, next, 0, in, SIZE, MPI_BYTE, before, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return 0;
    for (int i = 0; i < SIZE; i++)
        if (in[i] != letter(before, i))
            return 0;
    return 1;
}

static int exchange(int rank, int ranks) {
    unsigned char *bytes;
    int sum = 0, well = 0, all = 0;
    if (sl_alloc(&bytes, 2, SIZE) == SL_OK)
        well = ring(rank, ranks, bytes, bytes + SIZE);
    sl_free(bytes);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    well = well && sum == ranks * (ranks - 1) / 2;
    MPI_Allreduce(&well, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* "Open MPI v4.1.4, package: ..., ident: ...": the first of these. */
static void say_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(text, &length);
    printf("library: %.*s\n", (int)strcspn(text, ",\n"), text);
}

int sl_worker_exchange(int *argc, char ***argv) {
    int rank, ranks;
    if (MPI_Init(argc, argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int well = exchange(rank, ranks);
    if (rank == 0 && well) {
        printf("exchange: %d ranks\n", ranks);
        say_library();
        fflush(stdout);
    } else if (rank == 0) {
        fprintf(stderr, "slackline-worker: a message between ranks arrived changed\n");
    }
    MPI_Finalize();
    return well ? 0 : 1;
}
