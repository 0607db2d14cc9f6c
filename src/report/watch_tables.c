/* The tables of a watched program: its state or end, its phases with suspects and verdicts, its ranks and
 * links, and the watched command. From watch.json, which a running watch writes too, and report.json, written
 * at its end (docs/watching.md); missing fields are omitted. */
#include "notice/detect/suspect.h"
#include "plan/draw/escape.h"
#include "report/report_inside.h"
#include "report/tables.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define MAX_ROWS 2000 /* of a table of ranks or links */

/* ---- fields ---- */

static double number_of(const json_t *object, const char *key) {
    return sl_json_number(object, key, SL_ROW_MAX);
}

static double number_at(const json_t *array, size_t index) {
    return sl_json_value(json_array_get(array, index), SL_ROW_MAX);
}

static const char *text_of(const json_t *object, const char *key) {
    return sl_json_text(object, key, "");
}

/* The newest known status of the job. */
static const json_t *status_of(const sl_run_data *t) {
    return json_object_get(t->outcome ? t->outcome : t->watch, "status");
}

/* The name of a rank's host; "" if unknown. */
static const char *host_of(const sl_run_data *t, const json_t *rank) {
    double index = number_at(rank, 1);
    const json_t *hosts = json_object_get(t->watch, "hosts");
    const char *name = index >= 0 ? json_string_value(json_array_get(hosts, (size_t)index)) : NULL;
    return name ? name : "";
}

/* ---- key figures ---- */

static void put_number(FILE *out, const char *name, const char *format, double value) {
    char text[64];
    if (!isfinite(value))
        return;
    snprintf(text, sizeof text, format, value); /* NOLINT: formats are this file's own */
    sl_cell_figure(out, name, text);
}

static void put_state(const sl_run_data *t, FILE *out) {
    char text[128];
    double lasted = number_of(t->outcome, "lasted_s");
    if (t->outcome && *t->why && isfinite(lasted))
        snprintf(text, sizeof text, "ended, %s after %.1f s", t->why, lasted);
    else if (t->outcome)
        snprintf(text, sizeof text, "ended, its exit code is not known");
    else
        snprintf(text, sizeof text, "%s",
                 t->living ? "running" : "no end recorded: the watch was killed, or runs elsewhere");
    sl_cell_figure(out, "state", text);
}

/* What was slow, as report.txt opens with it; of a watch that has ended. */
static void put_answer(const sl_run_data *t, FILE *out) {
    const json_t *answer = json_object_get(t->outcome, "answer");
    size_t i;
    json_t *one;
    json_array_foreach(answer, i, one) if (json_is_string(one)) {
        fputs("<p><strong>", out);
        sl_put_escaped(out, json_string_value(one));
        fputs("</strong></p>\n", out);
    }
}

void sl_watched_figures(const sl_run_data *t, FILE *out) {
    const json_t *status = status_of(t);
    double ranks = number_of(t->outcome, "ranks"), nodes = number_of(t->outcome, "nodes");
    fputs("<dl class=\"figures\">\n", out);
    put_state(t, out);
    put_number(out, "ranks", "%.0f", isfinite(ranks) ? ranks : number_of(status, "ranks"));
    put_number(out, "nodes", "%.0f", isfinite(nodes) ? nodes : number_of(status, "nodes"));
    put_number(out, "iterations", "%.0f", number_of(status, "iterations"));
    put_number(out, "level", "%.6g ms", number_of(status, "level_ms"));
    put_number(out, "healthy level", "%.6g ms", number_of(status, "healthy_ms"));
    put_number(out, "slow phases", "%.0f", number_of(status, "onsets"));
    put_number(out, "held, in all", "%.0f ms", number_of(status, "held_ms"));
    fputs("</dl>\n", out);
    put_answer(t, out);
}

/* ---- phases ---- */

