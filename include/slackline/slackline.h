/* SPDX-License-Identifier: Apache-2.0 */
/* The slackline library: it plans, bounds and times pipeline schedules for training, and adapts running jobs.
 *
 * A problem has the op times of each stage, their memory use, and the links between ranks; it is read from
 * YAML (docs/formats.md) or built here. A planner makes plans of problems: a schedule, its timing and a bound
 * that no schedule can beat. A chooser divides a model over the devices of a cluster. An orchestrator takes
 * the measurements of a running job, finds slow components and chooses actions. All handles are opaque and
 * owned by the caller.
 *
 * There is no state outside the handles: several threads may plan at once, with their own planners or a
 * shared one, and from the same problem while none of them changes it. Times are int64 nanoseconds (`_ns`);
 * ranks, stages and microbatches count from 0. */
#ifndef SLACKLINE_SLACKLINE_H
#define SLACKLINE_SLACKLINE_H

#include <slackline/balance.h>
#include <slackline/choose.h>
#include <slackline/orchestrator.h>
#include <slackline/plan.h>
#include <slackline/problem.h>
#include <slackline/status.h>
#include <slackline/topology.h>

#endif
