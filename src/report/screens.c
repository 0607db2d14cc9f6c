#include "report/screens.h"
#include "base/memory.h"
#include "plan/draw/cast.h"
#include "plan/draw/gantt_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 30, NEWS = 2, MARGIN = 10, HEIGHT = 7, MAX_LINE = 500 };

/* ---- lines ---- */

static void put_line(const sl_screens *s, FILE *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Cut at the width, with dots. */
static void put_line(const sl_screens *s, FILE *out, const char *format, ...) {
    char text[MAX_LINE + 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const int is_cut = strlen(text) > (size_t)s->columns;
    fprintf(out, "%.*s%s%s", is_cut ? s->columns - 3 : MAX_LINE, text, is_cut ? "..." : "", s->end);
}

/* Lines that end after words. */
static void put_wrapped(const sl_screens *s, const char *text, FILE *out) {
    while (*text) {
        size_t length = strlen(text);
        if (length > (size_t)s->columns)
            for (length = (size_t)s->columns; length > 1 && text[length] != ' ';)
                length--;
        fprintf(out, "%.*s%s", (int)length, text, s->end);
        text += length;
        text += strspn(text, " ");
    }
}

int sl_screens_has_event(const sl_run_data_event *e) {
    static const char *const kinds[] = {"fault", "onset", "swap", "relief", "return"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(e->kind, kinds[i]) == 0)
            return 1;
    return 0;
}

void sl_screens_event(const sl_screens *s, const sl_run_data_event *e, FILE *out) {
    const char *text = e->decided[0] ? e->decided : e->seen;
    const int is_named = !e->where[0] || strstr(text, e->where) != NULL;
    put_line(s, out, "iteration %d: %s%s%s, %s", e->iteration, e->kind, is_named ? "" : " of ",
             is_named ? "" : e->where, text);
}

/* The newest of them last; as many lines whether there are any or not, so that nothing jumps. */
static void put_news(const sl_screens *s, const sl_run_data *data, int iteration, FILE *out) {
    const sl_run_data_event *news[NEWS] = {NULL};
    for (size_t i = 0; i < data->events && data->event[i].iteration <= iteration; i++)
        if (sl_screens_has_event(&data->event[i])) {
            memmove(news, news + 1, sizeof news - sizeof *news);
            news[NEWS - 1] = &data->event[i];
        }
    for (int i = 0; i < NEWS; i++)
        if (news[i])
            sl_screens_event(s, news[i], out);
        else
            fputs(s->end, out);
}

/* ---- an iteration op by op ---- */

/* The time of a chart. */
static sl_time length_of(const sl_timeline *t) {
    sl_time begin = SL_TIME_NEVER, end = 0;
    for (int i = 0; i < t->spans + t->collectives; i++) {
        const sl_span *span = i < t->spans ? &t->span[i] : &t->collective[i - t->spans];
        begin = span->start < begin ? span->start : begin;
        end = span->end > end ? span->end : end;
    }
    return end > begin ? end - begin : 0;
}

/* Updates and sums that would only be specks are left out. */
static void leave_out_specks(sl_timeline *t) {
    const sl_time least = length_of(t) / 50;
    int kept = 0;
    for (int i = 0; i < t->collectives; i++)
        if (t->collective[i].end - t->collective[i].start >= least)
            t->collective[kept++] = t->collective[i];
    t->collectives = kept;
}

static sl_status put_chart(const sl_screens *s, const sl_recorded *recorded, size_t index, FILE *out) {
    sl_timeline timeline = {0};
    char *text = NULL, *rest = NULL;
    size_t size;
    sl_status status = sl_recorded_timeline(recorded, index, &timeline);
    FILE *memory = status == SL_OK ? open_memstream(&text, &size) : NULL;
    if (status == SL_OK && !memory)
        status = sl_error(SL_ENOMEM, "out of memory for the chart");
    if (memory) {
        leave_out_specks(&timeline);
        const double share = s->widest > 0 ? (double)length_of(&timeline) / (double)s->widest : 1;
        const sl_text_options options = {.width = MARGIN +
                                                  (int)lrint((s->columns - MARGIN) * (share < 1 ? share : 1)),
                                         .colour = s->colour};
        status = sl_draw_text(&timeline, &options, memory);
        if (fclose(memory) != 0 && status == SL_OK)
            status = sl_error(SL_ENOMEM, "out of memory for the chart");
        for (char *line = strtok_r(text, "\n", &rest); line && status == SL_OK;
             line = strtok_r(NULL, "\n", &rest))
            fprintf(out, "%s%s", line, s->end);
    }
    free(text);
    sl_timeline_free(&timeline);
    return status;
}

sl_status sl_screens_widest(const sl_recorded *recorded, sl_time *widest) {
    *widest = 0;
    for (size_t i = 0; i < recorded->iterations; i++) {
        sl_timeline timeline = {0};
        if (recorded->iteration[i].iteration == 0 && recorded->iterations > 1)
            continue;
        sl_status status = sl_recorded_timeline(recorded, i, &timeline);
        const sl_time length = status == SL_OK ? length_of(&timeline) : 0;
        *widest = length > *widest ? length : *widest;
        sl_timeline_free(&timeline);
        SL_TRY(status);
    }
    return SL_OK;
}

/* ---- the iterations so far ---- */

/* The slowest iteration after the first, which is cold. */
static double slowest(const sl_run_data *data) {
    double most = 0;
    for (size_t i = data->iterations > 1; i < data->iterations; i++)
        most = data->iteration[i].time > most ? data->iteration[i].time : most;
    return most;
}

/* Green when healthy, red when slow, yellow once the run has answered. */
static const char *colour_of(const sl_run_data *data, size_t row) {
    const char *phase = data->iteration[row].phase < 0 ? "healthy" : data->name[data->iteration[row].phase];
    return strcmp(phase, "healthy") == 0 ? "\033[30;42m"
           : strcmp(phase, "slow") == 0  ? "\033[97;41m"
                                         : "\033[30;43m";
}

/* A bar per iteration up to `last`, from zero; several share one if the screen is too narrow. */
static void put_history(const sl_screens *s, const sl_run_data *data, size_t last, FILE *out) {
    const double most = slowest(data);
    const size_t share = ((size_t)s->iterations - 1) / (size_t)(s->columns - MARGIN) + 1;
    for (int level = HEIGHT - 1; level >= 0 && most > 0; level--) {
        char label[32] = "";
        if (level == HEIGHT - 1)
            snprintf(label, sizeof label, "%.0f ms", most);
        else if (level == 0)
            snprintf(label, sizeof label, "0 ms");
        fprintf(out, "%-*s", MARGIN, label);
        for (size_t row = 0; row <= last; row += share) {
            const int is_high = data->iteration[row].time / most * HEIGHT >= level + 0.5;
            fprintf(out, "%s%c%s", is_high && s->colour ? colour_of(data, row) : "",
                    is_high && !s->colour ? '#' : ' ', is_high && s->colour ? "\033[0m" : "");
        }
        fputs(s->end, out);
    }
    put_line(s, out, "%-*sthe time of each iteration so far", MARGIN, "");
}

/* ---- screens ---- */

sl_status sl_screens_iteration(const sl_screens *s, const sl_run_data *data, const sl_recorded *recorded,
                               size_t row, long index, FILE *out) {
    static const char full[] = "##############################", none[] = "..............................";
    const sl_run_data_iteration *last = &data->iteration[row];
    const int all = s->iterations > last->iteration ? s->iterations : last->iteration + 1,
              done = (last->iteration + 1) * BAR / all;
    if (s->title)
        put_line(s, out, "%s", s->title);
    put_line(s, out, "iteration %2d of %d  %.*s%.*s  %.0f ms, schedule %s", last->iteration + 1, all, done,
             full, BAR - done, none, last->time, last->schedule >= 0 ? data->name[last->schedule] : "");
    put_news(s, data, last->iteration, out);
    fputs(s->end, out);
    put_history(s, data, row, out);
    if (index < 0)
        return SL_OK;
    fputs(s->end, out);
    put_line(s, out, "iteration %d, F forward, I and W backward, then the microbatch:",
             recorded->iteration[index].iteration);
    return put_chart(s, recorded, (size_t)index, out);
}

static sl_status put_answer(const sl_screens *s, const sl_run_data *data, const sl_adaptation *adaptation,
                            FILE *out) {
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (memory) {
        sl_adaptation_report(data, adaptation, memory);
        if (fclose(memory) == 0) {
            put_wrapped(s, text, out);
            free(text);
            return SL_OK;
        }
    }
    free(text);
    return sl_error(SL_ENOMEM, "out of memory for the answer");
}

sl_status sl_screens_result(const sl_screens *s, const sl_run_data *data, const sl_recorded *recorded,
                            const sl_adaptation *adaptation, FILE *out) {
    const char *names[] = {"before", "while it is slow", "after the change"};
    const double during = adaptation->part[SL_ADAPTATION_DURING].time;
    double before = adaptation->part[SL_ADAPTATION_BEFORE].time;
    if (sl_adaptation_is_contradicted(adaptation)) {
        names[SL_ADAPTATION_DURING] = "counted as slow";
        before = NAN;
    }
    for (int k = 0; k < SL_ADAPTATION_PARTS; k++) {
        const sl_report_stretch *part = &adaptation->part[k];
        const double change = k == SL_ADAPTATION_DURING ? part->time - before : part->time - during;
        char text[48] = "";
        if (part->recorded < 0)
            continue;
        if (k != SL_ADAPTATION_BEFORE && !isnan(change))
            snprintf(text, sizeof text, ", %+.0f ms", change);
        put_line(s, out, "%s: %.0f ms per iteration%s", names[k], part->time, text);
        SL_TRY(put_chart(s, recorded, (size_t)part->recorded, out));
        fputs(s->is_tight ? "" : s->end, out);
    }
    return put_answer(s, data, adaptation, out);
}

/* ---- the recording ---- */

enum { COLUMNS = 120, SCREENS = 40, MAX_RANKS = 16 };
#define PLAYS (14.0 * SL_SECOND)
#define RESULT (8 * SL_SECOND)

typedef struct recording {
    sl_cast_screen screen[SCREENS + 2];
    int count;
} recording;

/* Opens the next screen's text. */
static FILE *open_screen(recording *r, size_t *size) {
    return open_memstream(&r->screen[r->count].text, size);
}

static sl_status close_screen(recording *r, FILE *out, sl_status status, sl_time shown) {
    if (fclose(out) != 0 && status == SL_OK)
        status = sl_error(SL_ENOMEM, "out of memory for the recording");
    r->screen[r->count++].shown = shown;
    return status;
}

/* Every so many rows become a screen, which is shown as long as they took, in proportion. */
static sl_status record_rows(recording *r, const sl_screens *s, const sl_run_data *data,
                             const sl_recorded *recorded, double speed) {
    const size_t step = (data->iterations + SCREENS - 1) / SCREENS;
    double took = 0;
    for (size_t row = 0; row < data->iterations; row++) {
        size_t size;
        const double ms = data->iteration[row].time;
        took += isnan(ms) ? 0 : ms;
        if ((row + 1) % step != 0 && row + 1 < data->iterations)
            continue;
        FILE *out = open_screen(r, &size);
        if (!out)
            return sl_error(SL_ENOMEM, "out of memory for the recording");
        SL_TRY(close_screen(
            r, out,
            sl_screens_iteration(s, data, recorded, row,
                                 sl_recorded_find(recorded, data->iteration[row].iteration, 0), out),
            sl_from_ms(took / speed) + 1));
        took = 0;
    }
    return SL_OK;
}

static sl_status record_result(recording *r, const sl_screens *s, const sl_run_data *data,
                               const sl_recorded *recorded, const sl_adaptation *adaptation) {
    size_t size;
    FILE *out = open_screen(r, &size);
    if (!out)
        return sl_error(SL_ENOMEM, "out of memory for the recording");
    return close_screen(r, out, sl_screens_result(s, data, recorded, adaptation, out), RESULT);
}

sl_status sl_screens_record(const sl_run_data *data, const sl_recorded *recorded,
                            const sl_adaptation *adaptation, FILE *out) {
    double took = 0;
    for (size_t row = 0; row < data->iterations; row++)
        took += isnan(data->iteration[row].time) ? 0 : data->iteration[row].time;
    if (recorded->iterations < 2 || recorded->ranks > MAX_RANKS || !(took > 0))
        return SL_OK;
    const double speed = took / sl_to_ms((sl_time)PLAYS);
    char title[160];
    snprintf(title, sizeof title, "%.100s, %.2g times as fast as it ran", data->title, speed);
    sl_screens s = {
        .title = title, .end = "\n", .columns = COLUMNS, .colour = 1, .iterations = (int)data->iterations};
    recording *r;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    sl_status status = sl_screens_widest(recorded, &s.widest);
    SL_THEN(status, record_rows(r, &s, data, recorded, speed));
    SL_THEN(status, record_result(r, &s, data, recorded, adaptation));
    SL_THEN(status, sl_draw_cast(r->screen, r->count, COLUMNS, out));
    for (int i = 0; i < SCREENS + 2; i++)
        free(r->screen[i].text);
    sl_free(r);
    return status;
}
