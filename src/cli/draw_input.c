/* Inputs of `draw` as charts over the time of an iteration: problems planned or timed by an order, plans and
 * timelines read back, recorded iterations of runs. */
#include "base/memory.h"
#include "cli/drawing.h"
#include "cli/order_file.h"
#include "pack/unpack.h"

#include <string.h>
#include <sys/stat.h>

#define LOOKED_AT 65536
#define MAX_SHOWN 200000 /* ops and messages of one picture */

/* ---- the kind of a file ---- */

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

sl_status sl_input_find(const char *file, sl_input_kind *kind) {
    struct stat about;
    char *head;
    size_t size = 0, at = 0;
    *kind = SL_INPUT_PROBLEM;
    if (strcmp(file, "-") == 0)
        return SL_OK;
    if (stat(file, &about) != 0)
        return sl_error_errno(SL_EINVAL, "%s: cannot be read", file);
    if (S_ISDIR(about.st_mode)) {
        *kind = SL_INPUT_RUN;
        return SL_OK;
    }
    SL_TRY(sl_alloc(&head, LOOKED_AT, 1));
    sl_status status = sl_unpack_head(file, head, LOOKED_AT, &size);
    while (at < size && strchr(" \t\r\n", head[at]) && head[at])
        at++;
    const char first = at < size ? head[at] : 0;
    const int is_packed = size > 1 && (unsigned char)head[0] == 0x1f && (unsigned char)head[1] == 0x8b;
    if (first == '{' && memmem(head, size, "\"slackline-plan-", 16))
        *kind = SL_INPUT_PLAN;
    else if (is_packed || first == '[' || (first == '{' && memmem(head, size, "\"traceEvents\"", 13)))
        *kind = SL_INPUT_TIMELINE;
    else if (status == SL_OK && ends_with(file, ".csv"))
        status =
            sl_error(SL_EINVAL, "%s: an order is timed on its problem: draw PROBLEM --order %s", file, file);
    sl_free(head);
    return status;
}

/* ---- data of charts ---- */

static void free_drawn(sl_drawn *one) {
    for (int k = 0; k < 2; k++)
        sl_plan_memory_free(&one->memory[k].held);
    sl_highlight_free(&one->highlight);
    sl_plan_free(&one->plan);
    sl_timeline_free(&one->timeline);
    sl_analysis_free(&one->analysis);
    sl_recovered_free(&one->recovered);
    sl_traced_free(&one->traced);
    sl_plan_request_close(&one->planning);
}

static void show_memory(sl_drawn_memory *m, sl_svg_chart *chart) {
    const sl_plan_memory *h = &m->held;
    m->shown = (sl_svg_memory){.step = h->step, .first = h->first, .limit = h->limit, .always = h->always};
    chart->memory = &m->shown;
}

sl_status sl_drawn_add_memory(const sl_problem *p, const sl_timeline *t, sl_drawn_memory *m,
                              sl_svg_chart *chart) {
    SL_TRY(sl_plan_memory_make(p, t, &m->held));
    show_memory(m, chart);
    return SL_OK;
}

/* ---- one input ---- */

/* The assignments of --set, without the keys' common prefix. */
static void say_sets(const sl_input_options *o, char *title, size_t size) {
    for (int i = 0; i < o->set.count; i++) {
        const char *set = o->set.text[i];
        const size_t used = strlen(title);
        if (strncmp(set, "pipeline.", 9) == 0)
            set += 9;
        snprintf(title + used, size - used, "%s%.150s", i ? ", " : "; ", set);
    }
}

static sl_status open_problem(const sl_drawing *d, const sl_input *input, sl_drawn *one) {
    sl_plan_request *p = &one->planning;
    *p = (sl_plan_request){.problem_file = input->file, .time_limit = d->time_limit, .seed = d->seed};
    SL_TRY(sl_document_read(input->file, &p->document));
    SL_TRY(sl_document_set_all(&p->document, d->common.set.text, d->common.set.count));
    SL_TRY(sl_document_set_all(&p->document, input->options.set.text, input->options.set.count));
    return sl_problem_read(&p->document, &p->problem);
}

static sl_status plan_problem(sl_drawn *one, const char *schedule, const char *order_file) {
    sl_plan_request *p = &one->planning;
    sl_order order;
    if (!order_file) {
        p->schedule = schedule;
        return sl_plan_request_make(p, &one->plan);
    }
    SL_TRY(sl_order_file_read(order_file, &p->problem, &order));
    sl_status status = sl_plan_of_order(&p->problem, &order, "file", &one->plan);
    sl_order_free(&order);
    return status;
}

