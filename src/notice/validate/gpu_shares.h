/* Which member of a validation tests which GPU. Pure. */
#pragma once

#include <stdint.h>

/** Divides GPUs among members: claimed[i] are the GPUs (bits) that member i could test, on machine[i] (-1:
 * absent). tests[i]: those that it tests; each GPU is tested once, in turns by those that claim it. */
void sl_gpu_shares(const uint64_t *claimed, const int *machine, int members, uint64_t *tests);
