/* slackline campaign: a long job under a trace of faults, simulated with several strategies. With a fleet,
 * months of a cluster's hosts and spares (campaign_fleet.h). */
#include "adapt/campaign/campaign.h"
#include "adapt/campaign/fleet.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/campaign_fleet.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "plan/draw/chart.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

/* The result of a campaign as text, JSON, CSV and SVG. All of it depends only on the inputs: the time of the
 * simulation itself is printed elsewhere. */

#define POINTS 240 /* of a line of the picture */
#define LATER 3600 /* s; the axis is in hours beyond twice this, in minutes beyond 120 s */

static double seconds(sl_time t) {
    return (double)t / 1e9;
}

static double mean(const sl_campaign_result *r, const sl_campaign_row *row) {
    return (double)row->total / r->iterations;
}

static double slowdown(const sl_campaign_result *r, const sl_campaign_row *row) {
    return mean(r, row) / (double)r->healthy;
}

/* ---- text ---- */

static void print_job(const sl_campaign *c, const sl_campaign_result *r, FILE *out) {
    fprintf(out, "%d iterations of %d replicas x %d ranks", r->iterations, c->replicas, c->problem.ranks);
    if (c->tensor > 1)
        fprintf(out, " x %d devices", c->tensor);
    fprintf(out, ", %d microbatches per replica; %s, healthy %.6g ms\n", c->problem.microbatches, c->schedule,
            sl_to_ms(r->healthy));
    fprintf(out, "%zu events", c->faults);
    if (c->drawn)
        fprintf(out, "; %s", c->about);
    fprintf(out, "\n\n");
}

static void print_actions(const sl_campaign_row *row, FILE *out) {
    static const char *const short_names[SL_STRATEGY_KINDS] = {"adapt", "delegate", "balance", "topology",
                                                               "restart"};
    const char *between = "";
    for (int i = 0; i < SL_STRATEGY_KINDS; i++)
        if (row->applied[i]) {
            fprintf(out, "%s%s %d", between, short_names[i], row->applied[i]);
            between = ", ";
        }
    if (row->undone) {
        fprintf(out, "%sundone %d", between, row->undone);
        between = ", ";
    }
    if (row->stops)
        fprintf(out, "%sstops %d", between, row->stops);
}

static void print_log(const sl_campaign_row *row, FILE *out) {
    if (row->log)
        fprintf(out, "\n%s: decisions\n%s", row->name, row->log);
}

/* A table, one line per strategy; `log`: the ladders' decisions below. */
static sl_status print_text(const sl_campaign *c, const sl_campaign_result *r, int log, FILE *out) {
    print_job(c, r, out);
    fprintf(out, "%-20s %12s %14s %9s %10s %11s  %s\n", "strategy", "total s", "mean iter. ms", "slowdown",
            "recovered", "costs s", "applied");
    for (int i = 0; i < r->rows; i++) {
        const sl_campaign_row *row = &r->row[i];
        fprintf(out, "%-20s %12.2f %14.3f %9.4f ", row->name, seconds(row->total), mean(r, row) / 1e6,
                slowdown(r, row));
        if (r->row[0].total > r->healthy * r->iterations)
            fprintf(out, "%8.1f%% ", 100 * sl_campaign_recovered(r, row));
        else
            fprintf(out, "%10s ", "-");
        fprintf(out, "%11.2f  ", seconds(row->paid));
        print_actions(row, out);
        fputc('\n', out);
    }
    fprintf(out, "\nsimulated: %lld distinct iterations, %lld replicas replayed, %lld plans\n", r->states,
            r->replays, r->plans);
    for (int i = 0; i < r->rows && log; i++)
        print_log(&r->row[i], out);
    return SL_OK;
}

/* ---- JSON ---- */

static json_t *stretches(const sl_campaign_row *row) {
    json_t *list = json_array();
    for (size_t i = 0; i < row->stretches; i++) {
        const sl_campaign_stretch *s = &row->stretch[i];
        json_array_append_new(
            list, s->count ? json_pack("{s:i,s:i,s:f,s:f}", "iteration", s->iteration, "iterations", s->count,
                                       "start_s", seconds(s->start), "iteration_ms", sl_to_ms(s->each))
                           : json_pack("{s:i,s:i,s:f,s:f}", "iteration", s->iteration, "iterations", 0,
                                       "start_s", seconds(s->start), "stands_still_ms", sl_to_ms(s->each)));
    }
    return list;
}

/* `parse`: each line is JSON, else text. */
static json_t *lines_of(const char *text, int parse) {
    json_t *lines = json_array();
    for (const char *end; *text; text = end + (*end == '\n')) {
        end = text + strcspn(text, "\n");
        size_t length = (size_t)(end - text);
        json_array_append_new(lines, parse ? json_loadb(text, length, 0, NULL) : json_stringn(text, length));
    }
    return lines;
}

