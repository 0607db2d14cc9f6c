#include "plan/draw/html.h"
#include "base/memory.h"
#include "plan/draw/escape.h"
#include "plan/draw/fill.h"
#include "plan/draw/highlight.h"

#include <limits.h>
#include <math.h>

typedef struct page {
    const sl_problem *p;
    const sl_plan *plan;
    const sl_timeline *t;
    const char *title;
    sl_highlight highlight;
    int32_t *first; /* [ranks] first span */
    FILE *out;
} page;

/* ---- numbers for the script: a table is an object of columns; times in ns; null: none ---- */

typedef struct column {
    const char *name;
    long long (*value)(const page *page, int row);
} column;

#define NONE LLONG_MIN /* printed as null */

static long long cause(const page *g, int32_t entry) {
    int32_t found = sl_critical_cause(g->p, &g->plan->program, g->t, entry);
    return found == SL_NO_CAUSE ? NONE : found;
}

static const sl_step *step(const page *g, int i) {
    int rank = g->t->span[i].rank;
    return &g->plan->program.rank[rank].step[i - g->first[rank]];
}

/* clang-format off */
static long long op_rank(const page *g, int i) { return g->t->span[i].rank; }
static long long op_kind(const page *g, int i) { return g->t->span[i].op.kind; }
static long long op_stage(const page *g, int i) { return g->t->span[i].op.stage; }
static long long op_microbatch(const page *g, int i) { return g->t->span[i].op.microbatch; }
static long long op_part(const page *g, int i) { return g->t->span[i].op.part; }
static long long op_paired(const page *g, int i) { return g->t->span[i].op.paired != 0; }
static long long op_start(const page *g, int i) { return g->t->span[i].start; }
static long long op_end(const page *g, int i) { return g->t->span[i].end; }
static long long op_cause(const page *g, int i) { return cause(g, i); }
static long long op_receive(const page *g, int i) { return step(g, i)->receive < 0 ? NONE : step(g, i)->receive; }
static long long op_send(const page *g, int i) { return step(g, i)->send < 0 ? NONE : step(g, i)->send; }

static long long transfer_from(const page *g, int i) { return g->t->transfer[i].from; }
static long long transfer_to(const page *g, int i) { return g->t->transfer[i].to; }
static long long transfer_op(const page *g, int i) {
    const sl_message *message = &g->plan->program.message[i];
    return g->first[message->from] + message->producer;
}
static long long transfer_start(const page *g, int i) { return g->t->transfer[i].start; }
static long long transfer_end(const page *g, int i) { return g->t->transfer[i].end; }
static long long transfer_arrive(const page *g, int i) { return g->t->transfer[i].arrive; }

static long long collective_rank(const page *g, int i) { return g->t->collective[i].rank; }
static long long collective_kind(const page *g, int i) { return g->t->collective[i].op.kind; }
static long long collective_stage(const page *g, int i) { return g->t->collective[i].op.stage; }
static long long collective_microbatch(const page *g, int i) { return g->t->collective[i].op.microbatch; }
static long long collective_start(const page *g, int i) { return g->t->collective[i].start; }
static long long collective_end(const page *g, int i) { return g->t->collective[i].end; }

static const column op_columns[] = {
    {"rank", op_rank}, {"kind", op_kind}, {"stage", op_stage}, {"microbatch", op_microbatch}, {"start", op_start},
    {"end", op_end}, {"cause", op_cause}, {"receive", op_receive}, {"send", op_send}, {NULL, NULL},
};
static const column part_column[] = {{"part", op_part}, {NULL, NULL}}; /* rare, so left out of most pages */
static const column pair_column[] = {{"paired", op_paired}, {NULL, NULL}};
static const column transfer_columns[] = {
    {"from", transfer_from}, {"to", transfer_to}, {"op", transfer_op}, {"start", transfer_start},
    {"end", transfer_end}, {"arrive", transfer_arrive}, {NULL, NULL},
};
static const column collective_columns[] = {
    {"rank", collective_rank}, {"kind", collective_kind}, {"stage", collective_stage}, {"microbatch", collective_microbatch},
    {"start", collective_start}, {"end", collective_end}, {NULL, NULL},
};
/* clang-format on */

