/* Orders as CSV in the form of PyTorch's torch.distributed.pipelining: a line a rank, a cell an action such
 * as 0F7, 1I3, 2W5, 3B0; empty cells are idle. Both of its forms are read: compute_only, and compute_comms
 * with SEND, RECV, UNSHARD, RESHARD and REDUCE_GRAD cells, which are checked against the ops and dropped
 * (lowering makes its own). */
#ifndef SL_PLAN_PIPELINE_CSV_H
#define SL_PLAN_PIPELINE_CSV_H

#include "plan/pipeline/order.h"

/** Reads and checks (sl_order_check). SL_EINVAL names file, line, column and cell. Free with sl_order_free.
 */
sl_status sl_order_read_csv(const char *file, const sl_problem *problem, sl_order *order);

/** The compute_only form: the sequence, without idle cells. */
sl_status sl_order_write_csv(const sl_order *order, FILE *out);

#endif
