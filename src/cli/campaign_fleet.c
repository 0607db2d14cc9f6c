#include "cli/campaign_fleet.h"
#include "plan/draw/chart.h"

#include <jansson.h>

#define DAY_NS (86400e9)

static const char *const part_names[SL_FLEET_PARTS] = {"useful",   "slower", "checkpoints", "rework",
                                                       "restarts", "checks", "waiting"};

static double in_s(sl_time t) {
    return (double)t / 1e9;
}

/* ---- text ---- */

static void print_faults(const sl_fleet *f, FILE *out) {
    size_t kinds[SL_FLEET_KINDS] = {0}, unknown = 0;
    const char *between = ": ";
    if (!f->faults)
        return;
    for (size_t i = 0; i < f->faults; i++)
        kinds[f->fault[i].kind]++;
    fprintf(out, "%zu faults in the log", f->faults);
    for (int k = 0; k < SL_FLEET_KINDS; k++)
        if (kinds[k]) {
            fprintf(out, "%s%s %zu", between, sl_fleet_kind_names[k], kinds[k]);
            between = ", ";
        }
    for (size_t i = 0; i < f->causes; i++)
        unknown += f->cause[i].known ? 0 : (size_t)f->cause[i].faults;
    if (unknown)
        fprintf(out, "; %zu have no known word and count as stop (--log lists them)", unknown);
    fputc('\n', out);
}

static void print_fleet(const sl_fleet *f, const sl_fleet_result *r, FILE *out) {
    fprintf(out, "%d hosts: a job of %d and %d spares; %.6g days%s, %d placement%s\n", f->hosts,
            f->hosts - f->spares, f->spares, (double)(f->work ? f->work : f->duration) / DAY_NS,
            f->work ? " of work" : "", f->runs, f->runs == 1 ? "" : "s");
    print_faults(f, out);
    if (f->failure_days > 0)
        fprintf(out, "drawn failures every %.6g days per host, repaired in %.6g hours\n", f->failure_days,
                f->repair_hours);
    if (f->slow_days > 0)
        fprintf(out, "drawn slow hosts every %.6g days per host, for %.6g hours\n", f->slow_days,
                f->slow_hours);
    fprintf(out, "checkpoint %.6g s every %.6g s of work, restart %.6g s, check %.6g s, notice %.6g s\n",
            in_s(f->save), in_s(r->every), in_s(f->restart), in_s(f->check), in_s(f->notice));
    if (r->between_stops > 0)
        fprintf(out, "with spares, the job stops every %.4g h; optimal interval: Young %.0f s, Daly %.0f s\n",
                r->between_stops / 3600e9, in_s(r->young), in_s(r->daly));
}

static void print_rows(const sl_fleet *f, const sl_fleet_result *r, FILE *out) {
    fprintf(out, "\n%-13s %9s %7s %9s", "strategy", "goodput", "+-", "training");
    for (int k = SL_FLEET_SLOWER; k < SL_FLEET_PARTS; k++)
        fprintf(out, " %11s", part_names[k]);
    fprintf(out, " %8s %9s%s\n", "stops", "replaced", f->work ? "      days" : "");
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++) {
        const sl_fleet_row *row = &r->row[i];
        fprintf(out, "%-13s %8.2f%% %6.2f%% %8.2f%%", row->name, 100 * row->part[0], 100 * row->error,
                100 * (row->part[SL_FLEET_USEFUL] + row->part[SL_FLEET_SLOWER]));
        for (int k = SL_FLEET_SLOWER; k < SL_FLEET_PARTS; k++)
            fprintf(out, " %10.2f%%", 100 * row->part[k]);
        fprintf(out, " %8.1f %9.1f", row->stops, row->replaced);
        if (f->work)
            fprintf(out, " %9.3f", row->wall / DAY_NS);
        fputc('\n', out);
    }
}

static void print_goodput(const sl_fleet_point *point, FILE *out) {
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++)
        fprintf(out, " %12.2f%%", 100 * point->goodput[i]);
}

static void print_names(FILE *out) {
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++)
        fprintf(out, " %13s", sl_fleet_strategies[i].name);
}

