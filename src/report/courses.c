#include "report/courses.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "report/downsample.h"
#include "report/gain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- marks ---- */

int sl_marks_has(const sl_run_data_event *e) {
    static const char *const kinds[] = {"fault",   "onset",  "relief",  "suspect",  "verdict", "decision",
                                        "restart", "failed", "resumed", "replaced", "rail",    "host",
                                        "leave",   "layout", "warned",  NULL};
    for (int i = 0; kinds[i]; i++)
        if (strcmp(e->kind, kinds[i]) == 0)
            return 1;
    return sl_gain_is_change(e);
}

/* The word of an event above its line. */
static const char *word_of(const sl_run_data_event *e) {
    return strcmp(e->kind, "fault") == 0 && strcmp(e->decided, "removed") == 0 ? "fault ends" : e->kind;
}

/* Whether a word, or several that belong together, is one of a list with commas. */
static int has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; at && *at; at = strchr(at, ',')) {
        at += *at == ',' ? 2 : 0;
        if (strncmp(at, word, length) == 0 && (at[length] == 0 || at[length] == ','))
            return 1;
    }
    return 0;
}

/* Adds a word that is not there yet. */
static void add_word(char *words, size_t size, const char *word) {
    const size_t used = strlen(words);
    if (!has_word(words, word))
        snprintf(words + used, size - used, "%s%s", used ? ", " : "", word);
}

/* Its changes first: they are what a narrow picture has room for. */
static void name_events(const sl_run_data *t, size_t from, size_t to, char *words, size_t size) {
    *words = 0;
    for (int changes = 1; changes >= 0; changes--)
        for (size_t i = from; i < to; i++)
            if (sl_marks_has(&t->event[i]) && (sl_gain_is_change(&t->event[i]) != 0) == changes)
                add_word(words, size, word_of(&t->event[i]));
}

static sl_status describe(const sl_run_data *t, size_t from, size_t to, sl_marks *m) {
    size_t size;
    char *text, sign[48];
    int change = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the marks");
    fprintf(out, "iteration %d:", t->event[from].iteration);
    for (size_t i = from; i < to; i++) {
        const sl_run_data_event *e = &t->event[i];
        if (!sl_marks_has(e))
            continue;
        change |= sl_gain_is_change(e);
        fprintf(out, " %zu. %s%s%s%s%s;", i + 1, e->kind, *e->where ? ", " : "", e->where,
                *e->decided ? ": " : "", e->decided);
    }
    if (fclose(out) != 0)
        return sl_error(SL_ENOMEM, "out of memory for the marks");
    name_events(t, from, to, sign, sizeof sign);
    sl_status status = sl_copy_text(&m->text[2 * m->count], sign);
    SL_THEN(status, sl_copy_text(&m->text[2 * m->count + 1], text));
    free(text);
    SL_TRY(status);
    m->mark[m->count] = (sl_chart_mark){.x = t->event[from].iteration,
                                        .sign = m->text[2 * m->count],
                                        .text = m->text[2 * m->count + 1],
                                        .is_change = change};
    m->count++;
    return SL_OK;
}

