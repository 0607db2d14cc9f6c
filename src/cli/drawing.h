/* What `draw` is asked: inputs, each with the options that stand behind it, and how the picture should look.
 * Read by draw.c; draw_input.c makes charts over time of the inputs, draw_run.c those over iterations. */
#ifndef SL_CLI_DRAWING_H
#define SL_CLI_DRAWING_H

#include "cli/planning.h"
#include "plan/draw/style.h"
#include "plan/trace/label.h"

/* What is drawn: over the time of an iteration, over the iterations of a run, or schedules compared. */
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

/* Options of one input; those before the first input are of all. */
typedef struct sl_input_options {
    sl_texts set, order, title;
    const char *schedules;  /* NULL: not said */
    int iteration, replica; /* -1: not said */
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
    sl_input_options common, given; /* given: those that are being read */
    int what;                       /* SL_DRAW_...; 0: not said */
    int no_messages, no_critical;
    const char *sweep, *output;
    double time_limit; /* s; negative: not said */
    uint64_t seed;
    sl_draw_style style;
    sl_label_map map; /* of traces, as profile takes them */
    int microbatches; /* 0: not said */
} sl_drawing;

/** What a file is, by its content. SL_EINVAL: none of what can be drawn, or unreadable. */
sl_status sl_input_find(const char *file, sl_input_kind *kind);

/** Gantt charts, lanes and memory of all inputs on one axis of time. Errors as plan, simulate and report. */
sl_status sl_draw_over_time(const sl_drawing *drawing, FILE *out);
/** Charts over the iterations of all inputs, which are folders of runs. */
sl_status sl_draw_over_run(const sl_drawing *drawing, FILE *out);

#endif
