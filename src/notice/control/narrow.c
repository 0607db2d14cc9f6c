#include "notice/control/narrow.h"

#include "base/text.h"
#include "notice/control/job_status.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LOST 0.05 /* of a rank's time: a smaller loss to others does not count as slow */
#define TAKEN 0.5 /* of the missing processor time of a rank: the cause is what took most of it */

static int there(const sl_suspect *s, int node, const int *node_of, int ranks) {
    return s->component == SL_COMPONENT_DEVICE && s->rank >= 0 && s->rank < ranks && node_of[s->rank] == node;
}

/* The contended node of a verdict, if its cause says so (notice/validate/causes.h); -1: another kind of
 * verdict. */
static int contended(const sl_suspect *v, const int *node_of, int ranks) {
    int is = v->component == SL_COMPONENT_HOST && strstr(v->cause, "contention") && v->rank >= 0 &&
             v->rank < ranks;
    return is ? node_of[v->rank] : -1;
}

static int node(int rank, const int *node_of, int ranks) {
    return rank >= 0 && rank < ranks ? node_of[rank] : -1;
}

/* Whether two directions are one, or go between the same two nodes: over the same cards and wires. */
static int is_way(int from, int to, int other_from, int other_to, const int *node_of, int ranks) {
    int here = node(from, node_of, ranks), there = node(to, node_of, ranks);
    return (from == other_from && to == other_to) ||
           (here >= 0 && there >= 0 && here != there && here == node(other_from, node_of, ranks) &&
            there == node(other_to, node_of, ranks));
}

/* Whether the profile points there: at this direction, or at the node of an end of it. */
static int points_at(const sl_suspect *s, const sl_suspect *doubt, const int *node_of, int ranks) {
    if (s->component == SL_COMPONENT_HOST) {
        int end = node(s->rank, node_of, ranks);
        return end >= 0 &&
               (end == node(doubt->from, node_of, ranks) || end == node(doubt->to, node_of, ranks)) &&
               node(doubt->from, node_of, ranks) != node(doubt->to, node_of, ranks);
    }
    return s->component == SL_COMPONENT_LINK &&
           (is_way(s->from, s->to, doubt->from, doubt->to, node_of, ranks) ||
            (s->both && is_way(s->to, s->from, doubt->from, doubt->to, node_of, ranks)));
}

/* Tests found a direction slower than others, with too few to compare; the profile knows its former speed. */
static void settle_doubt(sl_suspect *verdict, const sl_suspect *suspect, int suspects, const int *node_of,
                         int ranks) {
    const sl_suspect doubt = *verdict;
    if (doubt.component != SL_COMPONENT_UNKNOWN || doubt.from < 0)
        return;
    for (int i = 0; i < suspects; i++) {
        if (!points_at(&suspect[i], &doubt, node_of, ranks))
            continue;
        *verdict = suspect[i].component == SL_COMPONENT_HOST ? doubt : suspect[i];
        verdict->component = SL_COMPONENT_LINK;
        sl_text_format(verdict->why, sizeof verdict->why,
                       "%s; tested: link %d -> %d has %.3g GB/s, the fastest %.3g", suspect[i].why,
                       doubt.from, doubt.to, doubt.measured, doubt.expected);
        return;
    }
}

/* Whether a verdict of the tests is about something that the profile suspects. */
static int suspected(const sl_suspect *v, const sl_suspect *suspect, int suspects, const int *node_of,
                     int ranks) {
    int host = v->component == SL_COMPONENT_HOST;
    for (int i = 0; i < suspects; i++) {
        const sl_suspect *s = &suspect[i];
        if ((host || s->component == SL_COMPONENT_HOST) && v->rank >= 0 && s->rank >= 0 &&
            node(v->rank, node_of, ranks) == node(s->rank, node_of, ranks))
            return 1;
        if (v->component == SL_COMPONENT_DEVICE && s->component == SL_COMPONENT_DEVICE && v->rank == s->rank)
            return 1;
        if (v->component == SL_COMPONENT_LINK && points_at(s, v, node_of, ranks))
            return 1;
    }
    return 0;
}

/* Whether the ranks that are suspected are some of a node's, but not all. */
static int some_of(int node, const sl_suspect *suspect, int suspects, const int *node_of, int ranks) {
    int devices = 0, all = 0;
    for (int s = 0; node >= 0 && s < suspects; s++)
        devices += there(&suspect[s], node, node_of, ranks);
    for (int r = 0; r < ranks; r++)
        all += node_of[r] == node;
    return devices > 0 && devices < all;
}

