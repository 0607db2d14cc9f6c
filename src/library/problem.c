#include "base/memory.h"
#include "library/handles.h"

#include <math.h>

/* ---- making ---- */

static sl_status wrap(slackline_problem **problem) {
    slackline_problem *made;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    *problem = made;
    return SL_OK;
}

static sl_status make_marks(slackline_problem *problem) {
    size_t stages = (size_t)problem->problem.stages;
    SL_TRY(sl_alloc(&problem->full_time, stages, 1));
    return sl_alloc(&problem->full_memory, stages, 1);
}

static sl_status read_document(sl_document *document, const char *const *set, int sets,
                               slackline_problem *problem) {
    for (int i = 0; i < sets; i++)
        SL_TRY(sl_document_set(document, set[i]));
    SL_TRY(sl_problem_read(document, &problem->problem));
    return make_marks(problem);
}

/* Takes the document that `status` says was read. */
static slackline_status from_document(sl_status status, sl_document *document, const char *const *set,
                                      int sets, slackline_problem **problem) {
    slackline_problem *made = NULL;
    *problem = NULL;
    if (status == SL_OK)
        status = wrap(&made);
    if (status == SL_OK)
        status = read_document(document, set, sets, made);
    sl_document_close(document);
    if (status == SL_OK)
        *problem = made;
    else
        slackline_problem_free(made);
    return sl_library_status(status);
}

SL_PUBLIC slackline_status slackline_problem_read(const char *file, const char *const *set, int sets,
                                                  slackline_problem **problem) {
    sl_document document;
    return from_document(sl_document_read(file, &document), &document, set, sets, problem);
}

SL_PUBLIC slackline_status slackline_problem_parse(const char *name, const char *text, const char *const *set,
                                                   int sets, slackline_problem **problem) {
    sl_document document;
    return from_document(sl_document_parse(name, text, &document), &document, set, sets, problem);
}

static sl_status check_shape(slackline_placement placement, int ranks, int stages, int microbatches) {
    int twice = placement == SLACKLINE_LINEAR ? 1 : 2;
    if (placement < SLACKLINE_LINEAR || placement > SLACKLINE_BIDIRECTIONAL)
        return sl_error(SL_EINVAL, "there is no placement %d", (int)placement);
    if (ranks < 1 || ranks > SL_MAX_RANKS)
        return sl_error(SL_EINVAL, "ranks must be from 1 to %d, got %d", SL_MAX_RANKS, ranks);
    if (microbatches < 1 || microbatches > SL_MAX_MICROBATCHES)
        return sl_error(SL_EINVAL, "microbatches must be from 1 to %d, got %d", SL_MAX_MICROBATCHES,
                        microbatches);
    if (stages < 1 || stages > SL_MAX_STAGES || stages % ranks != 0)
        return sl_error(SL_EINVAL, "stages must be a multiple of ranks (%d), at most %d, got %d", ranks,
                        SL_MAX_STAGES, stages);
    if ((placement == SLACKLINE_LINEAR || placement == SLACKLINE_BIDIRECTIONAL) && stages != twice * ranks)
        return sl_error(SL_EINVAL, "stages must be %d with placement %s, got %d", twice * ranks,
                        sl_placement_name((sl_placement)placement), stages);
    if ((int64_t)stages * microbatches * 3 > SL_MAX_OPS)
        return sl_error(SL_EINVAL, "%d stages and %d microbatches make more than %d ops", stages,
                        microbatches, SL_MAX_OPS);
    return SL_OK;
}

static sl_status make(slackline_placement placement, int ranks, int stages, int microbatches,
                      slackline_problem **problem) {
    SL_TRY(check_shape(placement, ranks, stages, microbatches));
    SL_TRY(wrap(problem));
    sl_status status = sl_problem_make(ranks, stages, microbatches, &(*problem)->problem);
    if (status == SL_OK)
        status = make_marks(*problem);
    if (status == SL_OK)
        (*problem)->problem.placement = (sl_placement)placement;
    return status;
}

SL_PUBLIC slackline_status slackline_problem_make(slackline_placement placement, int ranks, int stages,
                                                  int microbatches, slackline_problem **problem) {
    slackline_problem *made = NULL;
    int each = placement == SLACKLINE_LINEAR ? 1 : 2;
    *problem = NULL;
    if (stages == 0 && ranks <= SL_MAX_RANKS)
        stages = each * ranks;
    sl_status status = make(placement, ranks, stages, microbatches, &made);
    if (status == SL_OK)
        *problem = made;
    else
        slackline_problem_free(made);
    return sl_library_status(status);
}

SL_PUBLIC void slackline_problem_free(slackline_problem *problem) {
    if (!problem)
        return;
    sl_problem_free(&problem->problem);
    sl_free(problem->full_time);
    sl_free(problem->full_memory);
    sl_free(problem);
}

/* ---- asking ---- */

SL_PUBLIC int slackline_problem_ranks(const slackline_problem *problem) {
    return problem->problem.ranks;
}

SL_PUBLIC int slackline_problem_stages(const slackline_problem *problem) {
    return problem->problem.stages;
}

SL_PUBLIC int slackline_problem_microbatches(const slackline_problem *problem) {
    return problem->problem.microbatches;
}

SL_PUBLIC int slackline_problem_rank(const slackline_problem *problem, int stage) {
    return stage < 0 || stage >= problem->problem.stages ? -1 : sl_problem_rank(&problem->problem, stage);
}

/* ---- filling in ---- */

static sl_status check_index(const char *what, int index, int count) {
    return index >= 0 && index < count
               ? SL_OK
               : sl_error(SL_EINVAL, "there is no %s %d: they count from 0 to %d", what, index, count - 1);
}

