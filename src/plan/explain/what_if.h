/* What each cause costs: every iteration is replayed as it was, and with the cause taken away.
 *
 * Taken away means:
 * - a kind: all of its ops take their median
 * - a worker: its ops take what they usually take on its pipeline rank in the other replicas, times the
 * length of their microbatch
 * - slow workers: the same for all that take 5% longer than that: each hides what the others cost
 * - a replica: the same for all of its workers and transfers
 * - a stage: the ops of a pipeline rank, in all replicas, are scaled to the other ranks' usual time in the
 * same chunk
 * - an uneven cut: all pipeline ranks are scaled to the same time, that of their mean
 * - lengths: every op is divided by its microbatch's length, and multiplied by the mean length
 * - links: transfers take their median; a link: those of one worker
 * - collectives: those of all kinds take their median
 *
 * A microbatch's length is what its ops, forward and backward on all pipeline ranks, have in common: the
 * median of their times relative to the usual ones of their worker. Lengths are believed where forward and
 * backward times of microbatches vary together (`together`, a correlation, within an iteration).
 *
 * Costs are shares of the iteration: (as it was - without the cause) / as it was, over all iterations.
 *
 * Next to these stand the figures of the published method ("Understanding Stragglers in Large Model Training
 * Using What-if Analysis", OSDI 2025), to be compared with theirs: in the ideal, computation takes the mean
 * of its kind and communication the median. */
#pragma once

#include "plan/explain/job_graph.h"

typedef struct sl_what_if_cause {
    int what; /* number of a kind, stage, replica (index) or position */
    double cost;
    double alone; /* published method: the time with only this as it was, over the ideal; 0: not computed */
} sl_what_if_cause;

typedef struct sl_what_if_iteration {
    int64_t step;
    sl_time traced, replayed;
} sl_what_if_iteration;

typedef struct sl_what_if_skipped {
    int64_t step;
    char why[160];
} sl_what_if_skipped;

typedef struct sl_what_if {
    sl_what_if_iteration *iteration;
    int iterations, examined; /* the latter: those whose costs were computed */
    sl_what_if_skipped *skipped;
    int skips;
    size_t skip_room;
    int microbatches, left_out, unknown;
    sl_time mean_traced, mean_replayed, mean_ideal; /* of all, all, examined iterations */
    sl_what_if_cause *kind;                         /* [kinds] by cost */
    sl_what_if_cause *stage;                        /* [pipeline] by number */
    sl_what_if_cause *replica;                      /* [data] */
    sl_what_if_cause *worker;                       /* [workers] the slowest, by cost */
    sl_what_if_cause *link; /* [links] the slowest, by cost; what: position that receives * 2 + backward */
    int kinds, workers, links;
    double slow_workers, cut, lengths, all_links, collectives, gaps; /* costs */
    double no_links, no_collectives;                                 /* if they took no time at all */
    double together, length_variation; /* correlation; standard deviation of lengths */
    double *heat;                      /* [pipeline * data] smaller of the two `alone` */
    double *slowness;    /* [pipeline * data] mean time of its ops over the usual one of all pipeline ranks */
    unsigned char *slow; /* [pipeline * data] among the slow workers */
    double *gap;         /* [pipeline * data] share of the iteration */
    /* the published figures: S, M_W, M_S */
    double slowdown, worker_share, last_stage_share;
} sl_what_if;

/** SL_ENONE: no iteration is complete. The trace must be on one clock. Free with sl_what_if_free, also on
 * error. */
sl_status sl_what_if_make(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout, sl_what_if *result);
void sl_what_if_free(sl_what_if *result);
