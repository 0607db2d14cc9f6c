/* Orders in the forms of other frameworks: what plan/export writes for DeepSpeed and Primus, and what these
 * frameworks dump.
 *
 * DeepSpeed: JSON, an object with `stages`, or that list alone: per stage the steps of its PipeSchedule, each
 * a list of instructions, ["ForwardPass", 3] or ["ForwardPass", {"buffer_id": 3}]. The forwards of a stage
 * are of microbatches 0, 1, ...; a backward is of the microbatch whose forward used its buffer last. Primus:
 * JSON, an object with `table`, or that list alone: per rank its nodes, {"func_type": "F", "mini_batch": 0,
 * "chunk": 0}. Or the lines that its print_schedule_table prints: Rank 0: (F|0|0),(SF|0|0).
 *
 * Sends, receives and everything else but the ops is left out: an order of a problem has its own. */
#pragma once

#include "plan/pipeline/order.h"
#include <stddef.h>

/** Whether a text is in one of these forms, or a plan's JSON, and not CSV: by its first character. */
int sl_order_table_is(const char *text, size_t size);

/** The order of `problem` in a text of one of these forms; `name` begins the errors. SL_EINVAL names rank and
 * node; also in regime fifo, since its order of messages is in CSV only. Whether the ranks stop is left to
 * lowering. Free with sl_order_free. */
sl_status sl_order_table_parse(const char *name, const char *text, size_t size, const sl_problem *problem,
                               sl_order *order);

/** Whether a text without blanks before it is a plan's JSON, which names its format first. */
int sl_order_is_plan(const char *text, size_t size);
