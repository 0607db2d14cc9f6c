/* The problem: the input of a planner. It has ranks, microbatches, the time and memory of each stage's ops,
 * and the links between ranks. Read from YAML (design.md, Files) or measured from a run
 * (plan/timing/profile.h). Times in ns.
 *
 * Per-stage arrays have `stages` entries; `link` has ranks*ranks, index from*ranks+to, one per direction. All
 * arrays but `limit`, `fixed`, `host_limit`, `wire` and `layers` are allocated, zero if missing in the file.
 */
#pragma once

#include "base/config.h"
#include "base/time.h"
#include "plan/pipeline/op.h"
#include <stdio.h>

/* Limits that keep every sum inside int64. With any waiting, no replay takes longer than the sum of all ops,
 * messages and collectives of the iteration; SL_MAX_TOTAL_MS bounds that (sl_check_total) to less than half
 * of int64's 9.22e18 ns, so that bounds and searches may add two such times. */
#define SL_MAX_RANKS 1024
#define SL_MAX_STAGES 4096
#define SL_MAX_MICROBATCHES 65536
#define SL_MAX_PARTS 64
#define SL_MAX_OPS 16777216  /* stages * microbatches * 3 * parts */
#define SL_MAX_OP_MS 1e6     /* one F, I, W, latency or transfer; B is two ops and may be twice as long */
#define SL_MAX_TOTAL_MS 4e12 /* an iteration, everything in a row; draws of jitter included */
#define SL_MAX_MEMORY 1e15
#define SL_MAX_HOST 1000000000 /* activations in host memory */

typedef enum sl_placement { SL_LINEAR, SL_LOOP, SL_WAVE, SL_BIDIRECTIONAL, SL_PLACEMENTS } sl_placement;
typedef enum sl_regime { SL_DECOUPLED, SL_INORDER, SL_BATCHED, SL_FIFO, SL_REGIMES } sl_regime;
/* Which messages of a rank share one communicator (fifo): all; those with a peer; those to, or those from a
 * peer; these by kind, activations apart from gradients. */
typedef enum sl_communicators { SL_OF_PIPELINE, SL_OF_PAIR, SL_OF_DIRECTION, SL_OF_KIND } sl_communicators;

/* What plans minimize (plan/timing/objective.h), and what an iteration waits for before it begins, if
 * iterations repeat: nothing but its rank; also, stage by stage, the reduction of the stage's gradients,
 * after which its weights are updated; the end of the whole iteration before, since a norm over all gradients
 * scales every update. */
typedef enum sl_objective { SL_MAKESPAN, SL_SPAN, SL_PERIOD } sl_objective;
typedef enum sl_synchronization { SL_SYNC_NONE, SL_SYNC_UPDATE, SL_SYNC_NORM } sl_synchronization;

typedef struct sl_link {
    sl_time latency;  /* assumed by plans: with jitter, the percentile of the delays */
    sl_time transfer; /* occupies the link for this long */
    int lanes;      /* measured: messages seen on it at the same time, if more than one (sl_profile); 1: they
                       waited for each other (sl_wire_fit) */
    double bytes;   /* of a message that takes `transfer`; 0: unknown */
    sl_time jitter; /* mean of the exponential delay in addition to the minimum latency */
} sl_link;

/** The value that an exponential delay of this mean does not exceed in `percentile` of 100 cases. */
double sl_jitter_share(double mean, double percentile);
/** The minimum latency of a link: `latency` minus the percentile of its jitter, to the ns. */
sl_time sl_link_least_latency(const sl_link *link, double percentile);

struct sl_layers;

typedef struct sl_problem {
    int ranks, stages, microbatches;
    sl_placement placement;
    sl_objective objective;
    sl_synchronization synchronization;
    sl_regime communication;
    int queue;                      /* inorder: slots per rank and peer */
    sl_communicators communicators; /* fifo */
    double eager;        /* fifo: bytes up to which a message is sent before its receive is issued */
    int receive_buffers; /* fifo: most receives that a rank has issued and not used up; 0: any number */
    int parts;           /* sub-blocks of every op; an order holds them all, adjacent or apart */
    double percentile;   /* of jitter included in `latency`, 0 to 100 */
    sl_time overhead_op, overhead_message; /* of a runtime: see sl_problem_overhead */
    sl_time *time[SL_OP_KINDS];            /* [kind][stage], recomputation and overhead included */
    sl_time *saved;             /* [stage] F + B minus the two overlapped (times_ms.FB); default 0 */
    sl_time *gather, *reduce;   /* [stage] before its first F, after its last W or B */
    sl_time *offload;           /* [stage] to move a microbatch's activations to host memory, or back */
    double *delta[SL_OP_KINDS]; /* memory change: F's at its start, the others' at their end */
    double *start;              /* [stage] memory that I or B takes at its start: the file's delta.I_start */
    double *early;              /* [stage] total that I or B takes then: `start` and recomputed activations */
    unsigned char *recompute;   /* [stage] */
    double *limit;              /* per rank, without `fixed`; NULL: no limit */
    double *fixed;              /* per rank: permanent use (of layers: their weights); NULL: none */
    int32_t *host_limit;        /* per rank: activations that fit into host memory; NULL: none */
    sl_link *link;              /* [from * ranks + to] */
    int *wire; /* [from * ranks + to] links of one number occupy one wire; NULL: each its own */
    struct sl_layers *layers; /* source of the stages (plan/pipeline/layers.h); NULL: given stages */
} sl_problem;

