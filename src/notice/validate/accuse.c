#include "base/memory.h"
#include "base/text.h"
#include "notice/validate/verdict_inside.h"

#include <stdio.h>

/* ---- devices ---- */

static double usual_clock(sl_assessment *j) {
    int count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0 && j->m->device[i].evidence.mhz > 0)
            j->value[count++] = j->m->device[i].evidence.mhz;
    return sl_assessment_median(j->value, count, 1);
}

/* "52.1 of 104 GFLOP/s; throttled 50 % of the time" */
static void say_device(const sl_measured_device *d, char *why, size_t size) {
    char words[256];
    sl_evidence_words(&d->evidence, words, sizeof words);
    sl_text_format(why, size, "%.3g of %.3g GFLOP/s expected in %d repeats (varies by %.1f%%)%s%s", d->gflops,
                   d->expected, d->samples, 100 * d->cv, words[0] ? "; " : "", words);
}

static sl_status accuse_device(sl_assessment *j, const sl_measured_device *d, double mhz) {
    sl_suspect s = sl_assessment_nobody();
    s.component = SL_COMPONENT_DEVICE;
    s.rank = d->rank;
    s.measured = d->gflops;
    s.expected = d->expected;
    sl_cause_of_device(&d->evidence, mhz, s.cause, sizeof s.cause);
    say_device(d, s.why, sizeof s.why);
    return sl_assessment_add(j, &s);
}

/* ---- healthy devices that starve ---- */

static int starves(const sl_measured_device *d, char cause[96]) {
    sl_cause_of_starving(&d->evidence, cause, 96);
    return d->samples > 0 && cause[0];
}

/* Tested devices of a host: 0 none starves, 1 some do, 2 half of them or more, and several. If one of them is
 * slow, it is the finding, and contention of the others is not. */
static int host_starves(const sl_validation *m, int host) {
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
    return starved == 0 ? 0 : starved > 1 && 2 * starved >= tested ? 2 : 1;
}

/* Fast products on processors that others press on: the device is well and starves. */
static sl_status accuse_starving(sl_assessment *j, const sl_measured_device *d, int whole) {
    sl_suspect s = sl_assessment_nobody();
    char words[256];
    starves(d, s.cause);
    s.component = whole ? SL_COMPONENT_HOST : SL_COMPONENT_DEVICE;
    s.rank = d->rank; /* and no measured speed: that is as expected */
    char rate[48] = "";
    sl_evidence_words(&d->evidence, words, sizeof words);
    if (d->expected > 0)
        snprintf(rate, sizeof rate, " (%.3g of %.3g GFLOP/s)", d->gflops, d->expected);
    sl_text_format(s.why, sizeof s.why, "%s%s, but %s processors are not free: %s",
                   whole ? "no device is slower than the others" : "the device is healthy", rate,
                   whole ? "their" : "its", words[0] ? words : "others wait for them too");
    return sl_assessment_add(j, &s);
}

static sl_status accuse_starving_all(sl_assessment *j) {
    const sl_validation *m = j->m;
    char cause[96];
    for (int host = 0; host < m->hosts; host++) {
        int said = 0, how = host_starves(m, host);
        for (int i = 0; how > 0 && i < m->devices; i++)
            if (m->device[i].host == host && starves(&m->device[i], cause) && !(how == 2 && said++))
                SL_TRY(accuse_starving(j, &m->device[i], how == 2));
    }
    return SL_OK;
}

/* ---- links ---- */

static void say_link(const sl_assessment *j, const sl_measured_link *l, sl_suspect *s) {
    char resent[48] = "";
    int64_t again = l->from_evidence.resent;
    if (again > 0)
        snprintf(resent, sizeof resent, "; %lld segments resent", (long long)again);
    if (l->state == SL_WIRE_LOST) {
        s->expected = l->expected_gb_per_s;
        sl_text_format(s->why, sizeof s->why, "connected, but nothing arrived in this direction%s", resent);
    } else if (sl_assessment_by_rate(j, l)) {
        s->measured = l->gb_per_s;
        s->expected = l->expected_gb_per_s;
        sl_text_format(s->why, sizeof s->why,
                       "%s%.3g of %.3g GB/s expected, %.3g of %.3g ms (varies by %.1f%%)%s",
                       l->limited ? "at most " : "", l->gb_per_s, l->expected_gb_per_s, l->latency_ms,
                       l->expected_latency_ms, 100 * l->bandwidth_cv, resent);
    } else {
        s->measured = l->latency_ms;
        s->expected = l->expected_latency_ms;
        sl_text_format(
            s->why, sizeof s->why,
            "latency %.3g instead of %.3g ms (half a round trip: of both directions), %.3g of %.3g GB/s%s",
            l->latency_ms, l->expected_latency_ms, l->gb_per_s, l->expected_gb_per_s, resent);
    }
}

static double usual_speed(sl_assessment *j, int kind) {
    int count = 0;
    for (int i = 0; i < j->m->links; i++)
        if (sl_assessment_kind(&j->m->link[i]) == kind && j->m->link[i].from_evidence.mbit > 0)
            j->value[count++] = j->m->link[i].from_evidence.mbit;
    return sl_assessment_median(j->value, count, 1);
}

static sl_status accuse_link(sl_assessment *j, const sl_measured_link *l, int both) {
    sl_suspect s = sl_assessment_nobody();
    s.component = SL_COMPONENT_LINK;
    s.from = l->from;
    s.to = l->to;
    s.both = both;
    say_link(j, l, &s);
    sl_cause_of_link(&l->from_evidence, &l->to_evidence, usual_speed(j, sl_assessment_kind(l)), s.cause,
                     sizeof s.cause);
    return sl_assessment_add(j, &s);
}

