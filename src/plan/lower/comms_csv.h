/* A program as CSV in PyTorch's compute_comms form: the cells of the order (plan/pipeline/csv.h) with SEND_F,
 * RECV_F, SEND_B, RECV_B between them, UNSHARD and RESHARD around a stage's ops and REDUCE_GRAD after its
 * last W or B, without which PyTorch's gradients are too large by a factor of the number of microbatches.
 *
 * The rows equal those that PyTorch's own lowering makes of the compute_only form. It runs all rows in turns,
 * one cell per turn. A SEND comes right after the op that produces the message, and its RECV is added to the
 * other rank's row at the same time. So both ranks see the messages between them, in both directions, in one
 * sequence, which is all that PyTorch uses to match them, and nothing waits for a later cell. */
#pragma once

#include "plan/lower/program.h"

#include <stdio.h>

/** Writes the compute_comms form of `order`, which sl_lower turned into `program`. SL_ENONE as
 * sl_order_check_csv; SL_ENOMEM; SL_ESYS if `out` cannot be written. */
sl_status sl_program_write_csv(const sl_problem *problem, const sl_order *order, const sl_program *program,
                               FILE *out);
