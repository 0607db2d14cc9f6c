/* Posts receives in advance, by the plan's own prediction.
 *
 * A message's receive is posted right before a step of its consumer's rank: the latest step that is predicted
 * to start at least `margin` before the message takes its link, never after the step that uses it, and on
 * each link in the order of the peer's sends. If no step is early enough, it is posted before the rank's
 * first step, at the start of the iteration. So no receive is late if the sender's lead and the receiver's
 * lag relative to the prediction sum to at most `margin`. It is not posted earlier than that requires, so
 * that few buffers are open at the same time (flow.h counts them).
 *
 * It cannot deadlock with any actual times, even if a message moves only after its receive is posted and
 * sends hold their rank: every wait (a step for the one before, a send for its receive, a receive for the
 * step that posts it) is for something earlier in the prediction, so no waits form a cycle. */
#pragma once

#include "plan/lower/program.h"

/** `start`: predicted start of every step, by rank, then step (like the spans of sl_replay); `sent`:
 * predicted start of every message's transfer, [program->messages]; any origin, the same for all. Fills
 * post[program->messages] with step numbers on the consumers' ranks; never that of the second of a pair.
 * SL_ENOMEM. */
sl_status sl_program_post(const sl_program *program, const sl_time *start, const sl_time *sent,
                          sl_time margin, int32_t *post);
