#include "adapt/orchestrator/naming.h"
#include "base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LATEST = 3,  /* rows that decide whether something is still slow */
    VERDICT = 8, /* slow rows before the verdict */
    RECENT = 16, /* rows examined: older slowness has ended */
    AFTER = 12,  /* rows after a change of schedule in which the detector may be reacting to it */
    COLD = 1     /* first rows, not representative */
};
enum { FINE, SUSPECTED, REPORTED };

#define ERRORS 6.0    /* standard errors by which iterations must be longer if nothing is named */
enum { UNNAMED = 5 }; /* rows that must show it then */

sl_status sl_naming_open(sl_naming *n) {
    *n = (sl_naming){.changed = -1, .open = -1};
    return sl_detector_open(SL_CHANGE_BOCD_V, &n->detector);
}

void sl_naming_close(sl_naming *n) {
    sl_detector_close(n->detector);
    sl_slowness_free(&n->comparison);
    *n = (sl_naming){0};
}

void sl_naming_changed(sl_naming *n, const sl_history *s) {
    n->changed = s->rows;
}

/* ---- components ---- */

typedef struct saying {
    const sl_slowness *c;
    const sl_row *last;  /* of the given rows */
    const sl_slow *link; /* [links] the slow ones of the current replica */
    int links;
    double load; /* an iteration's work over its usual work; 0: not grown, or unknown */
    sl_naming_result *out;
} saying;

static sl_suspect *say(saying *s, sl_component component, int replica, double now, double healthy) {
    if (s->out->count == SL_NAMED_MAX)
        return NULL;
    sl_named *named = &s->out->named[s->out->count++];
    *named = (sl_named){.replica = replica,
                        .suspect = {.component = component,
                                    .rank = -1,
                                    .from = -1,
                                    .to = -1,
                                    .measured = now / SL_MS,
                                    .expected = healthy / SL_MS}};
    return &named->suspect;
}

static void say_unknown(saying *s, int replica, const char *why) {
    sl_suspect *suspect = say(s, SL_COMPONENT_UNKNOWN, replica, 0, 0);
    if (suspect)
        snprintf(suspect->why, sizeof suspect->why, "%s", why);
}

static double growth_of(const sl_slow *slow) {
    return slow ? slow->now - slow->healthy : 0;
}

static const sl_slow *slow_link(const saying *s, int from, int to) {
    for (int i = 0; i < s->links; i++)
        if (s->link[i].from == from && s->link[i].to == to)
            return &s->link[i];
    return NULL;
}

static double delay_of(const saying *s, int a, int b) {
    return fmax(growth_of(slow_link(s, a, b)), growth_of(slow_link(s, b, a)));
}

static int has_link(const saying *s, int replica, int a, int b) {
    const sl_measured *m = s->last->replica[replica];
    return m && (m->link[a * m->problem.ranks + b].count || m->link[b * m->problem.ranks + a].count);
}

/* The pairs of a rank: how many are slow, and their delays. */
typedef struct around {
    int pairs, slow;
    double least, most;
} around;

static int ranks_of(const saying *s, int replica) {
    return s->last->replica[replica] ? s->last->replica[replica]->problem.ranks : 0;
}

static around look_around(const saying *s, int replica, int rank) {
    around a = {0};
    for (int o = 0; o < ranks_of(s, replica); o++) {
        if (o == rank || !has_link(s, replica, rank, o))
            continue;
        double delay = delay_of(s, rank, o);
        a.pairs++;
        a.slow += delay > 0;
        a.least = delay > 0 && (a.least <= 0 || delay < a.least) ? delay : a.least;
        a.most = fmax(a.most, delay);
    }
    return a;
}

static void say_devices(saying *s) {
    for (size_t i = 0; i < s->c->count; i++) {
        const sl_slow *d = &s->c->slow[i];
        sl_suspect *suspect =
            d->kind == SL_SLOW_DEVICE ? say(s, SL_COMPONENT_DEVICE, d->replica, d->now, d->healthy) : NULL;
        if (!suspect)
            continue;
        suspect->rank = d->rank;
        snprintf(suspect->why, sizeof suspect->why, "its ops take %.2f ms, %.2f ms when healthy",
                 suspect->measured, suspect->expected);
    }
}

/* A fault that takes a rank's processor away delays all of its messages, too. */
static int explained(const saying *s, int replica, int rank) {
    around a = look_around(s, replica, rank);
    return sl_comparison_device(s->c, replica, rank) && a.pairs > 1 && a.slow == a.pairs &&
           a.least > SL_AS_LATE * a.most;
}

