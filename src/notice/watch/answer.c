#include "notice/watch/answer.h"
#include "base/memory.h"
#include "base/text.h"
#include "notice/watch/words.h"

#include <inttypes.h>
#include <string.h>

/* A component with all slow phases that are its own, or all slow phases without one. */
typedef struct answer_line {
    const sl_suspect *named; /* the last of its verdicts or suspects; NULL: none */
    size_t number;           /* of an incident, from 1 */
    size_t with;             /* another incident of the same phases, which has their cost; 0: none */
    size_t stretch;          /* the last that it took part in: phases without a healthy one in between */
    int times;               /* stretches */
    int64_t from, to, again; /* iterations: of the first stretch; the last of the last one */
    sl_time begin, end, until;
    int verdict, tested;
    int uncounted;                        /* phases whose cost is not known */
    double lost_ms, level_ms, healthy_ms; /* the highest level, and the healthy one below it */
} answer_line;

typedef struct answer_lines {
    answer_line *line; /* [count]; the first has no component */
    size_t count;
} answer_lines;

static int is_known(const sl_suspect *s) {
    return s->component != SL_COMPONENT_UNKNOWN;
}

/* What a phase names: its verdicts, else its suspects. */
static const sl_suspect *named_in(const sl_report_phase *p, int *count) {
    *count = p->verdicts ? p->verdicts : p->suspects;
    return p->verdicts ? p->verdict : p->suspect;
}

static int names_something(const sl_report_phase *p) {
    int count, known = 0;
    const sl_suspect *s = named_in(p, &count);
    for (int i = 0; i < count; i++)
        known |= is_known(&s[i]);
    return known;
}

/* The phase that names what a slow phase is about: itself, an earlier one of its stretch, else a later one.
 */
static const sl_report_phase *namer(const sl_watch_report *r, size_t at) {
    for (size_t i = at + 1; i-- > 0 && r->phase[i].slow;)
        if (names_something(&r->phase[i]))
            return &r->phase[i];
    for (size_t i = at; i < r->phases && r->phase[i].slow; i++)
        if (names_something(&r->phase[i]))
            return &r->phase[i];
    return &r->phase[at];
}

static answer_line *line_of(answer_lines *all, const sl_suspect *s) {
    for (size_t i = 1; i < all->count; i++)
        if (sl_words_same(all->line[i].named, s))
            return &all->line[i];
    all->line[all->count].number = all->count;
    return &all->line[all->count++];
}

static void add_cost(answer_line *line, const sl_report_phase *p, int64_t to) {
    if (p->healthy_ms <= 0 || p->level_ms <= p->healthy_ms) {
        line->uncounted++;
        return;
    }
    line->lost_ms += to >= p->from ? (double)(to - p->from + 1) * (p->level_ms - p->healthy_ms) : 0;
    if (p->level_ms > line->level_ms) {
        line->level_ms = p->level_ms;
        line->healthy_ms = p->healthy_ms;
    }
}

static void add(answer_line *line, const sl_report_phase *p, size_t stretch, int64_t last) {
    const int64_t to = p->to >= 0 ? p->to : last;
    if (line->times == 0) {
        line->from = p->from;
        line->begin = p->begin;
    }
    line->times += line->times == 0 || line->stretch != stretch;
    line->stretch = stretch;
    if (line->times == 1) {
        line->to = to;
        line->end = p->end;
    }
    line->again = to;
    line->until = p->end;
    add_cost(line, p, to);
}

static void add_phase(answer_lines *all, const sl_watch_report *r, size_t at, size_t stretch) {
    const sl_report_phase *by = namer(r, at);
    const int known = names_something(by);
    int count;
    const sl_suspect *s = named_in(by, &count);
    const answer_line *first = NULL;
    if (count == 0)
        add(&all->line[0], &r->phase[at], stretch, r->view.iteration);
    for (int i = 0; i < count; i++) {
        if (known && !is_known(&s[i]))
            continue;
        answer_line *line = known ? line_of(all, &s[i]) : &all->line[0];
        if (!known && i > 0)
            continue;
        line->named = &s[i];
        line->verdict = by->verdicts > 0;
        line->tested = by->tested;
        line->with = first ? first->number : line->with;
        add(line, &r->phase[at], stretch, r->view.iteration);
        first = first ? first : line;
    }
}