/** Reads a problem document. SL_EINVAL names file, line and key. Free with sl_problem_free, also on error. */
sl_status sl_problem_read(const sl_document *document, sl_problem *problem);
/** A linear problem with this shape, all times, deltas and links 0, F:1 I:0 W:-1 memory deltas, no limit. */
sl_status sl_problem_make(int ranks, int stages, int microbatches, sl_problem *problem);
sl_status sl_problem_copy(const sl_problem *problem, sl_problem *copy);
void sl_problem_free(sl_problem *problem);
/** The part of an op's time that a runtime adds: the file's overhead_ms for the op itself, and for each of
 * its messages from and to other ranks. */
sl_time sl_problem_overhead(const sl_problem *problem, int kind, int stage);
/** Adds the overhead to the times of a stage's ops; times -1: removes it. */
void sl_problem_add_overhead(sl_problem *problem, int stage, int times);
/** The rest of an op's time, recomputation included. */
static inline sl_time sl_problem_own_time(const sl_problem *problem, int kind, int stage) {
    return sl_later(0, problem->time[kind][stage] - sl_problem_overhead(problem, kind, stage));
}
/** All ops, messages and collectives one after the other, ms; SL_MAX_TOTAL_MS bounds it. Never fails. */
double sl_problem_total_ms(const sl_problem *problem);

/** The problem as YAML that sl_problem_read reads back to the same problem (profile.yaml). */
sl_status sl_problem_write(const sl_problem *problem, FILE *out);

/** Cuts the layers into stages: first[0] = 0, ascending, every stage at least one layer, first[stages] =
 * count. Fills times, deltas and limits of `problem` (the layers' `memory` minus the weights of the rank; 0
 * if nothing is left). Bidirectional: the stages of the second pipeline are cut like those of the first. */
void sl_problem_cut(sl_problem *problem, const int *first);

/* ---- placement (design.md, Words) ---- */

/* By sl_regime and so on, as in problem files; ended by NULL. */
extern const char *const sl_regime_names[],
    *const sl_communicators_names[], *const sl_objective_names[], *const sl_synchronization_names[];

/** "linear", "loop", "wave", "bidirectional". */
const char *sl_placement_name(sl_placement placement);
/** The rank that holds a stage. */
int sl_problem_rank(const sl_problem *problem, int stage);
/** Whether a microbatch runs through a stage: always, except for bidirectional: even ones run through stages
 * 0..ranks-1 and odd ones through the others. */
int sl_problem_runs(const sl_problem *problem, int stage, int microbatch);
/** The stage that a microbatch comes to next, or came from; -1 at the ends. */
int sl_problem_next(const sl_problem *problem, int stage);
int sl_problem_previous(const sl_problem *problem, int stage);
/** The microbatches that run through a stage. */
int sl_problem_microbatches(const sl_problem *problem, int stage);
/** Ops of a rank if every microbatch has `kinds` of them (3: F, I, W; 2: F, B), in parts. */
int sl_problem_rank_ops(const sl_problem *problem, int rank, int kinds);

/* ---- one op ---- */

/** Time of a part: the op's time in equal parts, the rest of the division on the first ones. */
static inline sl_time sl_part_time(sl_time whole, int parts, int part) {
    return parts == 1 ? whole : whole / parts + (part < whole % parts ? 1 : 0);
}

/** A pair's two ops both take sl_problem_pair_time instead. */
static inline sl_time sl_problem_op_time(const sl_problem *problem, const sl_op *op) {
    return sl_part_time(problem->time[op->kind][op->stage], problem->parts, op->part);
}

/** Time of F of one stage and B of another, overlapped: both times minus half of each stage's saving. */
static inline sl_time sl_pair_time(sl_time forward, sl_time backward, sl_time saved_forward,
                                   sl_time saved_backward) {
    sl_time whole = forward + backward - (saved_forward + saved_backward) / 2;
    return whole > 0 ? whole : 0;
}
sl_time sl_problem_pair_time(const sl_problem *problem, int forward_stage, int backward_stage);

/** Memory that an op takes at its start, and the change at its end. An op in parts takes it at the start of
 * the first and changes it at the end of the last. */
static inline double sl_problem_start_memory(const sl_problem *problem, const sl_op *op) {
    if (op->part != 0 || op->kind == SL_W)
        return 0;
    return op->kind == SL_F ? problem->delta[SL_F][op->stage] : problem->early[op->stage];
}
static inline double sl_problem_end_memory(const sl_problem *problem, const sl_op *op) {
    return op->kind == SL_F || op->part != problem->parts - 1 ? 0 : problem->delta[op->kind][op->stage];
}

/** Whether plans may move activations to host memory: there is a limit, and room on a host. */
static inline int sl_problem_offloads(const sl_problem *problem) {
    return problem->limit && problem->host_limit;
}
/** Memory kept for a microbatch between F and I or B (half 0), or between I and W (1). */
static inline double sl_problem_kept(const sl_problem *problem, int stage, int half) {
    return problem->delta[SL_F][stage] + (half ? problem->early[stage] + problem->delta[SL_I][stage] : 0);
}
/** Maximum memory of a rank's device and host together: the limit plus host_limit times the largest
 * activation of the rank's stages. No schedule has more in flight, so bounds may use it. There must be a
 * limit. */
double sl_problem_room(const sl_problem *problem, int rank);

/** Permanent memory use of a rank. */
static inline double sl_problem_fixed(const sl_problem *problem, int rank) {
    return problem->fixed ? problem->fixed[rank] : 0;
}

/** Visits the keys of a problem file. */
void sl_problem_visit_keys(sl_key_visit visit, void *context);