static void say_link(saying *s, int replica, int a, int b) {
    const sl_slow *there = slow_link(s, a, b), *back = slow_link(s, b, a);
    const sl_slow *worse = there && (!back || there->now >= back->now) ? there : back;
    sl_suspect *suspect = say(s, SL_COMPONENT_LINK, replica, worse->now, worse->healthy);
    if (!suspect)
        return;
    suspect->both = there && back;
    suspect->from = suspect->both ? a : worse->from;
    suspect->to = suspect->both ? b : worse->to;
    snprintf(suspect->why, sizeof suspect->why, "a message takes %.2f ms, %.2f ms when healthy%s",
             suspect->measured, suspect->expected, suspect->both ? ", in both directions" : "");
}

/* The rank shared by two or more slow links of a replica, if they are all its links and about equally slow:
 * its card or each link, which cannot be distinguished. Three are not chance: its host. -1: none. */
static int common_rank(const saying *s, int replica, int pairs) {
    for (int rank = 0; rank < ranks_of(s, replica); rank++) {
        around a = look_around(s, replica, rank);
        if (a.slow == pairs && a.pairs == pairs && pairs > 1 && a.least > SL_AS_LATE * a.most)
            return rank;
    }
    return -1;
}

static int is_open(const saying *s, int replica, int a, int b) {
    return delay_of(s, a, b) > 0 && !explained(s, replica, a) && !explained(s, replica, b);
}

/* Sums of one rank's stages over replicas are slow, and no other's: its card carries them as well. */
static int sums_agree(const saying *s, const sl_problem *p, int rank) {
    int mine = 0, others = 0;
    for (size_t i = 0; i < s->c->count; i++)
        if (s->c->slow[i].kind == SL_SLOW_SUM)
            *(sl_problem_rank(p, s->c->slow[i].stage) == rank ? &mine : &others) += 1;
    return mine > 0 && others == 0;
}

static void say_links(saying *s, int replica) {
    int pairs = 0, ranks = ranks_of(s, replica);
    char why[192];
    for (int a = 0; a < ranks; a++)
        for (int b = a + 1; b < ranks; b++)
            pairs += is_open(s, replica, a, b);
    int rank = common_rank(s, replica, pairs);
    int sure = pairs > 2 || (rank >= 0 && sums_agree(s, &s->last->replica[replica]->problem, rank));
    around a = rank >= 0 ? look_around(s, replica, rank) : (around){0};
    if (rank >= 0 && !sure) {
        snprintf(why, sizeof why,
                 "both links of rank %d are equally late: the links, its host, or its network card; a "
                 "message takes %.2f ms more",
                 rank, a.most / SL_MS);
        say_unknown(s, replica, why);
        return;
    }
    if (rank >= 0) {
        sl_suspect *suspect = say(s, SL_COMPONENT_HOST, replica, 0, 0);
        if (!suspect)
            return;
        suspect->rank = rank;
        snprintf(suspect->why, sizeof suspect->why,
                 "all %d links of this rank are late by at least %.2f ms: its host or its network card",
                 pairs, a.least / SL_MS);
        return;
    }
    for (int i = 0; i < ranks; i++)
        for (int k = i + 1; k < ranks; k++)
            if (is_open(s, replica, i, k))
                say_link(s, replica, i, k);
}

/* Slow links of a replica are adjacent; a replica without any is skipped. */
static void say_all_links(saying *s) {
    const sl_slow *slow = s->c->slow;
    for (size_t i = 0, next; i < s->c->count; i = next) {
        for (next = i;
             next < s->c->count && slow[next].kind == SL_SLOW_LINK && slow[next].replica == slow[i].replica;)
            next++;
        s->link = slow + i;
        s->links = (int)(next - i);
        if (s->links)
            say_links(s, slow[i].replica);
        else
            next++;
    }
}

/* If most components are slow, the cause is shared. */
static int say_shared(saying *s) {
    const sl_slowness *c = s->c;
    char why[192];
    if (c->slow_devices > 2 && 2 * c->slow_devices >= c->devices)
        snprintf(why, sizeof why, "%d of %d devices are slow: the cause is shared, or the work grew",
                 c->slow_devices, c->devices);
    else if (c->links > 2 && c->slow_links == c->links)
        snprintf(why, sizeof why, "all %d links are slow: the cause is shared", c->links);
    else
        return 0;
    say_unknown(s, -1, why);
    return 1;
}