/* The share of all hosts' work that the job does with the last strategy. */
static double work_share(const sl_fleet *f, const sl_fleet_point *point) {
    return point->goodput[SL_FLEET_STRATEGIES - 1] * (f->hosts - point->spares) / f->hosts;
}

static void print_points(const sl_fleet *f, const sl_fleet_result *r, FILE *out) {
    fprintf(out, "\ngoodput by spares (work: of all %d hosts, with %s)\n%8s", f->hosts,
            sl_fleet_strategies[SL_FLEET_STRATEGIES - 1].name, "spares");
    print_names(out);
    fprintf(out, " %9s\n", "work");
    for (int i = 0; i < r->spares; i++) {
        fprintf(out, "%8d", r->spare[i].spares);
        print_goodput(&r->spare[i], out);
        fprintf(out, " %8.2f%%%s\n", 100 * work_share(f, &r->spare[i]), i == r->best_spares ? "  most" : "");
    }
    if (!r->intervals)
        return;
    fprintf(out, "\ngoodput by checkpoint interval\n%8s", "every s");
    print_names(out);
    fputc('\n', out);
    for (int i = 0; i < r->intervals; i++) {
        const sl_fleet_point *point = &r->interval[i];
        fprintf(out, "%8.0f", in_s(point->every));
        print_goodput(point, out);
        fprintf(out, "%s%s%s\n", i == r->best_interval ? "  most" : "",
                point->every == r->young ? "  Young" : "", point->every == r->daly ? "  Daly" : "");
    }
}

sl_status sl_fleet_print_text(const sl_fleet *f, const sl_fleet_result *r, int log, FILE *out) {
    print_fleet(f, r, out);
    print_rows(f, r, out);
    print_points(f, r, out);
    if (log && f->causes)
        fprintf(out, "\n%6s %10s %6s  cause\n", "faults", "mean hours", "kind");
    for (size_t i = 0; i < f->causes && log; i++) {
        const sl_fleet_cause *c = &f->cause[i];
        fprintf(out, "%6d %10.2f %6s  %s%s\n", c->faults,
                c->faults ? (double)c->lasted / 3600e9 / c->faults : 0, sl_fleet_kind_names[c->kind], c->text,
                c->known ? "" : " (no known word)");
    }
    return SL_OK;
}

/* ---- JSON ---- */

static json_t *row_json(const sl_fleet_row *row) {
    json_t *share = json_object();
    for (int i = 0; i < SL_FLEET_PARTS; i++)
        json_object_set_new(share, part_names[i], json_real(row->part[i]));
    return json_pack("{s:s,s:f,s:f,s:f,s:o,s:f,s:f,s:f,s:f,s:i}", "strategy", row->name, "goodput",
                     row->part[SL_FLEET_USEFUL], "error", row->error, "training",
                     row->part[SL_FLEET_USEFUL] + row->part[SL_FLEET_SLOWER], "share", share, "days",
                     row->wall / DAY_NS, "stops", row->stops, "starts", row->starts, "replaced",
                     row->replaced, "done", row->done);
}

static json_t *points_json(const sl_fleet_point *point, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *goodput = json_object(), *error = json_object();
        for (int k = 0; k < SL_FLEET_STRATEGIES; k++) {
            json_object_set_new(goodput, sl_fleet_strategies[k].name, json_real(point[i].goodput[k]));
            json_object_set_new(error, sl_fleet_strategies[k].name, json_real(point[i].error[k]));
        }
        json_array_append_new(list,
                              json_pack("{s:i,s:f,s:o,s:o}", "spares", point[i].spares, "checkpoint_every_s",
                                        in_s(point[i].every), "goodput", goodput, "error", error));
    }
    return list;
}

static json_t *causes_json(const sl_fleet *f) {
    json_t *list = json_array();
    for (size_t i = 0; i < f->causes; i++) {
        const sl_fleet_cause *c = &f->cause[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:i,s:f}", "cause", c->text, "kind",
                                              sl_fleet_kind_names[c->kind], "known", c->known, "faults",
                                              c->faults, "hours", (double)c->lasted / 3600e9));
    }
    return list;
}

