/* Families where activations may be offloaded (plan/lower/offload.h). A family knows one limit only, so it is
 * asked several times: with the device's own limit, without any, and with the limit raised by some of the
 * activations that the host takes. What it gives is lowered and replayed with the moves that it needs, and
 * the shortest that keeps the real limit is the answer; of equals the one with the fewest moves. So host
 * memory is used where it pays, its cost included, and nowhere else. */
#pragma once

#include "plan/family/family.h"

/** As family->build, for a problem with host memory. Where nothing keeps the limit, the first order that the
 * family gave: the plan's memory check refuses it. */
sl_status sl_family_hosted(const sl_family *family, const sl_problem *problem, sl_order *order);
