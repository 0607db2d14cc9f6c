/* Evidence: the system's data around the products that test a device, which run in the control groups and on
 * the processors of the held program's rank, so that they meet the same conditions. Reads /proc and /sys
 * (readings.h); missing or forbidden data is "not known" and no error. */
#pragma once

#include "base/status.h"
#include "notice/validate/causes.h"
#include "notice/validate/readings.h"

#include <sched.h>

/* The original control groups and processors of this process. */
typedef struct sl_original_group {
    char group[3][1024]; /* folders of its control groups; "": none */
    cpu_set_t cores;
} sl_original_group;

void sl_original_group_find(sl_original_group *original);

/** Moves this process into the processor groups (cpu, cpuset) and onto the processors of process `pid`.
 * Nonzero if all of it was permitted; otherwise `why` names what was not. */
int sl_join_process(int pid, char *why, size_t size);

/** Moves it back. Nonzero if all of it was permitted. */
int sl_original_group_return(const sl_original_group *original);

/** GPUs that process `pid` has open: files whose names begin with `name` and go on with a number, such as
 * "/dev/nvidia" or "/dev/dri/renderD". */
int sl_gpus_of(int pid, const char *name);

/** The processors that this process may use. */
void sl_own_cores(sl_core_set *cores);

/** How long their quotas have stopped the control groups of process `pid`, and those above, since they were
 * made (cpu.stat, of version 1 or 2: the sum over processors, so of a group with several processes it may
 * exceed the time that has passed). -1: none has a quota's figures. *quota: the processors that they may use;
 * 0: no limit, or unknown. */
sl_time sl_quota_stopped(int pid, double *quota);

typedef struct sl_watch_cpu sl_watch_cpu;

/** Watches the processors `cores`; processes `ours[count]` of this host (the other members and the held
 * ranks) do not count as others' load. SL_ENOMEM. */
sl_status sl_watch_cpu_open(const sl_core_set *cores, const int *ours, int count, sl_watch_cpu **watch);
void sl_watch_cpu_close(sl_watch_cpu *watch);

/** Before and after one run of products, on the thread that computes. SL_ENOMEM. */
sl_status sl_watch_cpu_begin(sl_watch_cpu *watch);
sl_status sl_watch_cpu_end(sl_watch_cpu *watch);

/** Over all runs so far. */
void sl_watch_cpu_evidence(const sl_watch_cpu *watch, sl_evidence *evidence);