static void put_suspects(const json_t *suspects, FILE *out) {
    size_t i;
    json_t *one;
    fputs("<td>", out);
    json_array_foreach(suspects, i, one) {
        sl_suspect suspect;
        char text[512];
        if (sl_suspect_from_json(one, &suspect) != SL_OK)
            continue;
        sl_suspect_text(&suspect, text, sizeof text);
        fputs(i > 0 ? "<br>" : "", out);
        sl_put_escaped(out, text);
    }
    fputs("</td>", out);
}

static void put_phase(const json_t *phase, FILE *out) {
    fputs("<tr>", out);
    sl_cell_text(out, text_of(phase, "state"));
    sl_cell_number(out, "%.0f", number_of(phase, "from_iteration"));
    sl_cell_number(out, "%.0f", number_of(phase, "to_iteration"));
    sl_cell_number(out, "%.3f", number_of(phase, "from_s"));
    sl_cell_number(out, "%.3f", number_of(phase, "to_s"));
    sl_cell_number(out, "%.6g", number_of(phase, "level_ms"));
    sl_cell_text(out, text_of(phase, "seen"));
    put_suspects(json_object_get(phase, "suspects"), out);
    put_suspects(json_object_get(phase, "verdicts"), out);
    fputs("</tr>\n", out);
}

/* For a running watch: the present suspects and verdicts. */
static void put_now(const sl_run_data *t, FILE *out) {
    const json_t *status = status_of(t);
    if (!status) {
        fputs("<p>The program's state cannot be read (watch.json, report.json).</p>\n", out);
        return;
    }
    fprintf(out, "<p>%s The phases are written at the end of the watch.</p>\n",
            json_is_true(json_object_get(status, "slow")) ? "Iterations are slow now."
                                                          : "Nothing is slow now.");
    fputs("<table><thead><tr><th>suspects</th><th>verdicts</th></tr></thead><tbody><tr>", out);
    put_suspects(json_object_get(status, "suspects"), out);
    put_suspects(json_object_get(status, "verdicts"), out);
    fputs("</tr></tbody></table>\n", out);
}

static sl_status put_phases(const sl_report_page *r, FILE *out) {
    const json_t *phases = json_object_get(r->data.outcome, "phases");
    size_t i;
    json_t *one;
    if (json_array_size(phases) == 0) {
        put_now(&r->data, out);
        return SL_OK;
    }
    fputs(
        "<p>Observations point to suspects; a verdict is based on tests of them while the program was held, "
        "or "
        "is based on its calls alone.</p>\n<div class=\"box\"><table><thead><tr><th>state</th>"
        "<th>from iteration</th><th>to</th><th>from, s</th><th>to, s</th><th>level, ms</th><th>seen</th>"
        "<th>suspects</th><th>verdicts</th></tr></thead><tbody>\n",
        out);
    json_array_foreach(phases, i, one) put_phase(one, out);
    fputs("</tbody></table></div>\n", out);
    return SL_OK;
}

/* ---- ranks and links ---- */

static void put_left_out(size_t all, FILE *out) {
    if (all > MAX_ROWS)
        fprintf(out, "<p class=\"soft\">The first %d of %zu; watch.json has all.</p>\n", MAX_ROWS, all);
}