/* A path through the iteration meets each op and each message at most once, so the slow components cost at
 * most the sum of their excess. If that is less than half of the loss, something else is slow. */
static void doubt(saying *s, double lost) {
    double excess = 0;
    char first[96], why[192];
    for (size_t i = 0; i < s->c->count; i++)
        excess += s->c->slow[i].kind == SL_SLOW_SUM || s->c->slow[i].kind == SL_SLOW_STAGE
                      ? 0
                      : s->c->slow[i].excess;
    if (s->out->count == 0 || excess >= 0.5 * lost)
        return;
    sl_suspect named = s->out->named[0].suspect;
    named.why[0] = 0;
    sl_suspect_text(&named, first, sizeof first);
    snprintf(why, sizeof why,
             "%s and all other slow components explain only %.2f of the %.2f ms that an iteration lost",
             first, excess / SL_MS, lost / SL_MS);
    s->out->count = 0;
    say_unknown(s, -1, why);
}

/* Reductions are reported only if nothing else is slow and one explains at least half of the loss. */
static void say_sums(saying *s, double lost) {
    for (size_t i = 0; i < s->c->count; i++) {
        const sl_slow *sum = &s->c->slow[i];
        if (sum->kind != SL_SLOW_SUM || growth_of(sum) < 0.5 * lost)
            continue;
        sl_suspect *suspect = say(s, SL_COMPONENT_GROUP, -1, sum->now, sum->healthy);
        if (!suspect)
            return;
        suspect->group = (uint64_t)sum->stage;
        snprintf(suspect->why, sizeof suspect->why,
                 "summing stage %d's gradients over the replicas takes %.2f ms, %.2f ms when healthy",
                 sum->stage, suspect->measured, suspect->expected);
    }
}

/* Load, not a fault: some or all stages have more work than before. */
static int say_load(saying *s) {
    const sl_slowness *c = s->c;
    for (size_t i = 0; i < c->count; i++) {
        const sl_slow *stage = &c->slow[i];
        sl_suspect *suspect = stage->kind == SL_SLOW_STAGE
                                  ? say(s, SL_COMPONENT_STAGES, stage->replica, stage->now, stage->healthy)
                                  : NULL;
        if (!suspect)
            continue;
        suspect->rank = stage->rank;
        snprintf(suspect->why, sizeof suspect->why,
                 "for their work, its ops take longer than before relative to other ranks: %.2f ms instead "
                 "of %.2f ms",
                 suspect->measured, suspect->expected);
    }
    if (s->out->count || fmax(s->load, c->common) < SL_SLOW_MIN)
        return s->out->count > 0;
    sl_suspect *suspect = say(s, SL_COMPONENT_LOAD, -1, 0, 0);
    if (suspect && s->load >= c->common)
        snprintf(suspect->why, sizeof suspect->why, "the work of an iteration is %.2f times what it was",
                 s->load);
    else if (suspect)
        snprintf(suspect->why, sizeof suspect->why,
                 "all %d devices take %.2f times as long: the work grew, or the cause is shared", c->devices,
                 c->common);
    return 1;
}

/* ---- rows ---- */

static double time_of(const sl_history *s, int row) {
    const sl_row *r = &s->row[row % SL_ROWS];
    return sl_usual_time(&s->iteration, (double)r->time, r->work);
}

static double median_ms(const sl_history *s, const int *rows, int count, int adjusted) {
    double time[SL_ROWS];
    int found = 0;
    for (int i = 0; i < count; i++) {
        const sl_row *r = &s->row[rows[i] % SL_ROWS];
        if (r->time > 0)
            time[found++] = adjusted ? time_of(s, rows[i]) : (double)r->time;
    }
    return found ? sl_median_of_numbers(time, found) / SL_MS : 0;
}

