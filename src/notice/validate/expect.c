#include "base/numbers.h"
#include "notice/validate/verdict_inside.h"

#include <math.h>
#include <stdlib.h>

#define BEYOND 1.1      /* Falcon's 10% */
#define SPREADS 2       /* plus this many coefficients of variation */
#define ONCE 0.1        /* assumed variation with one repeat */
#define LATENCY_MIN 0.1 /* ms */
#define STOPPED 0.1     /* share of time that a control group was stopped */
enum { MIN = 3 };       /* members of a kind that can be compared */

int sl_assessment_kind(const sl_measured_link *link) {
    return link->from_host != link->to_host ? SL_LINKS_FAR : SL_LINKS_NEAR;
}

/* ---- expected values of a kind ---- */

double sl_assessment_median(double *value, int count, int larger_is_better) {
    if (count == 0)
        return 0;
    qsort(value, (size_t)count, sizeof *value, sl_ascending_numbers);
    return value[larger_is_better ? count / 2 : (count - 1) / 2];
}

/* The spread of the healthy members of a kind: the median distance from the median, as a coefficient of
 * variation (1.4826: of a normal distribution). The smaller of two in the middle, because up to half may be
 * slow. */
static double differ_by(double *value, int count, double median) {
    for (int i = 0; i < count; i++)
        value[i] = fabs(value[i] - median);
    return median > 0 ? 1.4826 * sl_assessment_median(value, count, 0) / median : 0;
}

/* `value[values]` of `members` members and the median of their variation. */
static void settle(const sl_assessment *j, sl_kind *kind, double *value, int values, int members, int larger,
                   double reference, double cv) {
    kind->members = members;
    kind->given = reference > 0;
    kind->median = sl_assessment_median(value, values, larger);
    double between = differ_by(value, values, kind->median);
    kind->cv = cv > between ? cv : between;
    if (j->m->repeats < 2 && kind->cv < ONCE)
        kind->cv = ONCE;
    kind->factor = BEYOND + SPREADS * kind->cv;
    kind->expected = kind->given ? reference : members >= MIN ? kind->median : 0;
}

static void expect_devices(sl_assessment *j, const sl_reference *reference) {
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

/* One figure of the directions of a kind; 0: none for this direction. */
static double figure(const sl_measured_link *link, int latency, int variation) {
    if (latency)
        return link->latency_ms <= 0 ? 0 : variation ? link->latency_cv : link->latency_ms;
    return link->samples == 0 || link->limited ? 0 : variation ? link->bandwidth_cv : link->gb_per_s;
}

static void expect_links(sl_assessment *j, int kind, int latency, double reference) {
    sl_kind *out = latency ? &j->v->kinds.latency[kind] : &j->v->kinds.bandwidth[kind];
    double median, spread;
    int count = 0, links = 0;
    for (int i = 0; i < j->m->links; i++)
        if (sl_assessment_kind(&j->m->link[i]) == kind && figure(&j->m->link[i], latency, 0) > 0)
            j->value[count++] = figure(&j->m->link[i], latency, 1);
    sl_spread(j->value, count, &median, &spread);
    count = 0;
    for (int i = 0; i < j->m->links; i++)
        if (sl_assessment_kind(&j->m->link[i]) == kind) {
            double value = figure(&j->m->link[i], latency, 0);
            /* a limited one is slower than it looks, but counts: the median must not move away */
            if (!latency && j->m->link[i].samples > 0 && j->m->link[i].limited)
                value = j->m->link[i].gb_per_s;
            if (value > 0)
                j->value[count++] = value;
            links += j->m->link[i].from < j->m->link[i].to;
        }
    settle(j, out, j->value, count, links, !latency, reference, median);
}

/* ---- comparisons ---- */

/* Time without a processor that is not for a quota. */
static double kept_waiting(const sl_measured_device *d) {
    return d->evidence.waited > d->evidence.throttled ? d->evidence.waited - d->evidence.throttled : 0;
}

double sl_assessment_waiting(sl_assessment *j) {
    int count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0)
            j->value[count++] = kept_waiting(&j->m->device[i]);
    return sl_assessment_median(j->value, count, 0);
}

