/* Families with offloaded activations (plan/lower/offload.h). A family has only one limit, so it is called
 * several times: with the device's own limit, without any, and with the limit raised by some of the host's
 * activations. Each result is lowered and replayed with its moves, and the shortest within the real limit is
 * used; among equals the one with the fewest moves. So host memory is used only if it saves time, including
 * its cost. */
#pragma once

#include "plan/family/family.h"

/** As family->build, for a problem with host memory. If no order is within the limit, it gives the family's
 * first order, which the plan's memory check rejects. */
sl_status sl_family_hosted(const sl_family *family, const sl_problem *problem, sl_order *order);
