#include "plan/lower/receive_buffers.h"
#include "base/memory.h"

#include <stdio.h>

/* The position of the first receive of a rank that finds more than `most` buffers in use; -1: none. A receive
 * has its buffer from its issue until its op has ended. `ended[steps]`: buffers that each step gives back;
 * all 0 again at the end. */
static int without_buffer(const sl_program *program, int rank, const sl_message_issue *issue, int count,
                          int most, int *ended) {
    int open = 0, found = -1;
    for (int i = 0, step = 0; i < count && found < 0; i++) {
        for (; step < issue[i].step; step++)
            open -= ended[step];
        if (!issue[i].receive)
            continue;
        ended[program->message[issue[i].message].consumer]++;
        found = ++open > most ? i : -1;
    }
    for (int step = 0; step < program->rank[rank].steps; step++)
        ended[step] = 0;
    return found;
}

sl_status sl_receive_buffers_find(const sl_problem *problem, const sl_program *program,
                                  const sl_issuer *issuer, int *rank, int *at) {
    int steps = 0, *ended;
    *rank = *at = -1;
    if (problem->receive_buffers == 0)
        return SL_OK;
    for (int r = 0; r < program->ranks; r++)
        steps = program->rank[r].steps > steps ? program->rank[r].steps : steps;
    SL_TRY(sl_alloc(&ended, (size_t)steps, sizeof *ended));
    for (*rank = 0; *rank < program->ranks; ++*rank) {
        int count;
        const sl_message_issue *issue = sl_issues_of(issuer, *rank, &count);
        *at = without_buffer(program, *rank, issue, count, problem->receive_buffers, ended);
        if (*at >= 0)
            break;
    }
    sl_free(ended);
    return SL_OK;
}

sl_status sl_receive_buffers_check(const sl_cells *c) {
    int rank, at;
    SL_TRY(sl_receive_buffers_find(c->problem, c->program, c->issuer, &rank, &at));
    if (at < 0)
        return SL_OK;
    sl_named_cell cell = sl_cell_of_issue(c, rank, at);
    char position[320] = "";
    if (cell.line > 0)
        snprintf(position, sizeof position, "%.255s:%d: column %d: ", c->reader->file, cell.line,
                 cell.column);
    else if (c->reader)
        snprintf(position, sizeof position, "%.255s: ", c->reader->file);
    return sl_error(SL_EINVAL, "%s%s of rank %d has no receive buffer: %d are in use (receive_buffers)",
                    position, cell.name, rank, c->problem->receive_buffers);
}
