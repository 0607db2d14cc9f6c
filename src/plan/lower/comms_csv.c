#include "plan/lower/comms_csv.h"
#include "base/memory.h"
#include "plan/lower/cells.h"
#include "plan/lower/issue.h"
#include "plan/pipeline/csv.h"

static void write_issue(const sl_problem *p, const sl_program *program, const sl_message_issue *issue,
                        FILE *out) {
    const sl_op *op = &program->message[issue->message].op;
    int stage = !issue->receive    ? op->stage
                : op->kind == SL_F ? sl_problem_next(p, op->stage)
                                   : sl_problem_previous(p, op->stage);
    fprintf(out, "%d%s_%s%d", stage, issue->receive ? "RECV" : "SEND", op->kind == SL_F ? "F" : "B",
            op->microbatch);
}

static void write_cell(const sl_rank_program *rank, const sl_cell *c, FILE *out) {
    static const char *const names[] = {
        [SL_CELL_UNSHARD] = "UNSHARD", [SL_CELL_RESHARD] = "RESHARD", [SL_CELL_REDUCE_GRAD] = "REDUCE_GRAD"};
    if (c->kind != SL_CELL_STEP) {
        fprintf(out, "%d%s", c->at, names[c->kind]);
        return;
    }
    const sl_step *step = &rank->step[c->at];
    sl_op pair[2] = {step->op, step->op.paired ? step[1].op : step->op};
    sl_op_write_csv(pair, out);
}

static void write_row(const sl_problem *p, const sl_program *program, int rank, const sl_cell_row *row,
                      const sl_issuer *issuer, FILE *out) {
    int issues, i = 0;
    const sl_message_issue *issue = sl_issues_of(issuer, rank, &issues);
    const char *between = "";
    for (size_t cell = 0; cell <= row->cells; cell++) {
        for (; i < issues && issue[i].cell == (int32_t)cell; i++, between = ",") {
            fputs(between, out);
            write_issue(p, program, &issue[i], out);
        }
        if (cell < row->cells) {
            fputs(between, out);
            write_cell(&program->rank[rank], &row->cell[cell], out);
            between = ",";
        }
    }
    fputc('\n', out);
}

sl_status sl_program_write_csv(const sl_problem *problem, const sl_order *order, const sl_program *program,
                               FILE *out) {
    sl_issuer *issuer = NULL;
    sl_cell_row row = {0};
    sl_status status;
    SL_TRY(sl_order_check_csv(problem, order));
    SL_TRY_GOTO(done, status, sl_issuer_open(program, &issuer));
    SL_TRY_GOTO(done, status, sl_issuer_run(issuer));
    for (int rank = 0; rank < program->ranks; rank++) {
        SL_TRY_GOTO(done, status, sl_row_make(program->stages, &program->rank[rank], &row));
        write_row(problem, program, rank, &row, issuer, out);
    }
    if (fflush(out) != 0 || ferror(out))
        status = sl_error_errno(SL_ESYS, "the order cannot be written");
done:
    sl_free(row.cell);
    sl_issuer_close(issuer);
    return status;
}
