/* Shared by the files of plan/export. */
#pragma once

#include "plan/export/export.h"

/** SL_ENONE if the plan has ops in parts; SL_EINVAL if the shape contradicts the pipeline. `framework` begins
 * the errors. */
sl_status sl_export_check(const char *framework, const sl_problem *problem, const sl_export_shape *shape);

/** SL_ENONE: the first op that is not a whole F or B, in a framework that has only those. */
sl_status sl_export_check_whole(const char *framework, const sl_order *order);

/** Sequences of an iteration. */
int64_t sl_export_batch(const sl_problem *problem, const sl_export_shape *shape);

/** Whether all stages recompute: 1, none: 0, some: -1. */
int sl_export_recompute(const sl_problem *problem, const sl_export_shape *shape);

/* ---- layers */

int sl_export_layers(const sl_problem *problem);
/** The first layer of a stage, or with stage = stages the number of layers. */
int sl_export_first(const sl_problem *problem, int stage);
/** The letter of a layer's kind (plan/pipeline/layer_layout.h); t if the problem has no layout. */
char sl_export_letter(const sl_problem *problem, int layer);

/* ---- output */

/** The plan in one line, and what the output assumes of its layers: lines between `before` and `after`. */
void sl_export_comment(const char *before, const char *after, const sl_problem *problem, const sl_plan *plan,
                       FILE *out);

/** SL_ESYS if `out` has failed. */
sl_status sl_export_end(FILE *out);
