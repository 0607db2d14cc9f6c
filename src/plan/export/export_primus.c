/* Primus (github.com/AMD-AGI/Primus, primus/core/pipeline_parallel): a list of nodes per rank, which it runs
 * in order. Its messages are nodes, too, also those within a rank.
 *
 * It asserts that a message finds its op, and an op its message, by microbatch and chunk. It posts
 * consecutive messages together in an order of its own, unless they have a `time_step`, which here each has:
 * so both ranks of a link post their messages in one sequence, that of plan/lower/issue.h. A forward takes
 * the next batch of its chunk, so those of a stage must be in order. If its linear layers split backwards at
 * all, every weight gradient is left to a W: a backward in one piece is then a B with a W right after it. */
#include "plan/export/export_inside.h"

#include "plan/lower/issue.h"

#define PRIMUS "Primus"

typedef struct primus_writer {
    const sl_problem *problem;
    const sl_program *program;
    int rank, nodes; /* of the present row */
    int splits;      /* some backward is in two pieces */
    FILE *out;
} primus_writer;

static void write_node(primus_writer *w, const char *function, int stage, int microbatch) {
    fprintf(w->out, "%s   {\"func_type\": \"%s\", \"mini_batch\": %d, \"chunk\": %d, \"args\": ",
            w->nodes > 0 ? ",\n" : "", function, microbatch, stage / w->problem->ranks);
    w->nodes++;
}

static void write_op(primus_writer *w, const char *function, const sl_op *op) {
    write_node(w, function, op->stage, op->microbatch);
    fprintf(w->out, "null}");
}

/* One end of the message that `op` makes, at this rank. */
static void write_message(primus_writer *w, const sl_op *op, int receive) {
    static const char *const functions[2][2] = {{"SF", "SB"}, {"RF", "RB"}};
    const sl_problem *p = w->problem;
    int backward = op->kind != SL_F,
        to = backward ? sl_problem_previous(p, op->stage) : sl_problem_next(p, op->stage);
    write_node(w, functions[receive][backward], receive ? to : op->stage, op->microbatch);
    fprintf(w->out, "{\"from_pp_rank\": %d, \"to_pp_rank\": %d, \"%s\": %d, \"time_step\": %d}}",
            sl_problem_rank(p, op->stage), sl_problem_rank(p, to),
            receive ? "recv_from_chunk" : "send_to_chunk", (receive ? op->stage : to) / p->ranks,
            w->nodes - 1);
}

/* The op that makes what `op` needs, if it is on the same rank. */
static void receive_here(primus_writer *w, const sl_op *op) {
    int from = op->kind == SL_F ? sl_problem_previous(w->problem, op->stage)
                                : sl_problem_next(w->problem, op->stage);
    if (op->kind != SL_W && from >= 0 && sl_problem_rank(w->problem, from) == w->rank)
        write_message(w, &(sl_op){.stage = from, .microbatch = op->microbatch, .kind = op->kind}, 1);
}

static void send_here(primus_writer *w, const sl_op *op) {
    int to = op->kind == SL_F ? sl_problem_next(w->problem, op->stage)
                              : sl_problem_previous(w->problem, op->stage);
    if (op->kind != SL_W && to >= 0 && sl_problem_rank(w->problem, to) == w->rank)
        write_message(w, op, 0);
}

static void write_compute(primus_writer *w, const sl_op *op) {
    receive_here(w, op);
    if (op->kind == SL_B && w->splits) {
        write_op(w, "B", op);
        write_op(w, "W", op);
    } else
        write_op(w, op->kind == SL_F ? "F" : op->kind == SL_I ? "B" : op->kind == SL_W ? "W" : "BW", op);
    send_here(w, op);
}

static void write_row(primus_writer *w, const sl_issuer *issuer) {
    const sl_rank_program *row = &w->program->rank[w->rank];
    int issues, i = 0;
    const sl_message_issue *issue = sl_issues_of(issuer, w->rank, &issues);
    w->nodes = 0;
    fprintf(w->out, "  [\n");
    for (int step = 0; step <= row->steps; step++) {
        for (; i < issues && issue[i].step == step; i++)
            write_message(w, &w->program->message[issue[i].message].op, issue[i].receive);
        if (step < row->steps)
            write_compute(w, &row->step[step].op);
    }
    fprintf(w->out, "]%s\n", w->rank + 1 < w->problem->ranks ? "," : "]}");
}

/* ---- what it runs ---- */

/* The forwards of a stage are in the order of microbatches. */
static sl_status check_forwards(const sl_problem *p, const sl_order *order, int stage) {
    int rank = sl_problem_rank(p, stage), last = -1;
    for (int i = 0; i < order->count[rank]; i++) {
        const sl_op *op = &order->ops[rank][i];
        if (op->kind != SL_F || op->stage != stage)
            continue;
        if (op->microbatch < last)
            return sl_error(SL_ENONE, PRIMUS " reads batches in order, but rank %d runs %dF%d after %dF%d",
                            rank, stage, op->microbatch, stage, last);
        last = op->microbatch;
    }
    return SL_OK;
}

static sl_status check_primus(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape) {
    SL_TRY(sl_export_check(PRIMUS, p, shape));
    if (p->placement == SL_BIDIRECTIONAL)
        return sl_error(SL_ENONE, PRIMUS " has no bidirectional placement");
    for (int stage = 0; stage < p->stages; stage++)
        SL_TRY(check_forwards(p, &plan->order, stage));
    return SL_OK;
}

static int any_is(const sl_order *order, int paired) {
    for (int rank = 0; rank < order->ranks; rank++)
        for (int i = 0; i < order->count[rank]; i++)
            if (paired ? order->ops[rank][i].paired : order->ops[rank][i].kind == SL_I)
                return 1;
    return 0;
}

sl_status sl_export_primus(const sl_problem *p, const sl_plan *plan, const sl_export_shape *shape,
                           FILE *out) {
    sl_issuer *issuer = NULL;
    primus_writer w = {
        .problem = p, .program = &plan->program, .splits = any_is(&plan->order, 0), .out = out};
    SL_TRY(check_primus(p, plan, shape));
    SL_TRY(sl_issuer_open(&plan->program, &issuer));
    sl_status status = sl_issuer_run(issuer);
    if (status == SL_OK) {
        fprintf(out, "{\"format\": \"slackline-primus-1\",\n \"comment\": [\n");
        sl_export_comment("  \"", "\",\n", p, plan, out);
        if (any_is(&plan->order, 1))
            fprintf(
                out,
                "  \"Lost: the plan overlaps a forward and a backward; here they follow each other.\",\n");
        fprintf(out, "  \"Nodes of Primus' SchedulerNode; the cut of layers is not part of its table.\"],\n");
        fprintf(out, " \"pp_size\": %d, \"vpp_size\": %d, \"micro_batches\": %d,\n \"table\": [\n", p->ranks,
                p->stages / p->ranks, p->microbatches);
    }
    for (w.rank = 0; status == SL_OK && w.rank < p->ranks; w.rank++)
        write_row(&w, issuer);
    sl_issuer_close(issuer);
    return status == SL_OK ? sl_export_end(out) : status;
}
