#include "base/memory.h"
#include "library/library_handles.h"

/* ---- making ---- */

/* Passes the new problem to the caller if `status` is SL_OK. */
static slackline_status give(sl_status status, slackline_problem *made, slackline_problem **problem) {
    if (status == SL_OK)
        *problem = made;
    else
        slackline_problem_free(made);
    return sl_library_status(status);
}

/* B of a problem from a file counts as set if it is not I + W. */
sl_status sl_library_mark(slackline_problem *problem) {
    const sl_problem *p = &problem->problem;
    size_t stages = (size_t)p->stages;
    SL_TRY(sl_alloc(&problem->full_time, stages, 1));
    SL_TRY(sl_alloc(&problem->full_memory, stages, 1));
    for (size_t s = 0; s < stages; s++) {
        problem->full_time[s] = (unsigned char)sl_library_is_full(p, (int)s);
        problem->full_memory[s] = p->delta[SL_B][s] != p->delta[SL_I][s] + p->delta[SL_W][s];
    }
    return SL_OK;
}

static sl_status read_document(sl_document *document, const char *const *set, int sets,
                               slackline_problem *problem) {
    for (int i = 0; i < sets; i++)
        SL_TRY(sl_document_set(document, set[i]));
    SL_TRY(sl_problem_read(document, &problem->problem));
    return sl_library_mark(problem);
}

/* Takes the document if `status` is SL_OK. */
static slackline_status from_document(sl_status status, sl_document *document, const char *const *set,
                                      int sets, slackline_problem **problem) {
    slackline_problem *made = NULL;
    *problem = NULL;
    SL_THEN(status, sl_alloc(&made, 1, sizeof *made));
    SL_THEN(status, read_document(document, set, sets, made));
    sl_document_close(document);
    return give(status, made, problem);
}

SL_PUBLIC slackline_status slackline_problem_read(const char *file, const char *const *set, int sets,
                                                  slackline_problem **problem) {
    SL_PLAIN_NUMBERS;
    sl_document document;
    return from_document(sl_document_read(file, &document), &document, set, sets, problem);
}

SL_PUBLIC slackline_status slackline_problem_parse(const char *name, const char *text, const char *const *set,
                                                   int sets, slackline_problem **problem) {
    SL_PLAIN_NUMBERS;
    sl_document document;
    return from_document(sl_document_parse(name, text, &document), &document, set, sets, problem);
}

static sl_status check_shape(slackline_placement placement, int ranks, int stages, int microbatches) {
    int twice = placement == SLACKLINE_LINEAR ? 1 : 2;
    if (placement < SLACKLINE_LINEAR || placement > SLACKLINE_BIDIRECTIONAL)
        return sl_error(SL_EINVAL, "there is no placement %d", (int)placement);
    SL_TRY(sl_library_between("ranks", ranks, 1, SL_MAX_RANKS));
    SL_TRY(sl_library_between("microbatches", microbatches, 1, SL_MAX_MICROBATCHES));
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
    SL_TRY(sl_alloc(problem, 1, sizeof **problem));
    sl_status status = sl_problem_make(ranks, stages, microbatches, &(*problem)->problem);
    SL_THEN(status, sl_library_mark(*problem));
    if (status == SL_OK)
        (*problem)->problem.placement = (sl_placement)placement;
    return status;
}

SL_PUBLIC slackline_status slackline_problem_make(slackline_placement placement, int ranks, int stages,
                                                  int microbatches, slackline_problem **problem) {
    slackline_problem *made = NULL;
    int each = placement == SLACKLINE_LINEAR ? 1 : 2;
    *problem = NULL;
    if (stages == 0 && ranks > 0 && ranks <= SL_MAX_RANKS)
        stages = each * ranks;
    sl_status status = make(placement, ranks, stages, microbatches, &made);
    return give(status, made, problem);
}

SL_PUBLIC slackline_status slackline_problem_copy(const slackline_problem *problem,
                                                  slackline_problem **copy) {
    *copy = NULL;
    slackline_problem *made = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&made, 1, sizeof *made));
    SL_TRY_GOTO(done, status, sl_problem_copy(&problem->problem, &made->problem));
    SL_TRY_GOTO(done, status, sl_library_mark(made));
    for (int s = 0; s < problem->problem.stages; s++) {
        made->full_time[s] = problem->full_time[s];
        made->full_memory[s] = problem->full_memory[s];
    }
done:
    return give(status, made, copy);
}

SL_PUBLIC void slackline_problem_free(slackline_problem *problem) {
    if (!problem)
        return;
    sl_problem_free(&problem->problem);
    SL_FREE(problem->full_time, problem->full_memory, problem);
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

SL_PUBLIC int64_t slackline_problem_overhead(const slackline_problem *problem, int stage,
                                             slackline_kind kind) {
    const sl_problem *p = &problem->problem;
    int exists = stage >= 0 && stage < p->stages && (int)kind >= SL_F && (int)kind <= SL_B;
    return exists ? sl_problem_overhead(p, (int)kind, stage) : 0;
}

SL_PUBLIC slackline_status slackline_problem_write(const slackline_problem *problem, char **text,
                                                   size_t *size) {
    SL_PLAIN_NUMBERS;
    size_t length = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &length);
    sl_status status =
        out ? sl_problem_write(&problem->problem, out) : sl_error(SL_ENOMEM, "out of memory for the problem");
    return sl_library_close_text(out, status, text, &length, size);
}
