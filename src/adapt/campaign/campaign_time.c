/* How long an iteration takes: every replica's plan replayed with what is slow in it, then the rings. */
#include "adapt/campaign/campaign_inside.h"
#include "base/memory.h"
#include "plan/timing/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static sl_status make_rings(sl_simulation *s) {
    const sl_campaign *c = s->campaign;
    double steps = 2.0 * (c->replicas - 1);
    size_t stages = (size_t)c->problem.stages;
    SL_TRY(sl_alloc(&s->ring, stages, sizeof *s->ring));
    SL_TRY(sl_alloc(&s->ring_now, stages, sizeof *s->ring_now));
    SL_TRY(sl_alloc(&s->ring_step, stages, sizeof *s->ring_step));
    s->ring_latency = c->gradient > 0 ? c->ring_latency : 0;
    for (size_t stage = 0; stage < stages; stage++) {
        if (c->gradient > 0)
            s->ring_step[stage] = c->gradient * c->ring_pace / c->replicas;
        else if (steps > 0)
            s->ring_step[stage] = (double)c->problem.reduce[stage] / steps;
        s->ring[stage] = c->gradient > 0 ? (sl_time)llround(steps * (s->ring_latency + s->ring_step[stage]))
                                         : c->problem.reduce[stage];
    }
    return SL_OK;
}

static sl_status begin(sl_simulation *s) {
    int number, is_new;
    sl_setup first = {0};
    SL_TRY(sl_problem_copy(&s->campaign->problem, &s->problem));
    memset(s->problem.reduce, 0, (size_t)s->problem.stages * sizeof *s->problem.reduce);
    SL_TRY(make_rings(s));
    SL_TRY(sl_alloc(&s->sig, (size_t)s->campaign->replicas, sizeof *s->sig));
    SL_TRY(sl_keys_number(&s->traits, "", 0, &number, &is_new));
    SL_TRY(sl_simulation_keep(s, &first, &number));
    return sl_simulation_world(s, NULL, 0, &number);
}

sl_status sl_simulation_open(const sl_campaign *campaign, sl_simulation *s) {
    *s = (sl_simulation){.campaign = campaign, .positions = campaign->replicas * campaign->problem.ranks};
    return begin(s);
}

void sl_simulation_close(sl_simulation *s) {
    for (size_t i = 0; i < s->plan_keys.count && i < s->plan_room; i++)
        sl_plan_free(&s->plan[i]);
    for (size_t i = 0; i < s->run_keys.count && i < s->run_room; i++)
        sl_free(s->run[i].end);
    for (size_t i = 0; i < s->setup_keys.count && i < s->setup_room; i++)
        sl_setup_free(&s->setup[i]);
    for (size_t i = 0; i < s->search_keys.count && i < s->searched_room; i++)
        sl_free(s->searched[i]);
    sl_keys *keys[] = {&s->traits,     &s->plan_keys,   &s->run_keys,  &s->time_keys,  &s->setup_keys,
                       &s->world_keys, &s->derive_keys, &s->solo_keys, &s->search_keys};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        sl_keys_free(keys[i]);
    sl_problem_free(&s->problem);
    void *arrays[] = {s->plan,  s->run,    s->time,     s->setup,     s->derived, s->ring,    s->sig,
                      s->found, s->active, s->ring_now, s->ring_step, s->solo,    s->searched};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        sl_free(arrays[i]);
}

sl_status sl_simulation_world(sl_simulation *s, const int *faults, int count, int *world) {
    int is_new;
    return sl_keys_number(&s->world_keys, count ? faults : NULL, (size_t)count * sizeof *faults, world,
                          &is_new);
}

/* ---- what is slow ---- */

static int is_cured(const sl_setup *setup, int fault) {
    for (int i = 0; i < setup->cures; i++)
        if (setup->cured[i] == fault)
            return 1;
    return 0;
}

sl_status sl_simulation_active(sl_simulation *s, const sl_setup *setup, int world, int *count) {
    size_t size;
    const int *faults = sl_keys_at(&s->world_keys, world, &size);
    size /= sizeof *faults;
    SL_TRY(sl_grow(&s->active, &s->active_room, size + 1, sizeof *s->active));
    faults = sl_keys_at(&s->world_keys, world, &size);
    size /= sizeof *faults;
    *count = 0;
    for (size_t i = 0; i < size; i++)
        if (!is_cured(setup, faults[i]))
            s->active[(*count)++] = faults[i];
    return SL_OK;
}

