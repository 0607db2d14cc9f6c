/* What `slackline campaign` prints about a fleet: tables, JSON and CSV (docs/formats.md), and a picture of
 * the goodput by spares. */
#pragma once

#include "adapt/campaign/fleet.h"

#include <stdio.h>

/* `log`: with each cause of the log and its kind. */
typedef sl_status (*sl_fleet_print)(const sl_fleet *fleet, const sl_fleet_result *result, int log, FILE *out);

sl_status sl_fleet_print_text(const sl_fleet *fleet, const sl_fleet_result *result, int log, FILE *out);
sl_status sl_fleet_print_json(const sl_fleet *fleet, const sl_fleet_result *result, int log, FILE *out);
sl_status sl_fleet_print_csv(const sl_fleet *fleet, const sl_fleet_result *result, int log, FILE *out);
sl_status sl_fleet_print_svg(const sl_fleet *fleet, const sl_fleet_result *result, int log, FILE *out);
