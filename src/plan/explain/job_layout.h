/* The layout of a traced job: which worker is which pipeline rank of which replica. It is given, or named in
 * the trace, or found:
 *
 * 1. The first pipeline rank of a replica receives no activations, the last one sends none (with several
 *    chunks: fewer than it has forwards). As many as there are first ones are replicas, times tensor ranks.
 * 2. Messages on a link stay in order. So the k-th send of a worker and the k-th receive of its successor end
 *    a constant apart, up to the wire's jitter: the offset of their clocks. Between other workers the
 *    difference varies with their computation. The successor of a worker is the one with the least variation.
 * 3. Where that does not separate two (a trace without any noise), the order of the pids decides, if it is
 *    one of the two usual ones. Otherwise the layout must be given.
 *
 * Tensor ranks of one position behave alike, because they wait for each other several times in each layer:
 * the first of them stands for all. */
#pragma once

#include "plan/explain/job_trace.h"

#define SL_HYBRID_MAX_CHUNKS 64

typedef struct sl_hybrid_layout {
    int tensor, data, pipeline, chunks; /* 0: not given */
    int32_t *worker;    /* [pipeline * data], index rank * data + replica: of the first tensor rank */
    int *replica;       /* [data] number in the trace: replicas with missing workers are left out */
    const char *source; /* in words: "given", ... */
    char missing[200];  /* workers that the trace lacks, in words; "": none */
    int left_out;       /* replicas */
} sl_hybrid_layout;

/** "tensor=2,data=4,pipeline=8,chunks=2" into *layout, all but `pipeline` optional. SL_EINVAL. */
sl_status sl_hybrid_layout_read(const char *text, sl_hybrid_layout *layout);

/** Completes *layout, given or zeroed. SL_EINVAL: it does not fit the trace, or cannot be found; the text
 * names what to give. Free with sl_hybrid_layout_free, also on error. */
sl_status sl_hybrid_layout_find(const sl_hybrid_trace *trace, sl_hybrid_layout *layout);
void sl_hybrid_layout_free(sl_hybrid_layout *layout);

/** The events of a worker in a step: [*first, *end), empty: none. */
void sl_hybrid_step(const sl_hybrid_trace *trace, int worker, int64_t step, size_t *first, size_t *end);
