/* The test of a link, over a wire: round trips of small messages, then blocks in one direction and in the
 * other. A block is timed where it arrives, between two of its bytes, so that a direction needs no agreement
 * of clocks: the first quarter is left out, because a token bucket or a socket's buffer may take it at once.
 * Blocks grow until one takes long enough to be measured, or the time for it is over. */
#pragma once

#include "base/time.h"
#include "notice/validate/causes.h"

/* Of a direction, at most; a link that needs longer is as good as gone. */
#define SL_LINK_LIMIT (700 * SL_MS)
/* A test takes at most so many limits. */
#define SL_LINK_LIMITS 5

typedef struct sl_link_sample {
    double latency_ms; /* half of the shortest round trip; -1: none came back */
    double gb_per_s;   /* received here, 1e9 bytes; -1: not known; 0: nothing arrived */
    int limited;       /* the time was over: gb_per_s is what had arrived by then */
} sl_link_sample;

/** Both ends call it, `first` on one of them; `limit`: of a direction. *file is closed and -1 when the wire
 * cannot be used any more. */
void sl_link_test(int *file, int first, sl_time limit, sl_link_sample *sample);

/** Before and after the tests: the interface that carries the wire, its counters, and segments sent again;
 * twice gives the difference. */
void sl_link_evidence_begin(int file, sl_link_evidence *before);
void sl_link_evidence_end(int file, const sl_link_evidence *before, sl_link_evidence *evidence);