static sl_status add(sl_simulation *s, size_t *count, int replica, sl_trait trait) {
    SL_TRY(sl_grow(&s->found, &s->found_room, *count + 1, sizeof *s->found));
    s->found[(*count)++] = (sl_found){replica, trait};
    return SL_OK;
}

/* The ring of a rank's stages waits for its slowest link. */
static void slow_ring(sl_simulation *s, int rank, const sl_campaign_fault *f) {
    const sl_campaign *c = s->campaign;
    double steps = 2.0 * (c->replicas - 1), latency = fmax(s->ring_latency, (double)f->latency);
    for (int stage = 0; stage < c->problem.stages; stage++) {
        if (sl_problem_rank(&c->problem, stage) != rank || c->replicas == 1)
            continue;
        sl_time now = (sl_time)llround(steps * (latency + s->ring_step[stage] * f->slowdown));
        s->ring_now[stage] = now > s->ring_now[stage] ? now : s->ring_now[stage];
    }
}

static int are_neighbours(int a, int b, int replicas) {
    int apart = a > b ? a - b : b - a;
    return apart == 1 || (apart == replicas - 1 && apart > 0);
}

static sl_status add_link(sl_simulation *s, const sl_campaign_fault *f, const int position[2],
                          size_t *count) {
    int replicas = s->campaign->replicas, replica[2], rank[2];
    for (int i = 0; i < 2; i++) {
        replica[i] = position[i] % replicas;
        rank[i] = position[i] / replicas;
    }
    if (replica[0] == replica[1])
        return add(s, count, replica[0],
                   (sl_trait){rank[0] < rank[1] ? rank[0] : rank[1], rank[0] < rank[1] ? rank[1] : rank[0],
                              f->slowdown, f->latency});
    if (rank[0] == rank[1] && are_neighbours(replica[0], replica[1], replicas))
        slow_ring(s, rank[0], f);
    return SL_OK;
}

static sl_status add_fault(sl_simulation *s, const sl_setup *setup, const sl_campaign_fault *f,
                           size_t *count) {
    int replicas = s->campaign->replicas;
    if (f->kind == SL_FAULT_LINK) {
        int position[2] = {sl_setup_position(setup, f->a), sl_setup_position(setup, f->b)};
        return add_link(s, f, position, count);
    }
    for (int device = f->a; device <= f->b; device++) {
        int position = sl_setup_position(setup, device), rank = position / replicas;
        if (f->kind == SL_FAULT_DEVICE) {
            SL_TRY(add(s, count, position % replicas, (sl_trait){rank, rank, f->slowdown, -1}));
            continue;
        }
        if (s->problem.ranks > 1)
            SL_TRY(add(s, count, position % replicas, (sl_trait){rank, -1, f->slowdown, f->latency}));
        slow_ring(s, rank, f);
    }
    return SL_OK;
}

static int by_replica(const void *a, const void *b) {
    const sl_found *x = a, *y = b;
    if (x->replica != y->replica)
        return x->replica < y->replica ? -1 : 1;
    if (x->trait.from != y->trait.from)
        return x->trait.from < y->trait.from ? -1 : 1;
    if (x->trait.to != y->trait.to)
        return x->trait.to < y->trait.to ? -1 : 1;
    if (x->trait.latency != y->trait.latency)
        return x->trait.latency < y->trait.latency ? -1 : 1;
    return x->trait.slowdown < y->trait.slowdown ? -1 : x->trait.slowdown > y->trait.slowdown;
}

/* Two faults of one device multiply; of one link the worse counts. */
static int merge(sl_trait *kept, const sl_trait *next) {
    if (kept->from != next->from || kept->to != next->to)
        return 0;
    if (kept->from == kept->to) {
        kept->slowdown *= next->slowdown;
    } else {
        kept->slowdown = fmax(kept->slowdown, next->slowdown);
        kept->latency = next->latency > kept->latency ? next->latency : kept->latency;
    }
    return 1;
}

