#include "notice/validate/verdict.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEYOND 1.1        /* Falcon's 10 % */
#define SPREADS 2         /* so many coefficients of variation come on top */
#define ONCE 0.1          /* what one repeat is taken to vary by, which does not say it */
#define LATENCY_LEAST 0.1 /* ms */
#define FAR_FASTER 1.5    /* a device that beats the median so far says that the median is not healthy */
#define WAITING 0.25      /* share of time without a processor from which on a device is kept waiting */
#define STOPPED 0.1       /* share of time that a control group was stopped */
enum { LEAST = 3 };       /* members of a kind that can be compared */

typedef struct judge {
    sl_measured *m;
    sl_verdicts *v;
    double *value; /* scratch: [largest of devices, links] */
} judge;

void sl_verdicts_free(sl_verdicts *verdicts) {
    sl_free(verdicts->suspect);
    *verdicts = (sl_verdicts){0};
}

static sl_status add(judge *j, const sl_suspect *suspect) {
    sl_verdicts *v = j->v;
    SL_TRY(sl_grow(&v->suspect, &v->room, (size_t)v->count + 1, sizeof *v->suspect));
    v->suspect[v->count++] = *suspect;
    return SL_OK;
}

static sl_suspect nobody(void) {
    return (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
}

static int far(const sl_measured_link *link) {
    return link->from_host != link->to_host ? SL_LINKS_FAR : SL_LINKS_NEAR;
}

/* ---- what is expected of a kind ---- */

static int ascending(const void *left, const void *right) {
    const double *l = left, *r = right;
    return (*l > *r) - (*l < *r);
}

/* Of an even number the better of the two in the middle. */
static double better_median(double *value, int count, int larger_is_better) {
    if (count == 0)
        return 0;
    qsort(value, (size_t)count, sizeof *value, ascending);
    return value[larger_is_better ? count / 2 : (count - 1) / 2];
}

/* How much the healthy of a kind differ: the median distance from the median, as a coefficient of variation
 * (1.4826: of a normal distribution). The smaller of two in the middle, for up to half may be slow. */
static double differ_by(double *value, int count, double median) {
    for (int i = 0; i < count; i++)
        value[i] = fabs(value[i] - median);
    return median > 0 ? 1.4826 * better_median(value, count, 0) / median : 0;
}

/* `value[values]` of `members` members and the median of their variation. */
static void settle(const judge *j, sl_kind *kind, double *value, int values, int members, int larger,
                   double reference, double cv) {
    kind->members = members;
    kind->given = reference > 0;
    kind->median = better_median(value, values, larger);
    double between = differ_by(value, values, kind->median);
    kind->cv = cv > between ? cv : between;
    if (j->m->repeats < 2 && kind->cv < ONCE)
        kind->cv = ONCE;
    kind->factor = BEYOND + SPREADS * kind->cv;
    kind->expected = kind->given ? reference : members >= LEAST ? kind->median : 0;
}

static void expect_devices(judge *j, const sl_reference *reference) {
    double median, spread;
    int count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0)
            j->value[count++] = j->m->device[i].cv;
    sl_spread(j->value, count, &median, &spread);
    count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0)
            j->value[count++] = j->m->device[i].gflops;
    settle(j, &j->v->kinds.device, j->value, count, count, 1, reference ? reference->gflops : 0, median);
}

/* One figure of the directions of a kind; 0: this direction has none. */
static double figure(const sl_measured_link *link, int latency, int variation) {
    if (latency)
        return link->latency_ms <= 0 ? 0 : variation ? link->latency_cv : link->latency_ms;
    return link->samples == 0 || link->limited ? 0 : variation ? link->bandwidth_cv : link->gb_per_s;
}