/* Whether others took most of what is missing to the suspected ranks of a node. */
static int took_most(int node, const sl_suspect *suspect, int suspects, const sl_narrow_facts *facts) {
    double sum = 0;
    int devices = 0;
    for (int s = 0; node >= 0 && s < suspects; s++)
        if (there(&suspect[s], node, facts->node_of, facts->ranks)) {
            devices++;
            sum += facts->taken[s];
        }
    return devices > 0 && sum >= TAKEN * devices;
}

/* Whether a verdict of the tests names contention on this device: on it, or on some ranks of its host. */
static int presses_on(const sl_suspect *v, const sl_suspect *device, const int *node_of, int ranks) {
    int host = contended(v, node_of, ranks);
    return host >= 0 ? host == node(device->rank, node_of, ranks)
                     : v->component == SL_COMPONENT_DEVICE && v->rank == device->rank &&
                           strstr(v->cause, "contention") != NULL;
}

/* What was tested of a rank's hardware and found healthy; "" if nothing was. */
static const char *passed(int rank, const sl_narrow_facts *facts) {
    if (!facts->tested || rank < 0 || rank >= facts->ranks)
        return "";
    const int well = facts->tested[rank] & SL_TESTED_GPU && !(facts->tested[rank] & SL_HOLDS_GPU);
    const int gpu = facts->gpu || (facts->tested[rank] & SL_HOLDS_GPU);
    switch (facts->tested[rank] & (SL_TESTED_DEVICE | SL_TESTED_LINKS)) {
    case SL_TESTED_DEVICE | SL_TESTED_LINKS:
        return well  ? "its processor, its GPU and TCP links passed the tests"
               : gpu ? "its processor and TCP links passed the tests, its GPU was not tested"
                     : "its processor and links passed the tests";
    case SL_TESTED_DEVICE:
        return well  ? "its processor and its GPU passed the test, its links were not tested"
               : gpu ? "its processor passed the test, its links and its GPU were not tested"
                     : "its processor passed the test, its links were not tested";
    case SL_TESTED_LINKS:
        return "its links passed the tests, its processor was not tested";
    default:
        return "";
    }
}

/* A suspected device as a verdict: with the contention that tests found there, if it took enough of its time;
 * else with the tests' result for its hardware. A rank that had no processor for most of what it computes
 * longer has no more work, whatever has taken it. */
static sl_suspect settle_device(const sl_suspect *device, double taken, const sl_suspect *tested, int count,
                                const sl_narrow_facts *facts) {
    sl_suspect s = *device;
    const sl_suspect *pressure = NULL;
    int slow_link = 0;
    const char *healthy = passed(device->rank, facts);
    for (int i = 0; i < count; i++) {
        if (presses_on(&tested[i], device, facts->node_of, facts->ranks))
            pressure = &tested[i];
        slow_link |= tested[i].from == device->rank || tested[i].to == device->rank;
    }
    if (device->cause[0]) { /* the profile knows it */
        sl_text_format(s.why, sizeof s.why, "%s%s%s", device->why, healthy[0] ? "; " : "", healthy);
    } else if (pressure && taken >= TAKEN) {
        snprintf(s.cause, sizeof s.cause, "%s", pressure->cause);
        sl_text_format(s.why, sizeof s.why, "%s; %s", device->why, pressure->why);
    } else if (slow_link) {
        sl_text_format(
            s.why, sizeof s.why,
            "%s; one of its links was slower in the tests, but not in the program's calls: look at its "
            "share of the work",
            device->why);
    } else if (taken >= TAKEN) {
        sl_text_format(
            s.why, sizeof s.why,
            "%s; for %.0f%% of that it waited for a processor, which nothing occupied any more in the "
            "tests%s%s: look at what else runs there",
            device->why, 100 * (taken < 1 ? taken : 1), healthy[0] ? "; " : "", healthy);
    } else {
        sl_text_format(s.why, sizeof s.why, "%s; %s: look at its share of the work", device->why,
                       healthy[0] ? healthy : "its hardware was not tested");
    }
    return s;
}