static sl_status draw_problem(const sl_drawing *d, const sl_input *input, const char *schedule,
                              const char *order_file, sl_drawn *one) {
    char *title = one->title[0];
    SL_TRY(open_problem(d, input, one));
    SL_TRY(plan_problem(one, schedule, order_file));
    const sl_plan *plan = &one->plan;
    SL_TRY(sl_highlight_make(&one->planning.problem, &plan->program, &plan->timeline, &one->highlight));
    snprintf(title, sizeof one->title[0], "%.200s: %.6g ms, bubble %.1f%%%s",
             order_file ? order_file : plan->schedule, sl_to_ms(plan->makespan),
             100 * sl_timeline_bubble(&plan->timeline), plan->memory_ok ? "" : ", over the memory limit");
    say_sets(&input->options, title, sizeof one->title[0]);
    one->chart[0] = (sl_svg_chart){.timeline = &plan->timeline, .title = title, .highlight = &one->highlight};
    one->charts = 1;
    if (d->what & SL_DRAW_MEMORY)
        SL_TRY(sl_drawn_add_memory(&one->planning.problem, &plan->timeline, &one->memory[0], &one->chart[0]));
    return SL_OK;
}

sl_status sl_drawn_refuse_memory(const sl_drawing *d, const sl_input *input, const char *why) {
    return d->what & SL_DRAW_MEMORY ? sl_error(SL_ENONE, "%s: %s", input->file, why) : SL_OK;
}

static sl_status draw_plan(const sl_drawing *d, const sl_input *input, sl_drawn *one) {
    char name[SL_PLAN_NAME];
    SL_TRY(sl_plan_file_read(input->file, &one->timeline, &one->memory[0].held, name));
    snprintf(one->title[0], sizeof one->title[0], "%s: %.6g ms, bubble %.1f%%", name,
             sl_to_ms(sl_timeline_makespan(&one->timeline)), 100 * sl_timeline_bubble(&one->timeline));
    one->chart[0] = (sl_svg_chart){.timeline = &one->timeline, .title = one->title[0]};
    one->charts = 1;
    if (!one->memory[0].held.first)
        return sl_drawn_refuse_memory(d, input,
                                      "the plan has no memory (an earlier version wrote it): plan its "
                                      "problem again, or draw the problem");
    if (d->what & SL_DRAW_MEMORY)
        show_memory(&one->memory[0], &one->chart[0]);
    return SL_OK;
}

/* ---- all of them ---- */

typedef struct input_picture {
    sl_drawn **one; /* [count] */
    int count, charts;
    size_t room, shown;
} input_picture;

/* The chart's own title, or that of --title. */
static void choose_title(const sl_drawing *d, const sl_input *input, int within, int of_all,
                         sl_svg_chart *chart) {
    if (within < input->options.title.count)
        chart->title = input->options.title.text[within];
    else if (of_all < d->common.title.count)
        chart->title = d->common.title.text[of_all];
}

/* `files`: its number of inputs, including those before `input`. */
static sl_status add_one(const sl_drawing *d, const sl_input *input, int files, const char *schedule,
                         const char *order_file, input_picture *p, int *within) {
    sl_drawn *one;
    SL_TRY(sl_grow(&p->one, &p->room, (size_t)p->count + 1, sizeof(sl_drawn *)));
    SL_TRY(sl_alloc(&one, 1, sizeof *one));
    p->one[p->count++] = one;
    if (input->kind == SL_INPUT_PROBLEM)
        SL_TRY(draw_problem(d, input, schedule, order_file, one));
    else if (input->kind == SL_INPUT_PLAN)
        SL_TRY(draw_plan(d, input, one));
    else
        SL_TRY(input->kind == SL_INPUT_TIMELINE ? sl_drawn_timeline(d, input, files, one)
                                                : sl_drawn_run(d, input, one));
    for (int k = 0; k < one->charts; k++) {
        sl_svg_chart *c = &one->chart[k];
        choose_title(d, input, (*within)++, p->charts++, c);
        p->shown += (size_t)c->timeline->spans + (size_t)c->timeline->transfers;
        c->no_ops = !(d->what & SL_DRAW_GANTT);
        c->messages = d->what & SL_DRAW_LINKS ? SL_MESSAGES_LANES
                      : d->no_messages        ? SL_MESSAGES_NONE
                                              : SL_MESSAGES_LINES;
        c->highlight = d->no_critical ? NULL : c->highlight;
    }
    return p->shown <= MAX_SHOWN
               ? SL_OK
               : sl_error(SL_ENONE, "more than %d ops and messages are too many for a picture", MAX_SHOWN);
}

