/* Profiling of programs that know nothing of us (Falcon, section 4.3): from the calls of all ranks over some
 * iterations to the device or link that is slow.
 *
 * A profile is made of a window of calls (groups.h). Compared are transfer times of groups, each with the
 * median of its kind (the same call, bytes and size) and with itself in a healthy profile, and each rank's
 * computing with itself when healthy, or where there is no such profile with ranks that do the same work.
 * Over 1.1 x is suspect when it also explains 2 % of the window and stands out of the noise. Because
 * transfers count from the latest start, and computing is the time outside of calls, whoever only waits is
 * healthy, in a group or along a pipeline; a rank that comes last because it waited itself is, too.
 *
 * What follows the work is no fault: uneven stages were as uneven in the healthy profile; calls that carry
 * more bytes, as with longer sequences, may compute longer in proportion. */
#pragma once

#include "notice/detect/groups.h"
#include "notice/detect/suspect.h"

/** Over this, times what is expected. */
#define SL_SUSPECT_MIN 1.1

/** From calls and completions of ranks 0 to ranks - 1, in any order, over some iterations (five and more tell
 * well), times on one clock. `clock_error`: bound, ns, of the difference of any two ranks' clocks. SL_ENOMEM.
 * Close with sl_call_profile_close. */
sl_status sl_call_profile_make(const sl_call *call, size_t calls, int ranks, int64_t clock_error,
                               sl_call_profile **profile);
void sl_call_profile_close(sl_call_profile *profile);

/** Share of the window in which a rank wanted a processor and had none, in `now` beyond `healthy`: what
 * others took from it. -1: not known. */
double sl_call_profile_starved(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL, int rank);

/** Of the time that a suspected device computed longer than expected, the share in which it starved. -1: not
 * known, or the suspect is no device. */
double sl_call_profile_taken(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL,
                             const sl_suspect *suspect);

/** What is slow in `now`, the worst first: at most `most` suspects, *count of them. `clock_error`: bound, ns,
 * of the difference of any two ranks' clocks; transfers that differ by less than twice that are not told
 * apart. Nothing slow: *count is 0 and `reason` says so. Where the evidence does not single out components,
 * the one suspect is SL_COMPONENT_UNKNOWN, or a group; `reason` says why in a line. A rank whose every link
 * is slow: SL_COMPONENT_HOST of that rank (its network card, or the host). measured and expected are ms.
 * SL_ENOMEM; SL_EINVAL when the profiles are of different numbers of ranks. */
sl_status sl_call_profile_compare(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL,
                                  int64_t clock_error, sl_suspect *suspect, size_t most, size_t *count,
                                  char *reason, size_t reason_size);
