#include "plan/draw/html.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/page_data.h"
#include "plan/draw/page_fill.h"

#include <math.h>

typedef struct page {
    const sl_problem *p;
    const sl_plan *plan;
    const sl_timeline *t;
    const char *title;
    sl_page_data data;
    FILE *out;
} page;

/* ---- text that is readable without the script ---- */

/* To the microsecond, without trailing zeros. */
static double ms(sl_time t) {
    return round((double)t / 1e3) / 1e3;
}

static void put_figure(const page *g, const char *name, const char *value, int bad) {
    fprintf(g->out, "<div><dt>%s</dt><dd%s>%s</dd></div>\n", name, bad ? " class=\"bad\"" : "", value);
}

static void put_time(const page *g, const char *name, sl_time t) {
    char text[40];
    snprintf(text, sizeof text, "%.12g ms", ms(t));
    put_figure(g, name, text, 0);
}

static void put_share(const page *g, const char *name, double share) {
    char text[40];
    snprintf(text, sizeof text, "%.1f%%", 100 * share);
    put_figure(g, name, text, 0);
}

static void put_figures(const page *g) {
    const sl_plan *plan = g->plan;
    put_time(g, "makespan", plan->makespan);
    if (plan->objective != SL_MAKESPAN)
        put_time(g, sl_objective_names[plan->objective], plan->value);
    put_time(g, "lower bound", plan->bound);
    if (plan->value == plan->bound)
        put_figure(g, "gap", "none: proven optimal", 0);
    else
        put_share(g, "gap", sl_plan_gap(plan));
    put_share(g, "bubble", sl_timeline_bubble(g->t));
    put_time(g, "lost by dependencies", plan->dependency_loss);
    put_time(g, "lost by blocking", plan->blocking_loss);
    if (!plan->memory_ok)
        put_figure(g, "memory", "over the limit", 1);
}

static void put_stages(const page *g, int rank) {
    const char *before = "";
    for (int stage = 0; stage < g->p->stages; stage++)
        if (sl_problem_rank(g->p, stage) == rank) {
            fprintf(g->out, "%s%d", before, stage);
            before = ", ";
        }
}

static void put_ranks(const page *g) {
    for (int rank = 0; rank < g->p->ranks; rank++) {
        sl_time work = sl_timeline_work(g->t, rank);
        fprintf(g->out, "<tr><th scope=\"row\">%d</th><td>", rank);
        put_stages(g, rank);
        fprintf(g->out, "</td><td>%d</td><td>%.6g</td><td>", g->plan->warmup[rank],
                g->plan->peak_memory[rank]);
        if (g->p->limit)
            fprintf(g->out, "%.6g", g->p->limit[rank] + sl_problem_fixed(g->p, rank));
        else
            fputs("none", g->out);
        fprintf(g->out, "</td><td>%.12g ms</td><td>%.12g ms</td></tr>\n", ms(work),
                ms(g->plan->makespan - work));
    }
}

/* ---- the page ---- */

static sl_status title_mark(const void *page_, FILE *out) {
    sl_put_escaped(out, ((const page *)page_)->title);
    return SL_OK;
}

static sl_status figures_mark(const void *page_, FILE *out) {
    (void)out; /* the page's own */
    put_figures(page_);
    return SL_OK;
}

static sl_status ranks_mark(const void *page_, FILE *out) {
    (void)out;
    put_ranks(page_);
    return SL_OK;
}

static sl_status data_mark(const void *page_, FILE *out) {
    return sl_page_data_write(&((const page *)page_)->data, out);
}

static const sl_page_mark marks[] = {
    {"@TITLE@", title_mark}, {"@FIGURES@", figures_mark}, {"@RANKS@", ranks_mark}, {"@DATA@", data_mark}};

sl_status sl_draw_html(const sl_problem *problem, const sl_plan *plan, const char *title, FILE *out) {
    const sl_timeline *t = &plan->timeline;
    sl_highlight path = {0};
    int32_t *cause = NULL;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_highlight_make(problem, &plan->program, t, &path));
    SL_TRY_GOTO(done, status, sl_alloc(&cause, (size_t)t->spans, sizeof *cause));
    for (int i = 0; i < t->spans; i++)
        cause[i] = sl_critical_cause(problem, &plan->program, t, i);
    const page g = {
        .p = problem,
        .plan = plan,
        .t = t,
        .title = title,
        .data = {.title = title,
                 .schedule = plan->schedule,
                 .stages = problem->stages,
                 .parts = problem->parts,
                 .makespan = plan->makespan,
                 .charts = 1,
                 .chart = {{.timeline = t, .program = &plan->program, .cause = cause, .path = &path}}},
        .out = out};
    SL_TRY_GOTO(done, status, sl_page_fill(sl_gantt_html, marks, sizeof marks / sizeof marks[0], &g, out));
    if (ferror(out))
        status = sl_error_errno(SL_ESYS, "the page cannot be written");
done:
    sl_highlight_free(&path);
    sl_free(cause);
    return status;
}
