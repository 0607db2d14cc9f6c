/* Shared by plan, simulate and compare: their options, and the output of results. */
#pragma once

#include "base/option.h"
#include "cli/leaving.h"
#include "plan/export/export.h"

typedef struct sl_plan_request {
    const char *problem_file, *schedule, *order_file, *schedules, *sweep, *format, *output;
    const char *shape; /* of the job, for exports; NULL: the standard */
    sl_export_shape export_shape;
    sl_texts set;
    double time_limit; /* s; negative: the schedule's default */
    uint64_t seed;
    int draws;   /* of jitter; 0: not requested */
    int width;   /* of text; 0: not given */
    int explain; /* print the breakdown of time */
    sl_document document;
    sl_problem problem;
} sl_plan_request;

/* The options of plan, simulate and compare, and the values of compare --format. */
extern const sl_option sl_plan_options_table[], sl_simulate_options[], sl_compare_options[];
extern const sl_value sl_compare_forms[];

/** The values of --schedule (sl_value_list): auto, optimal, and the families. */
int sl_schedules_list(int index, sl_value *value, char room[SL_VALUE_ROOM]);

/** Parses the options of argv[0] ("plan", "simulate" or "compare") and reads the problem with --set applied
 * (compare: only the document, because each value of a sweep makes another problem). SL_EINVAL; SL_DONE if
 * only help was requested. Close with sl_plan_request_close, also on error. */
sl_status sl_plan_request_open(int argc, char **argv, sl_plan_request *planning);
void sl_plan_request_close(sl_plan_request *planning);

/** The plan of `problem`, which gets its cut of layers, with `schedule`, `time_limit` and `seed`. */
sl_status sl_plan_request_make(sl_plan_request *planning, sl_plan *plan);

/** Reports on standard error if OR-tools is installed but not used because others could replace it. */
void sl_plan_request_say_refused(void);

/** Adds the results of --jitter and --explain to the plan. */
sl_status sl_plan_request_examine(const sl_plan_request *planning, sl_plan *plan);
/** Prints the added results as text. */
void sl_plan_request_print_examined(const sl_plan *plan, FILE *out);

/** Prints the plan in a form of sl_exports. */
sl_status sl_plan_request_export(const sl_plan_request *planning, const sl_plan *plan, FILE *out);
/** Writes the order of a form that needs it in a file of its own next to that of -o. */
sl_status sl_plan_request_export_order(const sl_plan_request *planning, const sl_plan *plan);

/** Prints the plan in the requested form to standard output, or, complete or not at all, to the file of
 * -o. */
sl_status sl_plan_request_print(const sl_plan_request *planning, const sl_plan *plan);

/** Columns of --width, of COLUMNS or of the terminal; 100 if none is known. */
int sl_plan_request_width(const sl_plan_request *planning);

/** Prints the error text of a failure and gives the exit code of `status`. */
int sl_plan_request_end(sl_status status);
