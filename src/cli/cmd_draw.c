/* slackline draw: pictures for papers, of plans and of runs. */
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/comparison.h"
#include "cli/drawing.h"
#include "cli/picture.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of options ---- */

/* Number i is bit i of SL_DRAW_... */
static const sl_value pictures[] = {
    {"gantt", "ops over the time of an iteration; for a run, predicted above measured"},
    {"memory", "memory of each rank over that time, its peak and limit"},
    {"links", "messages over that time, one lane per link; for a run, alone: links over iterations"},
    {"iterations", "time of a run's iterations, with events"},
    {"loss", "training and validation loss over them"},
    {"gains", "iterations before and after each change of a run"},
    {"devices", "time per microbatch of each rank, over recorded iterations"},
    {"compare", "makespans of the schedules of a problem, also over the values of --sweep"},
    {NULL, NULL}};
enum { PICTURES = sizeof pictures / sizeof pictures[0] - 1 };

static sl_status read_word(const char *word, size_t length, int *what) {
    const char *names[PICTURES + 1] = {NULL};
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)(length < 31 ? length : 31), word);
    for (int i = 0; i < PICTURES; i++) {
        names[i] = pictures[i].name;
        if (strcmp(text, pictures[i].name) == 0) {
            *what |= 1 << i;
            return SL_OK;
        }
    }
    const char *near = sl_suggest(text, names);
    return sl_error(SL_EINVAL, "draw: unknown --what '%s'%s%s%s", text, near ? "; did you mean '" : "",
                    near ? near : "; see slackline draw --help", near ? "'?" : "");
}

static sl_status take_what(const sl_options *o, void *argument) {
    int *what = argument;
    const char *text = o->value;
    for (*what = 0;; text++) {
        size_t length = strcspn(text, ",");
        SL_TRY(read_word(text, length, what));
        text += length;
        if (!*text)
            break;
    }
    if ((*what & SL_DRAW_COMPARE && *what != SL_DRAW_COMPARE) ||
        (*what & SL_DRAW_OVER_TIME && *what & SL_DRAW_OVER_RUN))
        return sl_error(SL_EINVAL, "draw: --what takes things of one axis: gantt, memory, links (time), or "
                                   "iterations, loss, gains, links, devices (a run), or compare");
    return SL_OK;
}

