#include "plan/exact/exact_model_inside.h"

/* ---- messages: those of a stage, and their waits for a wire ---- */

int sl_build_flow_of(const sl_builder *b, int stage, int kind, sl_exact_flow *f) {
    const sl_problem *p = b->p;
    int to = kind == SL_F ? sl_problem_next(p, stage) : sl_problem_previous(p, stage);
    if (to < 0)
        return 0;
    int from_rank = sl_problem_rank(p, stage), to_rank = sl_problem_rank(p, to);
    int link = from_rank * p->ranks + to_rank, own = from_rank == to_rank;
    *f = (sl_exact_flow){.stage = stage,
                         .to = to,
                         .kind = kind,
                         .wire = own       ? -1
                                 : p->wire ? p->wire[link]
                                           : link,
                         .transfer = own ? 0 : p->link[link].transfer / b->model->unit,
                         .latency = own ? 0 : p->link[link].latency / b->model->unit};
    return 1;
}

/* Messages of a flow never wait for each other if its ops take as long as its transfers; they wait for those
 * of another flow on the same wire. */
static int waits(const sl_builder *b, const sl_exact_flow *f) {
    if (f->transfer == 0)
        return 0;
    if (f->transfer > sl_build_length(b, f->stage, f->kind))
        return 1;
    for (int stage = 0; stage < b->p->stages; stage++)
        for (int kind = SL_F; kind <= SL_I; kind++) {
            sl_exact_flow other;
            if ((stage != f->stage || kind != f->kind) && sl_build_flow_of(b, stage, kind, &other) &&
                other.wire == f->wire && other.transfer > 0)
                return 1;
        }
    return 0;
}

/* In the hint's timeline the k-th message of a flow leaves no earlier than its k-th op ends, and after the
 * previous message. */
static void add_flow(sl_builder *b, const sl_exact_flow *f, int with_transfers) {
    sl_exact_time last = {-1, 0};
    for (int m = 0; m < b->p->microbatches; m++) {
        if (!sl_problem_runs(b->p, f->stage, m))
            continue;
        sl_exact_time made = sl_build_end_of(b, f->stage, m, f->kind),
                      used = sl_build_start_of(b, f->to, m, f->kind);
        if (!with_transfers) {
            sl_build_precedence(b, made, used, f->transfer + f->latency);
            continue;
        }
        /* as late as its consumer allows, or as early as it can: the hint need not be complete */
        int64_t earliest = sl_build_hinted(b, made),
                free = last.variable < 0 ? 0 : sl_build_hinted(b, last) + f->transfer;
        sl_exact_time sent = {sl_build_variable(b, 0, b->model->upper, earliest > free ? earliest : free), 0};
        sl_build_item(b, &b->intervals, sl_build_fixed_interval(b, sent, f->transfer));
        sl_build_precedence(b, made, sent, 0);
        sl_build_precedence(b, sent, used, f->transfer + f->latency);
        if (last.variable >= 0)
            sl_build_precedence(b, last, sent, f->transfer);
        last = sent;
    }
}

/* Wire by wire; a wire's first flow brings all of it. */
void sl_build_messages(sl_builder *b) {
    const sl_problem *p = b->p;
    for (int stage = 0; stage < p->stages; stage++)
        for (int kind = SL_F; kind <= SL_I; kind++) {
            sl_exact_flow f, other;
            if (!sl_build_flow_of(b, stage, kind, &f))
                continue;
            if (!waits(b, &f)) {
                add_flow(b, &f, 0);
                continue;
            }
            int first = 1, flows = 0;
            for (int s = 0; s < p->stages && first; s++)
                for (int k = SL_F; k <= SL_I; k++)
                    if (sl_build_flow_of(b, s, k, &other) && other.wire == f.wire && other.transfer > 0 &&
                        (s < stage || (s == stage && k < kind)))
                        first = 0;
            for (int s = stage; s < p->stages && first; s++)
                for (int k = SL_F; k <= SL_I; k++)
                    if (sl_build_flow_of(b, s, k, &other) && other.wire == f.wire && other.transfer > 0) {
                        add_flow(b, &other, 1);
                        flows++;
                    }
            if (flows > 1)
                sl_build_no_overlap(b);
            b->intervals.count = 0; /* a single flow is already a chain */
        }
}
