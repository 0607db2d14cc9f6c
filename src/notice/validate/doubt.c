#include "base/text.h"
#include "notice/validate/verdict_inside.h"

#include <math.h>

/* A device this much faster than the median shows that the median is not healthy. */
#define FAR_FASTER 1.5

/* Without a comparison: reports devices that disagree. */
static sl_status doubt_devices(sl_assessment *j) {
    const sl_kind *kind = &j->v->kinds.device;
    double least = INFINITY, most = 0;
    sl_suspect s = sl_assessment_nobody();
    for (int i = 0; i < j->m->devices; i++) {
        const sl_measured_device *d = &j->m->device[i];
        if (d->samples == 0 || d->slow)
            continue;
        double once = d->best > d->gflops ? d->best : d->gflops; /* every repeat must show it */
        least = once < least ? once : least;
        most = d->gflops > most ? d->gflops : most;
    }
    if (most <= 0)
        return SL_OK;
    s.measured = least;
    s.expected = most;
    if (kind->expected <= 0 && most > kind->factor * least)
        sl_text_format(s.why, sizeof s.why,
                       "which of %d devices is slow: %.3g and %.3g GFLOP/s; at least 3, or a healthy "
                       "reference, are needed to compare",
                       kind->members, least, most);
    else if (kind->expected > 0 && !kind->given && sl_assessment_waiting(j) <= SL_ASSESSMENT_WAITING &&
             most > FAR_FASTER * kind->factor * kind->expected)
        sl_text_format(s.why, sizeof s.why,
                       "whether most devices are slow: the fastest reaches %.3g GFLOP/s, the median "
                       "%.3g; a healthy reference is needed",
                       most, kind->expected);
    return s.why[0] ? sl_assessment_add(j, &s) : SL_OK;
}

static sl_status doubt_refused(sl_assessment *j, const sl_measured_link *l) {
    sl_suspect s = sl_assessment_nobody();
    s.from = l->from;
    s.to = l->to;
    s.both = 1;
    sl_text_format(s.why, sizeof s.why, "about link %d-%d: no connection for the test (%s)", l->from, l->to,
                   l->why);
    return sl_assessment_add(j, &s);
}

/* Too few links of a kind, or no reference: reports links that disagree. */
static sl_status doubt_links(sl_assessment *j, int kind) {
    const sl_kind *rate = &j->v->kinds.bandwidth[kind];
    double least = INFINITY, most = 0;
    sl_suspect s = sl_assessment_nobody();
    for (int i = 0; i < j->m->links; i++) {
        const sl_measured_link *l = &j->m->link[i];
        if (sl_assessment_kind(l) != kind || l->samples == 0)
            continue;
        double rate_once = l->best_gb_per_s > l->gb_per_s ? l->best_gb_per_s : l->gb_per_s;
        if (rate_once < least) { /* at its best it is worse than that of others */
            least = rate_once;
            s.from = l->from;
            s.to = l->to;
        }
        most = l->gb_per_s > most ? l->gb_per_s : most;
    }
    if (rate->expected > 0 || most <= rate->factor * least)
        return SL_OK;
    s.measured = least;
    s.expected = most;
    sl_text_format(s.why, sizeof s.why,
                   "whether link %d -> %d is slow: %.3g GB/s, the fastest of %d link%s %s has %.3g; "
                   "at least 3 of a kind, or a healthy reference, are needed to compare",
                   s.from, s.to, least, rate->members, rate->members == 1 ? "" : "s",
                   kind == SL_LINKS_FAR ? "between hosts" : "within a host", most);
    return sl_assessment_add(j, &s);
}

sl_status sl_assessment_doubt(sl_assessment *j) {
    const sl_validation *m = j->m;
    for (int i = 0; i < m->missings; i++) {
        sl_suspect s = sl_assessment_nobody();
        s.rank = m->missing[i].rank;
        if (s.rank >= 0)
            sl_text_format(s.why, sizeof s.why, "about rank %d: its validating process was lost", s.rank);
        else
            sl_text_format(s.why, sizeof s.why, "about all ranks: validating process %d did not arrive",
                           m->missing[i].member);
        SL_TRY(sl_assessment_add(j, &s));
    }
    for (int i = 0; i + 1 < m->links; i += 2)
        if (m->link[i].state == SL_WIRE_REFUSED)
            SL_TRY(doubt_refused(j, &m->link[i]));
    SL_TRY(doubt_devices(j));
    for (int kind = 0; kind < SL_LINK_KINDS; kind++)
        SL_TRY(doubt_links(j, kind));
    return SL_OK;
}
