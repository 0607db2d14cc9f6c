#include "adapt/orchestrator/unknown.h"
#include "adapt/balance/balance.h"
#include "adapt/ladder/strategy.h"
#include "base/memory.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define SETTLE_ITERATIONS 20
#define SETTLE_TIME (3 * SL_SECOND)
#define MIN 0.1 /* least excess of a part that is slow but not measured */

static int is_device(const sl_unknown_part *p) {
    return p->part.kind == SL_PART_DEVICE;
}

static int is_group(const sl_unknown_part *p) {
    return p->part.kind == SL_PART_LINK && p->part.b < 0;
}

unsigned sl_unknown_cause(const sl_unknown_part *p) {
    if (is_device(p))
        return p->host ? SL_CAUSE_HOST : SL_CAUSE_DEVICE;
    return is_group(p) ? SL_CAUSE_REPLICA_LINK : p->part.kind == SL_PART_CARD ? SL_CAUSE_HOST : SL_CAUSE_LINK;
}

/* ---- the loss ---- */

/* ns per iteration. */
static double excess(const sl_unknown_view *v) {
    double healthy = v->job->healthy, level = v->job->level;
    return healthy > 0 && level > healthy ? level - healthy : 0;
}

static double factor(const sl_unknown_part *p) {
    return isfinite(p->part.slowdown) ? fmax(1, p->part.slowdown) : 1;
}

/* How far each is off. A factor above that of the whole iteration adds nothing: it was a small part. */
static double weight(const sl_unknown_view *v, int part) {
    double most = v->job->healthy > 0 ? v->job->level / v->job->healthy - 1 : 1;
    return fmax(MIN, fmin(factor(&v->part[part]) - 1, most));
}

/* Its share of the excess, ns. */
static double share(const sl_unknown_view *v, int part) {
    double sum = 0;
    for (int i = 0; i < v->parts; i++)
        sum += weight(v, i);
    return part >= 0 && part < v->parts ? excess(v) * weight(v, part) / sum : 0;
}

double sl_unknown_loss(const sl_unknown_view *v, int part) {
    return v->job->level > 0 ? share(v, part) / v->job->level : 0;
}

/* ---- balance ---- */

/* All slow devices together. */
typedef struct devices {
    double cost;      /* ns per iteration */
    double slowest;   /* the largest factor */
    double stretched; /* healthy ns that they stretch */
    double scale;     /* scales the distance of other factors from 1 */
} devices;

static devices of_devices(const sl_unknown_view *v) {
    devices d = {.slowest = 1, .scale = 1};
    double healthy = v->job->healthy;
    for (int i = 0; i < v->parts; i++)
        if (is_device(&v->part[i])) {
            d.cost += share(v, i);
            d.slowest = fmax(d.slowest, factor(&v->part[i]));
        }
    d.stretched = d.slowest > 1 ? d.cost / (d.slowest - 1) : INFINITY;
    if (d.stretched > healthy) { /* the iteration is slower than the reported device */
        double measured = d.slowest;
        d.stretched = healthy;
        d.slowest = healthy > 0 ? 1 + d.cost / healthy : 1;
        d.scale = measured > 1 ? (d.slowest - 1) / (measured - 1) : INFINITY;
    }
    return d;
}

/* The number of replicas on a slow host. */
static int replicas_of_host(const sl_unknown_job *job) {
    return job->nodes > 0 ? (job->replicas + job->nodes - 1) / job->nodes : job->replicas;
}

/* Times of a microbatch, relative to healthy. If all ranks are replicas, a slow device is its rank;
 * otherwise, and on a slow host, only the number of slow ones counts. */
static void speeds(const sl_unknown_view *v, const devices *d, sl_replica_rate *replica) {
    const sl_unknown_job *job = v->job;
    int next = 0, all = job->replicas == job->ranks;
    for (int i = 0; i < job->replicas; i++)
        replica[i] = (sl_replica_rate){.time = 1};
    for (int i = 0; i < v->parts; i++) {
        const sl_unknown_part *p = &v->part[i];
        double time = isfinite(d->scale) ? 1 + (factor(p) - 1) * d->scale : d->slowest;
        int ranks = !is_device(p) ? 0 : p->host ? replicas_of_host(job) : 1;
        if (ranks == 1 && !p->host && all && p->part.a >= 0 && p->part.a < job->replicas)
            replica[p->part.a].time = time;
        else
            for (int k = 0; k < ranks && next < job->replicas; k++)
                replica[next++].time = time;
    }
}

/* The best split[replicas], and the longest replica's time over that of a healthy one with an even share.
 * SL_ENONE: there is nothing to balance. */
static sl_status balanced(const sl_unknown_view *v, const devices *d, int *split, double *longest) {
    sl_replica_rate *replica;
    long long all = (long long)v->job->replicas * v->job->microbatches;
    if (v->job->replicas < 2 || d->cost <= 0 || all > INT32_MAX)
        return sl_error(SL_ENONE, "there is no slow device to balance");
    SL_TRY(sl_alloc(&replica, (size_t)v->job->replicas, sizeof *replica));
    speeds(v, d, replica);
    sl_status status = sl_balance(replica, v->job->replicas, (int)all, split, longest);
    sl_free(replica);
    *longest /= v->job->microbatches;
    return status;
}