static sl_status check_time(const char *what, int64_t time, int64_t most_ms) {
    return time >= 0 && time <= most_ms * SL_MS
               ? SL_OK
               : sl_error(SL_EINVAL, "%s must be from 0 to %lld ns, got %lld", what,
                          (long long)(most_ms * SL_MS), (long long)time);
}

static sl_status check_op(const slackline_problem *problem, int stage, slackline_kind kind) {
    if (kind < SLACKLINE_F || kind > SLACKLINE_B)
        return sl_error(SL_EINVAL, "there is no op of kind %d", (int)kind);
    if (problem->problem.layers)
        return sl_error(SL_EINVAL, "the stages of this problem are cut from layers");
    return check_index("stage", stage, problem->problem.stages);
}

static sl_status set_time(slackline_problem *problem, int stage, slackline_kind kind, int64_t time) {
    sl_problem *p = &problem->problem;
    SL_TRY(check_op(problem, stage, kind));
    SL_TRY(check_time(sl_op_name((int)kind), time, (int64_t)SL_MAX_OP_MS * (kind == SLACKLINE_B ? 2 : 1)));
    p->time[kind][stage] = time;
    if (kind == SLACKLINE_B)
        problem->full_time[stage] = 1;
    if (!problem->full_time[stage])
        p->time[SL_B][stage] = p->time[SL_I][stage] + p->time[SL_W][stage];
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_time(slackline_problem *problem, int stage,
                                                      slackline_kind kind, int64_t time_ns) {
    return sl_library_status(set_time(problem, stage, kind, time_ns));
}

static sl_status set_memory(slackline_problem *problem, int stage, slackline_kind kind, double delta) {
    sl_problem *p = &problem->problem;
    SL_TRY(check_op(problem, stage, kind));
    if (!(fabs(delta) <= 2 * SL_MAX_MEMORY))
        return sl_error(SL_EINVAL, "a change of memory must be within %g, got %g", 2 * SL_MAX_MEMORY, delta);
    p->delta[kind][stage] = delta;
    if (kind == SLACKLINE_B)
        problem->full_memory[stage] = 1;
    if (!problem->full_memory[stage])
        p->delta[SL_B][stage] = p->delta[SL_I][stage] + p->delta[SL_W][stage];
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_memory(slackline_problem *problem, int stage,
                                                        slackline_kind kind, double delta) {
    return sl_library_status(set_memory(problem, stage, kind, delta));
}

/* What no rank can hold stands for no limit, once one of them has one. */
static sl_status set_limit(slackline_problem *problem, int rank, double limit) {
    sl_problem *p = &problem->problem;
    SL_TRY(check_index("rank", rank, p->ranks));
    if (!(limit >= 0 && limit <= SL_MAX_MEMORY))
        return sl_error(SL_EINVAL, "a memory limit must be from 0 to %g, got %g", SL_MAX_MEMORY, limit);
    if (p->layers)
        return sl_error(SL_EINVAL, "the stages of this problem are cut from layers");
    if (!p->limit) {
        SL_TRY(sl_alloc(&p->limit, (size_t)p->ranks, sizeof *p->limit));
        for (int r = 0; r < p->ranks; r++)
            p->limit[r] = SL_MAX_MEMORY * SL_MAX_OPS;
    }
    p->limit[rank] = limit;
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_limit(slackline_problem *problem, int rank, double limit) {
    return sl_library_status(set_limit(problem, rank, limit));
}

static sl_status set_link(sl_problem *p, int from, int to, int64_t latency, int64_t transfer) {
    SL_TRY(check_index("rank", from, p->ranks));
    SL_TRY(check_index("rank", to, p->ranks));
    SL_TRY(check_time("latency", latency, (int64_t)SL_MAX_OP_MS));
    SL_TRY(check_time("transfer", transfer, (int64_t)SL_MAX_OP_MS));
    if (from == to)
        return sl_error(SL_EINVAL, "a link joins two different ranks, not rank %d with itself", from);
    p->link[from * p->ranks + to] = (sl_link){.latency = latency, .transfer = transfer};
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_link(slackline_problem *problem, int from, int to,
                                                      int64_t latency_ns, int64_t transfer_ns) {
    return sl_library_status(set_link(&problem->problem, from, to, latency_ns, transfer_ns));
}

static sl_status set_collectives(sl_problem *p, int stage, int64_t gather, int64_t reduce) {
    SL_TRY(check_index("stage", stage, p->stages));
    SL_TRY(check_time("gather", gather, (int64_t)SL_MAX_OP_MS));
    SL_TRY(check_time("reduce", reduce, (int64_t)SL_MAX_OP_MS));
    p->gather[stage] = gather;
    p->reduce[stage] = reduce;
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_collectives(slackline_problem *problem, int stage,
                                                             int64_t gather_ns, int64_t reduce_ns) {
    return sl_library_status(set_collectives(&problem->problem, stage, gather_ns, reduce_ns));
}

static sl_status set_regime(sl_problem *p, slackline_regime regime, int queue) {
    if (regime < SLACKLINE_DECOUPLED || regime > SLACKLINE_BATCHED)
        return sl_error(SL_EINVAL, "there is no communication regime %d", (int)regime);
    if (queue < 1 || queue > 65536)
        return sl_error(SL_EINVAL, "queue must be from 1 to 65536, got %d", queue);
    p->communication = (sl_regime)regime;
    p->queue = queue;
    return SL_OK;
}

SL_PUBLIC slackline_status slackline_problem_set_regime(slackline_problem *problem, slackline_regime regime,
                                                        int queue) {
    return sl_library_status(set_regime(&problem->problem, regime, queue));
}
