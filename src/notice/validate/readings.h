/* Readings of system files about processors, control groups and processes. Pure: text in, numbers out, for
 * version 1 and version 2 of control groups; a missing value is distinguished from 0. Formats: Linux,
 * Documentation/admin-guide/cgroup-v1, cgroup-v2.rst, Documentation/accounting/psi.rst, proc(5). */
#pragma once

#include "base/time.h"
#include <stddef.h>
#include <stdint.h>

/* Processors, by their number on the host; higher numbers are ignored. */
#define SL_CORES 1024
typedef struct sl_core_set {
    uint8_t bit[SL_CORES / 8];
} sl_core_set;

static inline int sl_core_set_has(const sl_core_set *cores, int core) {
    return core >= 0 && core < SL_CORES && (cores->bit[core / 8] >> (core % 8) & 1);
}
static inline void sl_core_set_add(sl_core_set *cores, int core) {
    if (core >= 0 && core < SL_CORES)
        cores->bit[core / 8] = (uint8_t)(cores->bit[core / 8] | 1u << (core % 8));
}
int sl_core_set_count(const sl_core_set *cores);

/* cpu.stat of a group, of either version. */
typedef struct sl_throttling {
    uint64_t times; /* nr_throttled: periods in which it was stopped */
    sl_time stopped;
} sl_throttling;

/** Nonzero if the text contains it (for the root group of version 2 it does not). */
int sl_read_cpu_stat(const char *text, sl_throttling *throttling);

/** The processors that a group may use: cpu.max of version 2, or cpu.cfs_quota_us and cpu.cfs_period_us of
 * version 1. 0: no limit, or missing. */
double sl_read_cpu_max(const char *max);
double sl_read_cfs_quota(const char *quota, const char *period);

/** /proc/pressure/cpu, or cpu.pressure: time in which some task waited for a processor; -1: missing. */
sl_time sl_read_pressure(const char *text);

/** From /proc/stat: ticks that the processors of `cores` were busy since the start (waiting for a disk is
 * idle); -1: missing. Stolen time counts: another guest had the processor. */
int64_t sl_read_busy(const char *text, const sl_core_set *cores);

/* A process, from /proc/PID/stat. */
typedef struct sl_process_reading {
    int pid, core;  /* the processor on which it last ran */
    uint64_t ticks; /* user and system */
    char name[20];
} sl_process_reading;

/** Nonzero if it is valid. Names may contain blanks and parentheses. */
int sl_read_process(const char *text, sl_process_reading *process);

/** From /proc/cpuinfo: mean of "cpu MHz" over `cores`; 0: missing. */
double sl_read_cpuinfo(const char *text, const sl_core_set *cores);

/** The folder of a process's group for the processor: `cgroup` is /proc/PID/cgroup, `mounts` is
 * /proc/self/mountinfo, `controller` "cpu" or "cpuset" (version 1) or "" (version 2). *mount is the length of
 * the mount point in it (the walk upwards ends there). Nonzero if there is one. */
int sl_read_group(const char *cgroup, const char *mounts, const char *controller, char *folder, size_t size,
                  size_t *mount);
