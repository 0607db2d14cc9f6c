/* Another arrangement of the devices, as topology.h finds it. The replicas that are held up most and some
 * healthy ones beside them are given to the search as a cluster; the rest are as healthy as those, or wait
 * for them. The same cluster is searched once. */
#include "adapt/campaign/campaign_inside.h"
#include "adapt/topology/topology.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define MOST_SEARCHED 64 /* devices; but 4 replicas always */
#define HEALTHY_BESIDE 2 /* replicas at least, where there are so many */

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

/* How long each replica takes where something is slow, and what its rings take more; 0: it is healthy. */
static sl_status weigh(sl_simulation *s, const sl_setup *setup, int world, sl_time *weight) {
    size_t traits;
    int active, replicas = s->campaign->replicas;
    sl_time ring = 0;
    SL_TRY(sl_simulation_look(s, setup, world, &traits));
    for (int stage = 0; stage < s->problem.stages; stage++)
        ring = s->ring_now[stage] - s->ring[stage] > ring ? s->ring_now[stage] - s->ring[stage] : ring;
    for (int d = 0; d < replicas; d++)
        if (s->sig[d])
            SL_TRY(sl_simulation_replica(s, setup, s->sig[d], sl_setup_plan(setup, d),
                                         sl_setup_share(s, setup, d), &weight[d]));
    SL_TRY(sl_simulation_active(s, setup, world, &active));
    for (int i = 0; i < active; i++) {
        const sl_campaign_fault *f = &s->campaign->fault[s->active[i]];
        for (int device = f->a; f->kind == SL_FAULT_NIC && device <= f->b; device++)
            weight[sl_setup_position(setup, device) % replicas] += ring;
        if (f->kind == SL_FAULT_LINK) {
            weight[sl_setup_position(setup, f->a) % replicas] += ring + 1;
            weight[sl_setup_position(setup, f->b) % replicas] += ring + 1;
        }
    }
    return SL_OK;
}

