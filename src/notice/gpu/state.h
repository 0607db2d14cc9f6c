/* What NVIDIA's management library (libnvidia-ml.so.1, loaded at run time) says of a GPU: its name and address,
 * its link to the host, errors of its memory, and why its clocks are low. */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* Why clocks are lower than they could be (nvmlClocksEventReason...). */
enum {
    SL_GPU_IDLE = 0x1,
    SL_GPU_POWER_CAP = 0x4,
    SL_GPU_HW_SLOWDOWN = 0x8,
    SL_GPU_SW_THERMAL = 0x20,
    SL_GPU_HW_THERMAL = 0x40,
    SL_GPU_POWER_BRAKE = 0x80
};

/* Sent between processes as is. */
typedef struct sl_gpu_state {
    char name[96], pci[32];
    int32_t lanes, lanes_max, generation, generation_max; /* of the link to the host; 0: unknown */
    int32_t mhz, mhz_max, memory_mhz, memory_mhz_max;     /* of multiprocessors and memory; 0: unknown */
    double watts, watts_max;                              /* 0: unknown */
    uint64_t reasons;
    int64_t uncorrected;                 /* errors of its memory since the driver was loaded; -1: unknown */
    int32_t remap_pending, remap_failed; /* rows of its memory that must be, or could not be replaced */
    int32_t celsius;                     /* 0: unknown */
    int32_t spare;
} sl_gpu_state;

/** The number of GPUs on this node. SL_ENONE: no library, or no GPU. SL_ESYS: the library fails. */
sl_status sl_gpu_count(int *count);

/** The state of GPU `index`. SL_ESYS: it fails ("GPU is lost"). */
sl_status sl_gpu_look(int index, sl_gpu_state *state);

/** Indices of the GPUs on which process `pid` works, at most `room`; 0: none, or the library does not know
 * its processes (other process namespace). */
int sl_gpu_of_process(int pid, int *index, int room);
