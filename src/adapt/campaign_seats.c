/* Another arrangement of the devices, as topology.h finds it. The replicas in which something is slow and
 * some healthy ones beside them are given to the search as a cluster; the rest are as healthy as those. */
#include "adapt/campaign_inside.h"
#include "adapt/topology.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define MOST_SEARCHED 256 /* devices */
#define HEALTHY_BESIDE 2  /* replicas at least, where there are so many */

typedef struct excerpt {
    int *replica; /* [count] of the job, ascending */
    int count;
} excerpt;

/* The timing of a cluster knows one stage a rank and links that are alike. */
static int applies(const sl_campaign *c) {
    const sl_problem *p = &c->problem;
    const sl_link *first = &p->link[p->ranks > 1 ? 1 : 0];
    if (p->placement != SL_LINEAR || p->stages != p->ranks || (p->ranks == 1 && c->replicas == 1))
        return 0;
    for (int r = 0; r + 1 < p->ranks; r++) {
        const sl_link *down = &p->link[r * p->ranks + r + 1], *up = &p->link[(r + 1) * p->ranks + r];
        if (down->latency != first->latency || down->transfer != first->transfer ||
            up->latency != first->latency || up->transfer != first->transfer)
            return 0;
    }
    return 1;
}

static int position_of(const sl_setup *setup, int device) {
    return setup->seat ? setup->position[device] : device;
}

/* Where each active fault shows. */
static void mark_slow(const sl_simulation *s, const sl_setup *setup, int active, unsigned char *is_slow) {
    for (int i = 0; i < active; i++) {
        const sl_campaign_fault *f = &s->campaign->fault[s->active[i]];
        if (f->kind == SL_FAULT_LINK) {
            is_slow[position_of(setup, f->a) % s->campaign->replicas] = 1;
            is_slow[position_of(setup, f->b) % s->campaign->replicas] = 1;
            continue;
        }
        for (int device = f->a; device <= f->b; device++)
            is_slow[position_of(setup, device) % s->campaign->replicas] = 1;
    }
}

/* Slow ones first, then their neighbours: *part has them in the order of the job. */
static sl_status choose_part(const sl_simulation *s, unsigned char *is_slow, excerpt *part) {
    int replicas = s->campaign->replicas, ranks = s->problem.ranks, slow = 0;
    int most = MOST_SEARCHED / ranks < 2 ? 2 : MOST_SEARCHED / ranks;
    for (int d = 0; d < replicas; d++)
        slow += is_slow[d];
    int wanted = slow + HEALTHY_BESIDE > 4 ? slow + HEALTHY_BESIDE : 4;
    wanted = wanted < most ? wanted : most;
    wanted = wanted < replicas ? wanted : replicas;
    for (int d = 0, beside = wanted - slow; d < replicas && beside > 0; d++)
        if (!is_slow[d]) {
            is_slow[d] = 2;
            beside--;
        }
    SL_TRY(sl_alloc(&part->replica, (size_t)wanted, sizeof *part->replica));
    for (int d = 0; d < replicas && part->count < wanted; d++)
        if (is_slow[d])
            part->replica[part->count++] = d;
    return SL_OK;
}

/* ---- the cluster ---- */

static void fill_healthy(const sl_simulation *s, sl_cluster *c) {
    const sl_problem *p = &s->campaign->problem;
    const sl_link *link = &p->link[p->ranks > 1 ? 1 : 0];
    double steps = c->data > 1 ? 2.0 * (c->data - 1) : 1;
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        memcpy(c->time[kind], p->time[kind], (size_t)p->stages * sizeof(sl_time));
    for (size_t i = 0; i < (size_t)c->hosts * (size_t)c->hosts; i++) {
        c->latency[i] = (double)link->latency;
        c->pace[i] = 1;
    }
    c->activation = (double)link->transfer;
    for (int stage = 0; stage < p->stages; stage++)
        c->gradient[stage] =
            c->data > 1 ? fmax(0, (double)s->ring[stage] / steps - (double)link->latency) * c->data : 0;
}

static void slow_pair(sl_cluster *c, int a, int b, const sl_campaign_fault *f) {
    size_t n = (size_t)c->hosts, at[2] = {(size_t)a * n + (size_t)b, (size_t)b * n + (size_t)a};
    for (int i = 0; i < 2; i++) {
        c->latency[at[i]] = fmax(c->latency[at[i]], (double)f->latency);
        c->pace[at[i]] = fmax(c->pace[at[i]], f->slowdown);
    }
}

