/* The causes of a job's lost time in words: which kind of cause it is, where, and how much it costs. */
#pragma once

#include "plan/explain/what_if.h"

typedef enum sl_hybrid_cause_kind {
    SL_HYBRID_CAUSE_NONE,
    SL_HYBRID_CAUSE_WORKER,
    SL_HYBRID_CAUSE_WORKERS, /* several: each hides what the others cost */
    SL_HYBRID_CAUSE_STAGE,
    SL_HYBRID_CAUSE_REPLICA,
    SL_HYBRID_CAUSE_LENGTHS,
    SL_HYBRID_CAUSE_LINK,  /* transfers of one worker */
    SL_HYBRID_CAUSE_LINKS, /* of many */
    SL_HYBRID_CAUSE_COLLECTIVES,
    SL_HYBRID_CAUSE_GAPS,
    SL_HYBRID_CAUSE_KINDS
} sl_hybrid_cause_kind;

typedef struct sl_hybrid_cause {
    sl_hybrid_cause_kind kind;
    int what; /* as in sl_what_if_cause; else -1 */
    double cost;
    double weight;  /* by which causes are compared: as `cost`, of a stage what an even cut would save */
    char text[480]; /* a sentence */
} sl_hybrid_cause;

#define SL_MAX_CAUSES 8

/** The causes that cost at least a fiftieth of the time and a third of the first one's, by weight, the
 * most expensive first; one of SL_HYBRID_CAUSE_NONE if there is none. Returns their number. */
int sl_hybrid_causes(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout, const sl_what_if *what_if,
                     sl_hybrid_cause cause[SL_MAX_CAUSES]);

/** "worker", "stage", ... */
const char *sl_hybrid_cause_name(sl_hybrid_cause_kind kind);

/** "pipeline rank 1 of replica 0 (pid 4)". Returns `text`. */
const char *sl_hybrid_position_name(const sl_hybrid_trace *trace, const sl_hybrid_layout *layout,
                                    int position, char *text, size_t size);