static const char *certainty(const answer_line *line) {
    if (!line->named || !is_known(line->named))
        return "not known";
    return !line->verdict ? "a suspect that was not tested"
           : line->tested ? "tested"
                          : "by the program's calls alone";
}

static const char *advice(const sl_suspect *s) {
    if (!s || s->component == SL_COMPONENT_UNKNOWN)
        return "run slackline healthcheck on the hosts of the job, and record calls with --record";
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
        return "run slackline healthcheck on the hosts of these ranks";
    default:
        return "no fault of the hardware: divide the work differently";
    }
}

static void print_cost(FILE *out, const answer_line *line) {
    if (line->with)
        fprintf(out, "; cost: with incident %zu", line->with);
    else if (line->lost_ms > 0)
        fprintf(out, "; cost: %s%.3g s (%.4g instead of %.4g ms per iteration)",
                line->uncounted ? "at least " : "", line->lost_ms / 1e3, line->level_ms, line->healthy_ms);
    else if (line->uncounted)
        fprintf(out, "; cost: not known, because no healthy level below it was seen");
}

static void print_line(FILE *out, const answer_line *line) {
    char what[512];
    if (line->number)
        fprintf(out, "  %zu. ", line->number);
    else
        fprintf(out, "  cause not found: ");
    fprintf(out, "iteration %" PRId64 " to %" PRId64 ", %.1f to %.1f s", line->from, line->to,
            (double)line->begin / 1e9, (double)line->end / 1e9);
    if (line->times > 1)
        fprintf(out, ", and %d more time%s until iteration %" PRId64 ", %.1f s", line->times - 1,
                line->times > 2 ? "s" : "", line->again, (double)line->until / 1e9);
    if (!line->named)
        snprintf(what, sizeof what, "slow, and no component is slower than its kind");
    else
        sl_suspect_text(line->named, what, sizeof what);
    fprintf(out, ": %s; certainty: %s", what, certainty(line));
    print_cost(out, line);
    if (strstr(what, advice(line->named)))
        fprintf(out, "\n");
    else
        fprintf(out, "; to do: %s\n", advice(line->named));
}

/* A job that hung or stalled; `until`: it made progress again, 0: it did not. */
static void print_hang(FILE *out, const sl_event *e, sl_time until) {
    fprintf(out, "  %s, reported after %.1f s", e->decided, (double)e->time / 1e9);
    if (until > 0)
        fprintf(out, ", and it moved again after %.1f s", (double)until / 1e9);
    fprintf(out, ": %s; %s\n", e->seen, e->why);
}

sl_status sl_answer_print(FILE *out, const sl_watch_report *r) {
    answer_lines all = {.count = 1};
    size_t stretch = 0;
    SL_TRY(sl_alloc(&all.line, 1 + r->phases * SL_STATUS_SUSPECTS, sizeof *all.line));
    fprintf(out, "answer\n");
    if (r->hang.time > 0)
        print_hang(out, &r->hang, r->hang_end);
    for (size_t p = 0; p < r->phases; p++) {
        if (r->phase[p].slow)
            add_phase(&all, r, p, stretch);
        else
            stretch++;
    }
    for (size_t i = 1; i < all.count; i++)
        print_line(out, &all.line[i]);
    if (all.line[0].times > 0)
        print_line(out, &all.line[0]);
    const int none = all.count == 1 && all.line[0].times == 0;
    if (none && (!r->has_view || r->view.period == 0))
        fprintf(out, "  it is not known whether anything was slow: iterations were not seen (see notes)\n");
    else if (none && (r->hang.time == 0 || r->hang_end > 0))
        fprintf(out, "  nothing became slow\n");
    sl_free(all.line);
    return SL_OK;
}
