/* Single iterations op by op: those included in the page, interactive and as still pictures. */
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/html.h"
#include "report/analysis.h"
#include "report/recorded.h"
#include "report/report_inside.h"

#include <stdio.h>

#define MAX_EVENTS 150000 /* ops and messages included in the page */
#define MAX_STILL 4000    /* ops of a still picture */

/* Whether an event happened there, or just before. */
static int is_eventful(const sl_report_page *r, int iteration) {
    for (int i = 0; i < r->marks.count; i++)
        if (r->marks.mark[i].x <= iteration && iteration <= r->marks.mark[i].x + 1)
            return 1;
    return 0;
}

/* All recorded iterations if they are few; else every n-th, and those with events while there is room. */
static void keep(sl_report_page *r, int wanted) {
    const sl_recorded *rec = &r->recorded;
    const size_t every = rec->events / MAX_EVENTS + 1;
    size_t number = 0, used = 0;
    for (size_t i = 0; i < rec->iterations; i++) {
        number += i > 0 && rec->iteration[i].iteration != rec->iteration[i - 1].iteration;
        r->kept[i] = number % every == 0 || rec->iteration[i].iteration == wanted;
        used += r->kept[i] ? rec->iteration[i].count : 0;
    }
    for (size_t i = 0; i < rec->iterations; i++) {
        if (r->kept[i] || used + rec->iteration[i].count > MAX_EVENTS + MAX_EVENTS / 2 ||
            !is_eventful(r, rec->iteration[i].iteration))
            continue;
        r->kept[i] = 1;
        used += rec->iteration[i].count;
    }
}

static void put_option(const sl_report_page *r, size_t index, int chosen, FILE *out) {
    char title[256];
    sl_chosen_title(&r->data, &r->recorded, index, title, sizeof title);
    fprintf(out, "<option value=\"recorded-%zu\"%s>", index, chosen ? " selected" : "");
    sl_put_escaped(out, title);
    fputs("</option>\n", out);
}

static sl_status put_data(const sl_report_page *r, size_t index, FILE *out) {
    sl_analysis analysis;
    char title[256];
    sl_chosen_title(&r->data, &r->recorded, index, title, sizeof title);
    sl_status status = sl_analysis_make(&r->data, &r->recorded, index, &analysis);
    if (status == SL_OK) {
        char name[64];
        sl_chosen_name(&r->recorded, index, name, sizeof name);
        fprintf(out, "<script type=\"application/json\" id=\"recorded-%zu\" data-title=\"%s\">", index, name);
        status = sl_gantt_data(&analysis, title, out);
        fputs("</script>\n", out);
    }
    sl_analysis_free(&analysis);
    return status;
}

static sl_status put_live(const sl_report_page *r, size_t chosen, FILE *out) {
    fputs("<div class=\"live\">\n<p><label>Recorded iteration: <select id=\"iteration\">\n", out);
    for (size_t i = 0; i < r->recorded.iterations; i++)
        if (r->kept[i])
            put_option(r, i, i == chosen, out);
    fputs("</select></label> <button id=\"before\">&larr; Previous</button> <button id=\"after\">Next "
          "&rarr;</button></p>\n"
          "<iframe id=\"gantt-frame\" title=\"Gantt chart of the chosen iteration\" "
          "sandbox=\"allow-scripts\"></iframe>\n"
          "</div>\n<script type=\"application/json\" id=\"gantt-page\">",
          out);
    sl_put_json(out, sl_gantt_html);
    fputs("</script>\n", out);
    for (size_t i = 0; i < r->recorded.iterations; i++)
        if (r->kept[i])
            SL_TRY(put_data(r, i, out));
    return SL_OK;
}

/* ---- still pictures ---- */

sl_status sl_report_draw_still(const sl_report_page *r, FILE *out, void *still) {
    sl_report_still *s = still;
    sl_analysis analysis;
    char title[256], predicted[400], measured[400];
    sl_chosen_title(&r->data, &r->recorded, s->index, title, sizeof title);
    sl_status status = sl_analysis_make(&r->data, &r->recorded, s->index, &analysis);
    if (status == SL_OK && analysis.measured.spans <= MAX_STILL && analysis.measured.ranks <= 64) {
        sl_gantt_title("predicted", &analysis.predicted, "", predicted, sizeof predicted);
        sl_gantt_title("measured", &analysis.measured, title, measured, sizeof measured);
        status = sl_gantt_still(&analysis, predicted, measured, out);
    }
    snprintf(s->why_not, sizeof s->why_not, "%s", analysis.why_not);
    sl_analysis_free(&analysis);
    return status;
}

