/* An order as its CSV file wrote it: its program, with the sends and receives in the order of its cells. */
#pragma once

#include "plan/lower/issue.h"
#include "plan/pipeline/csv_read.h"

typedef struct sl_written {
    const sl_problem *problem;
    sl_order order;
    sl_csv_reader reader; /* the cells: lines and columns */
    sl_program program;
    sl_issuer *issuer; /* the file's sends and receives; those of PyTorch's lowering if it has none, and NULL
                          if then the ops alone stop the ranks */
} sl_written;

/** Reads and checks all that sl_order_read_csv does, but the ranks may stop. `file` and `problem` must
 * outlive it. Free with sl_written_close, also on error. */
sl_status sl_written_open(const char *file, const sl_problem *problem, sl_written *written);
void sl_written_close(sl_written *written);
