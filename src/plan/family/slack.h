/* Slack and warm-up (Adaptra, section 4). x_r is the number of forwards that rank r runs before its first
 * backward; slack of link r is x_r - x_(r+1); a link absorbs a one-way delay c without a growing bubble while
 * tF[r] + tI[r] + 2c <= slack * (tF[r+1] + tI[r+1])   (eq. 1). */
#pragma once

#include "plan/pipeline/problem.h"

/** Largest one-way delay in ns that the link between ranks r and r+1 absorbs; 0 if not even zero delay fits.
 *  `full_backward`: the schedule uses B, so tB replaces tI. */
sl_time sl_slack_tolerance(const sl_problem *problem, const int *warmup, int link, int full_backward);

/** Algorithm 1: warm-up with as equal slack as possible from x0 forwards on rank 0. warmup[ranks]. */
void sl_warmup_balanced(int ranks, int x0, int *warmup);

/** Algorithm 2 with the clip of design.md (Facts): warm-up from the op times and delays of the problem.
 *  The delay of a link is latency + transfer, the larger direction. */
void sl_warmup_adapted(const sl_problem *problem, int *warmup);
