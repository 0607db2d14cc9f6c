/* The entries of a plan's long lists as plan_lists.h writes them: read without a JSON parser, which takes ten
 * times as long. An entry in another form, or with a value out of range, is left to the parser. */
#pragma once

#include "plan/timing/timeline.h"

/** Nonzero if the text, ended by a zero, is an op. */
int sl_plan_item_span(const char *text, sl_span *span);
/** Nonzero if it is a transfer. */
int sl_plan_item_transfer(const char *text, sl_transfer *transfer);
