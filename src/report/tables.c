#include "report/tables.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/draw/escape.h"

#include <math.h>
#include <string.h>

/* ---- key figures ---- */

/* The time of the last iterations, and the number in that median. */
static void put_last(const sl_run_data *t, FILE *out) {
    double times[SL_GAIN_MAX];
    char name[64], value[64];
    int count = 0;
    for (size_t i = t->iterations; i-- > 0 && count < SL_GAIN_MAX;)
        if (!isnan(t->iteration[i].time) && t->iteration[i].time >= 0)
            times[count++] = t->iteration[i].time;
    snprintf(name, sizeof name, count > 1 ? "time, median of the last %d" : "time of an iteration", count);
    snprintf(value, sizeof value, "%.6g ms", sl_median_of_numbers(times, count));
    sl_cell_figure(out, name, count > 0 ? value : "not known");
}

static const char *state_words(const sl_run_data *t, char *text, size_t size) {
    static const char *const words[] = {
        [SL_FOLDER_OPEN] = "no end recorded: it was killed, or runs elsewhere",
        [SL_FOLDER_RESTARTING] = "no end recorded: it was killed, or runs elsewhere",
        [SL_FOLDER_WARNED] = "ended by a warning, with a checkpoint",
        [SL_FOLDER_FAILED] = "failed",
        [SL_FOLDER_ENDED] = "ended",
    };
    if (t->living && t->state <= SL_FOLDER_RESTARTING)
        return "running";
    if (t->state != SL_FOLDER_FAILED || !*t->why)
        return words[t->state];
    snprintf(text, size, "failed: %s", t->why);
    return text;
}

static int has_loss(const sl_run_data *t) {
    for (size_t i = 0; i < t->iterations; i++)
        if (t->iteration[i].lossless || !isnan(t->iteration[i].loss))
            return 1;
    return 0;
}

void sl_table_figures(const sl_run_data *t, const sl_gain *gain, size_t gains, FILE *out) {
    char text[1280];
    double all = 0;
    const sl_run_data_iteration *last = t->iterations ? &t->iteration[t->iterations - 1] : NULL;
    for (size_t i = 0; i < gains; i++)
        all += gain[i].gained;
    fputs("<dl class=\"figures\">\n", out);
    sl_cell_figure(out, "state", state_words(t, text, sizeof text));
    snprintf(text, sizeof text, "%zu", t->iterations);
    sl_cell_figure(out, "iterations", text);
    if (last) {
        put_last(t, out);
        snprintf(text, sizeof text, fabs(last->loss) < 1e6 ? "%.4f" : "%.4g", last->loss);
        if (has_loss(t))
            sl_cell_figure(out, "loss",
                           last->lossless      ? "not finite"
                           : isnan(last->loss) ? "not known"
                                               : text);
    }
    snprintf(text, sizeof text, "%zu", gains);
    sl_cell_figure(out, "changes", text);
    if (gains > 0) {
        snprintf(text, sizeof text, "%+.2f s", all / 1e3);
        sl_cell_figure(out, "time saved by changes", text);
    }
    fputs("</dl>\n", out);
}

void sl_table_notes(const sl_run_data *t, FILE *out) {
    if (t->notes == 0)
        return;
    fprintf(out, "<div class=\"notes\">%s:<ul>\n",
            t->is_watch ? "What could not be determined" : "What this folder lacks");
    for (size_t i = 0; i < t->notes; i++) {
        fputs("<li>", out);
        sl_put_escaped(out, t->note[i]);
        fputs("</li>\n", out);
    }
    fputs("</ul></div>\n", out);
}

/* ---- changes ---- */

static void put_changes(const sl_run_data *t, const sl_gain *g, FILE *out) {
    const char *before = "";
    fputs("<td>", out);
    for (size_t i = g->event; i < t->events && t->event[i].iteration <= g->first; i++) {
        const sl_run_data_event *e = &t->event[i];
        if (!sl_gain_is_change(e) || sl_gain_first(t, e) != g->first)
            continue;
        fprintf(out, "%s%zu. ", before, i + 1);
        if (*e->decided && strncmp(e->decided, e->kind, strlen(e->kind)) != 0) {
            sl_put_escaped(out, e->kind);
            fputs(": ", out);
        }
        sl_put_escaped(out, *e->decided ? e->decided : e->kind);
        if (*e->where) {
            fputs(" (", out);
            sl_put_escaped(out, e->where);
            fputs(")", out);
        }
        if (*e->why && strcmp(e->why, "decisions.txt") != 0) {
            fputs("<br><span class=\"soft\">", out);
            sl_put_escaped(out, e->why);
            fputs("</span>", out);
        }
        before = "<br>";
    }
    fputs("</td>", out);
}

