/* slackline draw: pictures for papers, of plans and of runs. */
#include "base/memory.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/comparison.h"
#include "cli/drawing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: slackline draw INPUT... [--what LIST] [--schedule LIST] [--order FILE] [--set KEY=VALUE]...\n"
    "                     [--iteration N] [--replica N] [--title TEXT]... [--sweep KEY=FROM:TO:STEP]\n"
    "                     [--map WHAT=PATTERN]... [--microbatches N]\n"
    "                     [--time-limit S] [--seed N] [--width SIZE] [--font-size SIZE] [--grey]\n"
    "                     [--labels on|off] [--legend on|off] [--messages on|off] [--critical on|off]\n"
    "                     [--from X] [--to X] [-o FILE]\n"
    "\n"
    "Draws plans and runs as one SVG picture for a paper. An INPUT is a problem file, which is planned; a\n"
    "plan (plan --format json); a run's folder, or its timeline.json; or a trace that profile reads.\n"
    "Several stand below each other on one axis; traces behind each other are the ranks of one run, unless "
    "each\n"
    "holds all of its ranks or an option stands between them. Options of an input stand behind it: "
    "--schedule, --order,\n"
    "--set, --iteration, --replica, --title; in front of the first input they are for all.\n"
    "\n"
    "  --what LIST       what is drawn, with commas between; the first is the default:\n"
    "      gantt             ops over the time of an iteration; of a run predicted above measured\n"
    "      memory            what each rank holds over that time, its peak and limit\n"
    "      links             messages over that time, a lane a link; alone, of a run: links over its "
    "iterations\n"
    "      iterations        time of a run's iterations, with what happened\n"
    "      loss              training and validation loss over them\n"
    "      gains             iterations before each change of a run, and behind it\n"
    "      devices           what each rank takes for a microbatch, over recorded iterations\n"
    "      compare           makespans of the schedules of a problem, also over the values of --sweep\n"
    "  --schedule LIST   schedules to plan with, as plan and compare name them; a chart each; default auto\n"
    "  --order FILE      an order (CSV) to time on the problem, instead of a plan; may be repeated\n"
    "  --set KEY=VALUE   change a key of the problem, by its dotted path\n"
    "  --iteration N     the recorded iteration; default: the slowest one\n"
    "  --replica N       the replica; default: the one that ends last\n"
    "  --map WHAT=PAT    of traces: what their names mean, as of profile\n"
    "  --microbatches N  of traces: how many an iteration has, as of profile\n"
    "  --title TEXT      instead of the chart's own title, of one chart after the other; empty: none\n"
    "  --sweep KEY=FROM:TO:STEP   of compare: for each value of a key; also KEY=A,B,..\n"
    "  --time-limit S    seconds for each plan, as plan and compare take it\n"
    "  --seed N          of searches; default 1\n"
    "  --width SIZE      of the picture: 85mm, 3.3in, 240pt, 600px\n"
    "  --font-size SIZE  of its letters, in pt unless another unit is given\n"
    "  --grey            patterns and greys, for print without colour\n"
    "  --labels WORD     on (the default) or off: numbers in boxes, beside bars and above marks\n"
    "  --legend WORD     on (the default) or off\n"
    "  --messages WORD   on (the default) or off: lines from rank to rank\n"
    "  --critical WORD   on (the default) or off: the outline of the critical path\n"
    "  --from X          where the axis begins: ms of an iteration, or the number of one\n"
    "  --to X            where it ends\n"
    "  -o, --output FILE  write there, completely or not at all; default: standard output\n"
    "\n"
    "Example: slackline draw examples/four-ranks.yaml --schedule 1f1b,zb-h2 --width 85mm --font-size 7 \\\n"
    "             -o schedules.svg\n"
    "         slackline draw --what gantt,memory --schedule auto examples/four-ranks.yaml \\\n"
    "             examples/four-ranks.yaml --set pipeline.links.list.0.latency_ms=60 -o before-after.svg\n"
    "         slackline draw runs/slow-link --iteration 30 --grey --from 0 --to 200 -o iteration.svg\n"
    "         slackline draw runs/slow-link --what iterations,gains -o run.svg\n"
    "         slackline draw traces/rank*.json --what gantt,memory -o traced.svg\n";

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

/* A length in px; `unit` is what a number alone means, and becomes the one that was given. */
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

/* What was given so far is of the input before, or of all. */
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

/* ---- what was asked for, and of what ---- */

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
        d->what |= SL_DRAW_OVER_RUN << 8; /* only says which axis */
    if (d->what & SL_DRAW_OVER_RUN && runs < d->inputs)
        return sl_error(SL_EINVAL, "draw: --what iterations, loss, gains and devices are of folders of runs");
    return SL_OK;
}

static sl_status compare(const sl_drawing *d, FILE *out) {
    const sl_input_options *o = &d->input[0].options;
    sl_planning planning = {.problem_file = d->input[0].file,
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
    sl_planning_close(&planning);
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
    sl_options o = {.command = "draw", .table = options, .argc = argc, .argv = argv, .usage = usage};
    sl_status status = sl_options_take(&o, &d);
    assign_given(&d);
    if (status == SL_OK && !o.help)
        status = check(&d);
    if (status == SL_OK && !o.help)
        status = look_at_inputs(&d);
    if (status == SL_OK && !o.help)
        status = write_picture(&d);
    close_drawing(&d);
    return sl_planning_end(status);
}