static void put_columns(const page *g, const column *c, int rows, const char *before) {
    for (; c->name; c++, before = ",\n ") {
        fprintf(g->out, "%s\"%s\": [", before, c->name);
        for (int i = 0; i < rows; i++) {
            long long value = c->value(g, i);
            if (value == NONE)
                fprintf(g->out, "%snull", i ? "," : "");
            else
                fprintf(g->out, "%s%lld", i ? "," : "", value);
        }
        fputc(']', g->out);
    }
}

static sl_time begin_of(const sl_timeline *t) {
    sl_time begin = t->spans ? SL_TIME_NEVER : 0;
    for (int i = 0; i < t->spans; i++)
        begin = t->span[i].start < begin ? t->span[i].start : begin;
    return begin;
}

static void put_data(const page *g) {
    int pairs = 0;
    for (int i = 0; i < g->t->spans; i++)
        pairs |= g->t->span[i].op.paired;
    fprintf(g->out, "{\"format\": \"slackline-page-1\", \"title\": ");
    sl_put_json(g->out, g->title);
    fprintf(g->out, ", \"schedule\": ");
    sl_put_json(g->out, g->plan->schedule);
    fprintf(g->out,
            ",\n\"placement\": \"%s\", \"ranks\": %d, \"stages\": %d, \"microbatches\": %d, \"parts\": %d,\n"
            "\"begin_ns\": %lld, \"makespan_ns\": %lld,\n\"kinds\": [",
            sl_placement_name(g->p->placement), g->p->ranks, g->p->stages, g->p->microbatches, g->p->parts,
            (long long)begin_of(g->t), (long long)g->plan->makespan);
    for (int kind = 0; kind < SL_SPAN_KINDS; kind++)
        fprintf(g->out, "%s\"%s\"", kind ? ", " : "", sl_op_name(kind));
    fprintf(g->out, "],\n\"ops\": {");
    put_columns(g, op_columns, g->t->spans, "");
    if (g->p->parts > 1)
        put_columns(g, part_column, g->t->spans, ",\n ");
    if (pairs)
        put_columns(g, pair_column, g->t->spans, ",\n ");
    fprintf(g->out, "},\n\"transfers\": {");
    put_columns(g, transfer_columns, g->t->transfers, "");
    fprintf(g->out, "},\n\"collectives\": {");
    put_columns(g, collective_columns, g->t->collectives, "");
    fprintf(g->out, "},\n\"path\": [");
    for (int k = 0; k < g->highlight.length; k++)
        fprintf(g->out, "%s%d", k ? "," : "", g->highlight.path[k]);
    fprintf(g->out, "]}");
}

/* ---- what is read without the script ---- */

/* To the microsecond, without zeros behind the point. */
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
    snprintf(text, sizeof text, "%.1f %%", 100 * share);
    put_figure(g, name, text, 0);
}

static void put_figures(const page *g) {
    const sl_plan *plan = g->plan;
    put_time(g, "makespan", plan->makespan);
    put_time(g, "lower bound", plan->bound);
    if (plan->makespan == plan->bound)
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
    (void)out;
    put_data(page_);
    return SL_OK;
}

static const sl_page_mark marks[] = {
    {"@TITLE@", title_mark}, {"@FIGURES@", figures_mark}, {"@RANKS@", ranks_mark}, {"@DATA@", data_mark}};

sl_status sl_draw_html(const sl_problem *problem, const sl_plan *plan, const char *title, FILE *out) {
    page g = {.p = problem, .plan = plan, .t = &plan->timeline, .title = title, .out = out};
    sl_status status = sl_highlight_make(problem, &plan->program, &plan->timeline, &g.highlight);
    if (status == SL_OK)
        status = sl_alloc(&g.first, (size_t)problem->ranks, sizeof *g.first);
    if (status == SL_OK) {
        for (int rank = 1; rank < problem->ranks; rank++)
            g.first[rank] = g.first[rank - 1] + plan->program.rank[rank - 1].steps;
        status = sl_page_fill(sl_gantt_html, marks, sizeof marks / sizeof marks[0], &g, out);
        if (status == SL_OK && ferror(out))
            status = sl_error_errno(SL_ESYS, "the page cannot be written");
    }
    sl_highlight_free(&g.highlight);
    sl_free(g.first);
    return status;
}
