/* The campaign file (docs/formats.md) through config tables. */
#include "adapt/campaign/campaign.h"
#include "adapt/campaign/campaign_cells.h"
#include "adapt/campaign/campaign_draw.h"
#include "adapt/campaign/fleet.h"
#include "base/config.h"
#include "base/file.h"
#include "base/memory.h"
#include "plan/family/family.h"
#include "plan/pipeline/kind.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The file's values, in its units. */
typedef struct campaign_request {
    double duration_s, gradient_mb, ring_latency_ms, ring_gbps, other_ms, delegated_ms;
    double cost_s[SL_STRATEGY_KINDS], profile_s;
    double at_once_s, calm_s, profile_every_s;
    int64_t seed;
    char *trace;
    sl_campaign job; /* values that need no conversion are stored here directly */
} campaign_request;

/* One of `events`; values not given are negative. */
typedef struct event {
    int64_t at, until, every, lasts;
    double at_s, until_s, every_s, lasts_s, slowdown, latency_ms, bandwidth_gbps, cost_s;
    int replica, host, is_network, stop, nic_lost;
} event;

#define AT(field) offsetof(campaign_request, field)
#define OF(field) offsetof(campaign_request, job.field)
#define EVENT(field) offsetof(event, field)
/* clang-format off */
static const sl_key job_keys[] = {
    {.name = "iterations", .type = SL_KEY_INT, .offset = OF(iterations), .minimum = 1, .maximum = SL_CAMPAIGN_ITERATIONS, .help = "of the job; default: duration_s, else a tenth more than the events, at least 100"},
    {.name = "replicas", .type = SL_KEY_INT, .standard = "1", .offset = OF(replicas), .minimum = 1, .maximum = SL_CAMPAIGN_POSITIONS, .help = "of the problem's pipeline; each takes its microbatches"},
    {.name = "tensor", .type = SL_KEY_INT, .standard = "1", .offset = OF(tensor), .minimum = 1, .maximum = 4096, .help = "devices of a position; the slowest holds up the others"},
    {.name = "schedule", .type = SL_KEY_TEXT, .offset = OF(schedule), .help = "family (of plan --schedule) that the job begins with, or auto: the best one; default 1f1b, where the placement is not linear auto"},
    {.name = "adapt_with", .type = SL_KEY_TEXT, .standard = "auto", .offset = OF(adapt_with), .help = "family that goes first among new schedules that are as good, or auto"},
    {.name = "static", .type = SL_KEY_CUSTOM, .help = "families that are simulated for comparison and never changed; default [zb-h2]"},
    {.name = "notice", .type = SL_KEY_INT, .standard = "3", .offset = OF(notice), .minimum = 0, .maximum = 100000, .help = "iterations that a change must last before it is acted upon, 1 to 32, as adaptation.hold of a run file; what is half as long again is believed sooner"},
    {.name = "host_devices", .type = SL_KEY_INT, .standard = "8", .offset = OF(host_devices), .minimum = 1, .maximum = 65536, .help = "devices of a host; they are numbered tensor rank fastest, then replica, then rank"},
    {.name = "topology_effort", .type = SL_KEY_REAL, .standard = "0.05", .offset = OF(effort), .minimum = 0.001, .maximum = 1000, .help = "as --effort of topology"},
    {.name = "duration_s", .type = SL_KEY_REAL, .offset = AT(duration_s), .minimum = 1e-3, .maximum = 1e9, .help = "instead of iterations: as many as a healthy job makes in this time"},
    {.name = "gradient_mb", .type = SL_KEY_REAL, .offset = AT(gradient_mb), .minimum = 0, .maximum = 1e9, .help = "1e6 bytes that a rank has in the ring over replicas; default: data_parallel of the problem is the ring's time"},
    {.name = "ring_gbps", .type = SL_KEY_REAL, .offset = AT(ring_gbps), .minimum = 1e-6, .maximum = 1e9, .help = "1e9 bit/s of a link of the ring; required with gradient_mb"},
    {.name = "ring_latency_ms", .type = SL_KEY_REAL, .standard = "0", .offset = AT(ring_latency_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "of a link of the ring, with gradient_mb"},
    {.name = "other_ms", .type = SL_KEY_REAL, .standard = "0", .offset = AT(other_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "of every iteration, in addition to pipelines and rings"},
    {.name = "delegated_ms", .type = SL_KEY_REAL, .standard = "0", .offset = AT(delegated_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "more latency of every message that a delegate carries"},
    {0}};
#define COST(what, index, value, text) {.name = what, .type = SL_KEY_REAL, .standard = value, .offset = AT(cost_s) + index * sizeof(double), .minimum = 0, .maximum = 1e7, .help = text}
static const sl_key cost_keys[] = {
    COST("adapt_s", SL_STRATEGY_SCHEDULE, "0.05", "s that the job stops for a change of schedule"),
    COST("delegate_s", SL_STRATEGY_DELEGATE, "0.05", "for delegates"),
    COST("balance_s", SL_STRATEGY_BALANCE, "1", "for another split of the microbatches"),
    COST("topology_s", SL_STRATEGY_TOPOLOGY, "30", "for another arrangement (Falcon: under a minute)"),
    COST("restart_s", SL_STRATEGY_RESTART, "600", "for a restart from a checkpoint (Falcon: tens of minutes)"),
    {.name = "profile_s", .type = SL_KEY_REAL, .standard = "0", .offset = AT(profile_s), .minimum = 0, .maximum = 1e7, .help = "for a periodic profile of the network"},
    {0}};
static const sl_key ladder_keys[] = {
    {.name = "at_once_s", .type = SL_KEY_REAL, .standard = "0.1", .offset = AT(at_once_s), .minimum = 0, .maximum = 1e7, .help = "a strategy that costs at most so much comes at once"},
    {.name = "calm_s", .type = SL_KEY_REAL, .standard = "10", .offset = AT(calm_s), .minimum = 0, .maximum = 1e7, .help = "after relief, before anything is undone"},
    {.name = "profile_every_s", .type = SL_KEY_REAL, .standard = "600", .offset = AT(profile_every_s), .minimum = 0, .maximum = 1e7, .help = "the network is profiled again; 0: never"},
    {.name = "least_gain", .type = SL_KEY_REAL, .standard = "0.05", .offset = OF(ladder.least_gain), .minimum = 0, .maximum = 1, .help = "share of an incident's loss that a strategy must save; 0: 0.05"},
    {.name = "news", .type = SL_KEY_REAL, .standard = "0.1", .offset = OF(ladder.changed), .minimum = 0, .maximum = 10, .help = "share by which a loss must be off to be news; 0: 0.2"},
    {0}};
static const sl_key event_keys[] = {
    {.name = "at", .type = SL_KEY_INT64, .offset = EVENT(at), .minimum = 0, .maximum = SL_CAMPAIGN_ITERATIONS, .help = "iteration at which it begins; or at_s"},
    {.name = "until", .type = SL_KEY_INT64, .offset = EVENT(until), .minimum = 1, .maximum = SL_CAMPAIGN_ITERATIONS, .help = "first iteration without it; default: it lasts"},
    {.name = "at_s", .type = SL_KEY_REAL, .offset = EVENT(at_s), .minimum = 0, .maximum = 4e9, .help = "s of the job's time; all events in iterations, or all in seconds"},
    {.name = "until_s", .type = SL_KEY_REAL, .offset = EVENT(until_s), .minimum = 0, .maximum = 4e9, .help = "s at which it ends"},
    {.name = "every", .type = SL_KEY_INT64, .offset = EVENT(every), .minimum = 2, .maximum = SL_CAMPAIGN_ITERATIONS, .help = "with for: again and again, as a device that throttles; a spell begins with `at` and whenever so many more iterations have passed"},
    {.name = "for", .type = SL_KEY_INT64, .offset = EVENT(lasts), .minimum = 1, .maximum = SL_CAMPAIGN_ITERATIONS, .help = "iterations that such a spell lasts, less than every"},
    {.name = "every_s", .type = SL_KEY_REAL, .offset = EVENT(every_s), .minimum = 1e-3, .maximum = 4e9, .help = "the same for events in s"},
    {.name = "for_s", .type = SL_KEY_REAL, .offset = EVENT(lasts_s), .minimum = 1e-3, .maximum = 4e9, .help = "s that such a spell lasts, less than every_s"},
    {.name = "link", .type = SL_KEY_CUSTOM, .help = "[a, b]: the link between ranks a and b of `replica`"},
    {.name = "replica", .type = SL_KEY_INT, .offset = EVENT(replica), .minimum = 0, .maximum = SL_CAMPAIGN_POSITIONS, .help = "of `link`, default 0; of `device` and `nic` that are a rank, default every one"},
    {.name = "replica_link", .type = SL_KEY_CUSTOM, .help = "[rank, a, b]: the link between replicas a and b at a rank, which the ring over replicas uses"},
    {.name = "device", .type = SL_KEY_CUSTOM, .help = "[replica, rank], or a rank: its ops take `slowdown` times as long"},
    {.name = "nic", .type = SL_KEY_CUSTOM, .help = "[replica, rank], or a rank: its network card, so whatever it sends or receives"},
    {.name = "host", .type = SL_KEY_INT, .offset = EVENT(host), .minimum = 0, .maximum = SL_CAMPAIGN_POSITIONS, .help = "by its number (job.host_devices): with `slowdown` all its devices, with `latency_ms` or `bandwidth_gbps` its network card, so all their links"},
    {.name = "network", .type = SL_KEY_BOOL, .offset = EVENT(is_network), .help = "of `host`: `slowdown` is of the transfers of its links instead of its devices"},
    {.name = "stop", .type = SL_KEY_BOOL, .offset = EVENT(stop), .help = "the job stops and is restarted"},
    {.name = "nic_lost", .type = SL_KEY_BOOL, .offset = EVENT(nic_lost), .help = "a NIC is lost: as stop, but ranks with delegates continue over another rail"},
    {.name = "slowdown", .type = SL_KEY_REAL, .offset = EVENT(slowdown), .minimum = 1, .maximum = 1e6, .help = "times as long: ops of devices, transfers of links"},
    {.name = "latency_ms", .type = SL_KEY_REAL, .offset = EVENT(latency_ms), .minimum = 0, .maximum = SL_MAX_OP_MS, .help = "of links, one way, absolute"},
    {.name = "bandwidth_gbps", .type = SL_KEY_REAL, .offset = EVENT(bandwidth_gbps), .minimum = 1e-6, .maximum = 1e9, .help = "what is left of job.ring_gbps, instead of slowdown"},
    {.name = "cost_s", .type = SL_KEY_REAL, .offset = EVENT(cost_s), .minimum = 0, .maximum = 1e7, .help = "of stop or nic_lost; default: costs.restart_s"},
    {0}};
static const sl_key campaign_keys[] = {
    {.name = "job", .type = SL_KEY_SECTION, .section = job_keys},
    {.name = "costs", .type = SL_KEY_SECTION, .section = cost_keys},
    {.name = "ladder", .type = SL_KEY_SECTION, .section = ladder_keys},
    {.name = "trace", .type = SL_KEY_TEXT, .offset = AT(trace), .help = "a CSV with more events, in the folder of this file"},
    {.name = "events", .type = SL_KEY_CUSTOM, .is_list = 1, .section = event_keys, .help = "a list of what becomes slow"},
    {.name = "draw", .type = SL_KEY_CUSTOM, .section = sl_draw_keys, .help = "events drawn from published rates"},
    {.name = "seed", .type = SL_KEY_INT64, .standard = "1", .offset = AT(seed), .minimum = 0, .maximum = 9e15, .help = "of what is drawn, and of the search for arrangements"},
    {.name = "fleet", .type = SL_KEY_CUSTOM, .section = sl_fleet_keys, .help = "a job on many hosts for months, instead of all other keys but seed"},
    {0}};
/* clang-format on */

void sl_campaign_visit_keys(sl_key_visit visit, void *context) {
    sl_config_visit(campaign_keys, "", visit, context);
}

/* ---- the job ---- */

static sl_status check_family(const sl_yaml *node, const char *name, int may_be_auto) {
    if (sl_family_find(name) || (may_be_auto && strcmp(name, "auto") == 0))
        return SL_OK;
    return sl_yaml_error(node, "must be a family of schedules%s, got '%.40s'", may_be_auto ? " or auto" : "",
                         name);
}

static sl_status read_static(const sl_yaml *list, sl_campaign *c) {
    if (!list) {
        c->families_may_fail = 1;
        c->families = 1;
        return sl_copy_text(&c->family[0], "zb-h2");
    }
    if (list->kind != SL_YAML_LIST || list->children > SL_CAMPAIGN_FAMILIES)
        return sl_yaml_error(list, "must be a list of at most %d families", SL_CAMPAIGN_FAMILIES);
    for (int i = 0; i < list->children; i++) {
        const char *name;
        SL_TRY(sl_yaml_text(list->child[i], &name));
        SL_TRY(check_family(list, name, 0));
        SL_TRY(sl_copy_text(&c->family[i], name));
        c->families++;
    }
    return SL_OK;
}

static sl_status read_job(const sl_yaml *job, const campaign_request *r, sl_campaign *c) {
    const sl_yaml *none = NULL;
    const sl_yaml *gradient = job ? sl_yaml_find(job, "gradient_mb") : none;
    const sl_yaml *schedule = job ? sl_yaml_find(job, "schedule") : none;
    const sl_yaml *adapt = job ? sl_yaml_find(job, "adapt_with") : none;
    SL_TRY(check_family(schedule, c->schedule, 1));
    SL_TRY(check_family(adapt, c->adapt_with, 1));
    SL_TRY(read_static(job ? sl_yaml_find(job, "static") : none, c));
    if (r->gradient_mb > 0 && !(r->ring_gbps > 0))
        return sl_yaml_error(gradient, "also needs 'ring_gbps'");
    if ((int64_t)c->replicas * c->problem.ranks > SL_CAMPAIGN_POSITIONS)
        return sl_yaml_error(sl_yaml_find(job, "replicas"), "makes %lld positions; at most %d",
                             (long long)c->replicas * c->problem.ranks, SL_CAMPAIGN_POSITIONS);
    if (c->iterations && r->duration_s > 0)
        return sl_yaml_error(sl_yaml_find(job, "duration_s"), "is given with 'iterations'; give one of them");
    c->duration = (sl_time)(r->duration_s * 1e9);
    c->gradient = r->gradient_mb * 1e6;
    c->ring_latency = r->ring_latency_ms * 1e6;
    c->ring_pace = r->ring_gbps > 0 ? 8 / r->ring_gbps : 0;
    c->other = sl_from_ms(r->other_ms);
    c->delegated = sl_from_ms(r->delegated_ms);
    return SL_OK;
}

static sl_time from_s(double s) {
    return (sl_time)llround(s * 1e9);
}

static void read_costs(const campaign_request *r, sl_campaign *c) {
    for (int i = 0; i < SL_STRATEGY_KINDS; i++)
        c->cost[i] = c->undo[i] = from_s(r->cost_s[i]);
    c->undo[SL_STRATEGY_RESTART] = 0;
    c->profile = from_s(r->profile_s);
    c->ladder.at_once = from_s(r->at_once_s);
    c->ladder.calm = from_s(r->calm_s);
    c->ladder.profile_every = from_s(r->profile_every_s);
    c->seed = (uint64_t)r->seed;
}

/* ---- events ---- */

static sl_status read_numbers(const sl_yaml *node, const char *form, int count, const int *below,
                              int *number) {
    int64_t value;
    if (node->kind != SL_YAML_LIST || node->children != count)
        return sl_yaml_error(node, "must be %s", form);
    for (int i = 0; i < count; i++) {
        sl_yaml item = *node->child[i]; /* under the list's name, for error messages */
        item.key = node->key;
        SL_TRY(sl_yaml_int(&item, 0, below[i] - 1, &value));
        number[i] = (int)value;
    }
    return SL_OK;
}

static sl_status read_host(const sl_yaml *node, const event *e, const sl_campaign *c, sl_campaign_fault *f) {
    int hosts = sl_campaign_hosts(c);
    if (e->host >= hosts)
        return sl_yaml_error(node, "must be from 0 to %d: %d devices, %d a host", hosts - 1,
                             c->replicas * c->problem.ranks * c->tensor, c->host_devices);
    f->kind = SL_FAULT_DEVICE;
    if (e->is_network > 0 || (e->is_network < 0 && (e->latency_ms >= 0 || e->bandwidth_gbps >= 0)))
        f->kind = SL_FAULT_NIC;
    sl_campaign_host_range(c, e->host, &f->a, &f->b);
    return SL_OK;
}

/* [replica, rank], or a rank: of `replica`, or of every replica, *replicas from f->a on. */
static sl_status read_device(const sl_yaml *node, const event *e, const sl_campaign *c, sl_campaign_fault *f,
                             int *replicas) {
    int at[2] = {e->replica < 0 ? 0 : e->replica, 0};
    int64_t rank;
    if (node->kind == SL_YAML_SCALAR) {
        SL_TRY(sl_yaml_int(node, 0, c->problem.ranks - 1, &rank));
        at[1] = (int)rank;
        *replicas = e->replica < 0 ? c->replicas : 1;
    } else if (e->replica >= 0) {
        return sl_yaml_error(node, "must be a rank, and needs 'replica'");
    } else {
        SL_TRY(
            read_numbers(node, "[replica, rank], or a rank", 2, (int[]){c->replicas, c->problem.ranks}, at));
    }
    f->a = f->b = at[0] + c->replicas * at[1];
    return SL_OK;
}

/* *count: the number of replicas, from that of `f` on. */
static sl_status read_component(const sl_yaml *item, const event *e, const sl_campaign *c,
                                sl_campaign_fault *f, int *count) {
    static const char *const keys[] = {"link", "replica_link", "device", "nic", "host", "stop", "nic_lost"};
    int replicas = c->replicas, ranks = c->problem.ranks, at[3], given = 0;
    const sl_yaml *node = NULL;
    *count = 1;
    for (int i = 0; i < 7; i++)
        if (sl_yaml_find(item, keys[i])) {
            node = sl_yaml_find(item, keys[i]);
            given++;
        }
    if (given != 1)
        return sl_yaml_error(item,
                             "an event needs one of link, replica_link, device, nic, host, stop, nic_lost");
    if (e->replica >= replicas)
        return sl_yaml_error(sl_yaml_find(item, "replica"), "must be from 0 to %d", replicas - 1);
    if (strcmp(node->key, "link") == 0) {
        int replica = e->replica < 0 ? 0 : e->replica;
        SL_TRY(read_numbers(node, "[a, b]: two ranks", 2, (int[]){ranks, ranks}, at));
        f->a = replica + replicas * at[0];
        f->b = replica + replicas * at[1];
    } else if (strcmp(node->key, "replica_link") == 0) {
        SL_TRY(read_numbers(node, "[rank, a, b]: a rank and two replicas", 3,
                            (int[]){ranks, replicas, replicas}, at));
        f->a = at[1] + replicas * at[0];
        f->b = at[2] + replicas * at[0];
    } else if (strcmp(node->key, "host") == 0) {
        SL_TRY(read_host(node, e, c, f));
    } else if (strcmp(node->key, "stop") == 0 || strcmp(node->key, "nic_lost") == 0) {
        f->kind = SL_FAULT_STOP;
        f->is_rail = strcmp(node->key, "nic_lost") == 0;
    } else {
        f->kind = strcmp(node->key, "nic") == 0 ? SL_FAULT_NIC : SL_FAULT_DEVICE;
        SL_TRY(read_device(node, e, c, f, count));
    }
    if (f->kind == SL_FAULT_LINK && f->a == f->b)
        return sl_yaml_error(node, "must have two different ends");
    return SL_OK;
}

static sl_status read_severity(const sl_yaml *item, const event *e, const sl_campaign *c,
                               sl_campaign_fault *f) {
    const sl_yaml *bandwidth = sl_yaml_find(item, "bandwidth_gbps");
    f->slowdown = e->slowdown < 0 ? 1 : e->slowdown;
    f->latency = e->latency_ms < 0 ? -1 : sl_from_ms(e->latency_ms);
    f->stop = e->cost_s < 0 ? -1 : from_s(e->cost_s);
    if (f->kind == SL_FAULT_STOP)
        return SL_OK;
    if (f->stop >= 0)
        return sl_yaml_error(sl_yaml_find(item, "cost_s"), "is for stop and nic_lost");
    if (f->kind == SL_FAULT_DEVICE && (f->latency >= 0 || bandwidth))
        return sl_yaml_error(sl_yaml_find(item, bandwidth ? "bandwidth_gbps" : "latency_ms"),
                             "is for links; a device needs 'slowdown'");
    if (bandwidth && (e->slowdown >= 0 || !(c->ring_pace > 0)))
        return sl_yaml_error(bandwidth, "%s",
                             e->slowdown >= 0 ? "is given with 'slowdown'; give one of them"
                                              : "needs 'ring_gbps' of the job, which it is less than");
    if (bandwidth)
        f->slowdown = fmax(1, 8 / c->ring_pace / e->bandwidth_gbps);
    if (f->slowdown <= 1 && f->latency < 0)
        return sl_yaml_error(item, "an event needs 'slowdown'%s",
                             f->kind == SL_FAULT_DEVICE ? "" : " or 'latency_ms'");
    return SL_OK;
}

/* All events must use the unit of the first. */
static sl_status read_span(const sl_yaml *item, const event *e, sl_campaign *c, sl_campaign_fault *f) {
    int by_time = e->at_s >= 0,
        is_mixed = (e->at >= 0) == by_time || (by_time ? e->until >= 0 : e->until_s >= 0);
    if (is_mixed)
        return sl_yaml_error(item, "an event needs 'at' (and 'until'), or 'at_s' (and 'until_s')");
    if (c->faults && c->by_time != by_time)
        return sl_yaml_error(item, "is in %s, earlier events are in %s; all must be the same",
                             by_time ? "seconds" : "iterations", by_time ? "iterations" : "seconds");
    c->by_time = by_time;
    f->first = by_time ? from_s(e->at_s) : e->at;
    f->until = SL_FAULT_LASTS;
    if (e->until >= 0 || e->until_s >= 0)
        f->until = by_time ? from_s(e->until_s) : e->until;
    if (f->until <= f->first)
        return sl_yaml_error(sl_yaml_find(item, by_time ? "until_s" : "until"), "must be later than '%s'",
                             by_time ? "at_s" : "at");
    return SL_OK;
}

/* In the unit of the event's span; *every 0: the fault is permanent during it. */
static sl_status read_spells(const sl_yaml *item, const event *e, const sl_campaign *c, int64_t *every,
                             int64_t *lasts) {
    const int in_s = e->every_s >= 0 || e->lasts_s >= 0, in_iterations = e->every >= 0 || e->lasts >= 0;
    *every = *lasts = 0;
    if (!in_s && !in_iterations)
        return SL_OK;
    if (in_s ? in_iterations || !c->by_time || e->every_s < 0 || e->lasts_s < 0
             : c->by_time || e->every < 0 || e->lasts < 0)
        return sl_yaml_error(item, "needs 'every' and 'for' with 'at', or 'every_s' and 'for_s' with 'at_s'");
    *every = in_s ? from_s(e->every_s) : e->every;
    *lasts = in_s ? from_s(e->lasts_s) : e->lasts;
    return SL_OK;
}

/* Errors name the line. */
static sl_status add(const sl_yaml *item, const sl_campaign_fault *f, int64_t every, int64_t lasts,
                     sl_campaign *c) {
    char why[256];
    sl_status status = every ? sl_campaign_add_spells(c, f, every, lasts) : sl_campaign_add(c, f);
    if (status != SL_EINVAL)
        return status;
    snprintf(why, sizeof why, "%s", sl_error_text());
    return sl_yaml_error(item, "%s", why);
}

static sl_status read_event(const sl_yaml *item, sl_campaign *c) {
    event e = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0};
    sl_campaign_fault f = {.kind = SL_FAULT_LINK};
    int64_t every, lasts;
    int replicas;
    if (item->kind != SL_YAML_MAP)
        return sl_yaml_error(
            item, "an event must be a map such as {at: 10, until: 20, link: [0, 1], latency_ms: 30}");
    SL_TRY(sl_config_read(item, "events", event_keys, &e));
    SL_TRY(read_component(item, &e, c, &f, &replicas));
    SL_TRY(read_span(item, &e, c, &f));
    SL_TRY(read_severity(item, &e, c, &f));
    if ((sl_yaml_find(item, "stop") && !e.stop) || (sl_yaml_find(item, "nic_lost") && !e.nic_lost))
        return SL_OK;
    SL_TRY(read_spells(item, &e, c, &every, &lasts));
    for (int i = 0; i < replicas; i++) {
        sl_campaign_fault one = f;
        one.a += i;
        one.b += i;
        SL_TRY(add(item, &one, every, lasts, c));
    }
    return SL_OK;
}

static sl_status read_events(const sl_yaml *list, sl_campaign *c) {
    if (!list)
        return SL_OK;
    if (list->kind != SL_YAML_LIST)
        return sl_yaml_error(list, "must be a list of events");
    for (int i = 0; i < list->children; i++)
        SL_TRY(read_event(list->child[i], c));
    return SL_OK;
}

static sl_status read_trace(const char *file, const char *trace, sl_campaign *c) {
    char path[PATH_MAX], *text;
    SL_TRY(sl_cells_load(file, "trace", trace, 64 << 20, path, &text));
    sl_status status = sl_campaign_read_csv(path, text, c);
    sl_free(text);
    return status;
}

/* ---- length ---- */

static int64_t last_change(const sl_campaign *c) {
    int64_t last = 0;
    for (size_t i = 0; i < c->faults; i++) {
        int64_t end = c->fault[i].until == SL_FAULT_LASTS ? c->fault[i].first + 1 : c->fault[i].until;
        last = end > last ? end : last;
    }
    return last;
}

/* A tenth beyond the last event. */
static void choose_length(sl_campaign *c) {
    int64_t last = last_change(c);
    if (c->iterations || c->duration)
        return;
    if (c->by_time)
        c->duration = last + last / 10;
    else
        c->iterations =
            last + last / 10 > 100
                ? (int)(last + last / 10 < SL_CAMPAIGN_ITERATIONS ? last + last / 10 : SL_CAMPAIGN_ITERATIONS)
                : 100;
}

static sl_status read_draw(const sl_yaml *draw, sl_campaign *c) {
    if (!draw)
        return SL_OK;
    if (!c->duration)
        return sl_yaml_error(draw, "needs 'duration_s' of the job");
    if (c->faults && !c->by_time)
        return sl_yaml_error(draw, "draws events in seconds, others are in iterations; all must be the same");
    c->by_time = 1;
    /* a slow job lasts longer than a healthy one */
    return sl_campaign_draw(draw, c->duration > INT64_MAX / 8 ? c->duration : 4 * c->duration, c);
}

static sl_status read_all(const sl_document *document, const char *csv, campaign_request *r) {
    const sl_yaml *root = document->root;
    sl_campaign *c = &r->job;
    SL_TRY(sl_file_kind_check(root, SL_FILE_CAMPAIGN));
    SL_TRY(sl_config_read(root, document->file, campaign_keys, r));
    SL_TRY(read_job(sl_yaml_find(root, "job"), r, c));
    read_costs(r, c);
    SL_TRY(read_events(sl_yaml_find(root, "events"), c));
    if (r->trace)
        SL_TRY(read_trace(document->file, r->trace, c));
    if (csv)
        SL_TRY(read_trace("", csv, c));
    SL_TRY(read_draw(sl_yaml_find(root, "draw"), c));
    choose_length(c);
    return SL_OK;
}

sl_status sl_campaign_read(const sl_document *document, const sl_problem *problem, const char *csv,
                           sl_campaign *c) {
    campaign_request r = {.trace = NULL};
    sl_status status = sl_campaign_make(problem, &r.job);
    SL_THEN(status, read_all(document, csv, &r));
    *c = r.job;
    sl_free(r.trace);
    return status;
}
