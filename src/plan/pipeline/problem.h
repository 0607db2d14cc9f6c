/* The problem: what a planner is asked. Ranks, microbatches, the time and memory of each stage's ops, and the
 * links between ranks. Read from YAML (design.md, Files) or measured from a run (plan/timing/profile.h).
 * Times in ns.
 *
 * Per-stage arrays have `stages` entries; `link` has ranks*ranks, index from*ranks+to, one per direction. */
#ifndef SL_PLAN_PIPELINE_PROBLEM_H
#define SL_PLAN_PIPELINE_PROBLEM_H

#include "base/time.h"
#include "base/yaml.h"
#include "plan/pipeline/op.h"
#include <stdio.h>

/* Limits that keep every sum inside int64. With SL_MAX_OPS / 3 pairs of stage and microbatch, F + I + W (or F
 * + B) of 3 * SL_MAX_OP_MS and two messages of latency + transfer each, everything in a row takes 9.1e18 ns
 * of 9.22e18. */
#define SL_MAX_RANKS 1024
#define SL_MAX_MICROBATCHES 65536
#define SL_MAX_OPS 3900000 /* stages * microbatches * 3 */
#define SL_MAX_OP_MS 1e6   /* one F, I, W, latency or transfer; B is two ops and may be twice as long */
#define SL_MAX_MEMORY 1e15

typedef enum sl_placement { SL_LINEAR } sl_placement;
typedef enum sl_regime { SL_DECOUPLED, SL_INORDER } sl_regime;

typedef struct sl_link {
    sl_time latency;
    sl_time transfer; /* occupies the link for this long */
} sl_link;

typedef struct sl_problem {
    int ranks, stages, microbatches;
    sl_placement placement;
    sl_regime communication;
    int queue;                  /* inorder: places per rank and peer */
    sl_time *time[SL_OP_KINDS]; /* [kind][stage] */
    double *delta[SL_OP_KINDS]; /* memory change: F at its start, the others at their end */
    double *limit;              /* per rank; NULL: no limit */
    sl_link *link;              /* [from * ranks + to] */
} sl_problem;

/** Reads a problem document. SL_EINVAL names file, line and key. Free with sl_problem_free, also on error. */
sl_status sl_problem_read(const sl_document *document, sl_problem *problem);
/** A problem with this shape, all times, deltas and links 0, F:1 I:0 W:-1 memory deltas, no limit. */
sl_status sl_problem_make(int ranks, int stages, int microbatches, sl_problem *problem);
sl_status sl_problem_copy(const sl_problem *problem, sl_problem *copy);
void sl_problem_free(sl_problem *problem);

/** The problem as YAML that sl_problem_read reads back to the same problem (profile.yaml). */
sl_status sl_problem_write(const sl_problem *problem, FILE *out);

/** The rank that holds a stage. */
int sl_problem_rank(const sl_problem *problem, int stage);

/** The config tables of the problem file, as Markdown, for docs/formats.md. */
void sl_problem_document(FILE *out);

#endif
