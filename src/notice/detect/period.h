/* The iteration of an unknown program, found in the sequence of its calls (Falcon, section 4.2).
 *
 * Two calls are the same symbol when call, communicator, bytes and peer are equal; symbols are compared for
 * equality, never as numbers. A lag is the period when the latest calls repeat at it over three periods and
 * every recurring symbol is among them: so the loop over microbatches inside an iteration is not taken for
 * the iteration. Autocorrelation by equality at all lags together is the Z function of the reversed sequence:
 * linear, and repeated only when the sequence has grown by a quarter.
 *
 * Once found, one period of calls is the template, and following it costs one comparison per call (the
 * automaton of Knuth, Morris and Pratt, which finds the template again right after an interruption:
 * evaluation, checkpoint, lost records). If an iteration first ends in something else, the template is
 * rotated to begin there. An iteration's time is from its first call to the first call of the one that
 * follows immediately; an interrupted iteration has no time.
 *
 * Some symbols recur rarely: a sequence alone cannot distinguish 30 microbatches and a reduction from 30
 * iterations and a checkpoint. A symbol outside a repeating body makes a longer iteration if it comes back
 * within 64 rounds of a body of at most 6 different calls without a loop inside, or within 4 rounds of a
 * richer one, which looks like an iteration itself. After 6 such visits without a longer period it counts as
 * a separate phase. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct sl_symbol {
    uint64_t communicator, bytes;
    int32_t peer;
    uint32_t call;
} sl_symbol;

typedef struct sl_period_iteration {
    int64_t start, time; /* ns */
    uint64_t first;      /* its first call, counted from 0 */
    int period;          /* calls */
} sl_period_iteration;

typedef struct sl_period sl_period;

/** A tracker that remembers the last `history` calls (at least 64, rounded up to a power of two; 0: 65,536);
 * a period is at most a third of that. Memory grows with the calls up to the history, 36 bytes for each.
 * SL_ENOMEM. */
sl_status sl_period_open(size_t history, sl_period **period);
void sl_period_close(sl_period *period);

/** Adds one call of one rank, in the rank's order; `start` in ns. SL_ENOMEM. */
sl_status sl_period_add(sl_period *period, const sl_symbol *symbol, int64_t start);

/** The sequence ends here: searches once more, because searches otherwise wait for more calls. SL_ENOMEM. */
sl_status sl_period_end(sl_period *period);

/** The next finished iteration, each once, in order; 0 if there is none. If its `period` differs from that of
 * the previous ones, those were not iterations but rounds of a loop inside, or of a phase that has ended. */
int sl_period_take(sl_period *period, sl_period_iteration *iteration);

/** Calls per iteration; 0: not yet known. */
int sl_period_calls(const sl_period *period);
