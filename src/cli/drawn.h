/* An input of `draw` over the time of an iteration: one or two charts, and all that they point to.
 * draw_input.c makes those of problems and plans, draw_recorded.c those of what was measured or traced. */
#ifndef SL_CLI_DRAWN_H
#define SL_CLI_DRAWN_H

#include "cli/drawing.h"
#include "plan/draw/svg.h"
#include "plan/search/plan_memory.h"
#include "plan/trace/recover.h"
#include "report/gantt.h"

/* The memory of one chart. */
typedef struct sl_drawn_memory {
    sl_plan_memory held;
    sl_svg_memory shown;
} sl_drawn_memory;

/* One input, or one schedule of it: what its charts point to, and the charts. */
typedef struct sl_drawn {
    sl_planning planning;
    sl_plan plan;
    sl_timeline timeline;
    sl_traced traced;
    sl_recovered recovered;
    sl_retraced retraced;
    sl_highlight highlight;
    char title[2][640];
    sl_drawn_memory memory[2];
    sl_svg_chart chart[2];
    int charts;
} sl_drawn;

/** Adds rows of memory to a chart. SL_ENOMEM. */
sl_status sl_drawn_add_memory(const sl_problem *problem, const sl_timeline *timeline, sl_drawn_memory *memory,
                              sl_svg_chart *chart);
/** SL_ENONE with `why` where memory was asked for. */
sl_status sl_drawn_refuse_memory(const sl_drawing *drawing, const sl_input *input, const char *why);

/** How many inputs from `first` on may be the ranks of one run: traces of another program behind each other,
 * none but the last with options of its own. At least 1. */
int sl_drawn_ranks(const sl_drawing *drawing, int first);
/** A run's timeline outside of its folder: what was measured; or another program's trace, `files` inputs
 * (those before `input` among them), with its order in simulation above it. Errors as profile. */
sl_status sl_drawn_timeline(const sl_drawing *drawing, const sl_input *input, int files, sl_drawn *one);
/** The recorded iteration of a run that is asked for, predicted above measured. Errors as report. */
sl_status sl_drawn_run(const sl_drawing *drawing, const sl_input *input, sl_drawn *one);

#endif
