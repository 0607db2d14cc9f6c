/* The answer with which report.txt opens: one line per incident with what was slow, from when to when, how
 * certain that is, what it cost, and what to do. An incident is a component, as in the advice, whose numbers
 * these are; it may be slow several times. Slow phases without a component share one line, which is the last.
 * A phase that names nothing belongs to what its neighbors name, if no healthy phase is in between. The cost
 * counts the iterations of the slow phases against the level before their onset, without the time of holds. */
#pragma once

#include "notice/watch/findings.h"

#include <stdio.h>

/** SL_ENOMEM. */
sl_status sl_answer_print(FILE *out, const sl_watch_report *report);
