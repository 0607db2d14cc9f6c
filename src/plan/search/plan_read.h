/* A plan that was written as JSON (format slackline-plan-1) read back as a timeline: for pictures of plans
 * whose problem is not at hand. */
#pragma once

#include "plan/search/plan_memory.h"
#include <stddef.h>

#define SL_PLAN_NAME 64

/** Ops, collectives and messages of a plan into `timeline`, what ranks hold into `memory` (all NULL where the
 * file does not say: earlier versions wrote none), and its schedule's name. `file` stands in errors. SL_EINVAL
 * names what is wrong, and at which entry; nothing is believed that would not make a timeline. Free with
 * sl_timeline_free and sl_plan_memory_free, also on error. */
sl_status sl_plan_read_json(const char *file, const char *text, size_t size, sl_timeline *timeline,
                            sl_plan_memory *memory, char schedule[SL_PLAN_NAME]);
