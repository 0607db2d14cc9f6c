/* What `slackline choose MODEL CLUSTER` prints: a table of the best arrangements, or all of it as JSON
 * (docs/formats.md). */
#pragma once

#include "choose/search/shape_search.h"

#include <jansson.h>

/** The first layer of each stage, then the number of layers; empty without layers. */
json_t *sl_choose_cut_json(const sl_problem *problem);

void sl_choices_print_text(const sl_choices *found, const sl_model_work *model, const sl_devices *devices);
void sl_choices_print_json(const sl_choices *found, const sl_model_work *model, const sl_devices *devices);