/* The same, and the most microbatches of a replica, over an even share; both INFINITY: nothing to balance. */
static void balance(const sl_unknown_view *v, const devices *d, double *longest, double *most) {
    int *split = NULL, largest = 0;
    *longest = *most = INFINITY;
    if (v->job->replicas < 2)
        return;
    sl_status status = sl_alloc(&split, (size_t)v->job->replicas, sizeof *split);
    SL_THEN(status, balanced(v, d, split, longest));
    if (status == SL_ENOMEM && v->failed)
        *v->failed = status;
    if (status == SL_OK) {
        for (int i = 0; i < v->job->replicas; i++)
            largest = split[i] > largest ? split[i] : largest;
        *most = largest / (double)v->job->microbatches;
    } else {
        *longest = INFINITY;
    }
    sl_free(split);
}

sl_status sl_unknown_split(const sl_unknown_view *v, int *split) {
    devices d = of_devices(v);
    double longest = 0;
    if (v->job->replicas != v->job->ranks)
        return sl_error(SL_ENONE, "the replicas of the slow rank are not known individually");
    for (int i = 0; i < v->parts; i++)
        if (is_device(&v->part[i]) && v->part[i].host)
            return sl_error(SL_ENONE, "the ranks on the slow host are unknown");
    return balanced(v, &d, split, &longest);
}

/* ---- the remaining loss ---- */

/* Whether other ranks at this link would send less over it. */
static int is_uneven(const sl_unknown_job *job, const sl_unknown_part *p) {
    return sl_unknown_cause(p) == SL_CAUSE_LINK && job->nodes >= 3 && job->lightest >= 0 && job->lightest < 1;
}

static double after_balance(const sl_unknown_view *v, int part, double mine) {
    devices d = of_devices(v);
    double longest = INFINITY, most;
    if (is_device(&v->part[part]) && d.cost > 0)
        balance(v, &d, &longest, &most);
    return isfinite(longest) ? fmin(mine, mine / d.cost * d.stretched * fmax(0, longest - 1)) : mine;
}

static double after_topology(const sl_unknown_view *v, int part, double mine) {
    const sl_unknown_part *p = &v->part[part];
    if (v->job->spares > 0 && !is_group(p))
        return 0;
    return is_uneven(v->job, p) ? mine * v->job->lightest : mine;
}

double sl_unknown_remaining(const sl_unknown_view *v, sl_strategy_kind strategy, int part) {
    if (part < 0 || part >= v->parts || v->job->level <= 0)
        return 0;
    double mine = share(v, part), left = mine;
    if (v->refused & (1u << strategy))
        left = mine;
    else if (strategy == SL_STRATEGY_BALANCE)
        left = after_balance(v, part, mine);
    else if (strategy == SL_STRATEGY_TOPOLOGY)
        left = after_topology(v, part, mine);
    else if (strategy == SL_STRATEGY_RESTART)
        left = 0;
    double level = v->job->level - mine + left;
    return level > 0 ? left / level : 0;
}

double sl_unknown_keeping(const sl_unknown_view *v, sl_strategy_kind strategy) {
    devices d = of_devices(v);
    double longest, most;
    if (strategy != SL_STRATEGY_BALANCE || d.cost <= 0)
        return 0;
    balance(v, &d, &longest, &most);
    double longer = isfinite(most) ? d.stretched * (most - 1) : 0;
    return longer > 0 ? longer / (v->job->healthy + longer) : 0;
}

void sl_unknown_why(const sl_unknown_view *v, sl_strategy_kind strategy, int part, char *text, size_t size) {
    const sl_unknown_part *p = &v->part[part];
    const sl_unknown_job *job = v->job;
    const char *why = "";
    if (v->refused & (1u << strategy)) {
        why = "it cannot be carried out here";
    } else if (strategy == SL_STRATEGY_SCHEDULE || strategy == SL_STRATEGY_DELEGATE) {
        why = "the program's pipeline is not known";
    } else if (strategy == SL_STRATEGY_BALANCE) {
        if (!is_device(p))
            why = "a link does not get faster by other work";
        else if (p->host && replicas_of_host(job) >= job->replicas)
            why = "all ranks are on the slow host";
        else if (job->replicas < 2)
            why = "no other rank does the same";
    } else if (strategy == SL_STRATEGY_TOPOLOGY) {
        if (is_group(p))
            why = "no single host is known to be slow";
        else if (job->spares <= 0 && is_device(p))
            why = "no spare host, and just as slow at any other position";
        else if (job->spares <= 0 && !is_uneven(job, p))
            why = "no spare host, and no better rank map is known";
    }
    snprintf(text, size, "%s", why);
}

int sl_unknown_settled(int iterations, sl_time passed, int changed) {
    return changed || (iterations >= SETTLE_ITERATIONS && passed >= SETTLE_TIME);
}
