#include "report/adaptation.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "plan/bound/bound.h"
#include "plan/draw/svg.h"
#include "report/analysis.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- choice of iterations ---- */

static int is_phase(const sl_run_data *t, size_t row, const char *const *phases) {
    if (t->iteration[row].phase < 0)
        return 0;
    for (; *phases; phases++)
        if (strcmp(t->name[t->iteration[row].phase], *phases) == 0)
            return 1;
    return 0;
}

static const char *const healthy[] = {"healthy", NULL}, *const unanswered[] = {"slow", NULL},
                         *const troubled[] = {"slow", "delegated", "adapted", NULL};

static sl_status measure(const sl_run_data *t, sl_report_stretch *s) {
    double *times;
    int count = 0;
    SL_TRY(sl_alloc(&times, s->end - s->first, sizeof *times));
    for (size_t i = s->first; i < s->end; i++)
        if (!isnan(t->iteration[i].time))
            times[count++] = t->iteration[i].time;
    s->time = sl_median_of_numbers(times, count);
    sl_free(times);
    return SL_OK;
}

static size_t row_at(const sl_run_data *t, int iteration) {
    size_t row = 0;
    while (row < t->iterations && t->iteration[row].iteration < iteration)
        row++;
    return row;
}

static sl_status rows_of(const sl_run_data *t, int from, int until, sl_report_stretch *s) {
    *s = (sl_report_stretch){.first = row_at(t, from), .end = row_at(t, until)};
    return measure(t, s);
}

static int is_return(const sl_run_data_event *e) {
    return strcmp(e->kind, "return") == 0 || strcmp(e->kind, "direct") == 0;
}

/* The end of the chain of changes that starts with `i`: consecutive, with nothing else in between. */
static size_t end_of_chain(const sl_run_data *t, const sl_gain *gain, size_t gains, size_t i) {
    while (i + 1 < gains && gain[i].until == gain[i + 1].first && !is_return(&t->event[gain[i + 1].event]))
        i++;
    return i + 1;
}

#define RELIEF 3 /* iterations until relief is seen */

/* Whether the saving may be due to the end of a fault, which is seen only later. */
static int is_doubtful(const sl_gain *first, const sl_gain *last, const sl_report_stretch *after) {
    return first->is_mixed || last->is_mixed ||
           (last->until < INT_MAX && after->end - after->first <= RELIEF);
}

static sl_status find_changes(const sl_run_data *t, const sl_gain *gain, size_t gains, sl_adaptation *a) {
    double most = -INFINITY;
    for (size_t i = 0, end; i < gains; i = end) {
        sl_report_stretch during, after;
        end = end_of_chain(t, gain, gains, i);
        SL_TRY(rows_of(t, gain[i].since, gain[i].first, &during));
        SL_TRY(rows_of(t, gain[end - 1].first, gain[end - 1].until, &after));
        const double saved = during.time - after.time; /* NaN if one of them is empty */
        if (is_return(&t->event[gain[i].event]) || !(saved > most) ||
            !is_phase(t, during.end - 1, troubled) || is_doubtful(&gain[i], &gain[end - 1], &after))
            continue;
        most = saved;
        a->part[SL_ADAPTATION_DURING] = during;
        a->part[SL_ADAPTATION_AFTER] = after;
        a->change = &t->event[gain[i].event];
        a->last = &t->event[gain[end - 1].event];
    }
    return SL_OK;
}

/* The worst period of an unanswered incident. */
static sl_status find_trouble(const sl_run_data *t, sl_report_stretch *worst) {
    for (size_t i = 0; i < t->iterations;) {
        sl_report_stretch s = {.first = i, .end = i};
        while (s.end < t->iterations && is_phase(t, s.end, unanswered))
            s.end++;
        i = s.end + 1;
        SL_TRY(measure(t, &s));
        if (!isnan(s.time) && !(worst->time >= s.time))
            *worst = s;
    }
    return SL_OK;
}

/* Up to the first iteration that is not healthy; the whole run if its file has no phases. */
static sl_status find_healthy(const sl_run_data *t, sl_report_stretch *s) {
    while (s->end < t->iterations && (t->iteration[s->end].phase < 0 || is_phase(t, s->end, healthy)))
        s->end++;
    return measure(t, s);
}