static int is_quota(const sl_suspect *v) {
    return v->component == SL_COMPONENT_DEVICE && strstr(v->cause, "quota") != NULL;
}

/* A verdict about a suspect that a quota stopped, with what it did to the program before what it did to a
 * test. */
static sl_suspect with_quota(const sl_suspect *v, const sl_suspect *suspect, int suspects) {
    sl_suspect s = *v;
    for (int i = 0; i < suspects; i++)
        if (suspect[i].component == SL_COMPONENT_DEVICE && suspect[i].rank == v->rank &&
            suspect[i].cause[0] && v->component == SL_COMPONENT_DEVICE) {
            if (!is_quota(v))
                snprintf(s.cause, sizeof s.cause, "%s", suspect[i].cause);
            sl_text_format(s.why, sizeof s.why, "%s; tested: %s", suspect[i].why, v->why);
        }
    return s;
}

/* Whether a kept verdict already speaks of this device. */
static int covers(const sl_suspect *v, const sl_suspect *device, const int *node_of, int ranks) {
    return (v->component == SL_COMPONENT_DEVICE && v->rank == device->rank) ||
           (v->component == SL_COMPONENT_HOST &&
            node(v->rank, node_of, ranks) == node(device->rank, node_of, ranks));
}

/* The share of the time in which quotas stopped the rank of a verdict; -1: unknown. */
static double stopped(const sl_suspect *v, const sl_narrow_facts *facts) {
    return facts->stopped && v->rank >= 0 && v->rank < facts->ranks ? facts->stopped[v->rank] : -1;
}

/* The least that something must have taken from the program to be why it is slow. */
static double least_lost(const sl_narrow_facts *facts) {
    return TAKEN * facts->missing > LOST ? TAKEN * facts->missing : LOST;
}

/* Of a verdict without suspects: a quota stays only if it stopped the program, too, as far as that is known.
 */