/* The rate in the time that it had a processor. */
static double running_rate(const sl_measured_device *d) {
    double waited = kept_waiting(d) < 0.99 ? kept_waiting(d) : 0.99;
    return d->gflops / (1 - waited);
}

static double usual_rate(sl_assessment *j) {
    int count = 0;
    for (int i = 0; i < j->m->devices; i++)
        if (j->m->device[i].samples > 0)
            j->value[count++] = running_rate(&j->m->device[i]);
    const sl_kind *kind = &j->v->kinds.device;
    return kind->given ? kind->expected : sl_assessment_median(j->value, count, 1);
}

/* If most devices wait for processors, the waiting time of each is chance, and not a finding; its speed while
 * it has a processor is. */
static int is_luck(const sl_assessment *j, const sl_measured_device *d, double waiting, double rate) {
    return waiting > SL_ASSESSMENT_WAITING && kept_waiting(d) > SL_ASSESSMENT_WAITING &&
           rate <= j->v->kinds.device.factor * running_rate(d);
}

static void assess_device(sl_assessment *j, sl_measured_device *d, double waiting, double rate) {
    const sl_kind *kind = &j->v->kinds.device;
    d->expected = kind->expected;
    d->slow = d->samples > 0 && d->expected > 0 && d->expected > kind->factor * d->gflops &&
              d->expected > BEYOND * d->best && !is_luck(j, d, waiting, rate);
    if (d->samples > 0 && !d->slow && d->evidence.throttled > STOPPED) {
        /* its rate without the time in which it was stopped */
        double free = d->gflops / (1 - (d->evidence.throttled < 0.99 ? d->evidence.throttled : 0.99));
        d->expected = d->expected > free ? d->expected : free;
        d->slow = 1;
    }
}

int sl_assessment_by_rate(const sl_assessment *j, const sl_measured_link *l) {
    const sl_kind *rate = &j->v->kinds.bandwidth[sl_assessment_kind(l)];
    return l->samples > 0 && rate->expected > 0 && rate->expected > rate->factor * l->gb_per_s &&
           rate->expected > BEYOND * l->best_gb_per_s;
}

static int slow_by_latency(const sl_assessment *j, const sl_measured_link *l) {
    const sl_kind *delay = &j->v->kinds.latency[sl_assessment_kind(l)];
    double least = l->best_ms > 0 ? l->best_ms : l->latency_ms;
    return l->latency_ms > 0 && delay->expected > 0 && l->latency_ms > delay->factor * delay->expected &&
           least > BEYOND * delay->expected && least > delay->expected + LATENCY_MIN;
}

static void assess_link(sl_assessment *j, sl_measured_link *l) {
    l->expected_latency_ms = j->v->kinds.latency[sl_assessment_kind(l)].expected;
    l->expected_gb_per_s = j->v->kinds.bandwidth[sl_assessment_kind(l)].expected;
    l->slow = l->state == SL_WIRE_LOST || sl_assessment_by_rate(j, l) || slow_by_latency(j, l);
}

void sl_assessment_expect(sl_assessment *j, const sl_reference *reference) {
    expect_devices(j, reference);
    for (int kind = 0; kind < SL_LINK_KINDS; kind++) {
        expect_links(j, kind, 1, reference ? reference->latency_ms[kind] : 0);
        expect_links(j, kind, 0, reference ? reference->gb_per_s[kind] : 0);
    }
    double waiting = sl_assessment_waiting(j), rate = usual_rate(j);
    for (int i = 0; i < j->m->devices; i++)
        assess_device(j, &j->m->device[i], waiting, rate);
    for (int i = 0; i < j->m->links; i++)
        assess_link(j, &j->m->link[i]);
}