static json_t *row_json(const sl_campaign_result *r, const sl_campaign_row *row, int log) {
    json_t *applied = json_pack(
        "{s:i,s:i,s:i,s:i,s:i}", "adapt", row->applied[SL_STRATEGY_SCHEDULE], "delegate",
        row->applied[SL_STRATEGY_DELEGATE], "balance", row->applied[SL_STRATEGY_BALANCE], "topology",
        row->applied[SL_STRATEGY_TOPOLOGY], "restart", row->applied[SL_STRATEGY_RESTART]);
    json_t *all = json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:i,s:i,s:o}", "strategy", row->name, "total_s",
                            seconds(row->total), "mean_iteration_ms", mean(r, row) / 1e6, "slowdown",
                            slowdown(r, row), "recovered", sl_campaign_recovered(r, row), "costs_s",
                            seconds(row->paid), "worst_iteration_ms", sl_to_ms(row->worst), "applied",
                            applied, "undone", row->undone, "stops", row->stops, "stretches", stretches(row));
    if (log && row->log && all) {
        json_object_set_new(all, "log", lines_of(row->log, 0));
        json_object_set_new(all, "events", lines_of(row->events, 1));
    }
    return all;
}

static json_t *events(const sl_campaign *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->faults; i++) {
        const sl_campaign_fault *f = &c->fault[i];
        json_t *item = json_pack("{s:i,s:s}", "event", (int)i, "seen", f->seen);
        double scale = c->by_time ? 1e-9 : 1;
        json_object_set_new(item, c->by_time ? "at_s" : "at",
                            c->by_time ? json_real((double)f->first * scale) : json_integer(f->first));
        if (f->until != SL_FAULT_LASTS)
            json_object_set_new(item, c->by_time ? "until_s" : "until",
                                c->by_time ? json_real((double)f->until * scale) : json_integer(f->until));
        json_array_append_new(list, item);
    }
    return list;
}