/* Not a stretch's first iteration, if there are others: its time may belong to the previous stretch. */
static sl_status find_recorded(const sl_run_data *t, const sl_recorded *recorded, sl_report_stretch *s) {
    double nearest = INFINITY;
    int iteration = -1;
    s->recorded = -1;
    for (size_t i = 0; i < recorded->iterations && !isnan(s->time); i++) {
        const long row = sl_run_data_find(t, recorded->iteration[i].iteration);
        if (row < (long)s->first || row >= (long)s->end || isnan(t->iteration[row].time))
            continue;
        const double far = fabs(t->iteration[row].time - s->time) + (row == (long)s->first ? s->time : 0);
        if (far < nearest) {
            nearest = far;
            iteration = t->iteration[row].iteration;
        }
    }
    if (iteration < 0)
        return SL_OK;
    size_t index;
    SL_TRY(sl_chosen_find(t, recorded, iteration, NULL, &index));
    s->recorded = (long)index;
    return SL_OK;
}

sl_status sl_adaptation_find(const sl_run_data *t, const sl_recorded *recorded, const sl_gain *gain,
                             size_t gains, sl_adaptation *a) {
    *a = (sl_adaptation){0};
    for (int k = 0; k < SL_ADAPTATION_PARTS; k++)
        a->part[k] = (sl_report_stretch){.time = NAN, .recorded = -1};
    SL_TRY(find_healthy(t, &a->part[SL_ADAPTATION_BEFORE]));
    SL_TRY(find_changes(t, gain, gains, a));
    if (!a->change)
        SL_TRY(find_trouble(t, &a->part[SL_ADAPTATION_DURING]));
    for (int k = 0; k < SL_ADAPTATION_PARTS; k++)
        SL_TRY(find_recorded(t, recorded, &a->part[k]));
    return SL_OK;
}

/* ---- the picture ---- */

#define WIDTH 840.0 /* px: about a page's width, so that letters keep their size there */
#define FONT 12.5

typedef struct panel {
    sl_analysis traced;
    char title[64], detail[320], text[2][96];
    sl_svg_callout callout[2];
    int callouts;
} panel;

typedef struct panels {
    panel panel[SL_ADAPTATION_PARTS];
    sl_svg_chart chart[SL_ADAPTATION_PARTS];
    int count;
} panels;

static const char *amount(double ms, char text[32]) {
    snprintf(text, 32, fabs(ms) >= 9.95 ? "%.0f ms" : "%.2g ms", ms);
    return text;
}

static void call_out(panel *p, sl_time from, sl_time to, int is_loss) {
    p->callout[p->callouts] = (sl_svg_callout){.from = from, .to = to, .is_loss = is_loss};
    p->callout[p->callouts].text = p->text[p->callouts];
    p->callouts++;
}

/* The reason for changing the schedule or the path, else the onset or suspect; NULL: nothing is written. For
 * moved processes `seen` is the duration of the move. */
static const char *find_cause(const sl_run_data *t, const sl_adaptation *a) {
    const sl_report_stretch *s = &a->part[SL_ADAPTATION_DURING];
    const char *cause = NULL;
    if (a->change && strcmp(a->change->kind, "arrange") != 0 && a->change->seen[0])
        return a->change->seen;
    for (size_t i = 0; i < t->events; i++) {
        const sl_run_data_event *e = &t->event[i];
        const long row = sl_run_data_find(t, e->iteration);
        if (row < (long)s->first || row >= (long)s->end)
            continue;
        if (strcmp(e->kind, "onset") == 0)
            cause = e->seen;
        if (strcmp(e->kind, "suspect") == 0)
            cause = e->decided;
    }
    return cause && *cause ? cause : NULL;
}

static void add(panel *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(panel *p, const char *format, ...) {
    const size_t used = strlen(p->detail);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->detail + used, sizeof p->detail - used, format, arguments);
    va_end(arguments);
}

static void describe(const sl_run_data *t, const sl_recorded *recorded, const sl_adaptation *a,
                     sl_adaptation_part part, panel *p) {
    static const char *const names[] = {"Before: ", "During: ", "After: "};
    const sl_report_stretch *s = &a->part[part];
    const sl_run_data_iteration *row = &t->iteration[s->end - 1];
    const int alone = isnan(a->part[SL_ADAPTATION_DURING].time);
    const char *cause = part == SL_ADAPTATION_DURING ? find_cause(t, a) : NULL;
    char time[32];
    snprintf(p->title, sizeof p->title, "%s%s per iteration", alone ? "" : names[part],
             amount(s->time, time));
    if (recorded->replicas > 1)
        add(p, "replica %d: ", recorded->iteration[s->recorded].replica);
    if (cause)
        add(p, "%s", cause);
    else if (row->schedule >= 0)
        add(p, "schedule %s, bubble %.0f%%", t->name[row->schedule],
            100 * sl_timeline_bubble(&p->traced.measured));
    if (part == SL_ADAPTATION_AFTER && row->delegates > 0)
        add(p, ", delegates carry the messages");
    if (part == SL_ADAPTATION_AFTER && strcmp(a->last->kind, "arrange") == 0)
        add(p, ", %.*s", (int)strcspn(a->last->seen, ",:"), a->last->seen);
}