static void expect_links(judge *j, int kind, int latency, double reference) {
    sl_kind *out = latency ? &j->v->kinds.latency[kind] : &j->v->kinds.bandwidth[kind];
    double median, spread;
    int count = 0, links = 0;
    for (int i = 0; i < j->m->links; i++)
        if (far(&j->m->link[i]) == kind && figure(&j->m->link[i], latency, 0) > 0)
            j->value[count++] = figure(&j->m->link[i], latency, 1);
    sl_spread(j->value, count, &median, &spread);
    count = 0;
    for (int i = 0; i < j->m->links; i++)
        if (far(&j->m->link[i]) == kind) {
            double value = figure(&j->m->link[i], latency, 0);
            /* what was cut short is slower than it looks, but counts: the middle must not move away */
            if (!latency && j->m->link[i].samples > 0 && j->m->link[i].limited)
                value = j->m->link[i].gb_per_s;
            if (value > 0)
                j->value[count++] = value;
            links += j->m->link[i].from < j->m->link[i].to;
        }
    settle(j, out, j->value, count, links, !latency, reference, median);
}

/* ---- devices ---- */

static double usual_clock(judge *j) {
    int count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0 && j->m->device[i].evidence.mhz > 0)
            j->value[count++] = j->m->device[i].evidence.mhz;
    return better_median(j->value, count, 1);
}

/* Time without a processor that is not for a quota. */
static double kept_waiting(const sl_measured_device *d) {
    return d->evidence.waited > d->evidence.throttled ? d->evidence.waited - d->evidence.throttled : 0;
}

static double usual_waiting(judge *j) {
    int count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0)
            j->value[count++] = kept_waiting(&j->m->device[i]);
    return better_median(j->value, count, 0);
}

/* Where most devices wait for processors, how long each of them waits is luck, and no finding. */
static int is_luck(const sl_measured_device *d, double usual) {
    return usual > WAITING && kept_waiting(d) > WAITING;
}

static void judge_device(judge *j, sl_measured_device *d, double waiting) {
    const sl_kind *kind = &j->v->kinds.device;
    d->expected = kind->expected;
    d->slow = d->samples > 0 && d->expected > 0 && d->expected > kind->factor * d->gflops &&
              d->expected > BEYOND * d->best && !is_luck(d, waiting);
    if (d->samples > 0 && !d->slow && d->evidence.throttled > STOPPED) {
        /* what it would do in the time that it was stopped */
        double free = d->gflops / (1 - (d->evidence.throttled < 0.99 ? d->evidence.throttled : 0.99));
        d->expected = d->expected > free ? d->expected : free;
        d->slow = 1;
    }
}

/* "52.1 of 104 GFLOP/s; throttled 50 % of the time" */
static void say_device(const sl_measured_device *d, char *why, size_t size) {
    char words[128];
    sl_evidence_words(&d->evidence, words, sizeof words);
    snprintf(why, size, "%.3g of %.3g GFLOP/s expected in %d repeats (varies by %.1f %%)%s%s", d->gflops,
             d->expected, d->samples, 100 * d->cv, words[0] ? "; " : "", words);
}

static sl_status accuse_device(judge *j, const sl_measured_device *d, double mhz) {
    sl_suspect s = nobody();
    s.component = SL_COMPONENT_DEVICE;
    s.rank = d->rank;
    s.measured = d->gflops;
    s.expected = d->expected;
    sl_cause_of_device(&d->evidence, mhz, s.cause, sizeof s.cause);
    say_device(d, s.why, sizeof s.why);
    return add(j, &s);
}

/* ---- healthy devices that starve ---- */

static int starves(const sl_measured_device *d, char cause[96]) {
    sl_cause_of_starving(&d->evidence, cause, 96);
    return d->samples > 0 && cause[0];
}

/* Tested devices of a host: 0 none starves, 1 some do, 2 all of several do. A slow one among them is the
 * finding, and what presses on the others is not. */
