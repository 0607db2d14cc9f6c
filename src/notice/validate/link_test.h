/* The test of a link, over a wire: round trips of small messages, then blocks in one direction and in the
 * other. A block is timed at its receiver, between two of its bytes, so a direction needs no clock
 * synchronization. The first quarter is left out, because a token bucket or a socket's buffer may take it at
 * once. Blocks grow until one takes long enough to be measured, or the time limit is reached. */
#pragma once

#include "base/time.h"
#include "notice/validate/causes.h"

/* Per direction, at most; a link that needs longer is as good as down. */
#define SL_LINK_LIMIT (700 * SL_MS)
/* A test takes at most this many limits. */
#define SL_LINK_LIMITS 5

typedef struct sl_link_sample {
    double latency_ms; /* half of the shortest round trip; -1: none returned */
    double gb_per_s;   /* received here, 1e9 bytes; -1: unknown; 0: nothing arrived */
    int limited;       /* the time limit was reached: gb_per_s is what had arrived by then */
} sl_link_sample;

/** Both ends call it, `first` on one of them; `limit`: per direction. *file is closed and set to -1 when the
 * wire is no longer usable. */
void sl_link_test(int *file, int first, sl_time limit, sl_link_sample *sample);

/** Before and after the tests: the interface that carries the wire, its counters, and resent segments; the
 * two calls give the difference. */
void sl_link_evidence_begin(int file, sl_link_evidence *before);
void sl_link_evidence_end(int file, const sl_link_evidence *before, sl_link_evidence *evidence);
