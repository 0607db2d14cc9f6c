/* Combines the results of a validation and a profile. Pure.
 *
 * The calls of the slow iterations show what holds the program up; tests show why. So a rank that computes
 * longer is in the verdict whatever the tests find, and what tests find elsewhere is not: the program is not
 * slow because of it.
 *
 * If the devices of a host test healthy but its processors are under load, tests show only contention, which
 * all ranks of the host share. The profile shows which of them suffers. So the verdict names the devices of
 * this host that the profile suspects, unless it suspects all or none of them. Co-located load is the cause
 * only if it took most of the missing processor time (`taken`).
 *
 * Fewer than three links of a kind cannot be assessed: for two nodes, the tests show only that one direction
 * is slower than the other. If the profile also finds that direction slower, the verdict names it. */
#pragma once

#include "notice/detect/suspect.h"

/** Narrows verdict[count], which has room for `most`, SL_STATUS_SUSPECTS at most; node_of[ranks]: index of
 * each rank's node; taken[suspects]: sl_call_profile_taken of each; starved[ranks]: sl_call_profile_starved
 * of each, or NULL. Returns the new count. */
int sl_verdict_narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect,
                      const double *taken, int suspects, const double *starved, const int *node_of,
                      int ranks);
