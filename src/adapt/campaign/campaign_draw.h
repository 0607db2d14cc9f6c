/* Faults drawn from published rates (Falcon, table 1). Arrivals of each kind are a Poisson process over all
 * hosts of the job, durations are exponential, locations and severities uniform. Every number is a pure
 * function of the seed. */
#pragma once

#include "adapt/campaign/campaign.h"
#include "base/config.h"

extern const sl_key sl_draw_keys[];

/** `draw:` of a campaign file: adds its faults to `campaign`, whose shape and duration are known; `length` in
 * ns of the job's time. SL_EINVAL names file, line and key. */
sl_status sl_campaign_draw(const sl_yaml *node, sl_time length, sl_campaign *campaign);
