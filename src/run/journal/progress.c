#include "run/journal/progress.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/pieces.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERIODS = 9, TEXT = 1024, WIDEST = 400, USED = 70 }; /* USED: the part besides the health */

struct sl_progress {
    FILE *out;
    sl_terminal terminal;
    sl_clock *clock;
    double tokens;
    int iterations;
    sl_time last; /* when the last iteration ended; 0: none has */
    sl_time period[PERIODS];
    int periods;
    int drawn;       /* a live line is at the cursor */
    char line[TEXT]; /* that line */
};

/* ---- the line ---- */

enum { PIECES = 8 };

/* "0:42", "1:03:20" */
static void put_left(sl_time left, char *text, size_t size) {
    long s = (long)((left + SL_SECOND / 2) / SL_SECOND);
    if (s >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%ld:%02ld left", s / 60, s % 60);
}

static void put_rate(double rate, char *text, size_t size) {
    if (rate >= 1e5)
        snprintf(text, size, "%.0fk tok/s", rate / 1e3);
    else if (rate >= 1e4)
        snprintf(text, size, "%.1fk tok/s", rate / 1e3);
    else
        snprintf(text, size, "%.0f tok/s", rate);
}

static int digits_of(double ms) {
    return ms < 100 ? 1 : 0;
}

/* In the order in which they are shown. */
static int fill(const sl_progress_view *v, sl_piece *p) {
    int n = 0;
    double ms = sl_to_ms(v->time), predicted = sl_to_ms(v->predicted);
    p[n] = (sl_piece){.tone = SL_TONE_BOLD, .rank = 0};
    snprintf(p[n++].text, sizeof p->text, "%d/%d", v->iteration + 1, v->iterations);
    p[n] = (sl_piece){.rank = 1};
    snprintf(p[n++].text, sizeof p->text, "loss %.4f", v->loss);
    if (v->tokens_per_s > 0) {
        p[n] = (sl_piece){.rank = 3};
        put_rate(v->tokens_per_s, p[n++].text, sizeof p->text);
    }
    p[n] = (sl_piece){.rank = 2};
    snprintf(p[n++].text, sizeof p->text, "%.*f ms", digits_of(ms), ms);
    if (v->predicted >= 0) {
        p[n] = (sl_piece){.rank = 6};
        snprintf(p[n++].text, sizeof p->text, "(plan %.*f)", digits_of(predicted), predicted);
    }
    p[n] = (sl_piece){.rank = 5};
    snprintf(p[n++].text, sizeof p->text, "%.60s", v->schedule);
    if (v->health && v->health[0]) {
        p[n] = (sl_piece){.tone = v->troubled ? SL_TONE_BAD : SL_TONE_GOOD, .rank = 4};
        snprintf(p[n++].text, sizeof p->text, "%.250s", v->health);
    }
    if (v->left >= 0) {
        p[n] = (sl_piece){.rank = 7};
        put_left(v->left, p[n++].text, sizeof p->text);
    }
    return n;
}

int sl_progress_line(const sl_progress_view *view, int width, int colour, char *text, size_t size) {
    sl_piece p[PIECES];
    return sl_pieces_line(p, fill(view, p), width, colour, text, size);
}

/* ---- a run ---- */

sl_status sl_progress_open(FILE *out, const sl_terminal *terminal, sl_clock *clock, int iterations,
                           double tokens, sl_progress **progress) {
    sl_progress *p;
    SL_TRY(sl_alloc(&p, 1, sizeof *p));
    *progress = p;
    p->out = out;
    p->clock = clock;
    p->iterations = iterations;
    p->tokens = tokens;
    if (terminal)
        p->terminal = *terminal;
    return SL_OK;
}

static void undraw(sl_progress *p) {
    if (p->drawn)
        fputs("\r\033[K", p->out);
    p->drawn = 0;
}

static void draw(sl_progress *p) {
    fprintf(p->out, "\r%s\033[K", p->line);
    p->drawn = 1;
}

void sl_progress_say(sl_progress *p, const char *format, ...) {
    va_list arguments;
    int was = p->drawn;
    undraw(p);
    va_start(arguments, format);
    vfprintf(p->out, format, arguments);
    va_end(arguments);
    fputc('\n', p->out);
    if (was)
        draw(p);
    fflush(p->out);
}

static sl_time usual_period(const sl_progress *p) {
    sl_time sorted[PERIODS];
    int count = p->periods < PERIODS ? p->periods : PERIODS;
    memcpy(sorted, p->period, sizeof sorted);
    return sl_median(sorted, count);
}

static void plain(sl_progress *p, const sl_progress_view *v, int changed) {
    if (v->iteration % 10 != 0 && v->iteration + 1 != v->iterations && !changed)
        return;
    fprintf(p->out, "iteration %4d  loss %.4f  %7.1f ms", v->iteration, v->loss, sl_to_ms(v->time));
    if (v->predicted >= 0)
        fprintf(p->out, " (predicted %.1f)", sl_to_ms(v->predicted));
    fprintf(p->out, "  %s", v->schedule);
    if (v->troubled)
        fprintf(p->out, "  %s", v->health);
    fputc('\n', p->out);
}

static int words(const sl_progress_view *v, int width, char *text, size_t size) {
    text[0] = 0;
    return v->job ? sl_health_words(v->job, v->incidents, v->incident_count, width, text, size) : 0;
}

void sl_progress_iteration(sl_progress *p, const sl_progress_view *given, int changed) {
    sl_progress_view v = *given;
    char health[256];
    sl_time now = sl_clock_now(p->clock);
    if (p->last > 0)
        p->period[p->periods++ % PERIODS] = now - p->last;
    p->last = now;
    sl_time period = usual_period(p);
    v.iterations = p->iterations;
    v.tokens_per_s = period > 0 ? p->tokens / ((double)period / 1e9) : 0;
    v.left = period > 0 ? period * (p->iterations - v.iteration - 1) : -1;
    v.health = health;
    if (p->terminal.columns == 0) {
        v.troubled = words(&v, 120, health, sizeof health);
        plain(p, &v, changed);
    } else {
        /* the last column stays free: some terminals wrap after it */
        int columns = sl_terminal_columns(&p->terminal), width = columns < WIDEST ? columns - 1 : WIDEST;
        int room = width < 2 * USED ? width / 2 : width - USED;
        v.troubled = words(&v, room, health, sizeof health);
        sl_progress_line(&v, width, p->terminal.colour, p->line, sizeof p->line);
        draw(p);
    }
    fflush(p->out);
}

void sl_progress_end(sl_progress *p) {
    if (p && p->drawn)
        fputc('\n', p->out);
    if (p)
        p->drawn = 0;
    if (p)
        fflush(p->out);
}

void sl_progress_close(sl_progress *p) {
    if (!p)
        return;
    sl_progress_end(p);
    sl_free(p);
}

enum { NAMED = 4, NARROW = 50 }; /* links that are named; width in which one is */

typedef struct text_list {
    char *text;
    size_t size, used, width;
    int full;
} text_list;

/* All of it or nothing. */
static void add(text_list *w, const char *piece) {
    size_t length = strlen(piece);
    if (w->full || w->used + length >= w->size || w->used + length > w->width) {
        w->full = 1;
        return;
    }
    memcpy(w->text + w->used, piece, length + 1);
    w->used += length;
}

static int is_device(const sl_incident_view *i) {
    return i->part.kind == SL_PART_DEVICE;
}

static void name_link(const sl_job *job, const sl_incident_view *i, const char *before, char *piece,
                      size_t size) {
    double ms = i->growth / SL_MS;
    int a = i->part.a >= 0 ? sl_job_rank(job, i->part.a) : -1,
        b = i->part.b >= 0 ? sl_job_rank(job, i->part.b) : -1;
    char name[40];
    if (i->stage >= 0)
        snprintf(name, sizeof name, "sum of stage %d", i->stage);
    else if (b < 0)
        snprintf(name, sizeof name, "all of rank %d", a);
    else
        snprintf(name, sizeof name, "%d-%d", a < b ? a : b, a < b ? b : a);
    snprintf(piece, size, "%s%s +%.*f ms", before, name, fabs(ms) < 10 ? 1 : 0, ms);
}

static void add_links(const sl_job *job, const sl_incident_view *incident, int count, int slow,
                      text_list *w) {
    char piece[96];
    int most = w->width < NARROW ? 1 : NAMED, named = 0;
    if (job->ranks * job->replicas == 1)
        return;
    if (!slow)
        add(w, "links ok");
    for (int i = 0; i < count && named < most; i++) {
        if (is_device(&incident[i]))
            continue;
        name_link(job, &incident[i], named++ ? ", " : "links ", piece, sizeof piece);
        add(w, piece);
    }
    if (slow <= most)
        return;
    snprintf(piece, sizeof piece, ", %d more slow", slow - most);
    add(w, piece);
}

static void add_ranks(const sl_job *job, const sl_incident_view *incident, int count, int slow,
                      text_list *w) {
    char piece[64];
    const char *before = w->used > 0 ? "; " : "";
    const sl_incident_view *worst = NULL;
    for (int i = 0; i < count; i++)
        if (is_device(&incident[i]) && (!worst || incident[i].growth > worst->growth))
            worst = &incident[i];
    if (!worst)
        snprintf(piece, sizeof piece, "%sranks ok", before);
    else if (slow == 1)
        snprintf(piece, sizeof piece, "%srank %d x%.2g", before, sl_job_rank(job, worst->part.a),
                 worst->growth);
    else
        snprintf(piece, sizeof piece, "%srank %d x%.2g, %d more slow", before,
                 sl_job_rank(job, worst->part.a), worst->growth, slow - 1);
    add(w, piece);
}

int sl_health_words(const sl_job *job, const sl_incident_view *incident, int count, int width, char *text,
                    size_t size) {
    text_list w = {.text = text, .size = size, .width = width > 0 ? (size_t)width : 0};
    int ranks = 0;
    if (size > 0)
        text[0] = 0;
    for (int i = 0; i < count; i++)
        ranks += is_device(&incident[i]);
    add_links(job, incident, count, count - ranks, &w);
    add_ranks(job, incident, count, ranks, &w);
    return count > 0;
}