static int host_starves(const sl_measured *m, int host) {
    char cause[96];
    int starved = 0, tested = 0;
    for (int i = 0; i < m->devices; i++) {
        const sl_measured_device *d = &m->device[i];
        if (d->host != host || d->samples == 0)
            continue;
        if (d->slow)
            return 0;
        tested++;
        starved += starves(d, cause);
    }
    return starved == 0 ? 0 : starved == tested && tested > 1 ? 2 : 1;
}

/* Fast products on processors that others press on: the device is well and starves. */
static sl_status accuse_starving(judge *j, const sl_measured_device *d, int whole) {
    sl_suspect s = nobody();
    char words[128];
    starves(d, s.cause);
    s.component = whole ? SL_COMPONENT_HOST : SL_COMPONENT_DEVICE;
    s.rank = d->rank;
    s.measured = d->gflops;
    s.expected = d->expected;
    sl_evidence_words(&d->evidence, words, sizeof words);
    snprintf(s.why, sizeof s.why,
             "the device%s healthy (%.3g of %.3g GFLOP/s), %s processors are not free: %.110s",
             whole ? "s are" : " is", d->gflops, d->expected, whole ? "their" : "its",
             words[0] ? words : "others wait for them too");
    return add(j, &s);
}

static sl_status accuse_starving_all(judge *j) {
    const sl_measured *m = j->m;
    char cause[96];
    for (int host = 0; host < m->hosts; host++) {
        int said = 0, how = host_starves(m, host);
        for (int i = 0; how > 0 && i < m->devices; i++)
            if (m->device[i].host == host && starves(&m->device[i], cause) && !(how == 2 && said++))
                SL_TRY(accuse_starving(j, &m->device[i], how == 2));
    }
    return SL_OK;
}

/* Nothing to compare with: says so where they disagree. */
static sl_status doubt_devices(judge *j) {
    const sl_kind *kind = &j->v->kinds.device;
    double least = INFINITY, most = 0;
    sl_suspect s = nobody();
    for (int i = 0; i < j->m->devices; i++) {
        const sl_measured_device *d = &j->m->device[i];
        if (d->samples == 0 || d->slow)
            continue;
        least = d->gflops < least ? d->gflops : least;
        most = d->gflops > most ? d->gflops : most;
    }
    if (most <= 0)
        return SL_OK;
    s.measured = least;
    s.expected = most;
    if (kind->expected <= 0 && most > kind->factor * least)
        snprintf(s.why, sizeof s.why,
                 "cannot tell which of %d devices is slow: %.3g and %.3g GFLOP/s; at least 3, or a healthy "
                 "reference, are needed to compare",
                 kind->members, least, most);
    else if (kind->expected > 0 && !kind->given && most > FAR_FASTER * kind->factor * kind->expected)
        snprintf(s.why, sizeof s.why,
                 "cannot tell whether most devices are slow: the fastest reaches %.3g GFLOP/s, the median "
                 "%.3g; a healthy reference is needed",
                 most, kind->expected);
    return s.why[0] ? add(j, &s) : SL_OK;
}

/* ---- links ---- */

static int slow_by_rate(const judge *j, const sl_measured_link *l) {
    const sl_kind *rate = &j->v->kinds.bandwidth[far(l)];
    return l->samples > 0 && rate->expected > 0 && rate->expected > rate->factor * l->gb_per_s &&
           rate->expected > BEYOND * l->best_gb_per_s;
}

static int slow_by_latency(const judge *j, const sl_measured_link *l) {
    const sl_kind *delay = &j->v->kinds.latency[far(l)];
    double least = l->best_ms > 0 ? l->best_ms : l->latency_ms;
    return l->latency_ms > 0 && delay->expected > 0 && l->latency_ms > delay->factor * delay->expected &&
           least > BEYOND * delay->expected && least > delay->expected + LATENCY_LEAST;
}

