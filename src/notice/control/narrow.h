/* What a validation and a profile say together. Pure.
 *
 * The calls of the slow iterations show who holds the program up; tests show why. So a rank that computes
 * longer is in the verdict whatever the tests find, and what tests find elsewhere is not: the program is not
 * slow because of it.
 *
 * A host whose devices test healthy but whose processors are pressed upon is under contention, and that is
 * all that tests can see: all its ranks share the pressure. Which of them suffers, the profile knows. So such
 * a verdict becomes that of the devices of this host that the profile suspects, unless it suspects all of
 * them, or none. Co-located load is the cause only if it took most of the processor time that is missing
 * (`taken`).
 *
 * Fewer than three links of a kind judge nobody: of two nodes, the tests can only say that one direction is
 * slower than the other. Where the profile says the same of that direction, it is named. */
#pragma once

#include "notice/detect/suspect.h"

/** Verdicts in verdict[count] of room `most`, SL_STATUS_SUSPECTS at most; node_of[ranks]: index of each
 * rank's node; taken[suspects]: sl_call_profile_taken of each; starved[ranks]: sl_call_profile_starved of
 * each, or NULL. Returns how many there are then. */
int sl_verdict_narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect,
                      const double *taken, int suspects, const double *starved, const int *node_of,
                      int ranks);
