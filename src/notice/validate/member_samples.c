#include "notice/validate/member_samples.h"
#include "base/memory.h"

#include <string.h>

typedef struct samples_head {
    int32_t repeats, devices, ends, gpus;
    sl_evidence evidence;
} samples_head;

sl_status sl_member_samples_open(int repeats, int ends, int gpus, sl_member_samples *samples) {
    *samples = (sl_member_samples){.ends = ends, .room = repeats, .gpus = gpus};
    SL_TRY(sl_alloc(&samples->gpu, (size_t)gpus, sizeof *samples->gpu));
    SL_TRY(sl_alloc(&samples->gflops, (size_t)repeats, sizeof *samples->gflops));
    SL_TRY(sl_alloc(&samples->end, (size_t)ends, sizeof *samples->end));
    return sl_alloc(&samples->link, (size_t)ends * (size_t)repeats, sizeof *samples->link);
}

void sl_member_samples_free(sl_member_samples *samples) {
    SL_FREE(samples->gflops, samples->end, samples->link, samples->gpu);
    *samples = (sl_member_samples){0};
}

/* ---- bytes: head, gpu[gpus], gflops[repeats], and for each end itself and its samples ---- */

static size_t end_size(size_t repeats) {
    return sizeof(sl_link_end) + repeats * sizeof(sl_link_sample);
}

static size_t gpus_size(int gpus) {
    return (size_t)gpus * sizeof(sl_gpu_result);
}

/* The rates of products, which follow the GPUs. */
static const char *products_of(const void *bytes, const samples_head *top) {
    return (const char *)bytes + sizeof *top + gpus_size(top->gpus);
}

sl_status sl_member_samples_pack(const sl_member_samples *s, void **bytes, size_t *size) {
    const samples_head top = {.repeats = s->repeats,
                              .devices = s->devices,
                              .ends = s->ends,
                              .gpus = s->gpus,
                              .evidence = s->evidence};
    size_t repeats = (size_t)s->repeats;
    *size = sizeof top + gpus_size(s->gpus) + repeats * sizeof(double) + (size_t)s->ends * end_size(repeats);
    SL_TRY(sl_alloc(bytes, *size, 1));
    char *at = *bytes;
    memcpy(at, &top, sizeof top);
    at += sizeof top;
    memcpy(at, s->gpu, gpus_size(s->gpus));
    at += gpus_size(s->gpus);
    memcpy(at, s->gflops, repeats * sizeof(double));
    at += repeats * sizeof(double);
    for (int i = 0; i < s->ends; i++) {
        memcpy(at, &s->end[i], sizeof s->end[i]);
        at += sizeof s->end[i];
        memcpy(at, &s->link[(size_t)i * (size_t)s->room], repeats * sizeof *s->link);
        at += repeats * sizeof *s->link;
    }
    return SL_OK;
}

/* Checked once; the other functions trust it. */
static int is_sound(const void *bytes, size_t size, int links) {
    samples_head top;
    if (size < sizeof top)
        return 0;
    memcpy(&top, bytes, sizeof top);
    if (top.repeats < 0 || top.repeats > 100000 || top.ends < 0 || top.ends > links || top.gpus < 0 ||
        top.gpus > SL_GPUS_MAX ||
        size != sizeof top + gpus_size(top.gpus) + (size_t)top.repeats * sizeof(double) +
                    (size_t)top.ends * end_size((size_t)top.repeats))
        return 0;
    for (int i = 0; i < top.ends; i++) {
        sl_link_end end;
        memcpy(&end,
               products_of(bytes, &top) + (size_t)top.repeats * sizeof(double) +
                   (size_t)i * end_size((size_t)top.repeats),
               sizeof end);
        if (end.pair < 0 || end.pair >= links)
            return 0;
    }
    return 1;
}

static samples_head head_of(const void *bytes) {
    samples_head top;
    memcpy(&top, bytes, sizeof top);
    return top;
}

/* The end of link `pair` and the position of its samples; NULL if this member has none. */
static const char *find_end(const void *bytes, int pair, sl_link_end *end) {
    const samples_head top = head_of(bytes);
    const char *at = products_of(bytes, &top) + (size_t)top.repeats * sizeof(double);
    for (int i = 0; i < top.ends; i++, at += end_size((size_t)top.repeats)) {
        memcpy(end, at, sizeof *end);
        if (end->pair == pair) {
            end->why[sizeof end->why - 1] = 0;
            end->evidence.interface[sizeof end->evidence.interface - 1] = 0;
            return at + sizeof *end;
        }
    }
    return NULL;
}

