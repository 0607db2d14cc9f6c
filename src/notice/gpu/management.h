/* NVIDIA's management library, loaded at run time (state.c): the declarations that are used. A test compares
 * them with the real header, if it is there. */
#pragma once

#ifndef SL_CHECK_NVML
typedef void *SL_NVML;
typedef struct SL_NVML_PCI {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char busId[32];
} SL_NVML_PCI;
typedef struct SL_NVML_PROCESS {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, compute_instance;
} SL_NVML_PROCESS;
typedef int SL_NVML_CLOCK, SL_NVML_SENSOR, SL_NVML_ERROR, SL_NVML_COUNTER;
#endif

/* Y(name, parameters): needed; Z: may be missing or fail, then a value is unknown. */
#define SL_NVML_CALLS(Y, Z)                                                                                  \
    Y(nvmlInit_v2, (void))                                                                                   \
    Y(nvmlDeviceGetCount_v2, (unsigned *count))                                                              \
    Y(nvmlDeviceGetHandleByIndex_v2, (unsigned index, SL_NVML *device))                                      \
    Y(nvmlDeviceGetName, (SL_NVML device, char *name, unsigned length))                                      \
    Y(nvmlDeviceGetPciInfo_v3, (SL_NVML device, SL_NVML_PCI * pci))                                          \
    Z(nvmlDeviceGetCurrPcieLinkWidth, (SL_NVML device, unsigned *value))                                     \
    Z(nvmlDeviceGetMaxPcieLinkWidth, (SL_NVML device, unsigned *value))                                      \
    Z(nvmlDeviceGetCurrPcieLinkGeneration, (SL_NVML device, unsigned *value))                                \
    Z(nvmlDeviceGetMaxPcieLinkGeneration, (SL_NVML device, unsigned *value))                                 \
    Z(nvmlDeviceGetClockInfo, (SL_NVML device, SL_NVML_CLOCK kind, unsigned *value))                         \
    Z(nvmlDeviceGetMaxClockInfo, (SL_NVML device, SL_NVML_CLOCK kind, unsigned *value))                      \
    Z(nvmlDeviceGetTemperature, (SL_NVML device, SL_NVML_SENSOR kind, unsigned *value))                      \
    Z(nvmlDeviceGetPowerUsage, (SL_NVML device, unsigned *value))                                            \
    Z(nvmlDeviceGetEnforcedPowerLimit, (SL_NVML device, unsigned *value))                                    \
    Z(nvmlDeviceGetCurrentClocksThrottleReasons, (SL_NVML device, unsigned long long *reasons))              \
    Z(nvmlDeviceGetTotalEccErrors,                                                                           \
      (SL_NVML device, SL_NVML_ERROR kind, SL_NVML_COUNTER counter, unsigned long long *count))              \
    Z(nvmlDeviceGetRemappedRows,                                                                             \
      (SL_NVML device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed))     \
    Z(nvmlDeviceGetComputeRunningProcesses_v3, (SL_NVML device, unsigned *count, SL_NVML_PROCESS *processes))