/* Format slackline-campaign-1. SL_ENOMEM. */
static sl_status print_json(const sl_campaign *c, const sl_campaign_result *r, int log, FILE *out) {
    json_t *rows = json_array();
    for (int i = 0; i < r->rows; i++)
        json_array_append_new(rows, row_json(r, &r->row[i], log));
    json_t *all =
        json_pack("{s:s,s:i,s:{s:i,s:i,s:i,s:i,s:s},s:I,s:i,s:f,s:o,s:o,s:{s:I,s:I,s:I}}", "format",
                  "slackline-campaign-1", "iterations", r->iterations, "job", "replicas", c->replicas,
                  "ranks", c->problem.ranks, "tensor", c->tensor, "microbatches", c->problem.microbatches,
                  "schedule", c->schedule, "seed", (json_int_t)c->seed, "drawn", (int)c->drawn, "healthy_ms",
                  sl_to_ms(r->healthy), "events", events(c), "strategies", rows, "simulated", "iterations",
                  (json_int_t)r->states, "replays", (json_int_t)r->replays, "plans", (json_int_t)r->plans);
    if (!all)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    int wrong = json_dumpf(all, out, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(all);
    fputc('\n', out);
    return wrong ? sl_error(SL_ESYS, "the output cannot be written") : SL_OK;
}

/* ---- CSV ---- */

/* One line per stretch of equal iterations, and per stop. */
static sl_status print_csv(const sl_campaign *c, const sl_campaign_result *r, int log, FILE *out) {
    (void)c;
    (void)log;
    fprintf(out, "strategy,first_iteration,iterations,start_s,iteration_ms,stands_still_ms\n");
    for (int i = 0; i < r->rows; i++)
        for (size_t k = 0; k < r->row[i].stretches; k++) {
            const sl_campaign_stretch *s = &r->row[i].stretch[k];
            fprintf(out, "%s,%d,%d,%.6f,", r->row[i].name, s->iteration, s->count, seconds(s->start));
            fprintf(out, s->count ? "%.6f,\n" : ",%.6f\n", sl_to_ms(s->each));
        }
    return SL_OK;
}

/* ---- picture ---- */

/* Iterations per minute at each point: the job's progress from this point to the next. */
static double done_at(const sl_campaign_row *row, double ns) {
    double done = 0;
    for (size_t i = 0; i < row->stretches; i++) {
        const sl_campaign_stretch *s = &row->stretch[i];
        if ((double)s->start >= ns)
            break;
        done = s->iteration;
        if (s->count)
            done += fmin(s->count, (ns - (double)s->start) / (double)s->each);
    }
    return done;
}

static void fill_line(const sl_campaign_row *row, const double *x, double unit, double *y) {
    for (int i = 0; i < POINTS; i++) {
        double begin = x[i] * unit, end = begin + x[1] * unit;
        y[i] = NAN;
        if (begin >= (double)row->total)
            continue;
        end = end < (double)row->total ? end : (double)row->total;
        y[i] = (done_at(row, end) - done_at(row, begin)) / ((end - begin) / 60e9);
    }
}

/* Throughput over time, one line per strategy. */
static sl_status print_svg(const sl_campaign *c, const sl_campaign_result *r, int log, FILE *out) {
    double *x, longest = 0;
    sl_chart_line series[32] = {{0}};
    char title[160], text[POINTS][24];
    const char *label[POINTS];
    (void)log;
    for (int i = 0; i < r->rows; i++)
        longest = fmax(longest, (double)r->row[i].total);
    double unit = longest > 2 * LATER * 1e9 ? LATER * 1e9 : longest > 120e9 ? 60e9 : 1e9;
    SL_TRY(sl_alloc(&x, (size_t)(r->rows + 1) * POINTS, sizeof *x));
    for (int i = 0; i < POINTS; i++) {
        x[i] = longest / unit * i / POINTS;
        snprintf(text[i], sizeof text[i], "%.4g %s", x[i], unit > 60e9 ? "h" : unit > 1e9 ? "min" : "s");
        label[i] = text[i];
    }
    for (int i = 0; i < r->rows; i++) {
        double *y = x + (i + 1) * POINTS;
        fill_line(&r->row[i], x, unit, y);
        series[i] = (sl_chart_line){.name = r->row[i].name, .y = y, .is_reference = i == r->rows - 1};
    }
    snprintf(title, sizeof title, "%d iterations of %d x %d, %zu events: throughput by strategy (simulated)",
             r->iterations, c->replicas, c->problem.ranks, c->faults);
    sl_chart chart = {.title = title,
                      .x_label = unit > 60e9  ? "time (h)"
                                 : unit > 1e9 ? "time (min)"
                                              : "time (s)",
                      .y_label = "iterations per minute",
                      .points = POINTS,
                      .x = x,
                      .label = label,
                      .count = r->rows,
                      .series = series};
    sl_status status = sl_draw_chart(&chart, out);
    sl_free(x);
    return status;
}

typedef struct campaign_options {
    const char *trace, *problem_file, *output;
    sl_texts set;
    int form, log, stats;
    char seed[32];
    sl_document problem_document, document;
    sl_problem problem;
    sl_campaign campaign;
    sl_campaign_result result;
    sl_fleet fleet;
    sl_fleet_result fleet_result;
} campaign_options;

static const sl_value forms[] = {{"text", "a table of the strategies"},
                                 {"json", "all results"},
                                 {"csv", "stretches of equal iterations"},
                                 {"svg", "throughput over time"},
                                 {NULL, NULL}};
static sl_status (*const prints[])(const sl_campaign *, const sl_campaign_result *, int,
                                   FILE *) = {print_text, print_json, print_csv, print_svg};
static const sl_fleet_print fleet_prints[] = {sl_fleet_print_text, sl_fleet_print_json, sl_fleet_print_csv,
                                              sl_fleet_print_svg};

/* As --set seed=N. */
static sl_status take_seed(const sl_options *o, void *argument) {
    campaign_options *a = argument;
    int64_t seed;
    SL_TRY(sl_option_whole(o, 0, INT64_MAX, &seed));
    snprintf(a->seed, sizeof a->seed, "seed=%lld", (long long)seed);
    return sl_texts_add(&a->set, a->seed);
}

/* A setting whose key begins with pipeline. is one of its problem. */
static void visit_keys(sl_key_visit visit, void *context) {
    sl_campaign_visit_keys(visit, context);
    sl_problem_visit_keys(visit, context);
}

static const sl_option options[] = {
    SL_OPTION("problem", TEXT, campaign_options, problem_file, "FILE",
              "the pipeline of one replica, as for plan; required, except for a fleet",
              .completes = SL_COMPLETES_FILE),
    SL_OPTION("set", TEXTS, campaign_options, set, "KEY=VALUE",
              "change a key of the campaign file (job.replicas=4) or, if KEY begins with pipeline, of the "
              "problem; also with a CSV: --set job.iterations=1200",
              .keys = visit_keys),
    SL_OPTION_OWN("seed", take_seed, "N", "same as --set seed=N: of random faults"),
    SL_OPTION("log", FLAG, campaign_options, log, NULL,
              "log decisions: measurements, options, actions and their effects"),
    SL_OPTION_FORM(campaign_options, form, forms),
    SL_OPTION_OUTPUT(campaign_options, output),
    SL_OPTION("stats", FLAG, campaign_options, stats, NULL,
              "time and peak memory of the simulation, to standard error"),
    SL_OPTION("", ONCE, campaign_options, trace, "TRACE", NULL, .words = "give one TRACE file",
              .completes = SL_COMPLETES_FILE, .required = 1),
    SL_OPTIONS_END};

static int is_csv(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".csv") == 0;
}

