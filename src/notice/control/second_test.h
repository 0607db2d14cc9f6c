/* What nothing but a test names is tested a second time before it is named. Pure: reports of validations
 * (JSON, notice/validate/validate_report.h) in, a choice or a verdict out.
 *
 * The ends of a link share processors with each other and with what else runs, so even a link within a host
 * can test slow in all repeats of one round, for as long as its processes stay where they were started. A
 * second round has new processes, and fewer: the suspect, and a healthy one of its kind for comparison, at
 * the same end if possible, so that the two are not tested at the same time. It agrees if the suspect is
 * again slower than the healthy one, beyond their variation, and by the square root of the first factor at
 * least. */
#pragma once

#include "notice/detect/suspect.h"
#include <jansson.h>

enum { SL_SECOND_MAX = 16 /* links, and devices */ };

typedef struct sl_second_test {
    int from[SL_SECOND_MAX], to[SL_SECOND_MAX], links;
    int device[SL_SECOND_MAX], devices; /* ranks */
} sl_second_test;

/** Adds to `test` what is to be tested again for a verdict, and what to compare it with. `first` is the
 * report that the verdict is from; node_of[ranks]: index of each rank's node. */
void sl_second_test_add(const json_t *first, const sl_suspect *verdict, const int *node_of, int ranks,
                        sl_second_test *test);

/** Whether `second` (NULL: there was none) agrees with `first` about a verdict. The verdict then says so.
 * Otherwise it becomes unknown, and says why after `profile`, what the calls showed ("": nothing to say). */
int sl_second_test_decide(const json_t *first, const json_t *second, const char *profile, const int *node_of,
                          int ranks, sl_suspect *verdict);

/** The same for a verdict about which something else has decided whether the second test agrees. */
void sl_second_test_conclude(int agrees, int tested, const char *found, const char *profile,
                             sl_suspect *verdict);
