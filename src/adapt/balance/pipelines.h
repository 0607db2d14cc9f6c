/* What an iteration of each replica takes as a function of its microbatches, where a formula would not do:
 * its pipeline is planned for every number that is asked for, and the plan's replay (plan/timing) is the
 * answer. Fill, links, collectives and the memory limit are in it: a number that no schedule fits takes
 * forever. Answers are kept, and replicas that are alike share them. */
#pragma once

#include "plan/pipeline/problem.h"

typedef struct sl_pipelines sl_pipelines;

/** For replicas that take at most `most` microbatches (or as many as a problem may have, if that is less).
 * `schedule`: a family's name, or "auto": the best family for each number. SL_EINVAL. Close with
 * sl_pipelines_close. */
sl_status sl_pipelines_open(const char *schedule, int most, sl_pipelines **pipelines);
void sl_pipelines_close(sl_pipelines *pipelines);

/** One more replica, with the pipeline of `problem` (copied; its number of microbatches does not count).
 * `time` > 0, ns: all op times are multiplied so that F, I and W of a microbatch take the busiest rank as
 * long; 0: as they are. SL_EINVAL: a problem that cannot be asked for any number of microbatches; SL_ENONE:
 * no schedule even for one microbatch. */
sl_status sl_pipelines_add(sl_pipelines *pipelines, const sl_problem *problem, double time);

/** F, I and W of a microbatch on the rank that works longest, ns. Never fails. */
sl_time sl_pipelines_busiest(const sl_problem *problem);

/** The split with the least largest iteration time (sl_balance_curve): split[replicas added], and each
 * replica's time, ns, time[replicas added]. `limit`: [replicas added], 0: none; or NULL. Where a rule makes a
 * shorter plan for one microbatch more, the search takes both for as long; `time` is what the plan takes.
 * SL_ENONE, SL_EINVAL as sl_balance. */
sl_status sl_pipelines_balance(sl_pipelines *pipelines, int microbatches, const int *limit, int *split,
                               sl_time *time);

/** What the plan of a replica with 1 to `most` microbatches takes, ns. SL_ENONE: none fits. */
sl_status sl_pipelines_planned(sl_pipelines *pipelines, int replica, int microbatches, sl_time *time);

/** Plans made so far. Never fails. */
int sl_pipelines_plans(const sl_pipelines *pipelines);