static sl_status put_ranks(const sl_report_page *r, FILE *out) {
    const json_t *ranks = json_object_get(r->data.watch, "ranks");
    const size_t count = json_array_size(ranks);
    if (count == 0) {
        fputs("<p>No rank was seen.</p>\n", out);
        return SL_OK;
    }
    fputs(
        "<div class=\"box\"><table><thead><tr><th>rank</th><th>host</th><th>process</th><th>last iteration, "
        "ms</th><th></th></tr></thead><tbody>\n",
        out);
    for (size_t i = 0; i < count && i < MAX_ROWS; i++) {
        const json_t *one = json_array_get(ranks, i);
        const int lost = !r->data.outcome && number_at(one, 3) > 0;
        fputs("<tr>", out);
        sl_cell_number(out, "%.0f", (double)i);
        sl_cell_text(out, host_of(&r->data, one));
        sl_cell_number(out, "%.0f", number_at(one, 2) > 0 ? number_at(one, 2) : NAN);
        sl_cell_number(out, "%.6g", number_at(one, 0));
        sl_cell_text(out, lost ? "gone" : "");
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    put_left_out(count, out);
    return SL_OK;
}

static sl_status put_links(const sl_report_page *r, FILE *out) {
    const json_t *links = json_object_get(r->data.watch, "links");
    const size_t count = json_array_size(links);
    if (count == 0) {
        fputs("<p>No message from rank to rank was seen; collectives have no links of their own.</p>\n", out);
        return SL_OK;
    }
    fputs("<div class=\"box\"><table><thead><tr><th>link, rank to rank</th><th>messages</th><th>MB</th>"
          "<th>time per transfer, ms</th><th>usual, ms</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < count && i < MAX_ROWS; i++) {
        const json_t *one = json_array_get(links, i);
        char name[64];
        if (!isfinite(number_at(one, 0)) || !isfinite(number_at(one, 1)))
            continue;
        snprintf(name, sizeof name, "%.0f -> %.0f", number_at(one, 0), number_at(one, 1));
        fputs("<tr>", out);
        sl_cell_text(out, name);
        sl_cell_number(out, "%.0f", number_at(one, 2));
        sl_cell_number(out, "%.6g", number_at(one, 3) / 1e6);
        sl_cell_number(out, "%.4g", number_at(one, 4));
        sl_cell_number(out, "%.4g", number_at(one, 5));
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    put_left_out(count, out);
    return SL_OK;
}

/* ---- what was watched ---- */

static void put_words(const json_t *words, FILE *out) {
    size_t i;
    json_t *one;
    fputs("<tr><th scope=\"row\">program</th><td>", out);
    json_array_foreach(words, i, one) {
        fputs(i > 0 ? " " : "", out);
        sl_put_escaped(out, json_is_string(one) ? json_string_value(one) : "?");
    }
    fputs("</td></tr>\n", out);
}

static void put_count(const json_t *object, const char *key, const char *name, FILE *out) {
    char text[64];
    double value = number_of(object, key);
    snprintf(text, sizeof text, "%.0f", value);
    if (isfinite(value))
        sl_cell_row(out, "", name, text);
}

static void put_began(double seconds, FILE *out) {
    char text[64];
    struct tm parts;
    if (!(fabs(seconds) < 1e11))
        return;
    const time_t whole = (time_t)seconds;
    if (gmtime_r(&whole, &parts) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) > 0)
        sl_cell_row(out, "", "began", text);
}

static sl_status put_setup(const sl_report_page *r, FILE *out) {
    const sl_run_data *t = &r->data;
    const json_t *status = status_of(t);
    fputs("<table><tbody>\n", out);
    sl_cell_row(out, "", "folder", t->path);
    sl_cell_row(out, "", "this page was made by", "slackline " SL_VERSION);
    if (t->outcome)
        put_words(json_object_get(t->outcome, "program"), out);
    else
        sl_cell_row(out, "", "program", text_of(t->watch, "program"));
    sl_cell_row(out, "", "job", text_of(t->outcome ? t->outcome : t->watch, "job"));
    put_began(number_of(t->outcome, "began"), out);
    put_count(status, "period_calls", "calls of an iteration", out);
    put_count(status, "calls", "calls read", out);
    put_count(status, "records_lost", "records lost", out);
    put_count(status, "holds", "holds", out);
    put_count(status, "holds_closed", "holds that closed", out);
    fputs("</tbody></table>\n", out);
    return SL_OK;
}

const sl_report_section sl_report_of_watch[] = {
    {"time", "Iteration time", "Iteration time", sl_report_put_time},
    {"phases", "Phases, suspects, verdicts", "Phases", put_phases},
    {"events", "Events", "Events", sl_report_put_events},
    {"decisions", "What should be done", "What should be done", sl_report_put_decisions},
    {"ranks", "Ranks", "Ranks", put_ranks},
    {"links", "Links", "Links", put_links},
    {"setup", "What was watched", "What was watched", put_setup},
    {0},
};
