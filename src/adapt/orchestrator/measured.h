/* The measurements of one replica in one iteration: its problem, the number of measurements, and their work.
 * They are made once from records and never changed. So they are shared by reference counting, and a
 * simulation gives the same ones for all equal replicas and iterations.
 *
 * An op's time may depend on its work (tokens, or bytes of its messages): variable sequence lengths, experts.
 * The sums kept per stage and kind suffice for a least-squares line through the ops. */
#pragma once

#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

/* Ops of one kind of a stage, or messages of one direction of a link. */
typedef struct sl_level {
    int32_t count;  /* 0: none was measured */
    int32_t worked; /* of these, with known work */
    double time;    /* ns: mean of ops (of four or more without the longest), median of messages from start to
                       arrival, without what they waited for others (wire_fit.h); for mean work if known */
    double work;    /* mean; 0: unknown */
    double span;    /* sum of (work - mean)^2 */
    double slope;   /* sum of (work - mean)(time - mean time) */
} sl_level;

typedef struct sl_measured {
    int references;
    sl_problem problem;    /* medians; expected values if not measured */
    sl_level *op;          /* [SL_OP_KINDS * stages] by kind * stages + stage; pairs count as their two ops */
    sl_level *link;        /* [ranks * ranks] from * ranks + to */
    unsigned char *summed; /* [stages] problem.reduce was measured */
} sl_measured;

/** From a timeline (measured, or replayed by a simulation); `expected` gives the shape and the values not
 * measured. `op_work` (by span) and `message_work` (by transfer): 0 or less: unknown; or NULL. If a stage's
 * sum over replicas was measured, the caller writes problem.reduce and `summed` before sharing it.
 * SL_ENOMEM. */
sl_status sl_measured_make(const sl_problem *expected, const sl_timeline *timeline, const double *op_work,
                           const double *message_work, sl_measured **measured);
/** From a problem alone: everything counts as measured `microbatches` times, without work. Copied. */
sl_status sl_measured_of_problem(const sl_problem *problem, sl_measured **measured);
/** Whether an op's time was measured: B also through I and W, and these through B. */
static inline int sl_measured_saw(const sl_measured *m, int kind, int stage) {
    const sl_level *of = m->op + stage;
    int stages = m->problem.stages,
        parts = kind == SL_B && of[SL_I * stages].count && of[SL_W * stages].count;
    return of[kind * stages].count > 0 || parts || (kind != SL_F && of[SL_B * stages].count > 0);
}
sl_measured *sl_measured_keep(sl_measured *measured);
/** Drops a reference; the last one frees it. NULL is allowed. */
void sl_measured_drop(sl_measured *measured);