/* The traits of found[from..to), of one replica, as a number. */
static sl_status number_traits(sl_simulation *s, size_t from, size_t to) {
    sl_trait *traits;
    int count = 0, is_new;
    SL_TRY(sl_alloc(&traits, to - from, sizeof *traits));
    for (size_t i = from; i < to; i++)
        if (!count || !merge(&traits[count - 1], &s->found[i].trait))
            traits[count++] = s->found[i].trait;
    sl_status status = sl_keys_number(&s->traits, traits, (size_t)count * sizeof *traits,
                                      &s->sig[s->found[from].replica], &is_new);
    sl_free(traits);
    return status;
}

sl_status sl_simulation_look(sl_simulation *s, const sl_setup *setup, int world, size_t *count) {
    int active;
    *count = 0;
    memset(s->sig, 0, (size_t)s->campaign->replicas * sizeof *s->sig);
    memcpy(s->ring_now, s->ring, (size_t)s->problem.stages * sizeof *s->ring);
    SL_TRY(sl_simulation_active(s, setup, world, &active));
    for (int i = 0; i < active; i++)
        SL_TRY(add_fault(s, setup, &s->campaign->fault[s->active[i]], count));
    if (*count)
        qsort(s->found, *count, sizeof *s->found, by_replica);
    for (size_t from = 0, to; from < *count; from = to) {
        for (to = from + 1; to < *count && s->found[to].replica == s->found[from].replica; to++) {
        }
        SL_TRY(number_traits(s, from, to));
    }
    return SL_OK;
}

/* ---- the problem of a replica ---- */

static void slow_rank(const sl_problem *healthy, int rank, double slowdown, sl_problem *p) {
    for (int stage = 0; stage < p->stages; stage++) {
        if (sl_problem_rank(healthy, stage) != rank)
            continue;
        for (int kind = 0; kind < SL_OP_KINDS; kind++)
            p->time[kind][stage] = (sl_time)llround((double)p->time[kind][stage] * slowdown);
        p->saved[stage] = (sl_time)llround((double)p->saved[stage] * slowdown);
    }
}

static void slow_link(sl_link *link, const sl_trait *trait) {
    link->latency = trait->latency > link->latency ? trait->latency : link->latency;
    link->transfer = (sl_time)llround((double)link->transfer * trait->slowdown);
}

void sl_traits_apply(const sl_simulation *s, int number, int delegated, sl_problem *p) {
    const sl_problem *healthy = &s->campaign->problem;
    size_t size, ranks = (size_t)healthy->ranks, stages = (size_t)healthy->stages;
    const sl_trait *trait = sl_keys_at(&s->traits, number, &size);
    for (int kind = 0; kind < SL_OP_KINDS; kind++)
        memcpy(p->time[kind], healthy->time[kind], stages * sizeof(sl_time));
    memcpy(p->saved, healthy->saved, stages * sizeof *p->saved);
    memcpy(p->link, healthy->link, ranks * ranks * sizeof *p->link);
    p->communication = delegated ? SL_DECOUPLED : healthy->communication;
    for (size_t i = 0; i < size / sizeof *trait; i++) {
        size_t from = (size_t)trait[i].from, to = (size_t)trait[i].to;
        if (trait[i].from == trait[i].to) {
            slow_rank(healthy, trait[i].from, trait[i].slowdown, p);
        } else if (trait[i].to >= 0) {
            slow_link(&p->link[from * ranks + to], &trait[i]);
            slow_link(&p->link[to * ranks + from], &trait[i]);
        } else {
            for (size_t other = 0; other < ranks; other++) {
                slow_link(&p->link[from * ranks + other], &trait[i]);
                slow_link(&p->link[other * ranks + from], &trait[i]);
            }
        }
    }
    for (size_t i = 0; delegated && i < ranks * ranks; i++)
        p->link[i].latency += s->campaign->delegated;
}

/* ---- plans and replays ---- */

static const char *family_of(const sl_campaign *c, int family) {
    return family ? c->family[family - 1] : c->schedule;
}