/* Compares rows `first` to the last, except the last `quiet` ones, with healthy ones. */
static sl_status look(sl_naming *n, sl_history *s, int first, int quiet, sl_naming_result *out,
                      double *lost) {
    int rows[SL_ROWS], count = sl_history_latest(s, first, s->rows - quiet, RECENT, rows);
    if (count < 2) /* too few components measured: only iteration times can help */
        count = sl_history_collect(s, first, s->rows - quiet, RECENT, 0, rows);
    *out = (sl_naming_result){.kind = SL_NAMING_NOTHING, .before = s->iteration.time / SL_MS};
    *lost = 0;
    if (!count || !s->learnt)
        return SL_OK;
    out->after = median_ms(s, rows, count, 0);
    *lost = (median_ms(s, rows, count, 1) - out->before) * SL_MS;
    SL_TRY(sl_compare(s, rows, count, 0, &n->comparison));
    saying words = {.c = &n->comparison, .last = sl_history_row(s, rows[count - 1]), .out = out};
    if (say_shared(&words))
        return SL_OK;
    say_devices(&words);
    say_all_links(&words);
    doubt(&words, *lost);
    if (out->count == 0)
        say_sums(&words, *lost);
    return SL_OK;
}

/* Nothing is named, but iterations are longer than their variation explains. */
static int is_certain(const sl_history *s, int first, double lost) {
    double rows = (double)(s->rows - first), before = s->iteration.rows;
    double variance = 1.57 * s->iteration.spread * s->iteration.spread * (1 / rows + 1 / before);
    int usual = 0;
    for (int i = first; i < s->rows; i++)
        usual += time_of(s, i) <= s->iteration.usual;
    return rows >= UNNAMED && before > 1 && usual == 0 && lost > SL_ITERATION_MIN * s->iteration.time &&
           sl_errors_of_student(lost / sqrt(variance), before - 1) > ERRORS;
}

/* The last rows have more work than those before, and take longer. If work is not given, they take longer. */
static sl_growth growth_of_load(const sl_history *s) {
    const sl_usual *n = &s->iteration;
    sl_growth g = {0};
    if (s->learnt && s->rows - VERDICT >= s->since)
        g = sl_loads_grown(&s->loads, s->quiet, 1 + SL_ITERATION_MIN);
    if (!g.rows || !g.announced || !(n->work > 0) || n->slope < 0)
        return g;
    double time = n->time + n->slope * (g.before - n->work), more = n->slope * g.before * (g.times - 1);
    return more > SL_ITERATION_MIN * time ? g : (sl_growth){0};
}

static int is_measured(const sl_history *s, int first) {
    int rows[SL_ROWS];
    return sl_history_latest(s, first, s->rows, 1, rows) > 0;
}

static void say_nothing(sl_naming *n, const sl_history *s, int first, sl_naming_result *out) {
    saying words = {.c = &n->comparison, .out = out};
    char why[192];
    if (!s->learnt || s->iteration.rows < SL_ROWS_HEALTHY_MIN)
        snprintf(why, sizeof why, "only %d healthy iterations before: too few to compare with",
                 s->iteration.rows);
    else if (say_load(&words))
        return;
    else
        snprintf(why, sizeof why,
                 is_measured(s, first)
                     ? "no op and no message of a rank takes more than %.1f times its healthy time"
                     : "no op and no message was measured",
                 SL_SLOW_MIN);
    say_unknown(&words, -1, why);
}

static int is_unknown(const sl_naming_result *r) {
    return r->count == 0 || r->named[0].suspect.component == SL_COMPONENT_UNKNOWN;
}

static int is_load(const sl_naming_result *r) {
    sl_component c = r->count ? r->named[0].suspect.component : SL_COMPONENT_UNKNOWN;
    return c == SL_COMPONENT_LOAD || c == SL_COMPONENT_STAGES;
}

/* The last rows, at least `hold`, that took about equally long. */
static int steady_rows(const sl_history *s) {
    int least = s->hold < SL_ROWS_HEALTHY_MIN ? SL_ROWS_HEALTHY_MIN : s->hold, rows[SL_ROWS], steady = 0;
    double level =
        median_ms(s, rows, sl_history_collect(s, s->rows - least, s->rows, least, 0, rows), 1) * SL_MS;
    for (int i = s->rows - 1; i >= s->rows - VERDICT && fabs(time_of(s, i) - level) < 0.1 * level; i--)
        steady++;
    return steady > least ? steady : least;
}

