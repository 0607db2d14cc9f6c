/* Stands in for libcuda.so.1 and libnvidia-ml.so.1 where there is no GPU: three GPUs whose rates and readings
 * are those that an NVIDIA H200 gave (bf16 615, f32 54.6 TFLOP/s; 4080, 55.3 and 55.1 GB/s). STANDIN says
 * what is wrong with GPU 1: "slow" (products take 1.5 times as long, for heat), "wrong", "corrupt", "lanes",
 * "memory" (none is free), "errors", "lost". Processes are on the GPU STANDIN_GPU. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 3
static const char *wrong(int gpu) {
    const char *said = getenv("STANDIN");
    return gpu == 1 && said ? said : "";
}
static int is(int gpu, const char *what) {
    return strcmp(wrong(gpu), what) == 0;
}

/* ---- the driver: work takes no time; events have the time that it would have taken ---- */

static int current;
static double clock_s;
static uint32_t verdict[2];
typedef struct event {
    double at;
} event;

int cuInit(unsigned flags) {
    (void)flags;
    return getenv("STANDIN_NONE") ? 100 : 0;
}
int cuGetErrorString(int error, const char **text) {
    *text = error == 2 ? "out of memory" : "invalid device ordinal";
    return 0;
}
int cuDeviceGetByPCIBusId(int *device, const char *pci) {
    unsigned bus;
    if (sscanf(pci, "%*x:%x", &bus) != 1 || bus >= GPUS)
        return 101;
    *device = current = (int)bus;
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 16 ? 132 : 9;
    return 0;
}
int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    (void)flags;
    *context = &current;
    return is(device, "memory") ? 2 : 0;
}
int cuCtxDestroy_v2(void *context) {
    (void)context;
    return 0;
}
int cuModuleLoadData(void **module, const void *image) {
    *module = (void *)(uintptr_t)image;
    return strstr(image, ".target sm_80") ? 0 : 218;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = strstr(module, name) ? (void *)(uintptr_t)(strcmp(name, "products_bf16") == 0 ? 1 : 2) : NULL;
    return *function ? 0 : 500;
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    double rounds = *(int *)parameters[1], threads = (double)x * tx;
    double flops = function == (void *)1 ? threads / 32 * 8 * 2 * 16 * 8 * 16 * 2 : threads * 8 * 2 * 2;
    (void)y, (void)z, (void)ty, (void)tz, (void)shared, (void)stream, (void)extra;
    clock_s += rounds * flops / (function == (void *)1 ? 615e12 : 54.6e12) * (is(current, "slow") ? 1.5 : 1);
    if (is(current, "wrong"))
        verdict[0]++, verdict[1] = 77;
    usleep(500);
    return 0;
}
int cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = *total = (size_t)1 << 26;
    return 0;
}
int cuMemAlloc_v2(unsigned long long *memory, size_t bytes) {
    *memory = (unsigned long long)(uintptr_t)(bytes == sizeof verdict ? verdict : malloc(bytes));
    return 0;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    *memory = malloc(bytes);
    return 0;
}
int cuMemFreeHost(void *memory) {
    free(memory);
    return 0;
}
static int copied(void *to, const void *from, size_t bytes, double gb_s) {
    memcpy(to, from, bytes);
    clock_s += (double)bytes / gb_s / 1e9;
    return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    return copied((void *)(uintptr_t)to, from, bytes, 55.3);
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream) {
    (void)stream;
    return copied(to, (void *)(uintptr_t)from, bytes, 55.1);
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *stream) {
    (void)stream;
    copied((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes, 2040); /* read and written */
    if (is(current, "corrupt"))
        ((char *)(uintptr_t)to)[bytes / 2] ^= 1;
    return 0;
}
int cuMemsetD32Async(unsigned long long memory, unsigned value, size_t count, void *stream) {
    (void)stream;
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)(uintptr_t)memory)[i] = value;
    return 0;
}
int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    *stream = &clock_s;
    return 0;
}
int cuStreamSynchronize(void *stream) {
    (void)stream;
    return 0;
}
int cuEventCreate(void **made, unsigned flags) {
    (void)flags;
    *made = calloc(1, sizeof(event));
    return 0;
}
int cuEventRecord(void *one, void *stream) {
    (void)stream;
    ((event *)one)->at = clock_s;
    return 0;
}
int cuEventElapsedTime(float *ms, void *begin, void *end) {
    *ms = (float)((((event *)end)->at - ((event *)begin)->at) * 1e3);
    return 0;
}

/* ---- the management library: its handles are the numbers, from 1 ---- */

typedef struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char busId[32];
} pci;
typedef struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, compute_instance;
} process;

static int gpu_of(void *device) {
    return (int)(uintptr_t)device - 1;
}
int nvmlInit_v2(void) {
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = getenv("STANDIN_NONE") ? 0 : GPUS;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    *device = (void *)(uintptr_t)(index + 1);
    return is((int)index, "lost") ? 15 : 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    (void)device;
    snprintf(name, length, "NVIDIA H200");
    return 0;
}
int nvmlDeviceGetPciInfo_v3(void *device, pci *found) {
    *found = (pci){.bus = (unsigned)gpu_of(device)};
    snprintf(found->busId, sizeof found->busId, "00000000:%02X:06.0", gpu_of(device));
    return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *value) {
    *value = is(gpu_of(device), "lanes") ? 8 : 16;
    return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *value) {
    (void)device;
    *value = 16;
    return 0;
}
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *value) {
    *value = kind == 2 ? 3201 : is(gpu_of(device), "slow") ? 1300 : 1980;
    return 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *value) {
    (void)sensor;
    *value = is(gpu_of(device), "slow") ? 91 : 42;
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    *reasons = is(gpu_of(device), "slow") ? 0x48 : 0;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    (void)kind, (void)counter;
    *count = is(gpu_of(device), "errors") ? 4 : 0;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *found) {
    const char *gpu = getenv("STANDIN_GPU"), *pid = getenv("STANDIN_PID");
    *count = gpu && pid && atoi(gpu) == gpu_of(device);
    if (*count)
        *found = (process){.pid = (unsigned)atoi(pid)};
    return 0;
}
