/* An order as its CSV file wrote it: its program, with the sends and receives in the order of its cells. */
#pragma once

#include "plan/lower/deadlock.h"

typedef struct sl_written {
    const sl_problem *problem;
    sl_order order;
    sl_csv_reader reader; /* the cells: lines and columns */
    sl_program program;
    sl_issuer *issuer; /* the file's sends and receives; those of PyTorch's lowering if it has none, and NULL
                          if then the ops alone stop the ranks */
} sl_written;

/** Reads and checks a file (plan/pipeline/csv.h), but the ranks may stop. `file` and `problem` must
 * outlive it. Free with sl_written_close, also on error. */
sl_status sl_written_open(const char *file, const sl_problem *problem, sl_written *written);
void sl_written_close(sl_written *written);

/** For names of its cells. */
sl_cells sl_written_cells(const sl_written *written);

/** Only the order, whose ranks cannot stop in the regime of the problem (sl_deadlock_check). SL_EINVAL names
 * file, line, column and cell. Free with sl_order_free. */
sl_status sl_order_read_csv(const char *file, const sl_problem *problem, sl_order *order);
/** The same from `size` bytes; `name` replaces the file in errors. */
sl_status sl_order_parse_csv(const char *name, const char *text, size_t size, const sl_problem *problem,
                             sl_order *order);
