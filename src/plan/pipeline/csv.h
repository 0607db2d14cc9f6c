/* Orders as CSV in the form of PyTorch's torch.distributed.pipelining: one line per rank, one cell per action
 * such as 0F7, 1I3, 2W5, 3B0, or (0F7;7B3)OVERLAP_F_B for a pair; empty cells are idle. Both of its forms are
 * read (plan/lower/written.h): compute_only, and compute_comms with SEND and RECV cells, the order of issue,
 * and UNSHARD, RESHARD and REDUCE_GRAD cells, which are checked against the ops and dropped (lowering makes
 * its own; plan/lower/comms_csv.h writes that form). */
#pragma once

#include "plan/pipeline/order.h"

/** The compute_only form: the sequence, without idle cells. SL_ENONE as sl_order_check_csv. */
sl_status sl_order_write_csv(const sl_problem *problem, const sl_order *order, FILE *out);

/** Whether an order has a CSV form that PyTorch runs as intended. SL_ENONE: its ops have parts, or the last
 * stage does not run its forwards in ascending microbatches (PyTorch takes the losses by position). */
sl_status sl_order_check_csv(const sl_problem *problem, const sl_order *order);

/** The cell of one op; for a pair both: `op` is its F, and its B follows it. */
void sl_op_write_csv(const sl_op *op, FILE *out);
