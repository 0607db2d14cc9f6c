/* slackline detect: change points of a series, or of a recorded call log. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/plan_request.h"
#include "cli/series.h"
#include "notice/detect/change.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct detection {
    const char *file, *column;
    sl_change_algorithm algorithm;
    int is_json;
    sl_detector *detector; /* bocd-v and window */
    double *sample;        /* [samples] of bocd */
    size_t samples, sample_room;
    sl_change *change;
    size_t changes, change_room;
    const char *unit; /* unit of an index */
    int period;       /* of a call log; 0: none */
    int is_calls;
} detection;

static const sl_value algorithms[] = {
    {"bocd-v", "online, changes of at least 10% that last"},
    {"window", "sliding medians, for comparison"},
    {"bocd", "Bayesian change points of the whole series, without the 10% check"},
    {NULL, NULL}};
static const sl_value forms[] = {
    {"text", "a line per change"},
    {"json",
     "{\"change_points\": [{\"index\", \"kind\", \"before\", \"after\"}], \"period\"}: index is the 0-based "
     "data row (call log: iteration) where the new level begins"},
    {NULL, NULL}};
static const char *const kinds[] = {"onset", "relief", "change"};

static const sl_option options[] = {
    SL_OPTION("algorithm", CHOICE, detection, algorithm, "NAME", "one of the following", .values = algorithms,
              .standard = "bocd-v"),
    SL_OPTION("column", TEXT, detection, column, "NAME",
              "of FILE; default time_ms, else the last numeric one"),
    SL_OPTION_FORM(detection, is_json, forms),
    SL_OPTION("", ONCE, detection, file, "FILE", NULL, .words = "give one FILE",
              .completes = SL_COMPLETES_FILE, .required = 1),
    SL_OPTIONS_END};

static void print_change(const detection *d, const sl_change *change) {
    printf("%s %lld: %s, %.6g -> %.6g (%+.1f%%)", d->unit, (long long)change->index, kinds[change->kind],
           change->before, change->after,
           change->before > 0 ? 100 * (change->after / change->before - 1) : 0.0);
    if (d->detector)
        printf(", seen at %s %lld", d->unit, (long long)change->seen);
    printf("\n");
    fflush(stdout);
}

/* Adds a sample; a change that it shows is printed at once. */
static sl_status add(detection *d, double sample) {
    sl_change change;
    d->samples++;
    if (!d->detector) {
        SL_TRY(sl_grow(&d->sample, &d->sample_room, d->samples, sizeof *d->sample));
        d->sample[d->samples - 1] = sample;
        return SL_OK;
    }
    if (!sl_detector_add(d->detector, sample, &change))
        return SL_OK;
    SL_TRY(sl_grow(&d->change, &d->change_room, d->changes + 1, sizeof *d->change));
    d->change[d->changes++] = change;
    if (!d->is_json)
        print_change(d, &change);
    return SL_OK;
}

static sl_status begin(detection *d) {
    sl_detector_close(d->detector);
    d->detector = NULL;
    d->samples = d->changes = 0;
    return d->algorithm == SL_CHANGE_BOCD ? SL_OK : sl_detector_open(d->algorithm, &d->detector);
}

static sl_status read_samples(detection *d, sl_series_reader *series) {
    double sample;
    int end = 0;
    for (;;) {
        SL_TRY(sl_series_reader_next(series, &sample, &end));
        if (end)
            return SL_OK;
        if (d->detector && sample < 0)
            return sl_series_reader_refuse(series, "is negative: levels are compared by their ratio");
        SL_TRY(add(d, sample));
    }
}

/* Takes the iterations of a call log; those found before the period changed were wrong. */
static sl_status take_iterations(detection *d, sl_period *period) {
    sl_period_iteration iteration;
    while (sl_period_take(period, &iteration)) {
        if (iteration.period != d->period) {
            if (!d->is_json)
                printf("call %llu: period %d calls\n", (unsigned long long)iteration.first, iteration.period);
            SL_TRY(begin(d));
            d->period = iteration.period;
        }
        SL_TRY(add(d, (double)(iteration.time > 0 ? iteration.time : 0) / 1e6));
    }
    return SL_OK;
}

