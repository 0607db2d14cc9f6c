/* The answer with which report.txt opens: one line per incident with what was slow, from when to when, how
 * certain that is, what it cost, and what to do. Slow phases that follow each other with the same verdict are
 * one incident. The cost counts the iterations of the slow phases, without the time of holds. */
#pragma once

#include "notice/watch/findings.h"

#include <stdio.h>

void sl_answer_print(FILE *out, const sl_watch_report *report);
