/* The result of a campaign as text, JSON, CSV and SVG. All of it depends on the inputs alone: what the
 * simulation itself took is told elsewhere. */
#ifndef SL_CLI_CAMPAIGN_PRINT_H
#define SL_CLI_CAMPAIGN_PRINT_H

#include "adapt/campaign/campaign.h"

#include <stdio.h>

/** A table, a line a strategy; `log`: the ladders' decisions below. */
sl_status sl_campaign_text(const sl_campaign *campaign, const sl_campaign_result *result, int log, FILE *out);
/** Format slackline-campaign-1. SL_ENOMEM. */
sl_status sl_campaign_json(const sl_campaign *campaign, const sl_campaign_result *result, int log, FILE *out);
/** A line for every stretch of iterations that are alike, and every stop. */
sl_status sl_campaign_csv(const sl_campaign *campaign, const sl_campaign_result *result, int log, FILE *out);
/** Throughput over time, a line a strategy. */
sl_status sl_campaign_svg(const sl_campaign *campaign, const sl_campaign_result *result, int log, FILE *out);

#endif
