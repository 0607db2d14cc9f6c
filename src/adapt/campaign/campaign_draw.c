#include "adapt/campaign/campaign_draw.h"
#include "base/random.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef struct kind_of_draw {
    double per_hour, minutes; /* events per host; their mean duration */
    double least, most;       /* slowdown factor */
} kind_of_draw;

typedef struct draw {
    int rates;
    kind_of_draw compute, network;
} draw;

static const char *const rates_names[] = {"probes", "at-scale", NULL};

#define AT(field) offsetof(draw, field)
/* clang-format off */
#define KIND(what, field) \
    {.name = what "_per_host_hour", .type = SL_KEY_REAL, .offset = AT(field.per_hour), .minimum = 0, .maximum = 1e6, .help = "events a host and hour, instead of the published rate"}, \
    {.name = what "_minutes", .type = SL_KEY_REAL, .offset = AT(field.minutes), .minimum = 1e-6, .maximum = 1e6, .help = "how long one lasts on average, instead of the published time"}, \
    {.name = what "_least", .type = SL_KEY_REAL, .offset = AT(field.least), .minimum = 1, .maximum = 1e6, .help = "times as long at least (ops, or transfers); not published"}, \
    {.name = what "_most", .type = SL_KEY_REAL, .offset = AT(field.most), .minimum = 1, .maximum = 1e6, .help = "and at most; between them each is as likely"}
const sl_key sl_draw_keys[] = {
    {.name = "rates", .type = SL_KEY_CHOICE, .standard = "probes", .offset = AT(rates), .choices = rates_names, .help = "Falcon, table 1. probes: compute 6 of 392 jobs of 80 minutes on one host, 10 minutes each; network 42 of 107 jobs of 5 hours on four, 24 minutes. at-scale: 16 of 27 jobs of 768 devices, 3 of them with compute too, 72 minutes; the jobs are taken to last a day"},
    KIND("compute", compute), KIND("network", network),
    {0}};
/* clang-format on */

/* Events per host and hour if `hit` of `jobs` of `hours` on `hosts` had at least one. */
static double rate(double hit, double jobs, double hours, double hosts) {
    return -log(1 - hit / jobs) / hours / hosts;
}

static draw published(int rates) {
    draw d = {.rates = rates, .compute = {.least = 1.1, .most = 1.5}, .network = {.least = 1.5, .most = 5}};
    d.compute.per_hour = rates ? rate(3, 27, 24, 96) : rate(6, 392, 80.0 / 60, 1);
    d.network.per_hour = rates ? rate(16, 27, 24, 96) : rate(42, 107, 5, 4);
    d.compute.minutes = rates ? 72 : 10;
    d.network.minutes = rates ? 72 : 24;
    return d;
}

/* The number of draw `i` of a purpose, in (0, 1). */
static double unit(uint64_t seed, uint64_t purpose, uint64_t i) {
    return sl_random_unit(sl_random_mix(sl_random_mix(seed * SL_RANDOM_STEP + purpose) + i * SL_RANDOM_STEP));
}

static int index_below(double unit_number, int count) {
    int i = (int)(unit_number * count);
    return i < count ? i : count - 1;
}

/* A host of several positions, or one position: of compute faults, CPU contention (4 of 6) slows a host, the
 * others one device. */
static void choose_component(const sl_campaign *c, uint64_t purpose, uint64_t i, sl_campaign_fault *f) {
    int positions = c->replicas * c->problem.ranks;
    f->a = f->b = index_below(unit(c->seed, purpose + 2, i), positions);
    if (f->kind != SL_FAULT_DEVICE || unit(c->seed, purpose + 3, i) > 4.0 / 6)
        return;
    sl_campaign_host_range(c, f->a * c->tensor / c->host_devices, &f->a, &f->b);
}

static sl_status draw_kind(const sl_yaml *node, const kind_of_draw *k, sl_campaign_fault_kind kind,
                           sl_time length, sl_campaign *c) {
    uint64_t purpose = 16 * (uint64_t)kind;
    double hosts = sl_campaign_hosts(c);
    double gap = 3600e9 / (k->per_hour * hosts), now = 0; /* ns */
    if (k->per_hour == 0)
        return SL_OK;
    if (k->most < k->least)
        return sl_yaml_error(node, "draws slowdowns from %g to %g; the second must not be less", k->least,
                             k->most);
    if ((double)length / gap > SL_CAMPAIGN_FAULTS / 2)
        return sl_yaml_error(node, "would draw about %g events; at most %d", (double)length / gap,
                             SL_CAMPAIGN_FAULTS / 2);
    for (uint64_t i = 0;; i++) {
        now += -gap * log(unit(c->seed, purpose, i));
        if (!(now < (double)length))
            return SL_OK;
        sl_campaign_fault f = {.kind = kind, .first = (sl_time)now, .latency = -1, .stop = -1};
        double lasts = fmax(1, -60e9 * k->minutes * log(unit(c->seed, purpose + 1, i)));
        f.until = lasts > 4e18 ? SL_FAULT_LASTS : f.first + (sl_time)lasts;
        f.slowdown = k->least + (k->most - k->least) * unit(c->seed, purpose + 4, i);
        choose_component(c, purpose, i, &f);
        SL_TRY(sl_campaign_add(c, &f));
        c->drawn++;
    }
}

sl_status sl_campaign_draw(const sl_yaml *node, sl_time length, sl_campaign *c) {
    draw d = published(0);
    SL_TRY(sl_config_read(node, "draw", sl_draw_keys, &d));
    if (d.rates) { /* rates in the file replace the published ones */
        d = published(d.rates);
        SL_TRY(sl_config_read(node, "draw", sl_draw_keys, &d));
    }
    SL_TRY(draw_kind(node, &d.compute, SL_FAULT_DEVICE, length, c));
    SL_TRY(draw_kind(node, &d.network, SL_FAULT_NIC, length, c));
    snprintf(
        c->about, sizeof c->about,
        "%zu events drawn, seed %llu: compute %.4g per host and hour for %.3g min, network %.4g for %.3g min",
        c->drawn, (unsigned long long)c->seed, d.compute.per_hour, d.compute.minutes, d.network.per_hour,
        d.network.minutes);
    return SL_OK;
}