static void put_gain(const sl_run_data *t, const sl_gain *g, FILE *out) {
    fprintf(out, "<tr><td class=\"n\">%d</td>", g->first);
    put_changes(t, g, out);
    sl_cell_number(out, "%.6g", g->before);
    sl_cell_number(out, "%.6g", g->after);
    sl_cell_number(out, "%+.4g", g->before - g->after);
    sl_cell_number(out, "%+.1f%%", 100 * (g->before - g->after) / g->before);
    sl_cell_number(out, "%.0f", g->whole);
    sl_cell_number(out, "%+.3f", g->before_count > 0 && g->whole > 0 ? g->gained / 1e3 : NAN);
    fputs("</tr>\n", out);
}

/* ---- phases ---- */

static const char *phase_words(const char *key) {
    static const char *const words[][2] = {{"slow", "slow, not adapted"},
                                           {"delegated", "slow, delegated"},
                                           {"between", "relieved, still adapted"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(key, words[i][0]) == 0)
            return words[i][1];
    return key;
}

typedef struct phase {
    int iterations, predictions;
    double time, predicted;
} phase;

/* As summary.json: predictions only of iterations that were not late or the first of their phase, which was
 * predicted without knowing of it. */
static sl_status measure_phase(const sl_run_data *t, int name, phase *p) {
    double *times, *predictions = NULL;
    *p = (phase){0};
    SL_TRY(sl_alloc(&times, t->iterations, sizeof *times));
    sl_status status = sl_alloc(&predictions, t->iterations, sizeof *predictions);
    for (size_t i = 0; i < t->iterations && status == SL_OK; i++) {
        const sl_run_data_iteration *it = &t->iteration[i];
        if (it->phase != name || isnan(it->time))
            continue;
        times[p->iterations++] = it->time;
        if (!isnan(it->predicted) && !it->late && i > 0 && t->iteration[i - 1].phase == name)
            predictions[p->predictions++] = it->predicted;
    }
    p->time = sl_median_of_numbers(times, p->iterations);
    p->predicted = sl_median_of_numbers(predictions, p->predictions);
    SL_FREE(times, predictions);
    return status;
}

static sl_status put_phases(const sl_run_data *t, FILE *out) {
    int known = 0;
    for (size_t i = 0; i < t->iterations; i++)
        known |= t->iteration[i].phase >= 0;
    if (!known)
        return SL_OK;
    fputs("<p>Medians of the run's "
          "phases:</p>\n<table><thead><tr><th>phase</th><th>iterations</th><th>measured, ms</th>"
          "<th>predicted, ms</th></tr></thead><tbody>\n",
          out);
    for (size_t name = 0; name < t->names; name++) {
        phase p;
        int used = 0;
        for (size_t i = 0; i < t->iterations && !used; i++)
            used = t->iteration[i].phase == (int)name;
        if (!used)
            continue;
        SL_TRY(measure_phase(t, (int)name, &p));
        fputs("<tr>", out);
        sl_cell_text(out, phase_words(t->name[name]));
        sl_cell_number(out, "%.0f", p.iterations);
        sl_cell_number(out, "%.6g", p.time);
        sl_cell_number(out, "%.6g", p.predicted);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
    return SL_OK;
}

sl_status sl_table_gains(const sl_run_data *t, const sl_gain *gain, size_t gains, FILE *out) {
    if (gains == 0)
        fputs("<p>The run changed nothing, or its events are missing.</p>\n", out);
    if (gains > 0) {
        fprintf(
            out,
            "<p>Medians of up to %d iterations before and after each change, between the previous and the "
            "next slowdown, relief, or change. Total: all iterations until the next one, compared with the "
            "median before. Changes at the same iteration share a row. Negative values are losses.</p>\n<div "
            "class=\"box\"><table><thead><tr><th>from iteration"
            "</th><th>change</th><th>before (ms)</th><th>after (ms)</th><th>gain (ms)</th><th>gain</th>"
            "<th>iterations</th><th>total, s</th></tr></thead><tbody>\n",
            SL_GAIN_MAX);
        for (size_t i = 0; i < gains; i++)
            put_gain(t, &gain[i], out);
        fputs("</tbody></table></div>\n", out);
    }
    return t->iterations > 0 ? put_phases(t, out) : SL_OK;
}

/* ---- events and decisions ---- */

static void put_event(const sl_run_data_event *e, size_t number, FILE *out) {
    const char *sign = sl_gain_is_change(e) ? "&#9670; " : sl_marks_has(e) ? "&#9661; " : "";
    fprintf(
        out,
        "<tr><td class=\"n\">%zu</td><td class=\"n\">%.3f</td><td class=\"n\">%d</td><td class=\"kind\">%s",
        number, e->time, e->iteration, sign);
    sl_put_escaped(out, e->kind);
    fputs("</td>", out);
    fputs("<td class=\"where\">", out);
    sl_put_escaped(out, e->where);
    fputs("</td>", out);
    sl_cell_text(out, e->seen);
    sl_cell_text(out, e->decided);
    sl_cell_text(out, e->why);
    fputs("</tr>\n", out);
}

/* An attempt that resumes after a failure has its own clock. */
static int starts_over(const sl_run_data *t) {
    for (size_t i = 1; i < t->events; i++)
        if (t->event[i].time < t->event[i - 1].time &&
            (strcmp(t->event[i].kind, "resumed") == 0 || strcmp(t->event[i].kind, "start") == 0))
            return 1;
    return 0;
}

void sl_table_events(const sl_run_data *t, FILE *out) {
    const size_t half = SL_TABLE_EVENTS / 2;
    if (t->events == 0) {
        fputs("<p>No event can be read.</p>\n", out);
        return;
    }
    fprintf(
        out,
        "<p>&#9670; (changes) and &#9661; (other events) mark them in the charts, with their kinds.%s</p>\n"
        "<div "
        "class=\"box\"><table><thead><tr><th>no.</th><th>s</th><th>iteration</th><th>kind</th><th>where</th>"
        "<th>seen</th><th>decided</th><th>why</th></tr></thead><tbody>\n",
        starts_over(t) ? " Seconds start over with each attempt." : "");
    for (size_t i = 0; i < t->events; i++) {
        if (t->events > SL_TABLE_EVENTS && i == half) {
            i = t->events - half;
            fprintf(out,
                    "<tr><td></td><td colspan=\"7\">%zu events are omitted here; events.jsonl has "
                    "all.</td></tr>\n",
                    i - half);
        }
        put_event(&t->event[i], i + 1, out);
    }
    fputs("</tbody></table></div>\n", out);
}

#define MAX_LINES 3000

/* A line of decisions.txt: "   2.561 s  iteration    2  text", where two more blanks begin a step of the
 * decision above. Other lines have no time. Control characters, line ends included, are not written escaped.
 */
static void put_decision(char *line, FILE *out) {
    double time;
    int iteration, length = 0;
    if (sscanf(line, "%lf s iteration %d%n", &time, &iteration, &length) == 2 && length > 0)
        fprintf(out, "<tr><td class=\"n\">%.3f</td><td class=\"n\">%d</td>", time, iteration);
    else
        fputs("<tr><td></td><td></td>", out);
    char *text = line + length;
    const size_t blanks = strspn(text, " ");
    fprintf(out, "<td%s>", length > 0 && blanks > 2 ? " class=\"step\"" : "");
    sl_put_escaped(out, text + blanks);
    fputs("</td></tr>\n", out);
}

/* Each line of the text, without its end. */
static void for_lines(char *text, void (*put)(char *line, FILE *out), FILE *out) {
    for (char *line = text; *line;) {
        const size_t length = strcspn(line, "\n");
        const char kept = line[length];
        line[length] = 0;
        put(line, out);
        line[length] = kept;
        line += length + (kept == '\n');
    }
}

static void put_line(char *line, FILE *out) {
    sl_put_escaped(out, line);
    fputc('\n', out);
}

void sl_table_decisions(const sl_run_data *t, FILE *out) {
    if (!t->decisions || !*t->decisions) {
        fputs("<p>decisions.txt has no decisions.</p>\n", out);
        return;
    }
    size_t kept = 0;
    for (int lines = 0; t->decisions[kept] && lines < MAX_LINES; kept++)
        lines += t->decisions[kept] == '\n';
    const int has_more = t->decisions[kept] != 0;
    t->decisions[kept] = 0;
    fputs("<div class=\"box\"><table><thead><tr><th>s</th><th>iteration</th><th>decision</th></tr></thead>"
          "<tbody>\n",
          out);
    for_lines(t->decisions, put_decision, out);
    fputs("</tbody></table></div>\n", out);
    if (has_more)
        fprintf(out, "<p class=\"soft\">The first %d lines; decisions.txt has all.</p>\n", MAX_LINES);
}

/* ---- links and devices ---- */

void sl_table_courses(const sl_courses *c, const char *what, FILE *out) {
    if (c->count == 0)
        return;
    fprintf(out,
            "<div class=\"box\"><table><thead><tr><th>%s</th><th>median, ms</th><th>largest, ms</th><th>at "
            "iteration</th>"
            "<th>last, ms</th></tr></thead><tbody>\n",
            what);
    for (size_t i = 0; i < c->count && i < SL_COURSE_ROWS; i++) {
        const sl_course *one = &c->course[i];
        fputs("<tr>", out);
        sl_cell_text(out, one->name);
        sl_cell_number(out, "%.5g", one->middle);
        sl_cell_number(out, "%.5g", one->worst);
        sl_cell_number(out, "%.0f", one->worst_at);
        sl_cell_number(out, "%.5g", one->last);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    if (c->count > SL_COURSE_LINES)
        fprintf(out,
                "<p class=\"soft\">The chart shows the %d of %zu that reached the largest value%s.</p>\n",
                SL_COURSE_LINES, c->count, c->count > SL_COURSE_ROWS ? "; the table the first of them" : "");
}

/* ---- configuration ---- */

/* The single values of an object and of nested objects; lists are only in the file. */
static void put_values(FILE *out, const char *prefix, const json_t *object, int depth) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        char text[64], inner[256];
        snprintf(inner, sizeof inner, "%.150s%.80s.", prefix, key);
        if (json_is_object(value) && depth < 2)
            put_values(out, inner, value, depth + 1);
        if (json_is_string(value))
            sl_cell_row(out, prefix, key, json_string_value(value));
        if (json_is_integer(value))
            snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        else if (json_is_number(value))
            snprintf(text, sizeof text, "%.9g", json_number_value(value));
        else if (json_is_boolean(value))
            snprintf(text, sizeof text, "%s", json_is_true(value) ? "yes" : "no");
        else
            continue;
        sl_cell_row(out, prefix, key, text);
    }
}

static void put_file(FILE *out, const char *name, const char *what, char *text) {
    if (!text)
        return;
    fprintf(out, "<details><summary>%s: %s</summary>", name, what);
    fputs("<div class=\"box\"><pre>", out);
    for_lines(text, put_line, out);
    fputs("</pre></div>\n", out);
    fputs("</details>\n", out);
}

static void put_schedules(const sl_run_data *t, FILE *out) {
    for (size_t name = 0; name < t->names; name++) {
        char text[32];
        int used = 0;
        for (size_t i = 0; i < t->iterations; i++)
            used += t->iteration[i].schedule == (int)name;
        snprintf(text, sizeof text, "%d iterations", used);
        if (used > 0)
            sl_cell_row(out, "schedule ", t->name[name], text);
    }
}

void sl_table_setup(const sl_run_data *t, FILE *out) {
    fputs("<table><tbody>\n", out);
    sl_cell_row(out, "", "folder", t->path);
    sl_cell_row(out, "", "this page was made by", "slackline " SL_VERSION);
    for (size_t i = 0; i < t->events; i++)
        if (strcmp(t->event[i].kind, "start") == 0) {
            sl_cell_row(out, "start: ", "runs on", t->event[i].seen);
            sl_cell_row(out, "start: ", "plan", t->event[i].decided);
            break;
        }
    put_schedules(t, out);
    put_values(out, "", t->summary, 0);
    fputs("</tbody></table>\n", out);
    put_file(out, "run.yaml", "the run file with its version and settings", t->run);
    put_file(out, "profile.yaml", "the run as a problem for slackline plan", t->profile);
    put_file(out, "summary.json", "as the run wrote it", t->summary_text);
}

void sl_cell_text(FILE *out, const char *text) {
    fputs("<td>", out);
    sl_put_escaped(out, text);
    fputs("</td>", out);
}

void sl_cell_number(FILE *out, const char *format, double value) {
    fputs("<td class=\"n\">", out);
    if (isfinite(value))
        fprintf(out, format, value); /* NOLINT: formats are constants of the callers */
    else
        fputs("&ndash;", out);
    fputs("</td>", out);
}

void sl_cell_figure(FILE *out, const char *name, const char *value) {
    fprintf(out, "<div><dt>%s</dt><dd>", name);
    sl_put_escaped(out, value);
    fputs("</dd></div>\n", out);
}

void sl_cell_row(FILE *out, const char *prefix, const char *key, const char *value) {
    fputs("<tr><th scope=\"row\">", out);
    sl_put_escaped(out, prefix);
    sl_put_escaped(out, key);
    fputs("</th>", out);
    sl_cell_text(out, value);
    fputs("</tr>\n", out);
}
