/* slackline draw: pictures for papers, of plans and of runs. */
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/comparison.h"
#include "cli/drawing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of options ---- */

static const struct {
    const char *name;
    int what;
} words[] = {{"gantt", SL_DRAW_GANTT},           {"memory", SL_DRAW_MEMORY},  {"links", SL_DRAW_LINKS},
             {"iterations", SL_DRAW_ITERATIONS}, {"loss", SL_DRAW_LOSS},      {"gains", SL_DRAW_GAINS},
             {"devices", SL_DRAW_DEVICES},       {"compare", SL_DRAW_COMPARE}};
enum { WORDS = sizeof words / sizeof words[0] };

static sl_status read_word(const char *word, size_t length, int *what) {
    const char *names[WORDS + 1] = {NULL};
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)(length < 31 ? length : 31), word);
    for (int i = 0; i < WORDS; i++) {
        names[i] = words[i].name;
        if (strcmp(text, words[i].name) == 0) {
            *what |= words[i].what;
            return SL_OK;
        }
    }
    const char *near = sl_suggest(text, names);
    return sl_error(SL_EINVAL, "draw: --what knows no '%s'%s%s%s", text, near ? "; did you mean '" : "",
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

static const char *const on_off[] = {"on", "off", NULL};
static const sl_option options[] = {
    SL_OPTION("what", OWN, sl_drawing, what, .take = take_what),
    SL_OPTION("schedule", TEXT, sl_drawing, given.schedules),
    SL_OPTION("order", TEXTS, sl_drawing, given.order),
    SL_OPTION("set", TEXTS, sl_drawing, given.set),
    SL_OPTION("iteration", INT, sl_drawing, given.iteration, .most = INT_MAX - 1),
    SL_OPTION("replica", INT, sl_drawing, given.replica, .most = INT_MAX - 1),
    SL_OPTION("map", OWN, sl_drawing, map, .take = take_map),
    SL_OPTION("microbatches", INT, sl_drawing, microbatches, .least = 1, .most = SL_MAX_MICROBATCHES),
    SL_OPTION("title", TEXTS, sl_drawing, given.title),
    SL_OPTION("sweep", TEXT, sl_drawing, sweep),
    SL_OPTION("time-limit", REAL, sl_drawing, time_limit, .most = 1e6, .words = "seconds"),
    SL_OPTION("seed", SEED, sl_drawing, seed),
    SL_OPTION("width", OWN, sl_drawing, style, .take = take_width),
    SL_OPTION("font-size", OWN, sl_drawing, style.font, .take = take_font),
    SL_OPTION("grey", FLAG, sl_drawing, style.grey),
    SL_OPTION("labels", CHOICE, sl_drawing, style.no_labels, .names = on_off),
    SL_OPTION("legend", CHOICE, sl_drawing, style.no_legend, .names = on_off),
    SL_OPTION("messages", CHOICE, sl_drawing, no_messages, .names = on_off),
    SL_OPTION("critical", CHOICE, sl_drawing, no_critical, .names = on_off),
    SL_OPTION("from", OWN, sl_drawing, style, .take = take_from),
    SL_OPTION("to", OWN, sl_drawing, style, .take = take_to),
    SL_OPTION("output", TEXT, sl_drawing, output, .letter = 'o'),
    SL_OPTION_OWN("", take_input),
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
        return sl_error(SL_EINVAL, "draw: --what iterations, loss, gains and devices are of folders of runs");
    return SL_OK;
}

static sl_status compare(const sl_drawing *d, FILE *out) {
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
    sl_status status = sl_document_read(planning.problem_file, &planning.document);
    SL_THEN(status, sl_document_set_all(&planning.document, d->common.set.text, d->common.set.count));
    SL_THEN(status, sl_document_set_all(&planning.document, o->set.text, o->set.count));
    SL_THEN(status, sl_comparison_make(&planning, &comparison));
    if (status == SL_OK) {
        const sl_texts *title = o->title.count > 0 ? &o->title : &d->common.title;
        comparison.title = title->count > 0 ? title->text[0] : NULL;
        status = sl_comparison_svg(&comparison, &d->style, out);
    }
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
    return sl_leaving_close(&leaving, draw(d, leaving.out));
}

int sl_command_draw(int argc, char **argv) {
    sl_drawing d = {.common = no_options, .given = no_options, .time_limit = -1, .seed = 1};
    sl_status status = sl_subcommand_options(argc, argv, options, &d);
    assign_given(&d);
    SL_THEN(status, check(&d));
    SL_THEN(status, look_at_inputs(&d));
    SL_THEN(status, write_picture(&d));
    close_drawing(&d);
    return sl_plan_request_end(status);
}
