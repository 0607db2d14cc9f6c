/* SPDX-License-Identifier: Apache-2.0 */
/* slackline as a library: pipeline schedules for training, planned, proven and timed, and jobs that adapt.
 *
 * A problem says how long the ops of each stage take, what they do to memory, and what the links between
 * ranks are like; it is read from YAML (docs/formats.md) or filled in here. A planner makes plans of
 * problems: a schedule, its timing and a bound that no schedule can beat. An orchestrator takes the
 * measurements of a running job and says what is slow and what to do about it. All handles are opaque and
 * owned by the caller.
 *
 * Nothing is kept outside the handles: several threads may plan at once, each with its own planner or with a
 * shared one, from the same problem as long as none of them changes it. Times are int64 nanoseconds (`_ns`);
 * ranks, stages and microbatches count from 0. */
#ifndef SLACKLINE_SLACKLINE_H
#define SLACKLINE_SLACKLINE_H

#include <slackline/balance.h>
#include <slackline/orchestrator.h>
#include <slackline/plan.h>
#include <slackline/problem.h>
#include <slackline/status.h>
#include <slackline/topology.h>

#endif
