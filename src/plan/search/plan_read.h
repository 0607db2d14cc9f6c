/* Reads a plan's JSON (format slackline-plan-1): as a timeline, to draw plans without their problem, or as an
 * order, to run it. A large plan has gigabytes: its bytes come in pieces, and an entry of a list is dropped
 * once it is read. Errors name the file, and the entry or the line. */
#pragma once

#include "plan/pipeline/order.h"
#include "plan/search/plan_memory.h"
#include <stddef.h>

#define SL_PLAN_NAME 64
#define SL_PLAN_BYTES ((uint64_t)32 << 30) /* for readers of files: more than the largest plan has */

typedef struct sl_plan_reader sl_plan_reader;

/** `file` is for errors; copied. `ops_alone`: messages and memory are not needed. Close with
 * sl_plan_reader_close, also on error (NULL is allowed). */
sl_status sl_plan_reader_open(const char *file, int ops_alone, sl_plan_reader **reader);
/** The next bytes, for an sl_plan_reader (pack/unpack.h). SL_EINVAL. */
sl_status sl_plan_reader_feed(void *reader, const char *bytes, size_t size);
/** After all bytes: ops, collectives and messages into `timeline`, memory use into `memory` (all NULL if
 * missing: earlier versions wrote none), and the schedule's name. SL_EINVAL: everything is checked that a
 * timeline needs. Free with sl_timeline_free and sl_plan_memory_free, also on error. */
sl_status sl_plan_reader_end(sl_plan_reader *reader, sl_timeline *timeline, sl_plan_memory *memory,
                             char schedule[SL_PLAN_NAME]);
/** The same as an order of `problem`, also in parts, which a CSV cannot express. SL_EINVAL; regime fifo is
 * refused, since its order of messages is in CSV only. Free with sl_order_free. */
sl_status sl_plan_reader_end_order(sl_plan_reader *reader, const char *file, const sl_problem *problem,
                                   sl_order *order);
void sl_plan_reader_close(sl_plan_reader *reader);

/** Both from `size` bytes at once; `name` replaces the file in errors. */
sl_status sl_plan_read_json(const char *name, const char *text, size_t size, sl_timeline *timeline,
                            sl_plan_memory *memory, char schedule[SL_PLAN_NAME]);
sl_status sl_plan_parse_order(const char *name, const char *text, size_t size, const sl_problem *problem,
                              sl_order *order);