static void acquit_quota(sl_suspect *v, const sl_narrow_facts *facts, const char *profile) {
    const double share = stopped(v, facts);
    const int rank = v->rank;
    if (share < 0 || share >= least_lost(facts))
        return;
    *v = (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    sl_text_format(
        v->why, sizeof v->why,
        "%s%sthe cgroup's CPU quota of rank %d throttled a test, but the program for only %.0f ms of "
        "each second longer than when healthy",
        profile, profile[0] ? "; " : "", rank, 1000 * share);
}

static int is_contention(const sl_suspect *v) {
    return (v->component == SL_COMPONENT_HOST || v->component == SL_COMPONENT_DEVICE) && v->rank >= 0 &&
           strstr(v->cause, "contention") != NULL;
}

/* Of a verdict without suspects: contention of a host or a device stays only if its ranks are known to have
 * lost the time that is missing to others; if that of a device is all that the tests found (`only`), what it
 * starved counts too. */
static void acquit(sl_suspect *v, int only, const sl_narrow_facts *facts, const char *profile) {
    const int host = v->component == SL_COMPONENT_HOST, rank = v->rank;
    int known = 0;
    double sum = 0, least = least_lost(facts);
    if (!is_contention(v) || rank >= facts->ranks)
        return;
    for (int r = 0; r < facts->ranks && facts->lost; r++)
        if (facts->lost[r] >= 0 && (host ? facts->node_of[r] == facts->node_of[rank] : r == rank)) {
            known = 1;
            sum += only && facts->starved && facts->starved[r] > facts->lost[r] ? facts->starved[r]
                                                                                : facts->lost[r];
        }
    if (sum >= least)
        return;
    *v = (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    const char *whose = host ? "of a host" : "of a rank", *who = host ? "its ranks" : "it";
    if (known)
        sl_text_format(v->why, sizeof v->why,
                       "%s%sothers use the processors %s, but %s lost only %.1f%% of the time to them",
                       profile, profile[0] ? "; " : "", whose, who, 100 * sum);
    else
        sl_text_format(v->why, sizeof v->why,
                       "%s%sothers use the processors %s; whether %s lost time to them is not known", profile,
                       profile[0] ? "; " : "", whose, who);
}

int sl_verdict_rests_on_tests(const sl_suspect *v, const sl_suspect *suspect, int suspects,
                              const sl_narrow_facts *facts) {
    const int named = v->component == SL_COMPONENT_DEVICE || v->component == SL_COMPONENT_LINK ||
                      v->component == SL_COMPONENT_HOST;
    return named && !is_contention(v) && !(is_quota(v) && stopped(v, facts) >= 0) &&
           !suspected(v, suspect, suspects, facts->node_of, facts->ranks);
}

int sl_verdict_drop_unknown(sl_suspect *verdict, int count) {
    int kept = 0, known = 0, unknown = 0;
    for (int i = 0; i < count; i++)
        known += verdict[i].component != SL_COMPONENT_UNKNOWN || verdict[i].from >= 0;
    for (int i = 0; i < count; i++) {
        if (verdict[i].component == SL_COMPONENT_UNKNOWN && verdict[i].from < 0 &&
            (known > 0 || unknown++ > 0))
            continue;
        verdict[kept++] = verdict[i];
    }
    return kept;
}

/* Whether the tests found contention on the host that both ends of a link share: memory carries it, as fast
 * as its ends get processors. */
static int is_pressed(const sl_suspect *link, const sl_suspect *tested, int count,
                      const sl_narrow_facts *facts) {
    const int here = node(link->from, facts->node_of, facts->ranks);
    for (int i = 0; here >= 0 && here == node(link->to, facts->node_of, facts->ranks) && i < count; i++)
        if (is_contention(&tested[i]) && node(tested[i].rank, facts->node_of, facts->ranks) == here)
            return 1;
    return 0;
}

/* Of a verdict without suspects: a link that the program's calls do not show, or that had no processor. */
static void acquit_link(sl_suspect *v, int pressed, const sl_narrow_facts *facts, const sl_suspect *suspect,
                        int suspects) {
    const sl_suspect link = *v;
    if ((facts->transfers != 0 && !pressed) || suspected(v, suspect, suspects, facts->node_of, facts->ranks))
        return;
    *v = (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
    sl_text_format(
        v->why, sizeof v->why, "%s%sa test found link %d -> %d slower, but %s",
        suspects > 0 ? suspect[0].why : "", suspects > 0 && suspect[0].why[0] ? "; " : "", link.from, link.to,
        pressed ? "others use the processors of its host" : "the program's transfers take as long as before");
}

int sl_verdict_narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect, int suspects,
                      const sl_narrow_facts *facts) {
    const int *node_of = facts->node_of, ranks = facts->ranks;
    int kept = 0, devices = 0;
    for (int i = 0; i < count; i++)
        settle_doubt(&verdict[i], suspect, suspects, node_of, ranks);
    for (int i = 0; i < suspects; i++)
        devices += suspect[i].component == SL_COMPONENT_DEVICE;
    sl_suspect tested[SL_STATUS_SUSPECTS];
    assert(count <= SL_STATUS_SUSPECTS);
    memcpy(tested, verdict, (size_t)count * sizeof *tested);
    if (devices == 0) {
        for (int i = 0; i < count; i++)
            if (verdict[i].component == SL_COMPONENT_LINK)
                acquit_link(&verdict[i], is_pressed(&tested[i], tested, count, facts), facts, suspect,
                            suspects);
            else if (is_quota(&verdict[i]))
                acquit_quota(&verdict[i], facts, suspects > 0 ? suspect[0].why : "");
            else
                acquit(&verdict[i], count == 1 && tested[i].component == SL_COMPONENT_DEVICE, facts,
                       suspects > 0 ? suspect[0].why : "");
        return sl_verdict_drop_unknown(verdict, count);
    }
    for (int i = 0; i < count; i++) {
        const sl_suspect *v = &tested[i];
        int host = contended(v, node_of, ranks);
        int pressure = host >= 0 ? some_of(host, suspect, suspects, node_of, ranks) ||
                                       !took_most(host, suspect, suspects, facts)
                                 : v->component == SL_COMPONENT_DEVICE && strstr(v->cause, "contention");
        if (!pressure && suspected(v, suspect, suspects, node_of, ranks))
            verdict[kept++] = with_quota(v, suspect, suspects);
    }
    for (int i = 0; i < suspects && kept < most; i++) {
        int covered = suspect[i].component != SL_COMPONENT_DEVICE;
        for (int k = 0; k < kept && !covered; k++)
            covered = covers(&verdict[k], &suspect[i], node_of, ranks);
        if (!covered)
            verdict[kept++] = settle_device(&suspect[i], facts->taken[i], tested, count, facts);
    }
    return kept;
}