/* The heaviest first, then healthy ones: *excerpt has them in the order of the job. */
static sl_status choose_part(const sl_simulation *s, sl_time *weight, excerpt *part) {
    int replicas = s->campaign->replicas, ranks = s->problem.ranks, slow = 0, wanted = 0;
    int most = MOST_SEARCHED / ranks < 4 ? 4 : MOST_SEARCHED / ranks;
    unsigned char *is_chosen;
    for (int d = 0; d < replicas; d++)
        slow += weight[d] > 0;
    wanted = slow + HEALTHY_BESIDE > 4 ? slow + HEALTHY_BESIDE : 4;
    wanted = wanted < most ? wanted : most;
    wanted = wanted < replicas ? wanted : replicas;
    int room = wanted < replicas ? wanted - HEALTHY_BESIDE : wanted;
    SL_TRY(sl_alloc(&is_chosen, (size_t)replicas, 1));
    for (int i = 0; i < wanted; i++) {
        int best = -1;
        for (int d = 0; d < replicas; d++)
            if (!is_chosen[d] &&
                (best < 0 || (i < room ? weight[d] > weight[best] : weight[d] < weight[best])))
                best = d;
        is_chosen[best] = 1;
    }
    sl_status status = sl_alloc(&part->replica, (size_t)wanted, sizeof *part->replica);
    for (int d = 0; d < replicas && status == SL_OK; d++)
        if (is_chosen[d])
            part->replica[part->count++] = d;
    sl_free(is_chosen);
    return status;
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
    int position = sl_setup_position(setup, device), replica = position % s->campaign->replicas;
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

/* Who sits at the positions of the excerpt, and at those that were moved before; the rest is as at first. */
static sl_status seat_all(const sl_simulation *s, sl_setup *setup, const excerpt *part, const int *host) {
    int replicas = s->campaign->replicas, count = part->count, hosts = count * s->problem.ranks, moves = 0;
    int *seat, *moved = NULL, *seated = NULL;
    size_t positions = (size_t)s->positions;
    SL_TRY(sl_alloc(&seat, 2 * positions, sizeof *seat));
    int *before = seat + positions;
    for (int i = 0; i < s->positions; i++)
        seat[i] = before[i] = i;
    for (int i = 0; i < setup->moves; i++)
        seat[setup->moved[i]] = before[setup->moved[i]] = setup->seated[i];
    for (int i = 0; i < hosts; i++)
        seat[part->replica[i % count] + replicas * (i / count)] =
            before[part->replica[host[i] % count] + replicas * (host[i] / count)];
    sl_status status = sl_alloc(&moved, (size_t)(hosts + setup->moves), sizeof *moved);
    if (status == SL_OK)
        status = sl_alloc(&seated, (size_t)(hosts + setup->moves), sizeof *seated);
    for (int i = 0; i < s->positions && status == SL_OK; i++)
        if (seat[i] != i) {
            moved[moves] = i;
            seated[moves++] = seat[i];
        }
    if (status == SL_OK) {
        sl_free(setup->moved);
        sl_free(setup->seated);
        setup->moved = moved;
        setup->seated = seated;
        setup->moves = moves;
    } else {
        sl_free(moved);
        sl_free(seated);
    }
    sl_free(seat);
    return status;
}

/* What decides the search: which hosts are slow, and how; one of `what` for each fault. */
typedef struct what {
    int32_t kind, a, b, count;
    double slowdown;
    sl_time latency;
} what;

static sl_status number_search(sl_simulation *s, const sl_setup *setup, const excerpt *part, int active,
                               int *number, int *is_new) {
    what *all;
    size_t count = 0, hosts = (size_t)part->count * (size_t)s->problem.ranks;
    SL_TRY(sl_alloc(&all, (size_t)active * hosts + 1, sizeof *all)); /* a fault shows at a host once */
    for (int i = 0; i < active; i++) {
        const sl_campaign_fault *f = &s->campaign->fault[s->active[i]];
        what w = {(int32_t)f->kind, -1, -1, part->count, f->slowdown, f->latency};
        if (f->kind == SL_FAULT_LINK) {
            w.a = host_of(s, setup, part, f->a);
            w.b = host_of(s, setup, part, f->b);
            if (w.a >= 0 && w.b >= 0)
                all[count++] = w;
            continue;
        }
        for (int device = f->a; device <= f->b; device++)
            if ((w.a = host_of(s, setup, part, device)) >= 0)
                all[count++] = w;
    }
    sl_status status = sl_keys_number(&s->search_keys, all, count * sizeof *all, number, is_new);
    sl_free(all);
    return status;
}

/* The arrangement of the cluster, found once: *host is the simulation's; NULL: as it is. */
static sl_status search(sl_simulation *s, const sl_setup *setup, const excerpt *part, int active,
                        const int **host) {
    int number, is_new;
    sl_cluster cluster = {0};
    sl_topology answer = {0};
    sl_topology_options options = {.seed = s->campaign->seed, .effort = s->campaign->effort};
    SL_TRY(number_search(s, setup, part, active, &number, &is_new));
    SL_TRY(sl_grow(&s->searched, &s->searched_room, s->search_keys.count, sizeof *s->searched));
    if (is_new) {
        sl_status status = make_cluster(s, setup, part, active, &cluster);
        if (status == SL_OK)
            status = sl_topology_search(&cluster, &options, &answer);
        if (status == SL_OK && answer.time < answer.present) {
            s->searched[number] = answer.host;
            answer.host = NULL;
        }
        sl_topology_free(&answer);
        sl_cluster_free(&cluster);
        SL_TRY(status);
    }
    *host = s->searched[number];
    return SL_OK;
}

sl_status sl_setup_rearrange(sl_simulation *s, sl_setup *setup, int world) {
    int active = 0;
    excerpt part = {0};
    sl_time *weight;
    const int *host = NULL;
    if (!applies(s->campaign))
        return SL_OK;
    SL_TRY(sl_alloc(&weight, (size_t)s->campaign->replicas, sizeof *weight));
    sl_status status = weigh(s, setup, world, weight);
    if (status == SL_OK)
        status = choose_part(s, weight, &part);
    if (status == SL_OK)
        status = sl_simulation_active(s, setup, world, &active);
    if (status == SL_OK && active)
        status = search(s, setup, &part, active, &host);
    if (status == SL_OK && host)
        status = seat_all(s, setup, &part, host);
    sl_free(part.replica);
    sl_free(weight);
    return status;
}
