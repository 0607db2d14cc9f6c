/* GPUs in a validation: which member tests which, and which are slow. Pure. A GPU is compared with a healthy
 * reference of the same name, else with the median of at least three of the same name; it is slow if one of
 * its rates is more than 10% beyond their variation below that. Errors and wrong results need no comparison.
 */
#pragma once

#include "notice/validate/verdict_inside.h"

#include <stdint.h>

/** Divides GPUs among members: claimed[i] are the GPUs (bits) that member i could test, on machine[i] (-1:
 * absent). tests[i]: those that it tests; each GPU is tested once, in turns by those that claim it. */
void sl_gpus_share(const uint64_t *claimed, const int *machine, int members, uint64_t *tests);

/** Fills expected and slow of the measured GPUs, and adds their verdicts. SL_ENOMEM. */
sl_status sl_gpus_assess(sl_assessment *j, const sl_reference *reference);
