/* The result of a search over shapes as text: a table of the best arrangements, or all of it as JSON
 * (docs/formats.md). `slackline choose MODEL CLUSTER` and libslackline write them. */
#pragma once

#include "choose/search/shape_search.h"

#include <jansson.h>
#include <stdio.h>

/** The first layer of each stage, then the number of layers; empty without layers. */
json_t *sl_choose_cut_json(const sl_problem *problem);

/** Need at least one choice. What is written to `out` may have failed: ferror. */
void sl_choices_write_text(const sl_choices *found, const sl_model_work *model, const sl_devices *devices,
                           FILE *out);
/** SL_ENOMEM. */
sl_status sl_choices_write_json(const sl_choices *found, const sl_model_work *model,
                                const sl_devices *devices, FILE *out);