static void judge_link(judge *j, sl_measured_link *l) {
    l->expected_latency_ms = j->v->kinds.latency[far(l)].expected;
    l->expected_gb_per_s = j->v->kinds.bandwidth[far(l)].expected;
    l->slow = l->state == SL_WIRE_LOST || slow_by_rate(j, l) || slow_by_latency(j, l);
}

static void say_link(const judge *j, const sl_measured_link *l, sl_suspect *s) {
    char resent[48] = "";
    int64_t again = l->from_evidence.resent;
    if (again > 0)
        snprintf(resent, sizeof resent, "; %lld segments sent again", (long long)again);
    if (l->state == SL_WIRE_LOST) {
        s->expected = l->expected_gb_per_s;
        snprintf(s->why, sizeof s->why, "connected, but nothing arrived in this direction%s", resent);
    } else if (slow_by_rate(j, l)) {
        s->measured = l->gb_per_s;
        s->expected = l->expected_gb_per_s;
        snprintf(s->why, sizeof s->why, "%s%.3g of %.3g GB/s expected, %.3g of %.3g ms (varies by %.1f %%)%s",
                 l->limited ? "at most " : "", l->gb_per_s, l->expected_gb_per_s, l->latency_ms,
                 l->expected_latency_ms, 100 * l->bandwidth_cv, resent);
    } else {
        s->measured = l->latency_ms;
        s->expected = l->expected_latency_ms;
        snprintf(
            s->why, sizeof s->why,
            "latency %.3g instead of %.3g ms (half a round trip: of both directions), %.3g of %.3g GB/s%s",
            l->latency_ms, l->expected_latency_ms, l->gb_per_s, l->expected_gb_per_s, resent);
    }
}

static double usual_speed(judge *j, int kind) {
    int count = 0;
    for (int i = 0; i < j->m->links; i++)
        if (far(&j->m->link[i]) == kind && j->m->link[i].from_evidence.mbit > 0)
            j->value[count++] = j->m->link[i].from_evidence.mbit;
    return better_median(j->value, count, 1);
}

static sl_status accuse_link(judge *j, const sl_measured_link *l, int both) {
    sl_suspect s = nobody();
    s.component = SL_COMPONENT_LINK;
    s.from = l->from;
    s.to = l->to;
    s.both = both;
    say_link(j, l, &s);
    sl_cause_of_link(&l->from_evidence, &l->to_evidence, usual_speed(j, far(l)), s.cause, sizeof s.cause);
    return add(j, &s);
}

static sl_status doubt_refused(judge *j, const sl_measured_link *l) {
    sl_suspect s = nobody();
    s.from = l->from;
    s.to = l->to;
    s.both = 1;
    snprintf(s.why, sizeof s.why, "cannot tell about the link %d - %d: no connection for the test (%.90s)",
             l->from, l->to, l->why);
    return add(j, &s);
}

/* Too few links of a kind, or no reference: says so where they disagree. */
static sl_status doubt_links(judge *j, int kind) {
    const sl_kind *rate = &j->v->kinds.bandwidth[kind];
    double least = INFINITY, most = 0;
    sl_suspect s = nobody();
    for (int i = 0; i < j->m->links; i++) {
        const sl_measured_link *l = &j->m->link[i];
        if (far(l) != kind || l->samples == 0)
            continue;
        if (l->gb_per_s < least) {
            least = l->gb_per_s;
            s.from = l->from;
            s.to = l->to;
        }
        most = l->gb_per_s > most ? l->gb_per_s : most;
    }
    if (rate->expected > 0 || most <= rate->factor * least)
        return SL_OK;
    s.measured = least;
    s.expected = most;
    snprintf(
        s.why, sizeof s.why,
        "cannot tell whether the link %d -> %d is slow: %.3g GB/s, the fastest of %d link%s %s has %.3g; "
        "at least 3 of a kind, or a healthy reference, are needed to compare",
        s.from, s.to, least, rate->members, rate->members == 1 ? "" : "s",
        kind == SL_LINKS_FAR ? "between hosts" : "within a host", most);
    return add(j, &s);
}