static sl_status put_still(const sl_report_page *r, size_t index, FILE *out) {
    sl_report_still s = {.index = index};
    char name[64];
    int there;
    snprintf(name, sizeof name, "Gantt chart of iteration %d", r->recorded.iteration[index].iteration);
    SL_TRY(sl_report_put_drawn(r, sl_report_draw_still, &s, name, out, &there));
    if (!there)
        fprintf(out, "<p class=\"soft\">Iteration %d has too many ops for a still picture.</p>\n",
                r->recorded.iteration[index].iteration);
    else if (s.why_not[0]) {
        fputs("<p class=\"soft\">Not predicted again: ", out);
        sl_put_escaped(out, s.why_not);
        fputs(".</p>\n", out);
    }
    return SL_OK;
}

/* Skips the first iteration of a run, which is cold. */
static void choose_stills(sl_report_page *r, size_t chosen) {
    const sl_recorded *rec = &r->recorded;
    r->still[0] = 0;
    r->still[1] = chosen;
    r->still[2] = rec->iterations > 0 ? rec->iterations - 1 : 0;
    for (size_t i = 0; i < rec->iterations; i++)
        if (rec->iteration[i].iteration > rec->iteration[0].iteration &&
            rec->iteration[i].replica == rec->iteration[0].replica) {
            r->still[0] = i;
            break;
        }
}

int sl_report_is_repeated(const sl_report_page *r, int k) {
    for (int i = 0; i < k; i++)
        if (r->still[i] == r->still[k])
            return 1;
    return 0;
}

static sl_status put_stills(const sl_report_page *r, FILE *out) {
    fputs("<div class=\"still\">\n", out);
    for (int k = 0; k < SL_REPORT_STILLS; k++)
        if (!sl_report_is_repeated(r, k))
            SL_TRY(put_still(r, r->still[k], out));
    fputs("</div>\n", out);
    return SL_OK;
}

sl_status sl_report_put_iterations(const sl_report_page *r, FILE *out) {
    const sl_recorded *rec = &r->recorded;
    size_t kept = 0, iterations = 0;
    if (rec->iterations == 0) {
        fputs("<p>No iteration was recorded op by op.</p>\n", out);
        return SL_OK;
    }
    for (size_t i = 0; i < rec->iterations; i++)
        kept += r->kept[i];
    for (size_t i = 0; i < rec->iterations; i++)
        iterations += i == 0 || rec->iteration[i].iteration != rec->iteration[i - 1].iteration;
    fprintf(out,
            "<p>%zu %s recorded. Predicted: the order that ran, replayed with the ops of the previous "
            "iteration and its links in metrics.jsonl. Links are lanes below the ranks; a message is drawn "
            "from taking its link to its arrival. The measured critical path goes back from the last op, "
            "each time to the later of the previous op and the message that it needed.</p>\n",
            iterations, iterations == 1 ? "iteration was" : "iterations were");
    if (kept < rec->iterations)
        fprintf(out,
                "<p class=\"soft\">The page has %zu of %zu (counting each replica), spread over the run and "
                "around events; timeline.json has all.</p>\n",
                kept, rec->iterations);
    SL_TRY(put_live(r, r->still[1], out));
    return put_stills(r, out);
}

sl_status sl_report_choose(sl_report_page *r, int wanted) {
    size_t chosen = 0;
    SL_TRY(sl_alloc(&r->kept, r->recorded.iterations, 1));
    keep(r, wanted);
    if (r->recorded.iterations > 0 || wanted != SL_CHOSEN_SLOWEST)
        SL_TRY(sl_chosen_find(&r->data, &r->recorded, wanted, r->kept, &chosen));
    choose_stills(r, chosen);
    return SL_OK;
}