static sl_status read_problem(campaign_options *a) {
    SL_TRY(sl_document_read(a->problem_file, &a->problem_document));
    for (int i = 0; i < a->set.count; i++)
        if (strncmp(a->set.text[i], "pipeline", 8) == 0)
            SL_TRY(sl_document_set(&a->problem_document, a->set.text[i]));
    return sl_problem_read(&a->problem_document, &a->problem);
}

/* A CSV is the trace of an otherwise empty campaign file, or the log of an otherwise empty fleet. */
static sl_status read_document(campaign_options *a, int *is_fleet) {
    char *text = NULL;
    size_t size;
    *is_fleet = 0;
    if (is_csv(a->trace)) {
        SL_TRY(sl_file_read_max(a->trace, 256 << 20, &text, &size));
        *is_fleet = sl_fleet_csv_is(text);
        sl_free(text);
    }
    SL_TRY(is_csv(a->trace) ? sl_document_parse("--set", "{}", &a->document)
                            : sl_document_read(a->trace, &a->document));
    for (int i = 0; i < a->set.count; i++)
        if (strncmp(a->set.text[i], "pipeline", 8) != 0)
            SL_TRY(sl_document_set(&a->document, a->set.text[i]));
    *is_fleet |= sl_fleet_is(&a->document);
    return SL_OK;
}

static sl_status print(const campaign_options *a) {
    sl_leaving leaving;
    SL_TRY(sl_leaving_open(a->output, &leaving));
    return sl_leaving_close(&leaving, prints[a->form](&a->campaign, &a->result, a->log, leaving.out));
}

static sl_status answer_fleet(campaign_options *a) {
    sl_leaving leaving;
    if (a->problem_file)
        return sl_error(SL_EINVAL, "campaign: a fleet has no --problem");
    SL_TRY(sl_fleet_read(&a->document, is_csv(a->trace) ? a->trace : NULL, &a->fleet));
    SL_TRY(sl_fleet_run(&a->fleet, &a->fleet_result));
    SL_TRY(sl_leaving_open(a->output, &leaving));
    return sl_leaving_close(&leaving,
                            fleet_prints[a->form](&a->fleet, &a->fleet_result, a->log, leaving.out));
}

static sl_status answer_job(campaign_options *a) {
    if (!a->problem_file)
        return sl_error(SL_EINVAL, "campaign: give --problem FILE, the pipeline of one replica");
    SL_TRY(read_problem(a));
    SL_TRY(sl_campaign_read(&a->document, &a->problem, is_csv(a->trace) ? a->trace : NULL, &a->campaign));
    SL_TRY(sl_campaign_run(&a->campaign, a->log, &a->result));
    return print(a);
}

static void print_stats(sl_time took) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    fprintf(stderr, "campaign: %.3f s, peak memory %.1f MB\n", (double)took / 1e9,
            (double)used.ru_maxrss * 1024 / 1e6);
}

static sl_status answer(campaign_options *a) {
    sl_time begin = sl_now();
    int is_fleet;
    if (!a->trace)
        return sl_error(SL_EINVAL, "campaign: give one TRACE file; see slackline campaign --help");
    SL_TRY(read_document(a, &is_fleet));
    SL_TRY(is_fleet ? answer_fleet(a) : answer_job(a));
    if (a->stats)
        print_stats(sl_now() - begin);
    return SL_OK;
}

static int run(int argc, char **argv) {
    campaign_options a = {0};
    sl_status status = sl_command_options(argc, argv, &a);
    SL_THEN(status, answer(&a));
    sl_campaign_result_free(&a.result);
    sl_campaign_free(&a.campaign);
    sl_fleet_free(&a.fleet);
    sl_problem_free(&a.problem);
    sl_document_close(&a.document);
    sl_document_close(&a.problem_document);
    sl_free(a.set.text);
    return sl_plan_request_end(status);
}

const sl_command sl_command_campaign = {
    .name = "campaign",
    .summary = "simulate a long job with faults under several strategies",
    .about =
        "Simulates a long job while links, devices, NICs and hosts slow down and recover, once per "
        "strategy: nothing, each mitigation alone, other schedules, the ladder of all, and the best in "
        "hindsight. TRACE is a campaign file like examples/campaign.yaml (docs/formats.md), or a CSV with "
        "the columns first_iteration,last_iteration,links,latency_ms; - is standard input (a campaign "
        "file). With a section `fleet`, or the log of a cluster's faults as CSV (time_days,node,event,...), "
        "it simulates months of a job on many hosts instead: failures, spares, repairs, checkpoints, and "
        "slow hosts.",
    .options = options,
    .notes = "The same inputs and seed give the same output.",
    .example = "slackline campaign examples/campaign.yaml --problem examples/four-ranks.yaml",
    .run = run};
