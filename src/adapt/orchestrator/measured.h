/* What was measured of one replica in one iteration: its problem as it was then, how much of it was seen, and
 * the work of it. Made once from records, then never changed, so that several may hold it and a simulation
 * may give the same one for all replicas and iterations that are alike: it is counted by references.
 *
 * An op's time may follow its work (tokens, or bytes of its messages): variable sequence lengths, experts.
 * What is kept of the ops of a stage and kind is enough for a line through them by least squares. */
#pragma once

#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/* Ops of one kind of a stage, or messages of one direction of a link. */
typedef struct sl_level {
    int32_t count;  /* 0: none was seen */
    int32_t worked; /* of them, with known work */
    double time;    /* ns: ops a mean (of four and more without the longest), messages a median from start to
                       arrival; where work is known, of mean work */
    double work;    /* the mean; 0: not known */
    double span;    /* sum of (work - mean)^2 */
    double slope;   /* sum of (work - mean)(time - mean time) */
} sl_level;

typedef struct sl_measured {
    int references;
    sl_problem problem; /* medians; what was not seen is as expected */
    sl_level
        *op; /* [SL_OP_KINDS * stages] by kind * stages + stage; pairs count as the ops that they are of */
    sl_level *link;        /* [ranks * ranks] from * ranks + to */
    unsigned char *summed; /* [stages] problem.reduce was measured */
} sl_measured;

/** From a timeline (measured, or replayed by a simulation); `expected` gives the shape and what was not seen.
 * `op_work` (by span) and `message_work` (by transfer): of each, 0 or less: not known; or NULL. Where some
 * stage's sum over replicas was measured, the caller writes problem.reduce and `summed` before anybody else
 * sees it. SL_ENOMEM. */
sl_status sl_measured_make(const sl_problem *expected, const sl_timeline *timeline, const double *op_work,
                           const double *message_work, sl_measured **measured);
/** From a problem alone: everything counts as seen `microbatches` times, without work. Copied. */
sl_status sl_measured_of_problem(const sl_problem *problem, sl_measured **measured);
/** Whether an op's time was measured: B by I and W, too, and these by B. */
static inline int sl_measured_saw(const sl_measured *m, int kind, int stage) {
    const sl_level *of = m->op + stage;
    int stages = m->problem.stages,
        parts = kind == SL_B && of[SL_I * stages].count && of[SL_W * stages].count;
    return of[kind * stages].count > 0 || parts || (kind != SL_F && of[SL_B * stages].count > 0);
}
sl_measured *sl_measured_keep(sl_measured *measured);
/** One reference less; the last one frees it. NULL is fine. */
void sl_measured_drop(sl_measured *measured);
