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

static const struct option options[] = {{"what", required_argument, NULL, 'w'},
                                        {"schedule", required_argument, NULL, 's'},
                                        {"order", required_argument, NULL, 'r'},
                                        {"set", required_argument, NULL, 'k'},
                                        {"iteration", required_argument, NULL, 'i'},
                                        {"replica", required_argument, NULL, 'R'},
                                        {"map", required_argument, NULL, 'M'},
                                        {"microbatches", required_argument, NULL, 'n'},
                                        {"title", required_argument, NULL, 'T'},
                                        {"sweep", required_argument, NULL, 'S'},
                                        {"time-limit", required_argument, NULL, 't'},
                                        {"seed", required_argument, NULL, 'e'},
                                        {"width", required_argument, NULL, 'W'},
                                        {"font-size", required_argument, NULL, 'F'},
                                        {"grey", no_argument, NULL, 'g'},
                                        {"labels", required_argument, NULL, 'l'},
                                        {"legend", required_argument, NULL, 'L'},
                                        {"messages", required_argument, NULL, 'm'},
                                        {"critical", required_argument, NULL, 'c'},
                                        {"from", required_argument, NULL, 'a'},
                                        {"to", required_argument, NULL, 'b'},
                                        {"output", required_argument, NULL, 'o'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

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

static sl_status read_what(const char *text, int *what) {
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
static sl_status read_size(const char *option, const char *text, const char **unit, double *px) {
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
                        option, text);
    return SL_OK;
}

static sl_status take_axis(const sl_options *o, double *number, int *has) {
    *has = 1;
    return sl_option_real(o, NULL, 0, 1e9, number);
}

/* *off is 1 for "off". */
static sl_status take_switch(const sl_options *o, int *off) {
    static const char *const words_of_switch[] = {"on", "off", NULL};
    return sl_option_choice(o, words_of_switch, off);
}

/* ---- the command line ---- */

static sl_status open_options(sl_input_options *o, int most) {
    *o = (sl_input_options){.iteration = -1, .replica = -1};
    SL_TRY(sl_alloc(&o->set, (size_t)most, sizeof(const char *)));
    SL_TRY(sl_alloc(&o->order, (size_t)most, sizeof(const char *)));
    return sl_alloc(&o->title, (size_t)most, sizeof(const char *));
}

static void close_options(sl_input_options *o) {
    sl_free(o->set);
    sl_free(o->order);
    sl_free(o->title);
}

static void close_drawing(sl_drawing *d) {
    for (int i = 0; i < d->inputs; i++)
        close_options(&d->input[i].options);
    sl_free(d->input);
    close_options(&d->common);
}

static sl_status take_style(sl_drawing *d, const sl_options *o) {
    const char *unit = "pt";
    switch (o->option) {
    case 'W':
        d->style.unit = "px";
        return read_size("width", o->value, &d->style.unit, &d->style.width);
    case 'F':
        return read_size("font-size", o->value, &unit, &d->style.font);
    case 'g':
        d->style.grey = 1;
        return SL_OK;
    case 'l':
        return take_switch(o, &d->style.no_labels);
    case 'L':
        return take_switch(o, &d->style.no_legend);
    case 'm':
        return take_switch(o, &d->no_messages);
    case 'c':
        return take_switch(o, &d->no_critical);
    case 'a':
        return take_axis(o, &d->style.from, &d->style.has_from);
    default: /* 'b' */
        return take_axis(o, &d->style.to, &d->style.has_to);
    }
}

static sl_status add_input(sl_drawing *d, const sl_options *o) {
    sl_input *input = &d->input[d->inputs];
    SL_TRY(open_options(&input->options, o->argc));
    d->inputs++;
    input->file = o->value;
    return SL_OK;
}

static sl_status take(const sl_options *o, void *argument) {
    sl_drawing *d = argument;
    sl_input_options *of = d->inputs > 0 ? &d->input[d->inputs - 1].options : &d->common;
    switch (o->option) {
    case SL_OPTION_WORD:
        return add_input(d, o);
    case 'w':
        return read_what(o->value, &d->what);
    case 's':
        of->schedules = o->value;
        return SL_OK;
    case 'r':
        of->order[of->orders++] = o->value;
        return SL_OK;
    case 'k':
        of->set[of->sets++] = o->value;
        return SL_OK;
    case 'i':
        return sl_option_int(o, 0, INT_MAX - 1, &of->iteration);
    case 'R':
        return sl_option_int(o, 0, INT_MAX - 1, &of->replica);
    case 'M':
        return sl_label_map_add(&d->map, o->value);
    case 'n':
        return sl_option_int(o, 1, SL_MAX_MICROBATCHES, &d->microbatches);
    case 'T':
        of->title[of->titles++] = o->value;
        return SL_OK;
    case 'S':
        d->sweep = o->value;
        return SL_OK;
    case 't':
        return sl_planning_take_seconds(o, &d->time_limit);
    case 'e':
        return sl_planning_take_seed(o, &d->seed);
    case 'o':
        d->output = o->value;
        return SL_OK;
    default:
        return take_style(d, o);
    }
}

static sl_status parse(int argc, char **argv, sl_drawing *d, int *help) {
    sl_options o = {.command = "draw", .table = options, .argc = argc, .argv = argv};
    SL_TRY(sl_alloc(&d->input, (size_t)argc, sizeof *d->input));
    SL_TRY(open_options(&d->common, argc));
    SL_TRY(sl_options_take(&o, take, d));
    *help = o.help;
    if (!o.help && d->inputs == 0)
        return sl_error(SL_EINVAL, "draw: nothing to draw; see slackline draw --help");
    if (!o.help && d->style.has_from && d->style.has_to && d->style.from >= d->style.to)
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
    for (int i = 0; i < d->common.sets && status == SL_OK; i++)
        status = sl_document_set(&planning.document, d->common.set[i]);
    for (int i = 0; i < o->sets && status == SL_OK; i++)
        status = sl_document_set(&planning.document, o->set[i]);
    if (status == SL_OK)
        status = sl_comparison_make(&planning, &comparison);
    if (status == SL_OK) {
        comparison.title = o->titles > 0 ? o->title[0] : d->common.titles > 0 ? d->common.title[0] : NULL;
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
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the picture");
    sl_status status = draw(d, out);
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the picture");
    const sl_planning where = {.output = d->output};
    if (status == SL_OK)
        status = sl_planning_write(&where, text, size);
    free(text);
    return status;
}

int sl_command_draw(int argc, char **argv) {
    sl_drawing d = {.time_limit = -1, .seed = 1};
    int help = 0;
    sl_status status = parse(argc, argv, &d, &help);
    if (status == SL_OK && help)
        fputs(usage, stdout);
    if (status == SL_OK && !help)
        status = look_at_inputs(&d);
    if (status == SL_OK && !help)
        status = write_picture(&d);
    close_drawing(&d);
    return sl_planning_end(status);
}
