/* A cycle of waits in words: its cells, with line and column if they are of a file. */
#pragma once

#include "plan/lower/waits.h"
#include "plan/pipeline/csv_read.h"

/* A program with its issues (NULL: none), and the file that it came from (NULL: none). */
typedef struct sl_cells {
    const sl_problem *problem;
    const sl_program *program;
    const sl_issuer *issuer;
    const sl_csv_reader *reader;
} sl_cells;

typedef struct sl_named_cell {
    char name[64];    /* "0F3", "1RECV_F3" */
    int line, column; /* 0: not in the file */
} sl_named_cell;

/** The cell of a step; of an end of a message. Never fails. */
sl_named_cell sl_cell_of_step(const sl_cells *cells, int rank, int step);
sl_named_cell sl_cell_of_issue(const sl_cells *cells, int rank, int issue);
sl_named_cell sl_cell_of_wait(const sl_cells *cells, const sl_wait *wait);

/** Whether the ranks can stop in the regime of the problem (decoupled, inorder and batched: because of the
 * messages that an op waits for; fifo: because of its communicators). SL_EINVAL names the cells of the
 * shortest cycle, and the position of the first in its file; SL_ENOMEM. */
sl_status sl_deadlock_check(const sl_cells *cells);