/* ---- hosts ---- */

static int touches(const sl_measured_link *l, int host) {
    return l->from_host == host || l->to_host == host;
}

static int is_slow_pair(const sl_validation *m, int i) {
    return m->link[i].slow || m->link[i + 1].slow;
}

/* All devices of the host are slow, at least two, and another host's device is well. */
static int host_by_devices(const sl_validation *m, int host) {
    int slow = 0, well = 0, well_elsewhere = 0;
    for (int i = 0; i < m->devices; i++)
        if (m->device[i].samples > 0 && m->device[i].host == host)
            m->device[i].slow ? slow++ : well++;
        else if (m->device[i].samples > 0)
            well_elsewhere += !m->device[i].slow;
    return slow > 1 && well == 0 && well_elsewhere > 0;
}

/* All its links to other hosts are slow, to at least two of them, and a link without it is well. */
static int host_by_links(const sl_validation *m, int host) {
    int slow = 0, well = 0, well_elsewhere = 0, peer = -1, peers = 0;
    for (int i = 0; i + 1 < m->links; i += 2) {
        const sl_measured_link *l = &m->link[i];
        if (sl_assessment_kind(l) != SL_LINKS_FAR || l->state == SL_WIRE_REFUSED)
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

static int rank_of(const sl_validation *m, int host) {
    int rank = -1;
    for (int i = 0; i < m->devices; i++)
        if (m->device[i].host == host && (rank < 0 || m->device[i].rank < rank))
            rank = m->device[i].rank;
    return rank;
}

static sl_status accuse_host(sl_assessment *j, int host, int devices, int links) {
    const sl_validation *m = j->m;
    const sl_measured_device *worst = NULL;
    const sl_measured_link *slowest = NULL;
    sl_suspect s = sl_assessment_nobody();
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
        if (sl_assessment_kind(&m->link[i]) == SL_LINKS_FAR && touches(&m->link[i], host) &&
            m->link[i].slow && (!slowest || m->link[i].gb_per_s < slowest->gb_per_s))
            slowest = &m->link[i];
    if (devices && worst) {
        char words[256];
        s.measured = worst->gflops;
        s.expected = worst->expected;
        sl_cause_of_device(&worst->evidence, usual_clock(j), s.cause, sizeof s.cause);
        say_device(worst, words, sizeof words);
        sl_text_format(s.why, sizeof s.why, "all %d devices of %.32s are slow%s; rank %d: %s", count,
                       m->host[host], links ? ", and so are all its links to other hosts" : "", worst->rank,
                       words);
    } else if (slowest) {
        sl_suspect link = sl_assessment_nobody();
        say_link(j, slowest, &link);
        s.measured = link.measured;
        s.expected = link.expected;
        sl_cause_of_link(&slowest->from_evidence, &slowest->to_evidence, usual_speed(j, SL_LINKS_FAR),
                         s.cause, sizeof s.cause);
        sl_text_format(s.why, sizeof s.why, "all links of %.32s to other hosts are slow; link %d -> %d: %s",
                       m->host[host], slowest->from, slowest->to, link.why);
    }
    return sl_assessment_add(j, &s);
}

/* ---- all ---- */

/* A host replaces its devices or its links. */
static sl_status accuse_hosts(sl_assessment *j, char *devices, char *links) {
    for (int host = 0; host < j->m->hosts; host++) {
        devices[host] = (char)host_by_devices(j->m, host);
        links[host] = (char)host_by_links(j->m, host);
        if (devices[host] || links[host])
            SL_TRY(accuse_host(j, host, devices[host], links[host]));
    }
    return SL_OK;
}

static sl_status accuse_devices(sl_assessment *j, const char *taken) {
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

/* An end that has no processor cannot receive or send: then its device is the finding. */
static int is_kept_from_link(const sl_validation *m, int rank) {
    for (int i = 0; i < m->devices; i++) {
        const sl_measured_device *d = &m->device[i];
        if (d->rank == rank && d->slow && !d->evidence.apart && d->evidence.waited > SL_ASSESSMENT_WAITING)
            return 1;
    }
    return 0;
}

static sl_status accuse_links(sl_assessment *j, const char *taken) {
    for (int i = 0; i + 1 < j->m->links; i += 2) {
        const sl_measured_link *there = &j->m->link[i], *back = &j->m->link[i + 1];
        if (there->state == SL_WIRE_REFUSED || is_kept_from_link(j->m, there->from) ||
            is_kept_from_link(j->m, there->to))
            continue;
        if (sl_assessment_kind(there) == SL_LINKS_FAR && (taken[there->from_host] || taken[there->to_host]))
            continue;
        if (there->slow && back->slow)
            SL_TRY(accuse_link(j, back->gb_per_s < there->gb_per_s ? back : there, 1));
        else if (there->slow || back->slow)
            SL_TRY(accuse_link(j, there->slow ? there : back, 0));
    }
    return SL_OK;
}

sl_status sl_assessment_accuse(sl_assessment *j) {
    char *taken;
    SL_TRY(sl_alloc(&taken, (size_t)(2 * j->m->hosts), 1));
    sl_status status = accuse_hosts(j, taken, taken + j->m->hosts);
    SL_THEN(status, accuse_devices(j, taken));
    SL_THEN(status, accuse_links(j, taken + j->m->hosts));
    sl_free(taken);
    return status;
}
