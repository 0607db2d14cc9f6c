/* The best ways to train a model on a cluster: shapes (shape.h), each with its cut, schedule and positions.
 *
 * Branch and bound over shapes: every shape gets a bound, and in the order of a guess (candidates.h) a plan
 * for few microbatches, from which its time is estimated; the most promising are planned in full at once, so
 * that shapes whose bound is above them are dismissed. What time is left goes to searches for the schedules
 * of the best. The result is the front of time and memory, and a time that no shape, cut and schedule can
 * beat.
 *
 * Estimates only order the work: every time in the result is that of a complete plan by the timing model. */
#pragma once

#include "choose/search/shape_plan.h"

typedef struct sl_choices {
    sl_choice *choice; /* [count] by time; each needs less memory than those before */
    int count;
    sl_time
        bound; /* nothing in the searched space takes less time; 0: interrupted before all shapes had one */
    sl_time with[SL_OF_KIND + 1]; /* regime fifo, communicators not given: of the first choice, by
                                     sl_communicators; otherwise 0 */
    long long shapes, dismissed, estimated, planned;
    double seconds;
} sl_choices;

/** Finds them. SL_ENONE: no shape is possible, or none fits into memory; SL_ENOMEM. Free with
 * sl_choices_free, also on error. */
sl_status sl_choose(const sl_model_work *model, const sl_devices *devices, const sl_choose_options *options,
                    sl_choices *choices);
void sl_choices_free(sl_choices *choices);