/* Omits updates and sums that would be specks. */
static void leave_out_short(sl_timeline *t) {
    const sl_time least = sl_timeline_makespan(t) / 50;
    int kept = 0;
    for (int i = 0; i < t->collectives; i++)
        if (t->collective[i].end - t->collective[i].start >= least)
            t->collective[kept++] = t->collective[i];
    t->collectives = kept;
}

/* The arrow ends at the iteration's end. */
static void write_cost(const sl_adaptation *a, panel *p) {
    const double cost = a->part[SL_ADAPTATION_DURING].time - a->part[SL_ADAPTATION_BEFORE].time;
    const sl_time end = sl_timeline_makespan(&p->traced.measured);
    char time[32];
    if (!(cost > 0))
        return;
    snprintf(p->text[p->callouts], sizeof p->text[0], "+%s per iteration", amount(cost, time));
    call_out(p, end > sl_from_ms(cost) ? end - sl_from_ms(cost) : 0, end, 1);
}

/* Only for one pipeline: several also wait for each other. A bound above the measured time, because earlier
 * ops took longer, is omitted. */
static sl_status write_bound(const sl_recorded *recorded, const sl_adaptation *a, panel *p) {
    sl_time bound;
    char time[32];
    if (!p->traced.has_predicted || recorded->replicas > 1)
        return SL_OK;
    SL_TRY(sl_lower_bound(&p->traced.problem, 0, &bound));
    if (sl_to_ms(bound) > a->part[SL_ADAPTATION_AFTER].time)
        return SL_OK;
    snprintf(p->text[p->callouts], sizeof p->text[0], "bound %s", amount(sl_to_ms(bound), time));
    call_out(p, bound, bound, 0);
    return SL_OK;
}

/* The arrow returns to the iteration's end. */
static void write_gain(const sl_adaptation *a, panel *p) {
    const double gain = a->part[SL_ADAPTATION_DURING].time - a->part[SL_ADAPTATION_AFTER].time,
                 cost = a->part[SL_ADAPTATION_DURING].time - a->part[SL_ADAPTATION_BEFORE].time;
    const sl_time end = sl_timeline_makespan(&p->traced.measured);
    char time[32], share[32] = "";
    if (!(gain > 0))
        return;
    if (cost > 0)
        snprintf(share, sizeof share, ", %.0f%% of the loss", 100 * gain / cost);
    snprintf(p->text[p->callouts], sizeof p->text[0], "-%s%s", amount(gain, time), share);
    call_out(p, end, end + sl_from_ms(gain), 0);
}

static sl_status make_panels(const sl_run_data *t, const sl_recorded *recorded, const sl_adaptation *a,
                             panels *all) {
    for (int k = 0; k < SL_ADAPTATION_PARTS; k++) {
        panel *p = &all->panel[all->count];
        if (a->part[k].recorded < 0)
            continue;
        all->count++;
        SL_TRY(sl_analysis_make(t, recorded, (size_t)a->part[k].recorded, &p->traced));
        describe(t, recorded, a, (sl_adaptation_part)k, p);
        if (k == SL_ADAPTATION_DURING)
            write_cost(a, p);
        if (k == SL_ADAPTATION_AFTER) {
            SL_TRY(write_bound(recorded, a, p));
            write_gain(a, p);
        }
        leave_out_short(&p->traced.measured);
    }
    return SL_OK;
}

sl_status sl_adaptation_draw(const sl_run_data *t, const sl_recorded *recorded, const sl_adaptation *a,
                             const sl_draw_style *style, FILE *out) {
    static const sl_draw_style wide = {.width = WIDTH, .font = FONT};
    panels *all;
    SL_TRY(sl_alloc(&all, 1, sizeof *all));
    sl_status status = make_panels(t, recorded, a, all);
    for (int k = 0; k < all->count; k++) {
        const panel *p = &all->panel[k];
        all->chart[k] = (sl_svg_chart){.timeline = &p->traced.measured,
                                       .title = p->title,
                                       .detail = p->detail,
                                       .callout = p->callout,
                                       .callouts = p->callouts};
    }
    if (status == SL_OK && all->count > 0)
        status = sl_draw_svg_charts(all->chart, all->count, style ? style : &wide, out);
    for (int k = 0; k < all->count; k++)
        sl_analysis_free(&all->panel[k].traced);
    sl_free(all);
    return status;
}