/* Load is reported once, from the last `count` rows; from then on it is normal. */
static sl_status report_load(sl_naming *n, sl_history *s, int count, const sl_growth *grown,
                             sl_naming_result *out) {
    int rows[SL_ROWS];
    count = sl_history_collect(s, s->rows - count, s->rows, RECENT, 0, rows);
    sl_naming_result found = {.kind = SL_NAMING_VERDICT,
                              .first = sl_history_row(s, rows[0])->iteration,
                              .before = s->iteration.time / SL_MS,
                              .after = median_ms(s, rows, count, 0)};
    SL_TRY(sl_compare(s, rows, count, 0, &n->comparison));
    saying words = {.c = &n->comparison, .load = grown->announced ? grown->times : 0, .out = &found};
    int keep = grown->announced ? count : steady_rows(s);
    if (n->comparison.slow_devices || n->comparison.slow_links ||
        sl_history_unnamed(s, keep, rows) < s->hold || !say_load(&words))
        return SL_OK;
    *out = found;
    n->state = FINE;
    return sl_history_renew(s, keep);
}

static void mark_slow(sl_history *s, int first, int slow) {
    for (int i = first; i < s->rows; i++)
        if (i >= sl_history_oldest(s))
            sl_history_row(s, i)->slow = slow || sl_history_row(s, i)->named;
}

/* ---- onset, verdict, end ---- */

/* The first of a streak of latest rows a tenth longer than healthy ones; `rows`: the latest is not. */
static int rising_since(const sl_history *s) {
    int first = s->rows, least = sl_history_oldest(s) > COLD ? sl_history_oldest(s) : COLD;
    double level = s->iteration.time;
    while (level > 0 && first > least && time_of(s, first - 1) > (1 + SL_ITERATION_MIN) * level)
        first--;
    return first;
}

static sl_status begin(sl_naming *n, sl_history *s, int first, int trouble, sl_naming_result *out) {
    double lost;
    n->open = first; /* until it is reported */
    mark_slow(s, first, 1);
    SL_TRY(sl_history_learn(s));
    SL_TRY(look(n, s, first, 0, out, &lost));
    int after_change = n->changed >= 0 && s->rows - 1 - n->changed < AFTER;
    int level = lost < SL_ITERATION_MIN * s->iteration.time; /* it only got faster */
    n->open = !level && out->count == 0 && s->rows - first < AFTER ? first : -1;
    if (level || (out->count == 0 && (after_change || n->altered || !is_certain(s, first, lost)))) {
        if (!trouble)
            mark_slow(s, first, 0);
        *out = (sl_naming_result){0};
        return SL_OK;
    }
    if (out->count == 0)
        say_nothing(n, s, first, out);
    out->kind = SL_NAMING_SUSPECT;
    out->first = sl_history_row(s, first)->iteration;
    n->since = first;
    n->state = SUSPECTED;
    n->announced.count = 0;
    n->open = -1;
    n->alone = out->begins = !is_load(out) && !is_measured(s, first);
    if (is_load(out)) /* reported once, with enough evidence */
        *out = (sl_naming_result){0};
    return SL_OK;
}

/* Whether anything comparable is still slow: components, or the time if none was known. */
static sl_status is_over(sl_naming *n, sl_history *s, int *over) {
    sl_naming_result latest;
    double lost;
    int first = s->rows - LATEST;
    *over = 0;
    if (first < n->since)
        return SL_OK;
    SL_TRY(look(n, s, first, 0, &latest, &lost));
    int level = lost < SL_ITERATION_MIN * s->iteration.time, after_change = n->changed >= n->since;
    *over = latest.count == 0 && (level || after_change);
    return SL_OK;
}

/* All slow rows of this onset, except those at its end in which nothing was slow any more. */
static sl_status report_verdict(sl_naming *n, sl_history *s, int quiet, sl_naming_result *out) {
    double lost;
    SL_TRY(look(n, s, n->since, quiet, out, &lost));
    if (out->count == 0)
        say_nothing(n, s, n->since, out);
    out->kind = SL_NAMING_VERDICT;
    out->first = n->since >= sl_history_oldest(s) ? sl_history_row(s, n->since)->iteration : 0;
    n->state = REPORTED;
    n->announced = *out;
    return SL_OK;
}

/* More measurements may resolve an undecided verdict. */
static sl_status report_at_last(sl_naming *n, sl_history *s, sl_naming_result *out) {
    sl_naming_result now;
    double lost;
    SL_TRY(look(n, s, n->since, 0, &now, &lost));
    if (is_unknown(&now))
        return SL_OK;
    *out = now;
    out->kind = SL_NAMING_VERDICT;
    out->first = n->since >= sl_history_oldest(s) ? sl_history_row(s, n->since)->iteration : 0;
    n->announced = *out;
    return SL_OK;
}