/* ---- hosts ---- */

static int touches(const sl_measured_link *l, int host) {
    return l->from_host == host || l->to_host == host;
}

static int is_slow_pair(const sl_measured *m, int i) {
    return m->link[i].slow || m->link[i + 1].slow;
}

/* All devices of the host are slow, at least two, and another host's device is well. */
static int host_by_devices(const sl_measured *m, int host) {
    int slow = 0, well = 0, well_elsewhere = 0;
    for (int i = 0; i < m->devices; i++)
        if (m->device[i].samples > 0 && m->device[i].host == host)
            m->device[i].slow ? slow++ : well++;
        else if (m->device[i].samples > 0)
            well_elsewhere += !m->device[i].slow;
    return slow > 1 && well == 0 && well_elsewhere > 0;
}

/* All its links to other hosts are slow, to at least two of them, and a link without it is well. */
static int host_by_links(const sl_measured *m, int host) {
    int slow = 0, well = 0, well_elsewhere = 0, peer = -1, peers = 0;
    for (int i = 0; i + 1 < m->links; i += 2) {
        const sl_measured_link *l = &m->link[i];
        if (far(l) != SL_LINKS_FAR || l->state == SL_WIRE_REFUSED)
            continue;
        if (!touches(l, host)) {
            well_elsewhere += !is_slow_pair(m, i);
            continue;
        }
        is_slow_pair(m, i) ? slow++ : well++;
        int other = l->from_host == host ? l->to_host : l->from_host;
        peers += other != peer;
        peer = other;
    }
    return slow > 1 && peers > 1 && well == 0 && well_elsewhere > 0;
}

static int rank_of(const sl_measured *m, int host) {
    int rank = -1;
    for (int i = 0; i < m->devices; i++)
        if (m->device[i].host == host && (rank < 0 || m->device[i].rank < rank))
            rank = m->device[i].rank;
    return rank;
}

static sl_status accuse_host(judge *j, int host, int devices, int links) {
    const sl_measured *m = j->m;
    const sl_measured_device *worst = NULL;
    const sl_measured_link *slowest = NULL;
    sl_suspect s = nobody();
    int count = 0;
    s.component = SL_COMPONENT_HOST;
    s.rank = rank_of(m, host);
    for (int i = 0; i < m->devices; i++)
        if (m->device[i].host == host && m->device[i].slow) {
            count++;
            if (!worst || m->device[i].gflops < worst->gflops)
                worst = &m->device[i];
        }
    for (int i = 0; i < m->links; i++)
        if (far(&m->link[i]) == SL_LINKS_FAR && touches(&m->link[i], host) && m->link[i].slow &&
            (!slowest || m->link[i].gb_per_s < slowest->gb_per_s))
            slowest = &m->link[i];
    if (devices && worst) {
        char words[256];
        s.measured = worst->gflops;
        s.expected = worst->expected;
        sl_cause_of_device(&worst->evidence, usual_clock(j), s.cause, sizeof s.cause);
        say_device(worst, words, sizeof words);
        snprintf(s.why, sizeof s.why, "all %d devices of %.32s are slow%s; rank %d: %.120s", count,
                 m->host[host], links ? ", and so are all its links to other hosts" : "", worst->rank, words);
    } else if (slowest) {
        sl_suspect link = nobody();
        say_link(j, slowest, &link);
        s.measured = link.measured;
        s.expected = link.expected;
        sl_cause_of_link(&slowest->from_evidence, &slowest->to_evidence, usual_speed(j, SL_LINKS_FAR),
                         s.cause, sizeof s.cause);
        snprintf(s.why, sizeof s.why, "all links of %.32s to other hosts are slow; %d -> %d: %.140s",
                 m->host[host], slowest->from, slowest->to, link.why);
    }
    return add(j, &s);
}

