/* The cells of a rank's row in PyTorch's compute_comms form, without SEND and RECV: its steps, and what
 * PyTorch puts around them to gather and free the weights of its stages. */
#pragma once

#include "plan/lower/program.h"

typedef enum sl_cell_kind {
    SL_CELL_STEP,
    SL_CELL_UNSHARD,
    SL_CELL_RESHARD,
    SL_CELL_REDUCE_GRAD
} sl_cell_kind;

typedef struct sl_cell {
    int32_t kind;
    int32_t at; /* STEP: step, a pair by its first; otherwise stage */
} sl_cell;

typedef struct sl_cell_row {
    sl_cell *cell;
    size_t cells, capacity;
} sl_cell_row;

/** The row of a rank of a pipeline with this many stages, into *row (all zero, or used before: its memory is
 * used again). O(steps). SL_ENOMEM. */
sl_status sl_row_make(int stages, const sl_rank_program *rank, sl_cell_row *row);