/* A number of microbatches that no schedule takes is no error where the job may take another. */
static sl_status plan_first(sl_simulation *s, int family, int microbatches, sl_plan *plan) {
    sl_problem problem = s->campaign->problem;
    problem.microbatches = microbatches;
    sl_status status = sl_plan_make(&problem, family_of(s->campaign, family), plan);
    if (status != SL_OK)
        sl_plan_free(plan);
    int other = microbatches != s->campaign->problem.microbatches;
    return status == SL_ENONE || (status == SL_EINVAL && other) ? (other ? SL_OK : status) : status;
}

static int is_plan(const sl_plan *plan) {
    return plan->order.ops != NULL;
}

static sl_status find_plan(sl_simulation *s, int family, int traits, int microbatches, int delegated,
                           int *number);

/* The job's own order or a new plan, whichever is shorter with these traits. */
static sl_status plan_again(sl_simulation *s, int family, int traits, int microbatches, int delegated,
                            sl_plan *plan) {
    int first;
    sl_plan kept = {0};
    sl_status status = SL_OK;
    SL_TRY(find_plan(s, family, 0, microbatches, 0, &first));
    sl_traits_apply(s, traits, delegated, &s->problem);
    s->problem.microbatches = microbatches;
    if (is_plan(&s->plan[first]))
        status = sl_plan_of_order(&s->problem, &s->plan[first].order, s->plan[first].schedule, &kept);
    if (status == SL_OK)
        status = sl_plan_make(&s->problem, s->campaign->adapt_with, plan);
    if (status == SL_ENONE || status == SL_EINVAL) { /* the job's own order is there still */
        sl_plan_free(plan);
        status = SL_OK;
    }
    if (status == SL_OK && is_plan(&kept) && (!is_plan(plan) || kept.makespan <= plan->makespan)) {
        sl_plan_free(plan);
        *plan = kept;
        return SL_OK;
    }
    sl_plan_free(&kept);
    return status;
}

static sl_status find_plan(sl_simulation *s, int family, int traits, int microbatches, int delegated,
                           int *number) {
    int key[4] = {family, traits, microbatches, traits ? delegated : 0}, is_new;
    sl_plan plan = {0};
    SL_TRY(sl_keys_number(&s->plan_keys, key, sizeof key, number, &is_new));
    SL_TRY(sl_grow(&s->plan, &s->plan_room, s->plan_keys.count, sizeof *s->plan));
    if (!is_new)
        return SL_OK;
    sl_status status = traits ? plan_again(s, family, traits, microbatches, delegated, &plan)
                              : plan_first(s, family, microbatches, &plan);
    sl_timeline_free(&plan.timeline); /* of many plans the largest part, and never looked at */
    if (status == SL_OK)
        s->plan[*number] = plan;
    else
        sl_plan_free(&plan);
    return status;
}

static sl_status read_ends(const sl_simulation *s, const sl_timeline *timeline, sl_time *end) {
    sl_time first = SL_TIME_NEVER;
    for (int i = 0; i < timeline->spans; i++) {
        const sl_span *span = &timeline->span[i];
        if (span->op.kind == SL_F &&
            (span->op.stage == 0 || sl_problem_previous(&s->problem, span->op.stage) < 0))
            first = span->start < first ? span->start : first;
        if (span->end > end[span->op.stage])
            end[span->op.stage] = span->end;
    }
    for (int stage = 0; stage < s->problem.stages; stage++)
        end[stage] -= first;
    return SL_OK;
}

static sl_status replay(sl_simulation *s, const sl_plan *plan, int traits, int microbatches, int delegated,
                        sl_replayed *run) {
    sl_timeline timeline;
    sl_traits_apply(s, traits, delegated, &s->problem);
    s->problem.microbatches = microbatches;
    SL_TRY(sl_replay(&s->problem, &plan->program, s->problem.communication, s->problem.queue, &timeline));
    sl_status status = sl_alloc(&run->end, (size_t)s->problem.stages, sizeof *run->end);
    if (status == SL_OK)
        status = read_ends(s, &timeline, run->end);
    sl_timeline_free(&timeline);
    return status;
}

