#include "plan/pipeline/csv.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/pipeline/csv_read.h"

#include <stdint.h>
#include <string.h>

/* ---- reading ---- */

/* Errors of the order itself, with their cell. */
static sl_status check_order(const sl_csv_reader *r) {
    int rank, position;
    sl_status status = sl_order_check_at(r->problem, r->order, &rank, &position);
    if (status == SL_OK)
        return SL_OK;
    const char *why = sl_error_text();
    if (rank < 0)
        return sl_error(status, "%s: %s", r->file, why);
    if (position < 0)
        return sl_error(status, "%s:%d: %s", r->file, r->row[rank].line, why);
    return sl_error(status, "%s:%d: column %d: %s", r->file, r->row[rank].line, r->row[rank].column[position],
                    why);
}

static sl_status make_reader(sl_csv_reader *r) {
    const sl_problem *p = r->problem;
    size_t ranks = (size_t)p->ranks;
    int most = 0;
    SL_TRY(sl_alloc(&r->row, ranks, sizeof *r->row));
    SL_TRY(sl_alloc(&r->most, ranks, sizeof *r->most));
    for (int rank = 0; rank < p->ranks; rank++) {
        r->most[rank] = sl_problem_rank_ops(p, rank, 3) + 1;
        most = r->most[rank] > most ? r->most[rank] : most;
        SL_TRY(sl_alloc(&r->row[rank].column, (size_t)r->most[rank], sizeof(int)));
    }
    return sl_order_make(p->ranks, most, r->order);
}

/* The compute_comms form has an order of issue. */
static sl_status take_issues(sl_csv_reader *r) {
    int *count;
    if (r->comms == 0)
        return SL_OK;
    SL_TRY(sl_alloc(&count, (size_t)r->problem->ranks, sizeof *count));
    for (int rank = 0; rank < r->problem->ranks; rank++)
        count[rank] = (int)r->row[rank].comms;
    sl_status status = sl_order_make_issues(r->order, count);
    for (int rank = 0; rank < r->problem->ranks && status == SL_OK; rank++)
        for (int i = 0; i < count[rank]; i++) {
            const sl_csv_comm *c = &r->row[rank].comm[i];
            r->order->issue[rank][r->order->issues[rank]++] =
                (sl_order_issue){.stage = sl_csv_comm_maker(r->problem, c),
                                 .microbatch = c->microbatch,
                                 .backward = (int16_t)c->backward,
                                 .receive = (int16_t)c->receive,
                                 .step = c->before};
        }
    sl_free(count);
    return status;
}

static sl_status read_order(sl_csv_reader *r, char *content, size_t size) {
    SL_TRY(make_reader(r));
    SL_TRY(sl_csv_read_lines(r, content, size));
    SL_TRY(check_order(r));
    SL_TRY(sl_csv_check_comms(r));
    SL_TRY(sl_csv_check_shards(r));
    return take_issues(r);
}

void sl_csv_close(sl_csv_reader *r) {
    for (int rank = 0; r->row && rank < r->problem->ranks; rank++) {
        SL_FREE(r->row[rank].column, r->row[rank].comm, r->row[rank].shard);
    }
    SL_FREE(r->row, r->most);
}

/* Changes `content`, which is followed by a 0 byte. */
static sl_status open_content(const char *name, char *content, size_t size, const sl_problem *problem,
                              sl_order *order, sl_csv_reader *r) {
    *r = (sl_csv_reader){.problem = problem, .order = order, .file = name};
    *order = (sl_order){0};
    if (problem->parts > 1)
        return sl_error(SL_EINVAL, "%s: the problem cuts ops into %d parts, which CSV cannot name", name,
                        problem->parts);
    const size_t mark = size >= 3 && memcmp(content, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* of some editors */
    return read_order(r, content + mark, size - mark);
}

sl_status sl_csv_open(const char *file, const sl_problem *problem, sl_order *order, sl_csv_reader *reader) {
    char *content;
    size_t size;
    *order = (sl_order){0};
    *reader = (sl_csv_reader){.problem = problem};
    SL_TRY(sl_file_read_max(file, SL_CSV_BYTES_MAX, &content, &size));
    sl_status status = open_content(file, content, size, problem, order, reader);
    sl_free(content);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

sl_status sl_csv_parse(const char *name, const char *text, size_t size, const sl_problem *problem,
                       sl_order *order, sl_csv_reader *reader) {
    char *content;
    *order = (sl_order){0};
    *reader = (sl_csv_reader){.problem = problem};
    if (size == SIZE_MAX)
        return sl_error(SL_ENOMEM, "%s: too large", name);
    SL_TRY(sl_alloc(&content, size + 1, 1));
    if (size > 0)
        memcpy(content, text, size);
    sl_status status = open_content(name, content, size, problem, order, reader);
    sl_free(content);
    if (status != SL_OK)
        sl_order_free(order);
    return status;
}

/* ---- writing ---- */

sl_status sl_order_check_csv(const sl_problem *problem, const sl_order *order) {
    if (problem->parts > 1)
        return sl_error(SL_ENONE, "a plan whose ops have %d parts has no CSV form", problem->parts);
    for (int rank = 0; rank < order->ranks; rank++) {
        int last[2] = {-1, -1}; /* bidirectional: of either pipeline */
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            int *before = &last[op->stage == problem->stages - 1];
            if (op->kind != SL_F || sl_problem_next(problem, op->stage) >= 0)
                continue;
            if (op->microbatch < *before)
                return sl_error(
                    SL_ENONE,
                    "rank %d runs %dF%d after %dF%d; PyTorch takes the losses of the last stage in "
                    "microbatch order, so this order has no CSV form",
                    rank, op->stage, op->microbatch, op->stage, *before);
            *before = op->microbatch;
        }
    }
    return SL_OK;
}

void sl_op_write_csv(const sl_op *op, FILE *out) {
    if (op->paired)
        fprintf(out, "(%dF%d;%dB%d)OVERLAP_F_B", op->stage, op->microbatch, op[1].stage, op[1].microbatch);
    else
        fprintf(out, "%d%s%d", op->stage, sl_op_name(op->kind), op->microbatch);
}

sl_status sl_order_write_csv(const sl_problem *problem, const sl_order *order, FILE *out) {
    SL_TRY(sl_order_check_csv(problem, order));
    for (int rank = 0; rank < order->ranks; rank++) {
        for (int i = 0; i < order->count[rank]; i++) {
            const sl_op *op = &order->ops[rank][i];
            if (i > 0)
                fputc(',', out);
            sl_op_write_csv(op, out);
            i += op->paired;
        }
        fputc('\n', out);
    }
    return fflush(out) != 0 || ferror(out) ? sl_error_errno(SL_ESYS, "the order cannot be written") : SL_OK;
}
