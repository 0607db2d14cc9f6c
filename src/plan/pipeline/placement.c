/* Placement: the rank of each stage, and the path of a microbatch through the stages. */
#include "plan/pipeline/problem.h"

const char *sl_placement_name(sl_placement placement) {
    static const char *const names[SL_PLACEMENTS] = {"linear", "loop", "wave", "bidirectional"};
    return placement < SL_PLACEMENTS ? names[placement] : "?";
}

int sl_problem_rank(const sl_problem *p, int stage) {
    int column = stage % p->ranks;
    switch (p->placement) {
    case SL_WAVE:
        return stage / p->ranks % 2 ? p->ranks - 1 - column : column;
    case SL_BIDIRECTIONAL: /* the second pipeline runs up */
        return stage >= p->ranks ? p->ranks - 1 - column : column;
    default: /* linear and loop */
        return column;
    }
}

int sl_problem_runs(const sl_problem *p, int stage, int microbatch) {
    return p->placement != SL_BIDIRECTIONAL || (stage >= p->ranks) == microbatch % 2;
}

int sl_problem_next(const sl_problem *p, int stage) {
    int last = stage == p->stages - 1 || (p->placement == SL_BIDIRECTIONAL && stage == p->ranks - 1);
    return last ? -1 : stage + 1;
}

int sl_problem_previous(const sl_problem *p, int stage) {
    return p->placement == SL_BIDIRECTIONAL && stage == p->ranks ? -1 : stage - 1;
}

int sl_problem_microbatches(const sl_problem *p, int stage) {
    if (p->placement != SL_BIDIRECTIONAL)
        return p->microbatches;
    return stage >= p->ranks ? p->microbatches / 2 : (p->microbatches + 1) / 2;
}

int sl_problem_rank_ops(const sl_problem *p, int rank, int kinds) {
    int ops = 0;
    for (int stage = 0; stage < p->stages; stage++)
        if (sl_problem_rank(p, stage) == rank)
            ops += sl_problem_microbatches(p, stage) * kinds * p->parts;
    return ops;
}
