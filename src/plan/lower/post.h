/* When receives are posted: ahead, by the plan's own prediction.
 *
 * A message's receive is posted right before a step of its consumer's rank: the latest step that is predicted
 * to start at least `margin` before the message takes its link, never behind the step that uses it, and on
 * each link in the order in which the peer sends. Where no step is early enough it is posted before the
 * rank's first one, at the iteration's begin. So no receive is late as long as the sender is ahead of the
 * prediction and the receiver behind it by no more than `margin` together; and no sooner than that needs, so
 * that few buffers are open at once (flow.h counts them).
 *
 * It cannot deadlock whatever really happens, even where a message moves only once its receive is posted and
 * sends hold their rank: every wait, of a step for the one before, of a send for its receive, of a receive
 * for the step that posts it, is for something that lies before it in the prediction, so no waits form a
 * ring. */
#pragma once

#include "plan/lower/program.h"

/** `start`: predicted start of every step, by rank, then step (the spans of sl_replay lie so); `sent`:
 * predicted start of every message's transfer, [program->messages]; any origin, the same for all. Fills
 * post[program->messages] with step numbers on the consumers' ranks; never that of the second of a pair.
 * SL_ENOMEM. */
sl_status sl_program_post(const sl_program *program, const sl_time *start, const sl_time *sent,
                          sl_time margin, int32_t *post);
