/* What profile.c (options, the work) and profile_print.c (the report) share. */
#ifndef SL_CLI_PROFILE_H
#define SL_CLI_PROFILE_H

#include "base/option.h"
#include "plan/search/plan.h"
#include "plan/trace/recover.h"

typedef struct sl_profiling {
    sl_texts trace;                        /* files */
    const char *problem_file, *order_file; /* NULL: not asked for */
    int is_json;
    sl_label_map map;
    sl_recover_options options;
    sl_plan_options search;
    sl_traced traced;
    sl_recovered recovered;
    sl_plan simulated; /* the traced order on the recovered problem */
    sl_plan within;    /* auto, no rank above what the traced order keeps */
    sl_plan free;      /* auto without a limit */
} sl_profiling;

/** The report. SL_ENOMEM. */
sl_status sl_profiling_print_text(const sl_profiling *p, FILE *out);
sl_status sl_profiling_print_json(const sl_profiling *p, FILE *out);

/** The problem file, with where it comes from above it. */
sl_status sl_profiling_write_problem(const sl_profiling *p, FILE *out);

#endif