/* ---- all ---- */

/* A host stands for its devices or its links. */
static sl_status accuse_hosts(judge *j, char *devices, char *links) {
    for (int host = 0; host < j->m->hosts; host++) {
        devices[host] = (char)host_by_devices(j->m, host);
        links[host] = (char)host_by_links(j->m, host);
        if (devices[host] || links[host])
            SL_TRY(accuse_host(j, host, devices[host], links[host]));
    }
    return SL_OK;
}

static sl_status accuse_devices(judge *j, const char *taken) {
    double mhz = usual_clock(j);
    for (int i = 0; i < j->m->devices; i++) {
        const sl_measured_device *d = &j->m->device[i];
        if (taken[d->host])
            continue;
        if (d->slow)
            SL_TRY(accuse_device(j, d, mhz));
    }
    return accuse_starving_all(j);
}

static sl_status accuse_links(judge *j, const char *taken) {
    for (int i = 0; i + 1 < j->m->links; i += 2) {
        const sl_measured_link *there = &j->m->link[i], *back = &j->m->link[i + 1];
        if (there->state == SL_WIRE_REFUSED) {
            SL_TRY(doubt_refused(j, there));
            continue;
        }
        if (far(there) == SL_LINKS_FAR && (taken[there->from_host] || taken[there->to_host]))
            continue;
        if (there->slow && back->slow)
            SL_TRY(accuse_link(j, back->gb_per_s < there->gb_per_s ? back : there, 1));
        else if (there->slow || back->slow)
            SL_TRY(accuse_link(j, there->slow ? there : back, 0));
    }
    return SL_OK;
}

static sl_status doubt(judge *j) {
    const sl_measured *m = j->m;
    for (int i = 0; i < m->missings; i++) {
        sl_suspect s = nobody();
        s.rank = m->missing[i].rank;
        if (s.rank >= 0)
            snprintf(s.why, sizeof s.why, "cannot tell about rank %d: its validating process was lost",
                     s.rank);
        else
            snprintf(s.why, sizeof s.why, "cannot tell about all ranks: validating process %d did not come",
                     m->missing[i].member);
        SL_TRY(add(j, &s));
    }
    SL_TRY(doubt_devices(j));
    for (int kind = 0; kind < SL_LINK_KINDS; kind++)
        SL_TRY(doubt_links(j, kind));
    return SL_OK;
}

static sl_status judge_all(judge *j, const sl_reference *reference) {
    sl_measured *m = j->m;
    char *taken;
    expect_devices(j, reference);
    for (int kind = 0; kind < SL_LINK_KINDS; kind++) {
        expect_links(j, kind, 1, reference ? reference->latency_ms[kind] : 0);
        expect_links(j, kind, 0, reference ? reference->gb_per_s[kind] : 0);
    }
    double waiting = usual_waiting(j);
    for (int i = 0; i < m->devices; i++)
        judge_device(j, &m->device[i], waiting);
    for (int i = 0; i < m->links; i++)
        judge_link(j, &m->link[i]);
    SL_TRY(sl_alloc(&taken, (size_t)(2 * m->hosts), 1));
    sl_status status = accuse_hosts(j, taken, taken + m->hosts);
    if (status == SL_OK)
        status = accuse_devices(j, taken);
    if (status == SL_OK)
        status = accuse_links(j, taken + m->hosts);
    sl_free(taken);
    return status == SL_OK ? doubt(j) : status;
}

sl_status sl_verdict(sl_measured *measured, const sl_reference *reference, sl_verdicts *verdicts) {
    judge j = {.m = measured, .v = verdicts};
    int most = measured->devices > measured->links ? measured->devices : measured->links;
    *verdicts = (sl_verdicts){0};
    SL_TRY(sl_alloc(&j.value, (size_t)most, sizeof *j.value));
    sl_status status = judge_all(&j, reference);
    sl_free(j.value);
    return status;
}