/* The calls of the first rank in the log: every rank of an iteration waits for the slowest. */
static sl_status read_calls(detection *d, sl_series_reader *series, sl_period *period) {
    sl_series_call call;
    int64_t rank = -1;
    int end = 0;
    for (;;) {
        SL_TRY(sl_series_reader_next_call(series, &call, &end));
        if (end)
            break;
        rank = rank < 0 ? call.rank : rank;
        if (call.rank == rank) {
            SL_TRY(sl_period_add(period, &call.symbol, call.start));
            SL_TRY(take_iterations(d, period));
        }
    }
    SL_TRY(sl_period_end(period));
    SL_TRY(take_iterations(d, period));
    d->period = sl_period_calls(period);
    return SL_OK;
}

static sl_status read_all(detection *d, sl_series_reader *series) {
    d->is_calls = series->is_calls;
    d->unit = d->is_calls ? "iteration" : "row";
    SL_TRY(begin(d));
    if (!d->is_calls)
        return read_samples(d, series);
    sl_period *period;
    SL_TRY(sl_period_open(0, &period));
    sl_status status = read_calls(d, series, period);
    sl_period_close(period);
    return status;
}

static void print_json(const detection *d) {
    printf("{\"change_points\":[");
    for (size_t i = 0; i < d->changes; i++)
        printf("%s{\"index\":%lld,\"kind\":\"%s\",\"before\":%.10g,\"after\":%.10g}", i ? "," : "",
               (long long)d->change[i].index, kinds[d->change[i].kind], d->change[i].before,
               d->change[i].after);
    if (d->period)
        printf("],\"period\":%d}\n", d->period);
    else
        printf("],\"period\":null}\n");
}

static void print_sum(const detection *d) {
    printf("%zu change point%s in %zu %ss", d->changes, d->changes == 1 ? "" : "s", d->samples, d->unit);
    if (d->is_calls && d->detector)
        printf("; period %d calls, iteration now %.6g ms", d->period, sl_detector_level(d->detector));
    printf("\n");
}

static sl_status detect(detection *d, sl_series_reader *series) {
    if (!d->file)
        return sl_error(SL_EINVAL,
                        "detect: give one FILE (- is standard input); see slackline detect --help");
    SL_TRY(sl_series_reader_open(d->file, d->column, series));
    SL_TRY(read_all(d, series));
    if (d->samples == 0 && !d->is_calls)
        return sl_error(SL_EINVAL, "%s: has no samples", series->name);
    if (d->algorithm == SL_CHANGE_BOCD) {
        SL_TRY(sl_change_bocd(d->sample, d->samples, &d->change, &d->changes));
        for (size_t i = 0; !d->is_json && i < d->changes; i++)
            print_change(d, &d->change[i]);
    }
    if (d->is_json)
        print_json(d);
    else if (d->is_calls && !d->period)
        printf("no period in these calls\n");
    else
        print_sum(d);
    return SL_OK;
}

static int run(int argc, char **argv) {
    detection d = {0};
    sl_series_reader series = {0};
    sl_status status = sl_command_options(argc, argv, &d);
    SL_THEN(status, detect(&d, &series));
    sl_series_reader_close(&series);
    sl_detector_close(d.detector);
    SL_FREE(d.sample, d.change);
    return sl_plan_request_end(status);
}

const sl_command sl_command_detect = {
    .name = "detect",
    .summary = "change points of a series, or of a recorded call log",
    .about =
        "Finds level changes in the samples of FILE: iteration times that become slow (onset) and recover "
        "(relief). FILE is a CSV, JSON lines such as a run's metrics.jsonl, or a recorded call log, whose "
        "iterations are found first; - is standard input, and changes are printed as they are found.",
    .options = options,
    .example = "slackline detect runs/slow-link/metrics.jsonl",
    .run = run};