/* ---- the picture ---- */

static void join_device(const sl_allgather_parts *all, int member, double *value, sl_measured_device *d) {
    const samples_head top = head_of(all->part[member]);
    d->evidence = top.evidence;
    d->evidence.busiest_name[sizeof d->evidence.busiest_name - 1] = 0;
    if (!top.devices)
        return;
    memcpy(value, products_of(all->part[member], &top), (size_t)top.repeats * sizeof(double));
    d->samples = top.repeats;
    sl_spread(value, top.repeats, &d->gflops, &d->cv);
    d->best = top.repeats > 0 ? value[top.repeats - 1] : 0; /* sorted by now */
}

static void join_gpus(const void *bytes, int rank, int host, sl_validation *m) {
    const samples_head top = head_of(bytes);
    for (int i = 0; i < top.gpus; i++) {
        sl_measured_gpu *g = &m->gpu[m->gpus++];
        *g = (sl_measured_gpu){.rank = rank, .host = host};
        memcpy(&g->test, (const char *)bytes + sizeof top + (size_t)i * sizeof g->test, sizeof g->test);
        g->test.state.name[sizeof g->test.state.name - 1] = 0;
        g->test.state.pci[sizeof g->test.state.pci - 1] = 0;
        g->test.rates.why[sizeof g->test.rates.why - 1] = 0;
    }
}

/* The GPUs of a member's rank that a member of its machine has tested. */
static uint64_t tested_gpus(const sl_allgather_parts *all, const sl_membership *c, int member) {
    uint64_t tested = 0;
    for (int i = 0; i < c->members; i++) {
        const samples_head top = all->part[i] ? head_of(all->part[i]) : (samples_head){0};
        for (int g = 0; c->machine[i] == c->machine[member] && g < top.gpus; g++) {
            sl_gpu_result one;
            memcpy(&one, (const char *)all->part[i] + sizeof top + (size_t)g * sizeof one, sizeof one);
            if (one.rates.rate[SL_GPU_F32] > 0 && one.index >= 0 && one.index < SL_GPUS_MAX)
                tested |= UINT64_C(1) << one.index;
        }
    }
    return tested & c->of[member].gpus;
}

/* Samples of one figure, from the bytes at `at`: bandwidth; latency 1: round trips. */
static int collect(const char *at, int repeats, int latency, double *value, int *limited, int *nothing) {
    int count = 0;
    for (int i = 0; i < repeats; i++) {
        sl_link_sample sample;
        memcpy(&sample, at + (size_t)i * sizeof sample, sizeof sample);
        if (latency ? sample.latency_ms > 0 : sample.gb_per_s > 0)
            value[count++] = latency ? sample.latency_ms : sample.gb_per_s;
        *limited |= !latency && sample.limited;
        *nothing |= !latency && sample.gb_per_s <= 0 && sample.gb_per_s > -0.5;
    }
    return count;
}

/* The direction that arrives at member `to`; 0: it was not tested, an end of it is lost. */
static int join_direction(const sl_allgather_parts *all, const sl_membership *c, int pair, int from, int to,
                          double *value, sl_measured_link *l) {
    sl_link_end sent, received;
    const char *sender = find_end(all->part[from], pair, &sent);
    const char *receiver = find_end(all->part[to], pair, &received);
    int unused = 0, nothing = 0;
    if (!sender || !receiver)
        return 0;
    *l = (sl_measured_link){.from = c->of[from].rank,
                            .to = c->of[to].rank,
                            .from_host = c->host[from],
                            .to_host = c->host[to],
                            .latency_ms = -1,
                            .from_evidence = sent.evidence,
                            .to_evidence = received.evidence};
    if (sent.state == SL_WIRE_REFUSED || received.state == SL_WIRE_REFUSED) {
        l->state = SL_WIRE_REFUSED;
        memcpy(l->why, sent.why[0] ? sent.why : received.why, sizeof l->why);
        return 1;
    }
    const char *asks = from < to ? sender : receiver; /* a of the pair sends the round trips */
    int repeats = head_of(all->part[from < to ? from : to]).repeats;
    int count = collect(asks, repeats, 1, value, &unused, &unused);
    if (count > 0) {
        sl_spread(value, count, &l->latency_ms, &l->latency_cv);
        l->best_ms = value[0];
    }
    count = collect(receiver, head_of(all->part[to]).repeats, 0, value, &l->limited, &nothing);
    l->samples = count;
    sl_spread(value, count, &l->gb_per_s, &l->bandwidth_cv);
    l->best_gb_per_s = count > 0 ? value[count - 1] : 0;
    /* no round trip either: which direction swallows everything is not known, so both are lost */
    if (count == 0 && (nothing || l->latency_ms < 0))
        l->state = SL_WIRE_LOST;
    return 1;
}