static int compare_marks(const void *a, const void *b) {
    const sl_chart_mark *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

sl_status sl_marks_make(const sl_run_data *t, sl_marks *m) {
    *m = (sl_marks){0};
    SL_TRY(sl_alloc(&m->mark, t->events, sizeof *m->mark));
    SL_TRY(sl_alloc(&m->text, 2 * t->events, sizeof *m->text));
    for (size_t i = 0; i < t->events;) {
        if (!sl_marks_has(&t->event[i])) {
            i++;
            continue;
        }
        size_t to = i + 1;
        while (to < t->events && t->event[to].iteration == t->event[i].iteration)
            to++;
        SL_TRY(describe(t, i, to, m));
        i = to;
    }
    if (m->count > 0)
        qsort(m->mark, (size_t)m->count, sizeof *m->mark, compare_marks);
    return SL_OK;
}

void sl_marks_free(sl_marks *m) {
    for (int i = 0; m->text && i < 2 * m->count; i++)
        sl_free(m->text[i]);
    SL_FREE(m->text, m->mark);
    *m = (sl_marks){0};
}

/* ---- one chart ---- */

/* Columns over the same points; names and columns are the caller's. */
typedef struct table {
    const char *title, *y_label;
    int is_time; /* from 0, without outliers */
    size_t points;
    const int *iteration; /* [points] ascending */
    int columns;          /* at most SL_COURSE_LINES */
    const char *name[SL_COURSE_LINES];
    double *column[SL_COURSE_LINES]; /* [points]; NaN: no value */
} table;

/* Keeps peaks of any column: thinning uses the largest value. */
static sl_status choose(const table *t, size_t *index, size_t *kept) {
    double *most;
    SL_TRY(sl_alloc(&most, t->points, sizeof *most));
    for (size_t i = 0; i < t->points; i++) {
        most[i] = t->column[0][i];
        for (int k = 1; k < t->columns; k++)
            most[i] = fmax(most[i], t->column[k][i]);
    }
    *kept = sl_downsample(most, t->points, SL_COURSE_POINTS, index);
    sl_free(most);
    return SL_OK;
}

typedef char label[48];

static void take(const table *t, const size_t *index, size_t kept, double *x, double *y, label *text,
                 const char **labels) {
    for (size_t i = 0; i < kept; i++) {
        x[i] = t->iteration[index[i]];
        snprintf(text[i], sizeof text[i], "iteration %d", t->iteration[index[i]]);
        labels[i] = text[i];
        for (int k = 0; k < t->columns; k++)
            y[(size_t)k * kept + i] = t->column[k][index[i]];
    }
}

static sl_status draw(const table *t, const sl_marks *marks, const sl_draw_style *style, FILE *out,
                      size_t *thinned) {
    size_t *index, kept = 0;
    double *x = NULL, *y = NULL;
    label *text = NULL;
    const char **labels = NULL;
    sl_chart_line series[SL_COURSE_LINES];
    sl_status status;
    SL_TRY(sl_alloc(&index, t->points, sizeof *index));
    SL_TRY_GOTO(done, status, choose(t, index, &kept));
    SL_TRY_GOTO(done, status, sl_alloc(&x, kept, sizeof *x));
    SL_TRY_GOTO(done, status, sl_alloc(&y, kept * (size_t)t->columns, sizeof *y));
    SL_TRY_GOTO(done, status, sl_alloc(&text, kept, sizeof *text));
    SL_TRY_GOTO(done, status, sl_alloc(&labels, kept, sizeof *labels));
    take(t, index, kept, x, y, text, labels);
    for (int k = 0; k < t->columns; k++)
        series[k] = (sl_chart_line){.name = t->name[k], .y = y + (size_t)k * kept};
    *thinned = kept < t->points ? kept : 0;
    status = sl_draw_chart(&(sl_chart){.title = t->title,
                                       .x_label = "iteration",
                                       .y_label = t->y_label,
                                       .points = (int)kept,
                                       .x = x,
                                       .x_is_whole = 1,
                                       .label = labels,
                                       .count = t->columns,
                                       .series = series,
                                       .marks = marks->count,
                                       .mark = marks->mark,
                                       .from_zero = 1,
                                       .cuts_rare = t->is_time,
                                       .style = style},
                           out);
done:
    SL_FREE(index, x, y, text, labels);
    return status;
}

static int has_values(const double *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(y[i]))
            return 1;
    return 0;
}

/* ---- iteration time and loss ---- */

typedef double (*sl_run_data_value)(const sl_run_data_iteration *it);

/* clang-format off */
static double measured_time(const sl_run_data_iteration *it) { return it->time; }
static double predicted_time(const sl_run_data_iteration *it) { return it->predicted; }
static double training_loss(const sl_run_data_iteration *it) { return it->loss; }
static double validation_loss(const sl_run_data_iteration *it) { return it->validation; }
/* clang-format on */

static sl_status draw_pair(const sl_run_data *data, table *t, sl_run_data_value first,
                           sl_run_data_value second, const sl_marks *marks, const sl_draw_style *style,
                           FILE *out, size_t *drawn) {
    const sl_run_data_value value[2] = {first, second};
    double *column[2] = {NULL, NULL};
    int *iteration = NULL;
    sl_status status;
    *drawn = 0;
    SL_TRY_GOTO(done, status, sl_alloc(&iteration, data->iterations, sizeof *iteration));
    for (int k = 0; k < 2; k++)
        SL_TRY_GOTO(done, status, sl_alloc(&column[k], data->iterations, sizeof **column));
    for (size_t i = 0; i < data->iterations; i++) {
        iteration[i] = data->iteration[i].iteration;
        for (int k = 0; k < 2; k++)
            column[k][i] = value[k](&data->iteration[i]);
    }
    t->points = data->iterations;
    t->iteration = iteration;
    t->column[0] = column[0];
    t->column[1] = column[1];
    t->columns = has_values(column[1], data->iterations) ? 2 : 1;
    if (has_values(column[0], data->iterations))
        status = draw(t, marks, style, out, drawn);
done:
    SL_FREE(iteration, column[0], column[1]);
    return status;
}

sl_status sl_course_time(const sl_run_data *data, const sl_marks *marks, const sl_draw_style *style,
                         FILE *out, size_t *drawn) {
    table t = {.title = "Iteration time", .y_label = "ms", .is_time = 1, .name = {"measured", "predicted"}};
    return draw_pair(data, &t, measured_time, predicted_time, marks, style, out, drawn);
}