/* The cluster's host of a device: its position in the part; -1: it is not in it. */
static int host_of(const sl_simulation *s, const sl_setup *setup, const excerpt *part, int device) {
    int position = position_of(setup, device), replica = position % s->campaign->replicas;
    for (int i = 0; i < part->count; i++)
        if (part->replica[i] == replica)
            return i + part->count * (position / s->campaign->replicas);
    return -1;
}

static void add_fault(const sl_simulation *s, const sl_setup *setup, const excerpt *part,
                      const sl_campaign_fault *f, sl_cluster *c) {
    if (f->kind == SL_FAULT_LINK) {
        int a = host_of(s, setup, part, f->a), b = host_of(s, setup, part, f->b);
        if (a >= 0 && b >= 0)
            slow_pair(c, a, b, f);
        return;
    }
    for (int device = f->a; device <= f->b; device++) {
        int host = host_of(s, setup, part, device);
        if (host < 0)
            continue;
        if (f->kind == SL_FAULT_DEVICE)
            c->speed[host] /= f->slowdown;
        for (int other = 0; f->kind == SL_FAULT_NIC && other < c->hosts; other++)
            if (other != host)
                slow_pair(c, host, other, f);
    }
}

static sl_status make_cluster(const sl_simulation *s, const sl_setup *setup, const excerpt *part, int active,
                              sl_cluster *c) {
    SL_TRY(sl_cluster_make(1, part->count, s->problem.ranks, s->campaign->problem.microbatches, c));
    sl_free(c->schedule);
    c->schedule = NULL;
    SL_TRY(sl_copy_text(&c->schedule,
                        strcmp(s->campaign->schedule, "auto") == 0 ? "1f1b" : s->campaign->schedule));
    fill_healthy(s, c);
    for (int i = 0; i < active; i++)
        add_fault(s, setup, part, &s->campaign->fault[s->active[i]], c);
    return SL_OK;
}

/* ---- the answer ---- */

static sl_status seat_all(const sl_simulation *s, sl_setup *setup, const excerpt *part, const int *host) {
    int replicas = s->campaign->replicas, count = part->count, *before;
    size_t positions = (size_t)s->positions;
    if (!setup->seat) {
        SL_TRY(sl_alloc(&setup->seat, positions, sizeof *setup->seat));
        SL_TRY(sl_alloc(&setup->position, positions, sizeof *setup->position));
        for (int i = 0; i < s->positions; i++)
            setup->seat[i] = i;
    }
    SL_TRY(sl_alloc(&before, positions, sizeof *before));
    memcpy(before, setup->seat, positions * sizeof *before);
    for (int i = 0; i < count * s->problem.ranks; i++) {
        int to = part->replica[i % count] + replicas * (i / count);
        int from = part->replica[host[i] % count] + replicas * (host[i] / count);
        setup->seat[to] = before[from];
    }
    for (int i = 0; i < s->positions; i++)
        setup->position[setup->seat[i]] = i;
    sl_free(before);
    return SL_OK;
}

static sl_status search(const sl_simulation *s, sl_setup *setup, const excerpt *part,
                        const sl_cluster *cluster) {
    sl_topology answer = {0};
    sl_topology_options options = {.seed = s->campaign->seed, .effort = s->campaign->effort};
    sl_status status = sl_topology_search(cluster, &options, &answer);
    if (status == SL_OK && answer.time < answer.present)
        status = seat_all(s, setup, part, answer.host);
    sl_topology_free(&answer);
    return status;
}

sl_status sl_setup_rearrange(sl_simulation *s, sl_setup *setup, int world) {
    int active;
    excerpt part = {0};
    unsigned char *is_slow;
    sl_cluster cluster = {0};
    if (!applies(s->campaign))
        return SL_OK;
    SL_TRY(sl_simulation_active(s, setup, world, &active));
    if (!active)
        return SL_OK;
    SL_TRY(sl_alloc(&is_slow, (size_t)s->campaign->replicas, 1));
    mark_slow(s, setup, active, is_slow);
    sl_status status = choose_part(s, is_slow, &part);
    if (status == SL_OK)
        status = make_cluster(s, setup, &part, active, &cluster);
    if (status == SL_OK)
        status = search(s, setup, &part, &cluster);
    sl_cluster_free(&cluster);
    sl_free(part.replica);
    sl_free(is_slow);
    return status;
}
