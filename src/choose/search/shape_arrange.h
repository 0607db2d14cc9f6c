/* Positions of a choice: adapt/topology searches for better devices for its ranks than the order of the
 * cluster's file, and the shape is planned there. The result is taken only if the complete plan is shorter,
 * because the search of positions knows neither memory nor several stages per rank. */
#pragma once

#include "choose/search/shape_plan.h"

/** Whether positions matter: speeds of devices or links of hosts differ. 0 for more than 1,024 devices. Never
 * fails. */
int sl_arrange_matters(const sl_devices *devices);

/** Replaces *choice by a shorter one with `device`, if one is found. `seconds`: for its plan. SL_ENOMEM. */
sl_status sl_arrange(const sl_shape_planning *planning, double seconds, int threads, sl_choice *choice);
