/* The results of slackline explain: as text, as JSON, and the heat map. */
#pragma once

#include "plan/explain/hybrid_cause.h"
#include "plan/explain/job_trace.h"
#include <stdio.h>

typedef struct sl_explained {
    sl_hybrid_trace trace;
    sl_hybrid_layout layout;
    sl_time *offset; /* [pipeline * data] of the clocks */
    sl_what_if what_if;
    sl_hybrid_cause cause[SL_MAX_CAUSES];
    int causes, width;
} sl_explained;

/** SL_ENOMEM. */
sl_status sl_explain_print_text(const sl_explained *explained, FILE *out);
sl_status sl_explain_print_json(const sl_explained *explained, FILE *out);
/** SL_ESYS. */
sl_status sl_explain_draw(const sl_explained *explained, FILE *out);
