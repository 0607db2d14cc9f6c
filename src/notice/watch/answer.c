#include "notice/watch/answer.h"
#include "base/memory.h"
#include "base/text.h"
#include "notice/watch/words.h"

#include <inttypes.h>
#include <string.h>

/* Slow phases with one cause, one after the other. */
typedef struct answer_line {
    const sl_report_phase *first, *last;
    const sl_suspect *named; /* its verdict, else its suspect; NULL: neither */
    int others;              /* further verdicts */
    int verdict, tested;
    double lost_ms, level_ms, healthy_ms;
} answer_line;

static const sl_suspect *named_in(const sl_report_phase *p) {
    return p->verdicts ? &p->verdict[0] : p->suspects ? &p->suspect[0] : NULL;
}

/* Whether a slow phase goes on with what the incident is about. */
static int belongs(const answer_line *i, const sl_report_phase *p) {
    const sl_suspect *named = named_in(p);
    return !named || !i->named || sl_words_same(named, i->named);
}

static void add(answer_line *i, const sl_report_phase *p, double healthy_ms, int64_t last) {
    const int64_t to = p->to >= 0 ? p->to : last;
    if (!i->first)
        *i = (answer_line){.first = p, .healthy_ms = healthy_ms};
    i->last = p;
    if (p->verdicts || !i->named) {
        i->named = named_in(p);
        i->others = p->verdicts > 1 ? p->verdicts - 1 : 0;
        i->verdict = p->verdicts > 0;
        i->tested = p->tested;
    }
    i->level_ms = p->level_ms > i->level_ms ? p->level_ms : i->level_ms;
    if (healthy_ms > 0 && p->level_ms > healthy_ms && to >= p->from)
        i->lost_ms += (double)(to - p->from + 1) * (p->level_ms - healthy_ms);
}

static const char *certainty(const answer_line *i) {
    if (!i->named || i->named->component == SL_COMPONENT_UNKNOWN)
        return "not known";
    return !i->verdict ? "a suspect that was not tested"
           : i->tested ? "tested"
                       : "by the program's calls alone";
}

static const char *advice(const sl_suspect *s) {
    if (!s || s->component == SL_COMPONENT_UNKNOWN)
        return "run slackline validate on its hosts, and record calls with --record";
    if (strstr(s->cause, "quota"))
        return "raise the quota of its control group";
    if (strstr(s->cause, "co-located") || strstr(s->cause, "contention"))
        return "move the other load, or bind the ranks elsewhere";
    switch (s->component) {
    case SL_COMPONENT_DEVICE:
        return s->cause[0]                              ? "use another host for this rank"
               : strstr(s->why, "share of the work")    ? "look at its share of the work"
               : strstr(s->why, "what else runs there") ? "look at what else runs there"
                                                        : "use another host for this rank";
    case SL_COMPONENT_HOST:
        return "use another host";
    case SL_COMPONENT_LINK:
        return "place the ranks differently (slackline topology), or have the network repaired";
    case SL_COMPONENT_GROUP:
        return "run slackline validate on the hosts of these ranks";
    default:
        return "no fault of the hardware: divide the work differently";
    }
}

static void print_incident(FILE *out, int number, const answer_line *i, int64_t last) {
    char what[512];
    const int64_t to = i->last->to >= 0 ? i->last->to : last;
    fprintf(out, "  %d. iteration %" PRId64 " to %" PRId64 ", %.1f to %.1f s: ", number, i->first->from, to,
            (double)i->first->begin / 1e9, (double)i->last->end / 1e9);
    if (!i->named)
        snprintf(what, sizeof what, "slow, and no component is slower than its kind");
    else
        sl_suspect_text(i->named, what, sizeof what);
    fprintf(out, "%s", what);
    if (i->others > 0)
        fprintf(out, " (and %d other%s, below)", i->others, i->others == 1 ? "" : "s");
    fprintf(out, "; certainty: %s", certainty(i));
    if (i->lost_ms > 0)
        fprintf(out, "; cost: %.3g s (%.4g instead of %.4g ms per iteration)", i->lost_ms / 1e3, i->level_ms,
                i->healthy_ms);
    if (strstr(what, advice(i->named)))
        fprintf(out, "\n");
    else
        fprintf(out, "; to do: %s\n", advice(i->named));
}

/* A job that hung or stalled; `until`: it made progress again, 0: it did not. */
static void print_hang(FILE *out, const sl_event *e, sl_time until) {
    fprintf(out, "  %s, reported after %.1f s", e->decided, (double)e->time / 1e9);
    if (until > 0)
        fprintf(out, ", and it moved again after %.1f s", (double)until / 1e9);
    fprintf(out, ": %s; %s\n", e->seen, e->why);
}

void sl_answer_print(FILE *out, const sl_watch_report *r) {
    answer_line open = {0};
    double healthy_ms = 0;
    int number = 0;
    const int64_t last = r->view.iteration;
    fprintf(out, "answer\n");
    if (r->hang.time > 0)
        print_hang(out, &r->hang, r->hang_end);
    for (size_t p = 0; p < r->phases; p++) {
        const sl_report_phase *phase = &r->phase[p];
        if (open.first && (!phase->slow || !belongs(&open, phase))) {
            print_incident(out, ++number, &open, last);
            open = (answer_line){0};
        }
        if (phase->slow)
            add(&open, phase, healthy_ms, last);
        else
            healthy_ms = phase->level_ms;
    }
    if (open.first)
        print_incident(out, ++number, &open, last);
    if (number == 0 && (!r->has_view || r->view.period == 0))
        fprintf(out, "  it is not known whether anything was slow: iterations were not seen (see notes)\n");
    else if (number == 0 && (r->hang.time == 0 || r->hang_end > 0))
        fprintf(out, "  nothing became slow\n");
}
