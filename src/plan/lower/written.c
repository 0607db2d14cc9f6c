#include "plan/lower/written.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/lower/receive_buffers.h"

#include <stdint.h>
#include <string.h>

/* Whether every rank has issued both ends of all its messages. */
static int is_complete(const sl_written *w) {
    int count, ends = 0;
    for (int rank = 0; rank < w->program.ranks; rank++) {
        sl_issues_of(w->issuer, rank, &count);
        ends += count;
    }
    return ends == 2 * w->program.messages;
}

/* After the reader. */
static sl_status lower_all(sl_written *w) {
    SL_TRY(sl_lower_any(w->problem, &w->order, &w->program));
    SL_TRY(sl_issuer_open(&w->program, &w->issuer));
    SL_TRY(sl_issuer_run(w->issuer));
    if (!is_complete(w)) {
        sl_issuer_close(w->issuer);
        w->issuer = NULL;
    }
    return SL_OK;
}

sl_status sl_written_open(const char *file, const sl_problem *problem, sl_written *w) {
    *w = (sl_written){.problem = problem};
    SL_TRY(sl_csv_open(file, problem, &w->order, &w->reader));
    return lower_all(w);
}

sl_cells sl_written_cells(const sl_written *w) {
    return (sl_cells){w->problem, &w->program, w->issuer, &w->reader};
}

void sl_written_close(sl_written *w) {
    sl_issuer_close(w->issuer);
    sl_program_free(&w->program);
    sl_csv_close(&w->reader);
    sl_order_free(&w->order);
    *w = (sl_written){0};
}

/* ---- only the order ---- */

static sl_status take_order(sl_written *w, sl_order *order) {
    SL_TRY(lower_all(w));
    const sl_cells cells = sl_written_cells(w);
    SL_TRY(sl_deadlock_check(&cells));
    if (w->problem->communication == SL_FIFO)
        SL_TRY(sl_receive_buffers_check(&cells));
    *order = w->order;
    w->order = (sl_order){0};
    return SL_OK;
}

sl_status sl_order_read_csv(const char *file, const sl_problem *problem, sl_order *order) {
    sl_written w = {.problem = problem};
    *order = (sl_order){0};
    sl_status status = sl_csv_open(file, problem, &w.order, &w.reader);
    SL_THEN(status, take_order(&w, order));
    sl_written_close(&w);
    return status;
}

sl_status sl_order_parse_csv(const char *name, const char *text, size_t size, const sl_problem *problem,
                             sl_order *order) {
    sl_written w = {.problem = problem};
    *order = (sl_order){0};
    sl_status status = sl_csv_parse(name, text, size, problem, &w.order, &w.reader);
    SL_THEN(status, take_order(&w, order));
    sl_written_close(&w);
    return status;
}