/* A chart for each named schedule and each order; one of auto if there are none. */
static sl_status add_problem(const sl_drawing *d, const sl_input *input, input_picture *p, int *within) {
    const sl_input_options *o = &input->options;
    const char *list = o->schedules ? o->schedules : d->common.schedules;
    const sl_texts *order = o->order.count > 0 ? &o->order : &d->common.order;
    if (!list && order->count == 0)
        list = "auto";
    while (list) {
        char name[64];
        const size_t length = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), list);
        SL_TRY(add_one(d, input, 1, name, NULL, p, within));
        list = list[length] ? list + length + 1 : NULL;
    }
    for (int i = 0; i < order->count; i++)
        SL_TRY(add_one(d, input, 1, NULL, order->text[i], p, within));
    return SL_OK;
}

/* Consecutive traces: the ranks of one run if that is a pipeline; else each by itself if possible, as traces
 * that hold all ranks. */
static sl_status add_traces(const sl_drawing *d, int first, int count, input_picture *p, int *within) {
    char why[1024];
    const input_picture before = *p;
    sl_status status = add_one(d, &d->input[first + count - 1], count, NULL, NULL, p, within);
    if (status == SL_OK || count == 1)
        return status;
    snprintf(why, sizeof why, "%s", sl_error_text());
    while (p->count > before.count) {
        free_drawn(p->one[--p->count]);
        sl_free(p->one[p->count]);
    }
    p->charts = before.charts;
    p->shown = before.shown;
    *within = 0;
    for (int i = first; i < first + count; i++)
        if (add_one(d, &d->input[i], 1, NULL, NULL, p, within) != SL_OK)
            return sl_error(status, "%s", why);
    return SL_OK;
}

static sl_status refuse_options(const sl_input *input) {
    const sl_input_options *o = &input->options;
    const int is_problem = input->kind == SL_INPUT_PROBLEM,
              is_recorded = input->kind == SL_INPUT_RUN || input->kind == SL_INPUT_TIMELINE;
    if (!is_problem && (o->set.count > 0 || o->order.count > 0 || o->schedules))
        return sl_error(SL_EINVAL, "%s: --set, --order and --schedule belong after a problem file",
                        input->file);
    if (!is_recorded && (o->iteration >= 0 || o->replica >= 0))
        return sl_error(SL_EINVAL, "%s: --iteration and --replica belong after a run or its timeline",
                        input->file);
    return SL_OK;
}

/* A title without a chart is a mistake: most likely it follows the wrong input. */
static sl_status check_titles(const char *whose, int titles, int charts) {
    return titles <= charts
               ? SL_OK
               : sl_error(SL_EINVAL, "draw: %d titles for %d charts of %s; --title belongs after its input",
                          titles, charts, whose);
}

/* The charts of `count` inputs from `first` on, which are one problem, plan or run. */
static sl_status add_input(const sl_drawing *d, int first, int count, input_picture *p) {
    const sl_input *input = &d->input[first + count - 1];
    int within = 0;
    SL_TRY(refuse_options(input));
    SL_TRY(input->kind == SL_INPUT_PROBLEM ? add_problem(d, input, p, &within)
                                           : add_traces(d, first, count, p, &within));
    return check_titles(input->file, input->options.title.count, within);
}

sl_status sl_draw_over_time(const sl_drawing *d, FILE *out) {
    input_picture p = {0};
    sl_svg_chart *charts = NULL;
    sl_status status;
    int at = 0;
    for (int i = 0, count; i < d->inputs; i += count) {
        count = sl_drawn_ranks(d, i);
        SL_TRY_GOTO(close, status, add_input(d, i, count, &p));
    }
    SL_TRY_GOTO(close, status, check_titles("all inputs", d->common.title.count, p.charts));
    SL_TRY_GOTO(close, status, sl_alloc(&charts, (size_t)p.charts, sizeof *charts));
    for (int i = 0; i < p.count; i++)
        for (int k = 0; k < p.one[i]->charts; k++)
            charts[at++] = p.one[i]->chart[k];
    status = sl_draw_svg_charts(charts, p.charts, &d->style, out);
close:
    for (int i = 0; i < p.count; i++) {
        free_drawn(p.one[i]);
        sl_free(p.one[i]);
    }
    SL_FREE(p.one, charts);
    return status;
}
