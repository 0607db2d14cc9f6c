/* The request of `draw`: inputs, each with the options that follow it, and the style of the picture. Read by
 * cmd_draw.c; draw_input.c makes charts over time, draw_run.c those over iterations. */
#pragma once

#include "cli/plan_request.h"
#include "plan/draw/style.h"
#include "plan/draw/svg.h"
#include "plan/search/plan_memory.h"
#include "plan/trace/label.h"
#include "plan/trace/recover.h"
#include "report/analysis.h"

/* The kind of picture: over the time of an iteration, over the iterations of a run, or schedules compared. */
enum {
    SL_DRAW_GANTT = 1,
    SL_DRAW_MEMORY = 2,
    SL_DRAW_LINKS = 4, /* lanes of an iteration, or over the iterations of a run */
    SL_DRAW_ITERATIONS = 8,
    SL_DRAW_LOSS = 16,
    SL_DRAW_GAINS = 32,
    SL_DRAW_DEVICES = 64,
    SL_DRAW_COMPARE = 128
};
#define SL_DRAW_OVER_TIME (SL_DRAW_GANTT | SL_DRAW_MEMORY)
#define SL_DRAW_OVER_RUN (SL_DRAW_ITERATIONS | SL_DRAW_LOSS | SL_DRAW_GAINS | SL_DRAW_DEVICES)

typedef enum sl_input_kind {
    SL_INPUT_PROBLEM,
    SL_INPUT_PLAN,     /* plan --format json */
    SL_INPUT_TIMELINE, /* timeline.json of a run, or a trace that profile reads */
    SL_INPUT_RUN       /* a run's folder */
} sl_input_kind;

/* Options of one input; those before the first input apply to all. */
typedef struct sl_input_options {
    sl_texts set, order, title;
    const char *schedules;  /* NULL: not given */
    int iteration, replica; /* -1: not given */
} sl_input_options;

typedef struct sl_input {
    const char *file;
    sl_input_kind kind;
    sl_input_options options;
} sl_input;

typedef struct sl_drawing {
    sl_input *input;
    int inputs;
    size_t room;
    sl_input_options common, given; /* given: those of the present input */
    int what;                       /* SL_DRAW_...; 0: not given */
    int no_messages, no_critical;
    const char *sweep, *output;
    double time_limit; /* s; negative: not given */
    uint64_t seed;
    sl_draw_style style;
    sl_label_map map; /* of traces, as profile takes them */
    int microbatches; /* 0: not given */
} sl_drawing;

/** The kind of a file, by its content. SL_EINVAL: it cannot be drawn or read. */
sl_status sl_input_find(const char *file, sl_input_kind *kind);

/** Gantt charts, lanes and memory of all inputs on one axis of time. Errors as plan, simulate and report. */
sl_status sl_draw_over_time(const sl_drawing *drawing, FILE *out);
/** Charts over the iterations of all inputs, which are folders of runs. */
sl_status sl_draw_over_run(const sl_drawing *drawing, FILE *out);

/* An input of `draw` over the time of an iteration: one or two charts, and the data that they refer to.
 * draw_input.c makes those of problems and plans, draw_recorded.c those of measurements and traces. */

/* The memory of one chart. */
typedef struct sl_drawn_memory {
    sl_plan_memory held;
    sl_svg_memory shown;
} sl_drawn_memory;

/* One input, or one schedule of it: the charts and their data. */
typedef struct sl_drawn {
    sl_plan_request planning;
    sl_plan plan;
    sl_timeline timeline;
    sl_traced traced;
    sl_recovered recovered;
    sl_analysis analysis;
    sl_highlight highlight;
    char title[2][640];
    sl_drawn_memory memory[2];
    sl_svg_chart chart[2];
    int charts;
} sl_drawn;

/** Adds rows of memory to a chart. SL_ENOMEM. */
sl_status sl_drawn_add_memory(const sl_problem *problem, const sl_timeline *timeline, sl_drawn_memory *memory,
                              sl_svg_chart *chart);
/** SL_ENONE with `why` if memory was requested. */
sl_status sl_drawn_refuse_memory(const sl_drawing *drawing, const sl_input *input, const char *why);

/** The number of inputs from `first` on that may be the ranks of one run: consecutive traces of another
 * program, of which only the last may have its own options. At least 1. */
int sl_drawn_ranks(const sl_drawing *drawing, int first);
/** A run's timeline without its folder: measured only; or another program's trace from `files` inputs
 * (`input` and those before it), with its order in simulation above it. Errors as profile. */
sl_status sl_drawn_timeline(const sl_drawing *drawing, const sl_input *input, int files, sl_drawn *one);
/** The requested recorded iteration of a run, predicted above measured. Errors as report. */
sl_status sl_drawn_run(const sl_drawing *drawing, const sl_input *input, sl_drawn *one);