sl_status sl_simulation_replica(sl_simulation *s, const sl_setup *setup, int traits, int plan,
                                int microbatches, sl_time *time) {
    int key[5] = {setup->family, plan, traits, microbatches, setup->delegated}, number, is_new, of;
    SL_TRY(sl_keys_number(&s->run_keys, key, sizeof key, &number, &is_new));
    SL_TRY(sl_grow(&s->run, &s->run_room, s->run_keys.count, sizeof *s->run));
    if (is_new) {
        SL_TRY(find_plan(s, setup->family, plan, microbatches, setup->delegated, &of));
        if (is_plan(&s->plan[of]))
            SL_TRY(replay(s, &s->plan[of], traits, microbatches, setup->delegated, &s->run[number]));
    }
    *time = s->run[number].end ? 0 : SL_TIME_NEVER;
    for (int stage = 0; s->run[number].end && stage < s->problem.stages; stage++) {
        sl_time done = s->run[number].end[stage] + s->ring_now[stage];
        *time = done > *time ? done : *time;
    }
    return SL_OK;
}

/* ---- an iteration ---- */

static sl_status slowest(sl_simulation *s, const sl_setup *setup, sl_time *time) {
    int last[3] = {-1, -1, -1};
    *time = 0;
    for (int d = 0; d < s->campaign->replicas; d++) {
        int now[3] = {s->sig[d], sl_setup_plan(setup, d), sl_setup_share(s, setup, d)};
        sl_time replica;
        if (memcmp(now, last, sizeof now) == 0)
            continue;
        memcpy(last, now, sizeof now);
        SL_TRY(sl_simulation_replica(s, setup, now[0], now[1], now[2], &replica));
        *time = replica > *time ? replica : *time;
    }
    if (*time != SL_TIME_NEVER)
        *time += s->campaign->other;
    return SL_OK;
}

sl_status sl_simulation_time(sl_simulation *s, int setup, int world, sl_time *time) {
    int key[2] = {setup, world}, number, is_new;
    size_t traits;
    SL_TRY(sl_keys_number(&s->time_keys, key, sizeof key, &number, &is_new));
    SL_TRY(sl_grow(&s->time, &s->time_room, s->time_keys.count, sizeof *s->time));
    if (is_new) {
        SL_TRY(sl_simulation_look(s, &s->setup[setup], world, &traits));
        SL_TRY(slowest(s, &s->setup[setup], &s->time[number]));
    }
    *time = s->time[number];
    return SL_OK;
}

/* ---- whose fault it is ---- */

/* What a fault alone adds to an iteration. */
static sl_status alone(sl_simulation *s, int setup, int fault, double *time) {
    int world, none;
    sl_time with, without;
    SL_TRY(sl_simulation_world(s, &fault, 1, &world));
    SL_TRY(sl_simulation_world(s, NULL, 0, &none));
    SL_TRY(sl_simulation_time(s, setup, world, &with));
    SL_TRY(sl_simulation_time(s, setup, none, &without));
    *time = with > without ? (double)with - (double)without : 0;
    return SL_OK;
}

static sl_status all_alone(sl_simulation *s, int setup, int world, double *sum, int *count) {
    int key[2] = {setup, world}, number, is_new;
    size_t size;
    SL_TRY(sl_keys_number(&s->solo_keys, key, sizeof key, &number, &is_new));
    SL_TRY(sl_grow(&s->solo, &s->solo_room, s->solo_keys.count, sizeof *s->solo));
    (void)sl_keys_at(&s->world_keys, world, &size);
    *count = (int)(size / sizeof(int));
    for (int i = 0; i < *count && is_new; i++) {
        double time;
        const int *faults = sl_keys_at(&s->world_keys, world, &size);
        SL_TRY(alone(s, setup, faults[i], &time));
        s->solo[number] += time;
    }
    *sum = s->solo[number];
    return SL_OK;
}

sl_status sl_simulation_loss(sl_simulation *s, int setup, int world, int fault, sl_time healthy,
                             double *loss) {
    double sum, mine;
    int count;
    sl_time now;
    SL_TRY(sl_simulation_time(s, setup, world, &now));
    *loss = 0;
    if (now <= healthy)
        return SL_OK;
    SL_TRY(all_alone(s, setup, world, &sum, &count));
    SL_TRY(alone(s, setup, fault, &mine));
    *loss = (1 - (double)healthy / (double)now) * (sum > 0 ? mine / sum : 1.0 / (count > 0 ? count : 1));
    return SL_OK;
}