/* ---- the sentence ---- */

/* "the new schedule", by what changed last. */
static const char *name_of_change(const sl_run_data_event *e) {
    static const char *const names[][2] = {{"swap", "the new schedule"},
                                           {"delegate", "sending by delegates"},
                                           {"direct", "sending directly"},
                                           {"arrange", "other positions of the processes"},
                                           {"left", "leaving a host"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(e->kind, names[i][0]) == 0)
            return names[i][1];
    return "the change";
}

/* The first and the last iteration of both stretches. */
static void write_when(const sl_run_data *t, const sl_report_stretch *from, const sl_report_stretch *to,
                       FILE *out) {
    const size_t last = to->end > 0 ? to->end - 1 : 0;
    const int first = t->iteration[from->first < t->iterations ? from->first : t->iterations - 1].iteration;
    if (last < t->iterations && t->iteration[last].iteration > first)
        fprintf(out, "iterations %d to %d", first, t->iteration[last].iteration);
    else
        fprintf(out, "iteration %d", first);
}

static void write_change(const sl_run_data *t, const sl_adaptation *a, FILE *out) {
    const sl_report_stretch *during = &a->part[SL_ADAPTATION_DURING], *after = &a->part[SL_ADAPTATION_AFTER];
    const char *cause = find_cause(t, a);
    char one[32], other[32];
    fprintf(out, "%s (", cause ? cause : "An iteration took longer");
    write_when(t, during, after, out);
    fprintf(out, "); %s %s an iteration from %s to %s", name_of_change(a->last),
            after->time < during->time ? "cut" : "did not help, and brought", amount(during->time, one),
            amount(after->time, other));
}

static void write_restarts(const sl_run_data *t, FILE *out) {
    size_t restarts = 0;
    for (size_t i = 0; i < t->events; i++)
        restarts += strcmp(t->event[i].kind, "restart") == 0;
    if (restarts > 0)
        fprintf(out, "; the run was started again%s", restarts == 1 ? " once" : "");
    if (restarts > 1)
        fprintf(out, " %zu times", restarts);
    fputc('.', out);
}

int sl_adaptation_is_contradicted(const sl_adaptation *a) {
    return a->part[SL_ADAPTATION_BEFORE].time >= a->part[SL_ADAPTATION_DURING].time; /* NaN: 0 */
}

static void write_contradiction(const sl_run_data *t, const sl_adaptation *a, FILE *out) {
    const sl_report_stretch *before = &a->part[SL_ADAPTATION_BEFORE],
                            *during = &a->part[SL_ADAPTATION_DURING],
                            *after = &a->part[SL_ADAPTATION_AFTER];
    char one[32], other[32];
    fprintf(out, "No healthy time is known, so no slowdown and no cost: an iteration took %s in ",
            amount(before->time, one));
    write_when(t, before, before, out);
    fprintf(out, ", from which the healthy time was learned, and %s in ",
            amount(during->time, other));
    write_when(t, during, during, out);
    fputs(", which counted as slow", out);
    if (a->change)
        fprintf(out, "; %s brought it to %s", name_of_change(a->last), amount(after->time, one));
}

void sl_adaptation_report(const sl_run_data *t, const sl_adaptation *a, FILE *out) {
    const sl_report_stretch *before = &a->part[SL_ADAPTATION_BEFORE],
                            *during = &a->part[SL_ADAPTATION_DURING];
    char time[32];
    if (t->iterations == 0)
        return;
    if (sl_adaptation_is_contradicted(a)) {
        write_contradiction(t, a, out);
        fputc('.', out);
        return;
    }
    if (a->change) {
        write_change(t, a, out);
    } else if (!isnan(during->time)) {
        const char *cause = find_cause(t, a);
        fprintf(out, "%s (", cause ? cause : "An iteration took longer");
        write_when(t, during, during, out);
        fprintf(out, "): %s an iteration, and nothing was changed", amount(during->time, time));
    } else if (!isnan(before->time)) {
        fprintf(out, "Nothing was slow in %zu iterations: %s per iteration", t->iterations,
                amount(before->time, time));
        write_restarts(t, out);
        return;
    } else {
        return;
    }
    if (!isnan(before->time))
        fprintf(out, " (%s when all was well)", amount(before->time, time));
    fputc('.', out);
}
