/* Profiling of unmodified programs (Falcon, section 4.3): from the calls of all ranks over some iterations to
 * the slow device or link.
 *
 * A profile is made from a window of calls (groups.h). Each group's transfer times are compared with the
 * median of its kind (the same call, bytes and size) and with its own in a healthy profile. Each rank's
 * computing is compared with its own when healthy or, without such a profile, with ranks that do the same
 * work. A ratio over 1.1 is suspect if it also explains 2% of the window and exceeds the noise. Transfers
 * count from the latest start, and computing is the time outside of calls. So a rank that only waits is
 * healthy, in a group or along a pipeline; so is a rank that comes last because it waited itself.
 *
 * Effects of the work are no fault: uneven stages were as uneven in the healthy profile; calls that carry
 * more bytes, as with longer sequences, may compute longer in proportion. */
#pragma once

#include "notice/detect/groups.h"
#include "notice/detect/suspect.h"

/** A larger ratio to the expected value is suspect. */
#define SL_SUSPECT_MIN 1.1

/** From calls and completions of ranks 0 to ranks - 1, in any order, over some iterations (at least five for
 * reliable results), times on one clock. `clock_error`: bound, ns, of the difference of any two ranks'
 * clocks. SL_ENOMEM. Close with sl_call_profile_close. */
sl_status sl_call_profile_make(const sl_call *call, size_t calls, int ranks, int64_t clock_error,
                               sl_call_profile **profile);
void sl_call_profile_close(sl_call_profile *profile);

/** Share of the window in which a rank wanted a processor and had none, in `now` minus `healthy` (without it:
 * minus what is usual among the other ranks). A rank that waits for others may poll for them, and then wants
 * a processor without losing anything. -1: unknown. */
double sl_call_profile_starved(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL, int rank);

/** The same for the share in which its control groups were stopped for their quotas; a rank is stopped at
 * most as long as it starves, whatever the sum over the processors of its groups. */
double sl_call_profile_stopped(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL, int rank);

/** What to hold against the results of tests. lost[ranks]: share of the window that other processes took from
 * a rank's computing; -1: unknown. *transfers: 1: some are slow; 0: all that can be compared take as long as
 * when healthy; -1: none can be compared. SL_ENOMEM. */
sl_status sl_call_profile_weigh(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL,
                                int64_t clock_error, double *lost, int *transfers);

/** Share of a suspected device's extra computing time in which it starved. -1: unknown, or the suspect is not
 * a device. */
double sl_call_profile_taken(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL,
                             const sl_suspect *suspect);

/** What is slow in `now`, the worst first: at most `most` suspects, *count of them. `clock_error`: bound, ns,
 * of the difference of any two ranks' clocks; transfers that differ by less than twice that count as equal.
 * Nothing slow: *count is 0 and `reason` says so. If the evidence does not single out components, the one
 * suspect is SL_COMPONENT_UNKNOWN, or a group; `reason` explains it in one line. A rank whose links are all
 * slow: SL_COMPONENT_HOST of that rank (its network card, or the host). The cause of a device is given if the
 * quotas of its control groups stopped it for most of what it computes longer. measured and expected are ms.
 * SL_ENOMEM; SL_EINVAL if the profiles have different numbers of ranks. */
sl_status sl_call_profile_compare(const sl_call_profile *now, const sl_call_profile *healthy_or_NULL,
                                  int64_t clock_error, sl_suspect *suspect, size_t most, size_t *count,
                                  char *reason, size_t reason_size);

/** Whether `now` has the calls of `before`, in other numbers or another order: each rank computes between the
 * same calls as it did, none of them less, and at least half of the ranks as long. Then a rank that computes
 * longer is slow, and has no other work, nor work that another rank had. SL_ENOMEM. */
sl_status sl_call_profile_repeats(const sl_call_profile *now, const sl_call_profile *before, int *repeats);