sl_status sl_course_loss(const sl_run_data *data, const sl_marks *marks, const sl_draw_style *style,
                         FILE *out, size_t *drawn) {
    table t = {.title = "Loss", .y_label = "nats per token", .name = {"training", "validation"}};
    return draw_pair(data, &t, training_loss, validation_loss, marks, style, out, drawn);
}

/* ---- links and devices ---- */

/* A value of one course at one point; sorted by course, then point. */
typedef struct value {
    int32_t course, point;
    double y;
} value;

static int compare_values(const void *a, const void *b) {
    const value *x = a, *y = b;
    return x->course != y->course ? (x->course < y->course ? -1 : 1)
           : x->point < y->point  ? -1
                                  : x->point > y->point;
}

static sl_status sum_up(const value *v, size_t count, const int *iteration, sl_course *c) {
    double *values;
    SL_TRY(sl_alloc(&values, count, sizeof *values));
    c->count = count;
    c->worst = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        values[i] = v[i].y;
        if (v[i].y > c->worst) {
            c->worst = v[i].y;
            c->worst_at = iteration[v[i].point];
        }
        c->last = v[i].y;
    }
    c->middle = sl_median_of_numbers(values, (int)count);
    sl_free(values);
    return SL_OK;
}

/* The start of each course's values, to find them after the courses are sorted. */
typedef struct ranked {
    sl_course course;
    size_t first;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return x->course.worst != y->course.worst ? (x->course.worst > y->course.worst ? -1 : 1)
           : x->first < y->first              ? -1
                                              : x->first > y->first;
}

static sl_status rank(const value *v, size_t values, const int *iteration, const label *name, ranked *r,
                      size_t *count) {
    *count = 0;
    for (size_t i = 0; i < values;) {
        size_t end = i;
        while (end < values && v[end].course == v[i].course)
            end++;
        ranked *one = &r[(*count)++];
        *one = (ranked){.first = i};
        snprintf(one->course.name, sizeof one->course.name, "%s", name[v[i].course]);
        SL_TRY(sum_up(v + i, end - i, iteration, &one->course));
        i = end;
    }
    qsort(r, *count, sizeof *r, compare_ranked);
    return SL_OK;
}

static sl_status draw_worst(table *t, const value *v, const ranked *r, size_t count, const sl_marks *marks,
                            const sl_draw_style *style, FILE *out, size_t *thinned) {
    sl_status status;
    t->columns = count < SL_COURSE_LINES ? (int)count : SL_COURSE_LINES;
    for (int k = 0; k < t->columns; k++) {
        t->name[k] = r[k].course.name;
        SL_TRY_GOTO(done, status, sl_alloc(&t->column[k], t->points, sizeof **t->column));
        for (size_t i = 0; i < t->points; i++)
            t->column[k][i] = NAN;
        for (size_t i = 0; i < r[k].course.count; i++)
            t->column[k][v[r[k].first + i].point] = v[r[k].first + i].y;
    }
    status = draw(t, marks, style, out, thinned);
done:
    for (int k = 0; k < t->columns; k++)
        sl_free(t->column[k]);
    return status;
}

/* Sorts `v`. `names`: of the courses, by number. */
static sl_status draw_courses(table *t, value *v, size_t values, const label *names, size_t most,
                              const sl_marks *marks, const sl_draw_style *style, FILE *out,
                              sl_courses *courses) {
    ranked *r;
    size_t count = 0;
    sl_status status;
    if (values == 0)
        return SL_OK;
    qsort(v, values, sizeof *v, compare_values);
    SL_TRY(sl_alloc(&r, most, sizeof *r));
    SL_TRY_GOTO(done, status, rank(v, values, t->iteration, names, r, &count));
    SL_TRY_GOTO(done, status, draw_worst(t, v, r, count, marks, style, out, &courses->thinned));
    SL_TRY_GOTO(done, status, sl_alloc(&courses->course, count, sizeof *courses->course));
    for (size_t i = 0; i < count; i++)
        courses->course[i] = r[i].course;
    courses->count = count;
done:
    sl_free(r);
    return status;
}

void sl_courses_free(sl_courses *c) {
    sl_free(c->course);
    *c = (sl_courses){0};
}

static void name_link(const sl_run_data_link *link, label text) {
    char replica[24] = "";
    if (link->replica >= 0)
        snprintf(replica, sizeof replica, " (replica %d)", link->replica % 100000);
    snprintf(text, sizeof(label), "%d -> %d%s", link->from % 10000, link->to % 10000, replica);
}

/* Points are the iterations in which any link was measured: a line joins the values on both sides of others.
 */
