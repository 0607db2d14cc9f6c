/* SPDX-License-Identifier: Apache-2.0 */
/* A problem: the input of a planner. It has the op times of each stage, their memory use, and the links
 * between ranks. It is read from YAML (docs/formats.md) or built here, stage by stage and link by link. */
#ifndef SLACKLINE_PROBLEM_H
#define SLACKLINE_PROBLEM_H

#include <slackline/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- problems ---- */

typedef struct slackline_problem slackline_problem;

typedef enum slackline_placement {
    SLACKLINE_LINEAR,       /* stage s on rank s */
    SLACKLINE_LOOP,         /* s mod ranks */
    SLACKLINE_WAVE,         /* 0..R-1, R-1..0, .. */
    SLACKLINE_BIDIRECTIONAL /* two pipelines in opposite directions, 2 * ranks stages */
} slackline_placement;

typedef enum slackline_kind {
    SLACKLINE_F,      /* forward */
    SLACKLINE_I,      /* backward for the input */
    SLACKLINE_W,      /* backward for the weights */
    SLACKLINE_B,      /* full backward */
    SLACKLINE_GATHER, /* collectives of a stage over its replicas: in timelines only */
    SLACKLINE_REDUCE,
    SLACKLINE_OFFLOAD, /* moves to host memory and back: in timelines only */
    SLACKLINE_FETCH
} slackline_kind;

typedef enum slackline_regime {
    SLACKLINE_DECOUPLED, /* sends never hold a rank */
    SLACKLINE_INORDER,   /* a send holds one of `queue` slots of its rank and peer until it has arrived */
    SLACKLINE_BATCHED    /* the sends of an op and the receives of the next complete together */
} slackline_regime;

/* What plans minimize (docs/formats.md). */
typedef enum slackline_objective {
    SLACKLINE_MAKESPAN, /* of an iteration */
    SLACKLINE_SPAN,     /* the longest time of a rank from its first op to its last */
    SLACKLINE_PERIOD    /* from iteration to iteration when the order repeats */
} slackline_objective;

/* What the next iteration of a rank waits for, besides the rank. */
typedef enum slackline_synchronization {
    SLACKLINE_SYNC_NONE,
    SLACKLINE_SYNC_UPDATE, /* the reduction of each stage, before the stage's first F */
    SLACKLINE_SYNC_NORM    /* the end of the whole iteration */
} slackline_synchronization;

/** Reads a problem file. `set`: `sets` assignments KEY=VALUE by dotted path, applied first; NULL with 0. */
slackline_status slackline_problem_read(const char *file, const char *const *set, int sets,
                                        slackline_problem **problem);
/** The same from text; `name` replaces the file in errors. */
slackline_status slackline_problem_parse(const char *name, const char *text, const char *const *set, int sets,
                                         slackline_problem **problem);
/** A problem of this shape: `stages` 0 means the placement's default (ranks for linear, else twice the
 * ranks). All times and links are 0, F takes one unit of memory and W or B releases it, without a limit. */
slackline_status slackline_problem_make(slackline_placement placement, int ranks, int stages,
                                        int microbatches, slackline_problem **problem);
slackline_status slackline_problem_copy(const slackline_problem *problem, slackline_problem **copy);
void slackline_problem_free(slackline_problem *problem);

int slackline_problem_ranks(const slackline_problem *problem);
int slackline_problem_stages(const slackline_problem *problem);
int slackline_problem_microbatches(const slackline_problem *problem);
/** The rank that holds a stage; -1: no such stage. */
int slackline_problem_rank(const slackline_problem *problem, int stage);
/** The part of the time of an op of one stage that the runtime adds, ns: `op`, and `message` for each of its
 * messages from and to other ranks (overhead_ms in docs/formats.md). 0: no such op. */
int64_t slackline_problem_overhead(const slackline_problem *problem, int stage, slackline_kind kind);

