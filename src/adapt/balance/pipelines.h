/* Iteration times of replicas as functions of their microbatches, for cases without a formula: the pipeline
 * is planned for every requested number, and the plan's replay (plan/timing) gives the time. It includes
 * fill, links, collectives and the memory limit: the time is infinite if no schedule fits. Results are cached
 * and shared by equal replicas. */
#pragma once

#include "plan/pipeline/problem.h"

typedef struct sl_pipelines sl_pipelines;

/** For replicas with at most `most` microbatches (or the maximum of a problem, if that is less). `schedule`:
 * a family's name, or "auto" for the best family per number. SL_EINVAL. Close with sl_pipelines_close. */
sl_status sl_pipelines_open(const char *schedule, int most, sl_pipelines **pipelines);
void sl_pipelines_close(sl_pipelines *pipelines);

/** Adds a replica with the pipeline of `problem` (copied; its number of microbatches is ignored). `time` > 0,
 * ns: all op times are scaled so that F, I and W of a microbatch take this long on the busiest rank; 0: not
 * scaled. SL_EINVAL: a problem that does not allow every number of microbatches; SL_ENONE: no schedule even
 * for one microbatch. */
sl_status sl_pipelines_add(sl_pipelines *pipelines, const sl_problem *problem, double time);

/** F, I and W of a microbatch on the busiest rank, ns. Never fails. */
sl_time sl_pipelines_busiest(const sl_problem *problem);

/** The split with the smallest maximum of iteration times (sl_balance_curve): split[replicas added], and each
 * replica's time, ns, time[replicas added]. `limit`: [replicas added], 0: none; or NULL. If a rule makes a
 * shorter plan for one more microbatch, the search counts both as equally long; `time` is that of the plan.
 * SL_ENONE, SL_EINVAL as sl_balance. */
sl_status sl_pipelines_balance(sl_pipelines *pipelines, int microbatches, const int *limit, int *split,
                               sl_time *time);

/** Makespan of a replica's plan with 1 to `most` microbatches, ns. SL_ENONE: none fits. */
sl_status sl_pipelines_planned(sl_pipelines *pipelines, int replica, int microbatches, sl_time *time);

/** Plans made so far. Never fails. */
int sl_pipelines_plans(const sl_pipelines *pipelines);
