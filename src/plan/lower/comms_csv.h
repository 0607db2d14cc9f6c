/* A program as CSV in PyTorch's compute_comms form: the cells of the order (plan/pipeline/csv.h) with
 * SEND_F, RECV_F, SEND_B, RECV_B between them, UNSHARD and RESHARD around a stage's ops and REDUCE_GRAD
 * behind its last W or B, without which PyTorch's gradients stay as many times too large as there are
 * microbatches.
 *
 * The rows are those that PyTorch's own lowering makes of the compute_only form. It runs all rows in turns, a
 * cell a turn; a SEND comes right behind the op that makes the message, and at the same moment its RECV is
 * added to the other rank's row. So both ranks see the messages between them, in both directions, in one
 * sequence: PyTorch tells them apart by nothing else, and nothing waits for something that comes behind it.
 */
#pragma once

#include "plan/lower/program.h"

#include <stdio.h>

/** Writes the compute_comms form of `order`, which sl_lower turned into `program`. SL_ENONE as
 * sl_order_check_csv; SL_ENOMEM; SL_ESYS when `out` cannot be written. */
sl_status sl_program_write_csv(const sl_problem *problem, const sl_order *order, const sl_program *program,
                               FILE *out);