/* Of the rows that decided that it is over, the first may still be slow: it does not count as healthy. */
static sl_status count_as_healthy(sl_naming *n, sl_history *s) {
    sl_naming_result alone = {.count = 1};
    double lost;
    int first = s->rows - LATEST - 1;
    while (alone.count > 0 && ++first < s->rows) {
        SL_TRY(look(n, s, first, s->rows - 1 - first, &alone, &lost));
        alone.count += n->changed < n->since && lost >= SL_ITERATION_MIN * s->iteration.time;
    }
    mark_slow(s, first, 0);
    return SL_OK;
}

static sl_status follow(sl_naming *n, sl_history *s, int trouble, sl_naming_result *out) {
    int over;
    mark_slow(s, s->rows - 1, 1);
    SL_TRY(is_over(n, s, &over));
    if (s->rows - s->since < LATEST) /* too few since processes changed positions */
        return SL_OK;
    if (n->state == SUSPECTED && (over || s->rows - n->since >= VERDICT))
        SL_TRY(report_verdict(n, s, over && s->rows - LATEST > n->since + 1 ? LATEST : 0, out));
    int load = n->state == REPORTED && out->kind == SL_NAMING_VERDICT && is_load(out) && !trouble;
    if (over && !load && !trouble)
        SL_TRY(count_as_healthy(n, s));
    if (n->state == REPORTED && is_unknown(&n->announced) && trouble && !over &&
        out->kind == SL_NAMING_NOTHING)
        SL_TRY(report_at_last(n, s, out));
    if (over || load) {
        int rows[SL_ROWS], count = sl_history_collect(s, s->rows - LATEST, s->rows, LATEST, 0, rows);
        n->state = FINE;
        n->announced.count = 0;
        out->over = n->alone ? median_ms(s, rows, count, 0) : 0;
        n->alone = 0;
    }
    return load ? sl_history_renew(s, steady_rows(s)) : SL_OK; /* this is normal now */
}

/* An onset during another one is reported if something else is slow now. */
static sl_status again(sl_naming *n, sl_history *s, int first, sl_naming_result *out) {
    double lost;
    if (first < n->since + LATEST || n->state != REPORTED)
        return SL_OK;
    sl_naming_result now;
    SL_TRY(look(n, s, first, 0, &now, &lost));
    if (is_unknown(&now))
        return SL_OK;
    *out = now;
    out->kind = SL_NAMING_SUSPECT;
    out->first = sl_history_row(s, first)->iteration;
    n->since = first;
    n->state = SUSPECTED;
    return SL_OK;
}

sl_status sl_naming_step(sl_naming *n, sl_history *s, int trouble, int costly, int uneven,
                         sl_naming_result *out) {
    sl_change change = {0};
    int onset = 0, first = s->rows, rising = s->rows;
    *out = (sl_naming_result){0};
    if (n->state != FINE &&
        n->since < s->since) /* processes may have moved: only later rows can be compared */
        n->since = s->since;
    if (sl_history_row(s, s->rows - 1)->time > 0)
        onset = sl_detector_add(n->detector, time_of(s, s->rows - 1) / SL_MS, &change) &&
                change.kind == SL_CHANGE_ONSET;
    if (onset)
        first = s->rows - 1 - (int)(change.seen - change.index);
    if (n->state == FINE && trouble)
        rising = rising_since(s);
    if (!onset && s->rows - rising >= 2) { /* at least two: one is a spike */
        onset = 1;
        first = rising;
    }
    if (!onset && n->state == FINE && costly >= LATEST) {
        onset = 1;
        first = s->rows - costly;
    }
    if (!onset && n->state == FINE && n->open >= 0) { /* more rows may make it certain */
        onset = 1;
        first = n->open;
    }
    first = first > sl_history_oldest(s) ? first : sl_history_oldest(s);
    first = first > s->since ? first : s->since;
    if (onset && n->state == FINE)
        return begin(n, s, first, trouble, out);
    if (n->state != FINE)
        SL_TRY(follow(n, s, trouble, out));
    if (n->state == FINE && out->kind == SL_NAMING_NOTHING && !trouble) {
        sl_growth grown = growth_of_load(s);
        if (uneven >= VERDICT || (grown.rows && !uneven)) /* a single stage may have grown */
            return report_load(n, s, uneven ? uneven : grown.rows, &grown, out);
    }
    return onset && out->kind == SL_NAMING_NOTHING && n->state == REPORTED ? again(n, s, first, out) : SL_OK;
}
