#include "notice/watch/view.h"
#include "base/pieces.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define DRAW_EVERY (250 * SL_MS)
enum { PIECES = 7, WIDEST = 400 };

void sl_view_open(sl_view *v, FILE *out) {
    *v = (sl_view){.out = out};
    sl_terminal_of(fileno(out), &v->terminal);
}

static void list(const char *what, const sl_suspect *suspect, int count, char *text, size_t size) {
    char name[64];
    size_t used = (size_t)snprintf(text, size, "%s ", what);
    for (int i = 0; i < count && used + 80 < size; i++) {
        sl_suspect_name(&suspect[i], name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", name);
    }
}

int sl_view_line(const sl_status_view *s, const char *advice, int width, int colour, char *text,
                 size_t size) {
    sl_piece p[PIECES];
    int n = 0;
    double healthy = s->healthy_ms > 0 ? s->healthy_ms : s->level_ms;
    if (s->iteration >= 0) {
        p[n] = (sl_piece){.tone = SL_TONE_BOLD, .rank = 0};
        snprintf(p[n++].text, sizeof p->text, "iteration %" PRId64, s->iteration);
        p[n] = (sl_piece){.rank = 1};
        snprintf(p[n++].text, sizeof p->text, "%.*f ms", s->time_ms < 100 ? 2 : 0, s->time_ms);
    }
    if (s->iteration >= 0 && healthy > 0) {
        p[n] = (sl_piece){.rank = 4};
        snprintf(p[n++].text, sizeof p->text, "(healthy %.*f)", healthy < 100 ? 2 : 0, healthy);
    }
    p[n] = (sl_piece){.tone = s->slow ? SL_TONE_BAD : SL_TONE_GOOD, .rank = 2};
    snprintf(p[n++].text, sizeof p->text, "%s%s", s->slow ? "slow, " : "", sl_watch_phase_name(s->phase));
    if (s->verdicts > 0 || s->suspects > 0) {
        p[n] = (sl_piece){.tone = SL_TONE_BAD, .rank = 3};
        if (s->verdicts > 0)
            list("verdict:", s->verdict, s->verdicts, p[n].text, sizeof p->text);
        else
            list("suspect:", s->suspect, s->suspects, p[n].text, sizeof p->text);
        n++;
    }
    if (advice[0]) {
        p[n] = (sl_piece){.rank = 5};
        snprintf(p[n++].text, sizeof p->text, "%s", advice);
    }
    if (s->ranks > 0) {
        p[n] = (sl_piece){.rank = 6};
        snprintf(p[n++].text, sizeof p->text, "%d rank%s", s->ranks, s->ranks == 1 ? "" : "s");
    }
    return sl_pieces_line(p, n, width, colour, text, size);
}

static void undraw(sl_view *v) {
    if (v->drawn)
        fputs("\r\033[K", v->out);
    v->drawn = 0;
}

static void draw(sl_view *v) {
    fprintf(v->out, "\r%s\033[K\r", v->last);
    fflush(v->out);
    v->drawn = 1;
}

void sl_view_show(sl_view *v, const sl_status_view *status, sl_time now) {
    if (v->terminal.columns == 0 || now < v->next)
        return;
    v->next = now == SL_TIME_NEVER ? v->next : now + DRAW_EVERY;
    int columns = sl_terminal_columns(&v->terminal), width = columns < WIDEST ? columns - 1 : WIDEST;
    sl_view_line(status, v->advice, width > 0 ? width : 1, v->terminal.colour, v->last, sizeof v->last);
    draw(v);
}

void sl_view_advise(sl_view *v, const char *advice) {
    snprintf(v->advice, sizeof v->advice, "%s", advice);
}

void sl_view_event(sl_view *v, const sl_event *e) {
    char where[64] = "", when[48] = "";
    const char *why = strcmp(e->why, e->seen) == 0 ? "" : e->why;
    if (e->iteration >= 0)
        snprintf(when, sizeof when, "iteration %d: ", e->iteration);
    if (e->from >= 0)
        sl_text_link(where, sizeof where, e->from, e->to, e->both);
    else if (e->rank >= 0)
        snprintf(where, sizeof where, "rank %d", e->rank);
    if (strstr(e->seen, where))
        where[0] = 0;
    sl_view_say(v, "%s%s%s%s%s%s%s%s%s%s", when, sl_event_names[e->kind].name, where[0] ? ", " : "", where,
                e->seen[0] ? ": " : "", e->seen, e->decided[0] ? "; " : "", e->decided, why[0] ? "; " : "",
                why);
}

void sl_view_say(sl_view *v, const char *format, ...) {
    va_list arguments;
    int was = v->drawn;
    undraw(v);
    fputs("slackline: ", v->out);
    va_start(arguments, format);
    vfprintf(v->out, format, arguments);
    va_end(arguments);
    fputc('\n', v->out);
    if (was)
        draw(v);
    fflush(v->out);
}

void sl_view_close(sl_view *v) {
    undraw(v);
    fflush(v->out);
}