static size_t number_measured(const sl_run_data *data, int *iteration, int32_t *point) {
    size_t points = 0;
    for (size_t i = 0; i < data->samples; i++)
        point[data->sample[i].row] = 1;
    for (size_t i = 0; i < data->iterations; i++)
        if (point[i]) {
            iteration[points] = data->iteration[i].iteration;
            point[i] = (int32_t)points++;
        }
    return points;
}

sl_status sl_course_links(const sl_run_data *data, const sl_marks *marks, const sl_draw_style *style,
                          FILE *out, sl_courses *courses) {
    table t = {.title = "Links: latency and transfer of a message", .y_label = "ms", .is_time = 1};
    int *iteration = NULL;
    int32_t *point = NULL;
    value *v = NULL;
    label *names = NULL;
    sl_status status;
    *courses = (sl_courses){0};
    SL_TRY_GOTO(done, status, sl_alloc(&iteration, data->iterations, sizeof *iteration));
    SL_TRY_GOTO(done, status, sl_alloc(&point, data->iterations, sizeof *point));
    SL_TRY_GOTO(done, status, sl_alloc(&v, data->samples, sizeof *v));
    SL_TRY_GOTO(done, status, sl_alloc(&names, data->links, sizeof *names));
    t.points = number_measured(data, iteration, point);
    for (size_t i = 0; i < data->samples; i++)
        v[i] = (value){data->sample[i].link, point[data->sample[i].row],
                       (double)data->sample[i].latency + (double)data->sample[i].transfer};
    for (size_t i = 0; i < data->links; i++)
        name_link(&data->link[i], names[i]);
    t.iteration = iteration;
    status = draw_courses(&t, v, data->samples, names, data->links, marks, style, out, courses);
done:
    SL_FREE(iteration, point, v, names);
    return status;
}

/* Points are the iterations that any replica recorded. */
static size_t number_points(const sl_recorded *r, int *iteration, int32_t *point) {
    size_t points = 0;
    for (size_t i = 0; i < r->iterations; i++) {
        if (points == 0 || iteration[points - 1] != r->iteration[i].iteration)
            iteration[points++] = r->iteration[i].iteration;
        point[i] = (int32_t)points - 1;
    }
    return points;
}

/* Each rank's op time per microbatch; microbatches are counted by the F of one of its stages. */
static size_t measure_ranks(const sl_recorded *r, const int32_t *point, value *v) {
    size_t values = 0;
    for (size_t i = 0; i < r->iterations; i++) {
        const sl_recorded_event *e = r->event + r->iteration[i].first, *end = e + r->iteration[i].count;
        while (e < end && e->track == 0) {
            const sl_recorded_event *first = e;
            sl_time work = 0;
            int microbatches = 0;
            for (; e < end && e->track == 0 && e->rank == first->rank; e++) {
                work += e->end - e->start;
                microbatches += e->op.kind == SL_F && e->op.stage == first->op.stage;
            }
            if (microbatches > 0)
                v[values++] =
                    (value){first->replica * r->ranks + first->rank, point[i], sl_to_ms(work) / microbatches};
        }
    }
    return values;
}

sl_status sl_course_devices(const sl_recorded *r, const sl_marks *marks, const sl_draw_style *style,
                            FILE *out, sl_courses *courses) {
    table t = {.title = "Devices: compute time of a microbatch, by rank", .y_label = "ms", .is_time = 1};
    const size_t replicas = r->replicas > 0 ? (size_t)r->replicas : 1, ranks = (size_t)r->ranks * replicas;
    int *iteration = NULL;
    int32_t *point = NULL;
    value *v = NULL; /* every value comes from at least one op */
    label *names = NULL;
    sl_status status;
    *courses = (sl_courses){0};
    SL_TRY_GOTO(done, status, sl_alloc(&iteration, r->iterations, sizeof *iteration));
    SL_TRY_GOTO(done, status, sl_alloc(&point, r->iterations, sizeof *point));
    SL_TRY_GOTO(done, status, sl_alloc(&v, r->events, sizeof *v));
    SL_TRY_GOTO(done, status, sl_alloc(&names, ranks, sizeof *names));
    for (size_t i = 0; i < ranks; i++)
        if (replicas > 1)
            snprintf(names[i], sizeof names[i], "rank %d (replica %d)", (int)(i % (size_t)r->ranks),
                     (int)(i / (size_t)r->ranks));
        else
            snprintf(names[i], sizeof names[i], "rank %d", (int)i);
    t.points = number_points(r, iteration, point);
    t.iteration = iteration;
    status = draw_courses(&t, v, measure_ranks(r, point, v), names, ranks, marks, style, out, courses);
done:
    SL_FREE(iteration, point, v, names);
    return status;
}