static void join_links(const sl_allgather_parts *all, sl_round_result *r, double *value) {
    sl_validation *m = &r->measured;
    for (int i = 0; i < r->membership.links.count; i++) {
        int a = r->membership.links.pair[i].a, b = r->membership.links.pair[i].b;
        sl_measured_link *there = &m->link[m->links], *back = there + 1;
        if (all->part[a] && all->part[b] && join_direction(all, &r->membership, i, a, b, value, there) &&
            join_direction(all, &r->membership, i, b, a, value, back))
            m->links += 2;
    }
}

/* The missing members, and the hosts' names. */
static void name_all(const sl_allgather_parts *all, sl_round_result *r) {
    r->reports = -1;
    for (int i = 0; i < r->membership.members; i++) {
        const sl_introduction *of = &r->membership.of[i];
        if (of->version)
            r->host[r->membership.host[i]] = of->host;
        if (!all->part[i])
            r->missing[r->measured.missings++] = (sl_absent){i, of->version ? of->rank : -1};
        else if (r->reports < 0)
            r->reports = i;
    }
}

sl_status sl_member_samples_join(const sl_allgather_parts *all, sl_round_result *r) {
    sl_validation *m = &r->measured;
    sl_membership *c = &r->membership;
    double *value;
    int most = 1, gpus = 0;
    for (int i = 0; i < c->members; i++)
        if (all->part[i] && !is_sound(all->part[i], all->size[i], c->links.count))
            return sl_error(SL_EPEER, "the samples of validating process %d are invalid", i);
        else if (all->part[i] && head_of(all->part[i]).repeats > most)
            most = head_of(all->part[i]).repeats;
    for (int i = 0; i < c->members; i++)
        gpus += all->part[i] ? head_of(all->part[i]).gpus : 0;
    SL_TRY(sl_alloc(&m->gpu, (size_t)gpus, sizeof *m->gpu));
    SL_TRY(sl_alloc(&m->device, (size_t)c->members, sizeof *m->device));
    SL_TRY(sl_alloc(&m->link, 2 * (size_t)c->links.count + 2, sizeof *m->link));
    SL_TRY(sl_alloc(&r->missing, (size_t)c->members, sizeof *r->missing));
    SL_TRY(sl_alloc(&r->host, (size_t)c->hosts, sizeof *r->host));
    SL_TRY(sl_alloc(&value, (size_t)most, sizeof *value));
    name_all(all, r);
    for (int i = 0; i < c->members; i++)
        if (all->part[i]) {
            sl_measured_device *d = &m->device[m->devices++];
            *d = (sl_measured_device){.rank = c->of[i].rank, .host = c->host[i]};
            join_device(all, i, value, d);
            join_gpus(all->part[i], c->of[i].rank, c->host[i], m);
            d->gpus_tested = __builtin_popcountll(tested_gpus(all, c, i));
            d->evidence.gpus = d->evidence.gpus > d->gpus_tested ? d->evidence.gpus - d->gpus_tested : 0;
            m->repeats = head_of(all->part[i]).repeats;
        }
    join_links(all, r, value);
    m->host = r->host;
    m->hosts = c->hosts;
    m->missing = r->missing;
    sl_free(value);
    return SL_OK;
}

void sl_round_result_free(sl_round_result *result) {
    sl_membership_free(&result->membership);
    SL_FREE(result->measured.device, result->measured.link, result->measured.gpu, result->missing,
            result->host);
    *result = (sl_round_result){0};
}
