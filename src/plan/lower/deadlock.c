#include "plan/lower/deadlock.h"

#include <float.h>
#include <stdio.h>

sl_named_cell sl_cell_of_step(const sl_cells *c, int rank, int step) {
    const sl_op *op = &c->program->rank[rank].step[step].op;
    sl_named_cell cell = {.line = 0};
    if (c->reader) {
        cell.line = c->reader->row[rank].line;
        cell.column = c->reader->row[rank].column[step];
    }
    snprintf(cell.name, sizeof cell.name, "%d%s%d", op->stage, sl_op_name(op->kind), op->microbatch);
    return cell;
}

sl_named_cell sl_cell_of_issue(const sl_cells *c, int rank, int at) {
    int count;
    const sl_message_issue *issue = &sl_issues_of(c->issuer, rank, &count)[at];
    const sl_op *op = &c->program->message[issue->message].op;
    int backward = op->kind != SL_F, stage = !issue->receive ? op->stage
                                             : backward      ? sl_problem_previous(c->problem, op->stage)
                                                             : sl_problem_next(c->problem, op->stage);
    sl_named_cell cell = {.line = 0};
    snprintf(cell.name, sizeof cell.name, "%d%s%d", stage, sl_csv_comm_name(issue->receive, backward),
             op->microbatch);
    if (c->reader && c->reader->comms > 0) {
        cell.line = c->reader->row[rank].comm[at].line;
        cell.column = c->reader->row[rank].comm[at].column;
    }
    return cell;
}

sl_named_cell sl_cell_of_wait(const sl_cells *c, const sl_wait *wait) {
    return wait->kind == SL_WAIT_STEP ? sl_cell_of_step(c, wait->rank, wait->at)
                                      : sl_cell_of_issue(c, wait->rank, wait->at);
}

static int first_wait(const sl_cells *c, const sl_wait_cycle *cycle) {
    int first = 0;
    for (int i = 1; i < cycle->length; i++) {
        sl_named_cell cell = sl_cell_of_wait(c, &cycle->wait[i]),
                      before = sl_cell_of_wait(c, &cycle->wait[first]);
        if (cell.line != before.line ? cell.line < before.line : cell.column < before.column)
            first = i;
    }
    return first;
}

static sl_status refuse(const sl_cells *c, const sl_wait_cycle *cycle) {
    int first = first_wait(c, cycle), length = 0, i = 0;
    char text[800], position[32] = "";
    const int enough = (int)sizeof text - 160; /* a cell is at most 120 bytes */
    for (; i <= cycle->length && length < enough; i++) {
        const sl_wait *wait = &cycle->wait[(first + i) % cycle->length];
        sl_named_cell cell = sl_cell_of_wait(c, wait);
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%s of rank %d",
                           i == 0   ? ""
                           : i == 1 ? " waits for "
                                    : ", which waits for ",
                           cell.name, wait->rank);
        if (cell.line > 0 && i < cycle->length)
            length += snprintf(text + length, sizeof text - (size_t)length, " (line %d, column %d)",
                               cell.line, cell.column);
    }
    sl_named_cell cell = sl_cell_of_wait(c, &cycle->wait[first]);
    if (cell.line > 0)
        snprintf(position, sizeof position, ":%d: column %d", cell.line, cell.column);
    return sl_error(SL_EINVAL, "%s%s%sdeadlock%s: %s%s", c->reader ? c->reader->file : "", position,
                    c->reader ? ": " : "",
                    c->problem->communication == SL_FIFO && c->issuer ? " in regime fifo" : "", text,
                    i <= cycle->length ? ", and so on" : "");
}

sl_status sl_deadlock_check(const sl_cells *c) {
    sl_problem problem = *c->problem;
    sl_wait_cycle cycle;
    if (problem.communication != SL_FIFO) {
        problem.communicators = SL_OF_DIRECTION;
        problem.eager = DBL_MAX;
    }
    SL_TRY(sl_waits_check(&problem, c->program, c->issuer, &cycle));
    sl_status status = cycle.length > 0 ? refuse(c, &cycle) : SL_OK;
    sl_wait_cycle_free(&cycle);
    return status;
}