/* A length in px; `unit` is the default unit, and becomes the given one. */
static sl_status read_size(const sl_options *o, const char **unit, double *px) {
    const char *text = o->value;
    char *end;
    double value = strtod(text, &end);
    static const char *const known[] = {"px", "mm", "cm", "in", "pt"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (*end && strcmp(end, known[i]) == 0) {
            *unit = known[i];
            end += strlen(end);
        }
    *px = value * sl_style_unit(*unit);
    if (end == text || *end || !(*px >= 1 && *px <= 20000))
        return sl_error(SL_EINVAL,
                        "draw: --%s must be a length such as 85mm, 3.3in, 240pt or 600px, got '%.40s'",
                        o->row->name, text);
    return SL_OK;
}

static sl_status take_width(const sl_options *o, void *argument) {
    sl_draw_style *style = argument;
    style->unit = "px";
    return read_size(o, &style->unit, &style->width);
}

static sl_status take_font(const sl_options *o, void *font) {
    const char *unit = "pt";
    return read_size(o, &unit, font);
}

static sl_status take_from(const sl_options *o, void *argument) {
    sl_draw_style *style = argument;
    style->has_from = 1;
    return sl_option_real(o, NULL, 0, 1e9, &style->from);
}

static sl_status take_to(const sl_options *o, void *argument) {
    sl_draw_style *style = argument;
    style->has_to = 1;
    return sl_option_real(o, NULL, 0, 1e9, &style->to);
}

static sl_status take_map(const sl_options *o, void *map) {
    return sl_label_map_add(map, o->value);
}

/* ---- the command line ---- */

static const sl_input_options no_options = {.iteration = -1, .replica = -1};

/* Assigns the options given so far to the previous input, or to all. */
static void assign_given(sl_drawing *d) {
    *(d->inputs > 0 ? &d->input[d->inputs - 1].options : &d->common) = d->given;
    d->given = no_options;
}

static sl_status take_input(const sl_options *o, void *argument) {
    sl_drawing *d = argument;
    SL_TRY(sl_grow(&d->input, &d->room, (size_t)d->inputs + 1, sizeof *d->input));
    assign_given(d);
    d->input[d->inputs++] = (sl_input){.file = o->value, .options = no_options};
    return SL_OK;
}

static const sl_value on_off[] = {{"on", NULL}, {"off", NULL}, {NULL, NULL}};
#define ON_OFF(text, field, meaning)                                                                         \
    SL_OPTION(text, CHOICE, sl_drawing, field, NULL, meaning, .values = on_off, .standard = "on")

static const sl_option options[] = {
    SL_OPTION("what", OWN, sl_drawing, what, "LIST",
              "what is drawn, separated by commas; the first is the default", .take = take_what,
              .values = pictures),
    SL_OPTION("schedule", TEXT, sl_drawing, given.schedules, "LIST",
              "schedules, named as in plan and compare; one chart each; default auto"),
    SL_OPTION("order", TEXTS, sl_drawing, given.order, "FILE",
              "an order (CSV) to time on the problem, instead of a plan", .completes = SL_COMPLETES_FILE),
    SL_OPTION_SET(sl_drawing, given.set, sl_problem_visit_keys, "the problem"),
    SL_OPTION("iteration", INT, sl_drawing, given.iteration, "N",
              "the recorded iteration; default: the slowest one", .most = INT_MAX - 1),
    SL_OPTION("replica", INT, sl_drawing, given.replica, "N", "the replica; default: the one that ends last",
              .most = INT_MAX - 1),
    SL_OPTION("map", OWN, sl_drawing, map, "WHAT=PATTERN",
              "of traces: meanings of names, as in import (repeatable)", .take = take_map),
    SL_OPTION("microbatches", INT, sl_drawing, microbatches, "N",
              "of traces: number per iteration, as in import", .least = 1, .most = SL_MAX_MICROBATCHES),
    SL_OPTION("title", TEXTS, sl_drawing, given.title, "TEXT",
              "replaces the chart's own title, in order of the charts; empty: none"),
    SL_OPTION("sweep", TEXT, sl_drawing, sweep, "KEY=FROM:TO:STEP",
              "of compare: for each value of a key; also KEY=A,B,..", .keys = sl_problem_visit_keys),
    SL_OPTION_TIME_LIMIT(sl_drawing, time_limit, "seconds for each plan, as in plan and compare"),
    SL_OPTION_SEED(sl_drawing, seed, "searches"),
    SL_OPTION("width", OWN, sl_drawing, style, "SIZE", "of the picture: 85mm, 3.3in, 240pt, 600px",
              .take = take_width),
    SL_OPTION("font-size", OWN, sl_drawing, style.font, "SIZE",
              "of its text, in pt unless another unit is given", .take = take_font),
    SL_OPTION("grey", FLAG, sl_drawing, style.grey, NULL, "patterns and grays, for print without color"),
    ON_OFF("labels", style.no_labels, "numbers in boxes, next to bars and above marks"),
    ON_OFF("legend", style.no_legend, "the meaning of colors and patterns"),
    ON_OFF("messages", no_messages, "lines from rank to rank"),
    ON_OFF("critical", no_critical, "the outline of the critical path"),
    SL_OPTION("from", OWN, sl_drawing, style, "X",
              "start of the axis: ms of an iteration, or an iteration number", .take = take_from),
    SL_OPTION("to", OWN, sl_drawing, style, "X", "end of the axis", .take = take_to),
    SL_OPTION_OUTPUT(sl_drawing, output),
    SL_OPTION_OWN("", take_input, "INPUT...", NULL, .completes = SL_COMPLETES_FILE, .required = 1),
    SL_OPTIONS_END};

static void free_options(sl_input_options *o) {
    SL_FREE(o->set.text, o->order.text, o->title.text);
}

static void close_drawing(sl_drawing *d) {
    for (int i = 0; i < d->inputs; i++)
        free_options(&d->input[i].options);
    sl_free(d->input);
    free_options(&d->common);
}

static sl_status check(const sl_drawing *d) {
    if (d->inputs == 0)
        return sl_error(SL_EINVAL, "draw: nothing to draw; see slackline draw --help");
    if (d->style.has_from && d->style.has_to && d->style.from >= d->style.to)
        return sl_error(SL_EINVAL, "draw: --from must be below --to");
    return SL_OK;
}

/* ---- the request and its inputs ---- */

static sl_status look_at_inputs(sl_drawing *d) {
    int runs = 0;
    for (int i = 0; i < d->inputs; i++) {
        SL_TRY(sl_input_find(d->input[i].file, &d->input[i].kind));
        runs += d->input[i].kind == SL_INPUT_RUN;
    }
    d->what = d->what ? d->what : SL_DRAW_GANTT;
    if (d->sweep && d->what != SL_DRAW_COMPARE)
        return sl_error(SL_EINVAL, "draw: --sweep goes with --what compare");
    if (d->what == SL_DRAW_LINKS && runs == d->inputs)
        d->what |= SL_DRAW_OVER_RUN << 8; /* only selects the axis */
    if (d->what & SL_DRAW_OVER_RUN && runs < d->inputs)
        return sl_error(SL_EINVAL,
                        "draw: --what iterations, loss, gains and devices need the folder of a run");
    return SL_OK;
}

static sl_status compare(const sl_drawing *d, FILE *picture) {
    const sl_input_options *o = &d->input[0].options;
    sl_plan_request planning = {.problem_file = d->input[0].file,
                                .schedules = o->schedules ? o->schedules : d->common.schedules,
                                .sweep = d->sweep,
                                .format = "svg",
                                .time_limit = d->time_limit,
                                .seed = d->seed};
    sl_comparison comparison = {0};
    if (d->inputs != 1 || d->input[0].kind != SL_INPUT_PROBLEM)
        return sl_error(SL_EINVAL, "draw: --what compare takes one problem file");
    sl_status status;
    SL_TRY_GOTO(out, status, sl_document_read(planning.problem_file, &planning.document));
    SL_TRY_GOTO(out, status,
                sl_document_set_all(&planning.document, d->common.set.text, d->common.set.count));
    SL_TRY_GOTO(out, status, sl_document_set_all(&planning.document, o->set.text, o->set.count));
    SL_TRY_GOTO(out, status, sl_comparison_make(&planning, &comparison));
    const sl_texts *title = o->title.count > 0 ? &o->title : &d->common.title;
    comparison.title = title->count > 0 ? title->text[0] : NULL;
    status = sl_comparison_svg(&comparison, &d->style, picture);
out:
    sl_comparison_close(&comparison);
    sl_plan_request_close(&planning);
    return status;
}

static sl_status draw(const sl_drawing *d, FILE *out) {
    if (d->what == SL_DRAW_COMPARE)
        return compare(d, out);
    return d->what & (SL_DRAW_OVER_RUN | SL_DRAW_OVER_RUN << 8) ? sl_draw_over_run(d, out)
                                                                : sl_draw_over_time(d, out);
}

static sl_status write_picture(const sl_drawing *d) {
    sl_leaving leaving;
    SL_TRY(sl_leaving_open(d->output, &leaving));
    leaving.is_svg = 1;
    return sl_leaving_close(&leaving, draw(d, leaving.out));
}

static int run(int argc, char **argv) {
    sl_drawing d = {.common = no_options, .given = no_options, .time_limit = -1};
    sl_status status = sl_command_options(argc, argv, &d);
    assign_given(&d);
    SL_THEN(status, check(&d));
    if (sl_picture_form(d.output))
        SL_THEN(status, sl_picture_check(d.output));
    SL_THEN(status, look_at_inputs(&d));
    SL_THEN(status, write_picture(&d));
    close_drawing(&d);
    return sl_plan_request_end(status);
}

const sl_command sl_command_draw = {
    .name = "draw",
    .summary = "plans and runs as pictures for papers: Gantt, memory, links, gains",
    .about =
        "Draws plans and runs as one SVG picture for a paper, or as FILE.png or FILE.pdf by rsvg-convert, "
        "inkscape or ImageMagick. An INPUT is a problem file, which is planned; "
        "a plan (plan --format json); a run's folder, or its timeline.json; or a trace that import reads. "
        "Several inputs are drawn below each other on one axis. Consecutive traces are the ranks of one "
        "run, unless each has all ranks or an option is between them. The options of an input follow it: "
        "--schedule, --order, --set, --iteration, --replica, --title; before the first input they apply to "
        "all.",
    .options = options,
    .example = "slackline draw examples/four-ranks.yaml --schedule 1f1b,zb-h2 --width 85mm --font-size 7 -o "
               "schedules.svg\n"
               "slackline draw --what gantt,memory --schedule auto examples/four-ranks.yaml "
               "examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60 -o before-after.svg\n"
               "slackline draw runs/slow-link --iteration 30 --grey --from 0 --to 200 -o iteration.svg\n"
               "slackline draw runs/slow-link --what iterations,gains -o run.svg\n"
               "slackline draw traces/rank*.json --what gantt,memory -o traced.svg",
    .run = run};