/* For a stage that recomputes, give times and memory without recomputation, which is added automatically.
 * Problems with stages cut from layers reject changes of stages and limits. */

/** Time of an op of one stage, 0 to 1e12 ns (B: 2e12). B is I + W until it is set. */
slackline_status slackline_problem_set_time(slackline_problem *problem, int stage, slackline_kind kind,
                                            int64_t time_ns);
/** Memory change of an op of one stage, in any unit: for F at its start, for the others at their end. B is I
 * + W until it is set. */
slackline_status slackline_problem_set_memory(slackline_problem *problem, int stage, slackline_kind kind,
                                              double delta);
/** Whether I and B run F again; F then keeps only `input` of its memory until they start. */
slackline_status slackline_problem_set_recompute(slackline_problem *problem, int stage, int wanted,
                                                 double input);
/** Time of an F and a B of this stage run together (DualPipe's pairs); F + B until it is set. If F or B
 * change later, the time saved stays the same. */
slackline_status slackline_problem_set_overlapped(slackline_problem *problem, int stage, int64_t time_ns);
/** Sub-blocks that every op may be cut into, 1 to 64. */
slackline_status slackline_problem_set_parts(slackline_problem *problem, int parts);
/** The memory of a rank, up to 1e15. Without any call there is no limit; after one, all other ranks have
 * 1e15. */
slackline_status slackline_problem_set_limit(slackline_problem *problem, int rank, double limit);
/** Maximum of activations (of one microbatch and stage) that a rank may move to host memory if its limit is
 * too small, 0 to 1e9; initially 0. */
slackline_status slackline_problem_set_host(slackline_problem *problem, int rank, int activations);
/** Time to move one activation of a stage there or back, 0 to 1e12 ns; initially 0. */
slackline_status slackline_problem_set_offload(slackline_problem *problem, int stage, int64_t time_ns);

/** Time for which a rank is busy with each op and each message in addition to the op's own time, 0 to 1e12
 * ns; initially 0. It is added to the times of ops, which are given and measured without it. */
slackline_status slackline_problem_set_overhead(slackline_problem *problem, int64_t op_ns,
                                                int64_t message_ns);
/** The link of one direction: a message occupies it for `transfer_ns` and arrives `latency_ns` later. Its
 * jitter becomes 0. */
slackline_status slackline_problem_set_link(slackline_problem *problem, int from, int to, int64_t latency_ns,
                                            int64_t transfer_ns);
/** An exponential delay of this mean on top of the link's latency; plans assume its percentile. */
slackline_status slackline_problem_set_jitter(slackline_problem *problem, int from, int to, int64_t mean_ns);
/** The percentile of jittering delays that plans assume, 0 to 99.999; initially 90. */
slackline_status slackline_problem_set_percentile(slackline_problem *problem, double percentile);
/** The links from[i] -> to[i] occupy one wire, those of the other direction another. A link has one wire. */
slackline_status slackline_problem_share_links(slackline_problem *problem, const int *from, const int *to,
                                               int links);
/** Collectives of a stage: before its first F, after its last W or B. */
slackline_status slackline_problem_set_collectives(slackline_problem *problem, int stage, int64_t gather_ns,
                                                   int64_t reduce_ns);
/** `queue`: slots, 1 to 65536; used by the inorder regime. */
slackline_status slackline_problem_set_regime(slackline_problem *problem, slackline_regime regime, int queue);
/** Initially the makespan. `synchronization` counts for a period. A period needs links without shared wires,
 * or SLACKLINE_SYNC_NORM; plans report its lack. */
slackline_status slackline_problem_set_objective(slackline_problem *problem, slackline_objective objective,
                                                 slackline_synchronization synchronization);

/** The problem as YAML that slackline_problem_parse reads back. *text is ended by 0 and *size (may be NULL)
 * counts the rest; free it with slackline_free. */
slackline_status slackline_problem_write(const slackline_problem *problem, char **text, size_t *size);

#ifdef __cplusplus
}
#endif
#endif