/* Format slackline-fleet-1. SL_ENOMEM. */
sl_status sl_fleet_print_json(const sl_fleet *f, const sl_fleet_result *r, int log, FILE *out) {
    json_t *rows = json_array();
    (void)log;
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++)
        json_array_append_new(rows, row_json(&r->row[i]));
    json_t *all =
        json_pack("{s:s,s:i,s:i,s:f,s:f,s:i,s:I,s:i,s:f,s:f,s:f,s:f,s:o,s:o,s:i,s:o,s:o}", "format",
                  "slackline-fleet-1", "hosts", f->hosts, "spares", f->spares, "duration_days",
                  (double)f->duration / DAY_NS, "work_days", (double)f->work / DAY_NS, "runs", f->runs,
                  "seed", (json_int_t)f->seed, "faults", (int)f->faults, "checkpoint_every_s", in_s(r->every),
                  "between_stops_h", r->between_stops / 3600e9, "young_s", in_s(r->young), "daly_s",
                  in_s(r->daly), "strategies", rows, "by_spares", points_json(r->spare, r->spares),
                  "best_spares", r->spare[r->best_spares].spares, "by_interval",
                  points_json(r->interval, r->intervals), "causes", causes_json(f));
    if (!all)
        return sl_error(SL_ENOMEM, "out of memory for the output");
    int wrong = json_dumpf(all, out, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(all);
    fputc('\n', out);
    return wrong ? sl_error(SL_ESYS, "the output cannot be written") : SL_OK;
}

/* ---- CSV ---- */

static void print_csv_points(const char *varied, const sl_fleet_point *point, int count, FILE *out) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < SL_FLEET_STRATEGIES; k++)
            fprintf(out, "%s,%s,%d,%.6g,%.9f,%.9f\n", varied, sl_fleet_strategies[k].name, point[i].spares,
                    in_s(point[i].every), point[i].goodput[k], point[i].error[k]);
}

/* One line per strategy, and per strategy and variation. */
sl_status sl_fleet_print_csv(const sl_fleet *f, const sl_fleet_result *r, int log, FILE *out) {
    (void)log;
    fprintf(out, "varied,strategy,spares,checkpoint_every_s,goodput,error\n");
    for (int i = 0; i < SL_FLEET_STRATEGIES; i++)
        fprintf(out, ",%s,%d,%.6g,%.9f,%.9f\n", r->row[i].name, f->spares, in_s(r->every), r->row[i].part[0],
                r->row[i].error);
    print_csv_points("spares", r->spare, r->spares, out);
    print_csv_points("interval", r->interval, r->intervals, out);
    return SL_OK;
}

/* ---- picture ---- */

/* Goodput over spares, one line per strategy. */
sl_status sl_fleet_print_svg(const sl_fleet *f, const sl_fleet_result *r, int log, FILE *out) {
    double x[SL_FLEET_POINTS], y[SL_FLEET_STRATEGIES][SL_FLEET_POINTS];
    char title[160], text[SL_FLEET_POINTS][24];
    const char *label[SL_FLEET_POINTS];
    sl_chart_line series[SL_FLEET_STRATEGIES] = {{0}};
    (void)log;
    for (int i = 0; i < r->spares; i++) {
        x[i] = r->spare[i].spares;
        snprintf(text[i], sizeof text[i], "%d spares", r->spare[i].spares);
        label[i] = text[i];
        for (int k = 0; k < SL_FLEET_STRATEGIES; k++)
            y[k][i] = 100 * r->spare[i].goodput[k];
    }
    for (int k = 0; k < SL_FLEET_STRATEGIES; k++)
        series[k] = (sl_chart_line){.name = sl_fleet_strategies[k].name, .y = y[k]};
    snprintf(title, sizeof title, "%d hosts, %.4g days: goodput by spares (simulated)", f->hosts,
             (double)f->duration / DAY_NS);
    sl_chart chart = {.title = title,
                      .x_label = "spares",
                      .y_label = "goodput (%)",
                      .points = r->spares,
                      .x = x,
                      .x_is_whole = 1,
                      .label = label,
                      .count = SL_FLEET_STRATEGIES,
                      .series = series};
    return sl_draw_chart(&chart, out);
}
