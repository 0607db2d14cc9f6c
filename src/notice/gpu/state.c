#include "notice/gpu/state.h"
#include "notice/gpu/management.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#define LIBRARY "libnvidia-ml.so.1"
#define PROCESSES 64
static struct {
    pthread_once_t once;
    int opened, error;
    const char *missing;
#define SL_FIELD(name, parameters) int(*name) parameters;
    SL_NVML_CALLS(SL_FIELD, SL_FIELD)
#undef SL_FIELD
} nvml = {.once = PTHREAD_ONCE_INIT};

static void load(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    nvml.opened = 1;
#define SL_LOAD(name, parameters) *(void **)&nvml.name = dlsym(library, #name);
#define SL_NEED(name, parameters)                                                                            \
    SL_LOAD(name, parameters)                                                                                \
    if (!nvml.name)                                                                                          \
        nvml.missing = #name;
    SL_NVML_CALLS(SL_NEED, SL_LOAD)
#undef SL_NEED
#undef SL_LOAD
    if (!nvml.missing)
        nvml.error = nvml.nvmlInit_v2();
}

static sl_status opened(void) {
    pthread_once(&nvml.once, load);
    if (!nvml.opened)
        return sl_error(SL_ENONE, LIBRARY " is not there");
    if (nvml.missing)
        return sl_error(SL_ESYS, LIBRARY " has no %s", nvml.missing);
    return nvml.error ? sl_error(SL_ESYS, LIBRARY ": error %d at its start", nvml.error) : SL_OK;
}

sl_status sl_gpu_count(int *count) {
    unsigned found = 0;
    SL_TRY(opened());
    int error = nvml.nvmlDeviceGetCount_v2(&found);
    if (error)
        return sl_error(SL_ESYS, LIBRARY ": error %d", error);
    *count = (int)found;
    return found ? SL_OK : sl_error(SL_ENONE, "this node has no GPU of NVIDIA");
}

static int number(int (*call)(SL_NVML, unsigned *), SL_NVML device) {
    unsigned value = 0;
    return call && call(device, &value) == 0 ? (int)value : 0;
}

static int number_of(int (*call)(SL_NVML, int, unsigned *), SL_NVML device, int kind) {
    unsigned value = 0;
    return call && call(device, kind, &value) == 0 ? (int)value : 0;
}

enum { MULTIPROCESSORS = 1, MEMORY = 2, UNCORRECTED = 1, VOLATILE = 0, CORE = 0 };

sl_status sl_gpu_look(int index, sl_gpu_state *s) {
    SL_NVML device;
    SL_NVML_PCI pci = {0};
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    unsigned long long count = 0, reasons = 0;
    *s = (sl_gpu_state){.uncorrected = -1};
    SL_TRY(opened());
    int error = nvml.nvmlDeviceGetHandleByIndex_v2((unsigned)index, &device);
    error = error ? error : nvml.nvmlDeviceGetName(device, s->name, sizeof s->name);
    error = error ? error : nvml.nvmlDeviceGetPciInfo_v3(device, &pci);
    if (error)
        return sl_error(SL_ESYS, "GPU %d: " LIBRARY ": error %d", index, error);
    snprintf(s->pci, sizeof s->pci, "%.*s", (int)sizeof pci.busId - 1, pci.busId);
    s->lanes = number(nvml.nvmlDeviceGetCurrPcieLinkWidth, device);
    s->lanes_max = number(nvml.nvmlDeviceGetMaxPcieLinkWidth, device);
    s->generation = number(nvml.nvmlDeviceGetCurrPcieLinkGeneration, device);
    s->generation_max = number(nvml.nvmlDeviceGetMaxPcieLinkGeneration, device);
    s->mhz = number_of(nvml.nvmlDeviceGetClockInfo, device, MULTIPROCESSORS);
    s->mhz_max = number_of(nvml.nvmlDeviceGetMaxClockInfo, device, MULTIPROCESSORS);
    s->memory_mhz = number_of(nvml.nvmlDeviceGetClockInfo, device, MEMORY);
    s->memory_mhz_max = number_of(nvml.nvmlDeviceGetMaxClockInfo, device, MEMORY);
    s->celsius = number_of(nvml.nvmlDeviceGetTemperature, device, CORE);
    s->watts = number(nvml.nvmlDeviceGetPowerUsage, device) / 1e3;
    s->watts_max = number(nvml.nvmlDeviceGetEnforcedPowerLimit, device) / 1e3;
    if (nvml.nvmlDeviceGetCurrentClocksThrottleReasons &&
        nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) == 0)
        s->reasons = reasons;
    if (nvml.nvmlDeviceGetTotalEccErrors &&
        nvml.nvmlDeviceGetTotalEccErrors(device, UNCORRECTED, VOLATILE, &count) == 0)
        s->uncorrected = (int64_t)count;
    if (nvml.nvmlDeviceGetRemappedRows &&
        nvml.nvmlDeviceGetRemappedRows(device, &corrected, &uncorrected, &pending, &failed) == 0) {
        s->remap_pending = (int)pending;
        s->remap_failed = (int)failed;
    }
    return SL_OK;
}

int sl_gpu_of_process(int pid, int *index, int room) {
    int gpus = 0, found = 0;
    if (sl_gpu_count(&gpus) != SL_OK || !nvml.nvmlDeviceGetComputeRunningProcesses_v3)
        return 0;
    for (int i = 0; i < gpus && found < room; i++) {
        SL_NVML device;
        SL_NVML_PROCESS process[PROCESSES];
        unsigned count = PROCESSES;
        if (nvml.nvmlDeviceGetHandleByIndex_v2((unsigned)i, &device) != 0 ||
            nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, process) != 0)
            continue;
        for (unsigned p = 0; p < count; p++)
            if (process[p].pid == (unsigned)pid) {
                index[found++] = i;
                break;
            }
    }
    return found;
}
