/* Readings: what files of the system say about processors, control groups and processes. Pure: text in,
 * numbers out, for version 1 and version 2 of control groups; what a text does not say is told apart from 0.
 * Formats: Linux, Documentation/admin-guide/cgroup-v1, cgroup-v2.rst, Documentation/accounting/psi.rst,
 * proc(5). */
#pragma once

#include "base/time.h"
#include <stddef.h>
#include <stdint.h>

/* Processors, by their number on the host; those beyond are not seen. */
#define SL_CORES 1024
typedef struct sl_core_set {
    uint8_t bit[SL_CORES / 8];
} sl_core_set;

static inline int sl_cores_has(const sl_core_set *cores, int core) {
    return core >= 0 && core < SL_CORES && (cores->bit[core / 8] >> (core % 8) & 1);
}
static inline void sl_cores_add(sl_core_set *cores, int core) {
    if (core >= 0 && core < SL_CORES)
        cores->bit[core / 8] = (uint8_t)(cores->bit[core / 8] | 1u << (core % 8));
}
int sl_cores_count(const sl_core_set *cores);

/* cpu.stat of a group, of either version. */
typedef struct sl_throttling {
    uint64_t times; /* nr_throttled: periods in which it was stopped */
    sl_time stopped;
} sl_throttling;

/** Nonzero when the text says it (the root group of version 2 does not). */
int sl_read_cpu_stat(const char *text, sl_throttling *throttling);

/** The processors that a group may use: cpu.max of version 2, or cpu.cfs_quota_us and cpu.cfs_period_us of
 * version 1. 0: no limit, or not said. */
double sl_read_cpu_max(const char *max);
double sl_read_cfs_quota(const char *quota, const char *period);

/** /proc/pressure/cpu, or cpu.pressure: time in which some task waited for a processor; -1: not said. */
sl_time sl_read_pressure(const char *text);

/** Of /proc/stat: ticks that the processors of `cores` were busy since the start (waiting for a disk is
 * idle); -1: not said. Stolen time counts: another guest had the processor. */
int64_t sl_read_busy(const char *text, const sl_core_set *cores);

/* A process, of /proc/PID/stat. */
typedef struct sl_process_reading {
    int pid, core;  /* the processor that it ran on last */
    uint64_t ticks; /* user and system */
    char name[20];
} sl_process_reading;

/** Nonzero when it is one. Names may hold blanks and brackets. */
int sl_read_process(const char *text, sl_process_reading *process);

/** Of /proc/cpuinfo: mean of "cpu MHz" over `cores`; 0: not said. */
double sl_read_cpuinfo(const char *text, const sl_core_set *cores);

/** The folder of a process's group for the processor: `cgroup` is /proc/PID/cgroup, `mounts` is
 * /proc/self/mountinfo, `controller` "cpu" or "cpuset" (version 1) or "" (version 2). *mount is the length of
 * the part that is the mount point (the walk upwards ends there). Nonzero when there is one. */
int sl_read_group(const char *cgroup, const char *mounts, const char *controller, char *folder, size_t size,
                  size_t *mount);
