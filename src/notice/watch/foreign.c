#include "notice/watch/foreign.h"
#include "adapt/balance/balance.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *words;
} strategies[SL_FOREIGN_STRATEGIES] = {
    [SL_FOREIGN_BALANCE] = {"balance", "balance microbatches"},
    [SL_FOREIGN_TOPOLOGY] = {"topology", "change the topology"},
    [SL_FOREIGN_RESTART] = {"restart", "restart without the host"},
};

const char *sl_foreign_name(int strategy) {
    return strategy >= 0 && strategy < SL_FOREIGN_STRATEGIES ? strategies[strategy].name : "?";
}

const char *sl_foreign_words(int strategy) {
    return strategy >= 0 && strategy < SL_FOREIGN_STRATEGIES ? strategies[strategy].words : "?";
}

sl_foreign_config sl_foreign_defaults(void) {
    return (sl_foreign_config){.cost_s = {5, 60, 1800}, .microbatches = 8};
}

unsigned sl_foreign_cause(const sl_suspect *s) {
    switch (s->component) {
    case SL_COMPONENT_DEVICE:
        return SL_CAUSE_DEVICE;
    case SL_COMPONENT_HOST:
        return SL_CAUSE_HOST;
    case SL_COMPONENT_LINK:
        return SL_CAUSE_LINK;
    case SL_COMPONENT_GROUP:
        return SL_CAUSE_REPLICA_LINK;
    case SL_COMPONENT_LOAD:
    case SL_COMPONENT_STAGES:
    case SL_COMPONENT_UNKNOWN:
        break;
    }
    return 0;
}

void sl_foreign_take(sl_foreign *f, const sl_status_view *view) {
    f->ranks = view->ranks;
    f->nodes = view->nodes;
    f->replicas = view->alike > 0 && view->alike < view->ranks ? view->alike : view->ranks;
    f->lightest = view->lightest;
    f->healthy_ms = view->healthy_ms;
    f->level_ms = view->level_ms;
    f->count = 0;
    for (int i = 0; i < view->verdicts && i < SL_STATUS_SUSPECTS; i++)
        if (sl_foreign_cause(&view->verdict[i]))
            f->slow[f->count++] = view->verdict[i];
}

/* ---- what is lost ---- */

/* ms of an iteration. */
static double excess(const sl_foreign *f) {
    return f->healthy_ms > 0 && f->level_ms > f->healthy_ms ? f->level_ms - f->healthy_ms : 0;
}

/* How many times as slow; times grow, rates fall. 1: not known. */
static double factor(const sl_suspect *s) {
    double ratio = s->expected > 0 && s->measured > 0 ? s->measured / s->expected : 1;
    ratio = ratio < 1 ? 1 / ratio : ratio;
    return isfinite(ratio) ? ratio : 1;
}

/* By how far each is off; who is not measured counts as little as is called slow at all. That a part is more
 * times as slow than the whole iteration says nothing more: it was a small part. */
static double weight(const sl_foreign *f, const sl_suspect *s) {
    double most = f->healthy_ms > 0 ? f->level_ms / f->healthy_ms - 1 : 1;
    double off = fmin(factor(s) - 1, most);
    return off > 0.1 ? off : 0.1;
}

static double share(const sl_foreign *f, int index) {
    double sum = 0;
    for (int i = 0; i < f->count; i++)
        sum += weight(f, &f->slow[i]);
    return index >= 0 && index < f->count ? weight(f, &f->slow[index]) / sum : 0;
}

double sl_foreign_loss(const sl_foreign *f, int index) {
    return f->level_ms > 0 ? share(f, index) * excess(f) / f->level_ms : 0;
}

/* ---- balance ---- */

static int is_device(const sl_suspect *s) {
    return s->component == SL_COMPONENT_DEVICE || s->component == SL_COMPONENT_HOST;
}

/* Of all slow devices together: `part` of the excess, the slowest factor and the healthy time that it
 * stretches. */
static double devices(const sl_foreign *f, double *slowest, double *stretched) {
    double part = 0;
    *slowest = 1;
    for (int i = 0; i < f->count; i++)
        if (is_device(&f->slow[i])) {
            part += share(f, i) * excess(f);
            *slowest = fmax(*slowest, factor(&f->slow[i]));
        }
    *stretched = *slowest > 1 ? part / (*slowest - 1) : INFINITY;
    if (*stretched > f->healthy_ms) { /* the iteration is slower than the device is said to be */
        *stretched = f->healthy_ms;
        *slowest = f->healthy_ms > 0 ? 1 + part / f->healthy_ms : 1;
    }
    return part;
}

/* Of the replicas, those that are on a slow host. */
static int replicas_of_host(const sl_foreign *f) {
    return f->nodes > 0 ? (f->replicas + f->nodes - 1) / f->nodes : f->replicas;
}

/* Times of a microbatch, healthy ones 1, of the replicas: where they are all ranks a slow device stands at
 * its rank, else, like the ranks of a slow host, anywhere: how many there are is what counts. */
static void speeds(const sl_foreign *f, sl_replica *replica) {
    double slowest, stretched, most = 1;
    int next = 0, all = f->replicas == f->ranks;
    devices(f, &slowest, &stretched);
    for (int i = 0; i < f->count; i++)
        if (is_device(&f->slow[i]))
            most = fmax(most, factor(&f->slow[i]));
    for (int i = 0; i < f->replicas; i++)
        replica[i] = (sl_replica){.time = 1};
    for (int i = 0; i < f->count; i++) {
        const sl_suspect *s = &f->slow[i];
        /* where the slowest is taken as slower than it was measured, so are the others */
        double time = most > 1 ? 1 + (factor(s) - 1) * (slowest - 1) / (most - 1) : slowest;
        int ranks = s->component == SL_COMPONENT_HOST ? replicas_of_host(f) : is_device(s);
        if (s->component == SL_COMPONENT_DEVICE && all && s->rank >= 0 && s->rank < f->replicas)
            replica[s->rank].time = time;
        else
            for (int k = 0; k < ranks && next < f->replicas; k++)
                replica[next++].time = time;
    }
}

/* Longest replica's time over that of a healthy one with its even share; INFINITY: there is no answer. */
static double balanced(const sl_foreign *f, int *split) {
    sl_replica *replica = NULL;
    int *own = NULL;
    double makespan = INFINITY;
    long long all = (long long)f->replicas * f->config.microbatches;
    if (f->replicas < 2 || all > INT32_MAX)
        return INFINITY;
    if (sl_alloc(&replica, (size_t)f->replicas, sizeof *replica) == SL_OK &&
        (split || sl_alloc(&own, (size_t)f->replicas, sizeof *own) == SL_OK)) {
        speeds(f, replica);
        if (sl_balance(replica, f->replicas, (int)all, split ? split : own, &makespan) != SL_OK)
            makespan = INFINITY;
    }
    sl_free(replica);
    sl_free(own);
    return makespan / f->config.microbatches;
}

sl_status sl_foreign_split(const sl_foreign *f, int *split) {
    int any = 0;
    if (f->replicas != f->ranks)
        return sl_error(SL_ENONE, "which ranks are replicas of the slow one is not known one by one");
    for (int i = 0; i < f->count; i++) {
        if (f->slow[i].component == SL_COMPONENT_HOST)
            return sl_error(SL_ENONE, "which ranks are on the slow host is not known");
        any |= f->slow[i].component == SL_COMPONENT_DEVICE;
    }
    if (!any || !isfinite(balanced(f, split)))
        return sl_error(SL_ENONE, "there is no slow device to balance");
    return SL_OK;
}

/* ---- what remains ---- */

/* Other ranks at this link would send less over it. */
static int is_uneven(const sl_foreign *f, const sl_suspect *s) {
    return s->component == SL_COMPONENT_LINK && f->nodes >= 3 && f->lightest >= 0 && f->lightest < 1;
}

/* ms of the excess of slow[index] that would be left. */
static double left_of(const sl_foreign *f, int strategy, int index) {
    const sl_suspect *s = &f->slow[index];
    double mine = share(f, index) * excess(f), slowest, stretched;
    if (f->refused & (1u << strategy))
        return mine;
    switch (strategy) {
    case SL_FOREIGN_BALANCE: {
        double part = is_device(s) ? devices(f, &slowest, &stretched) : 0;
        double longest = part > 0 ? balanced(f, NULL) : INFINITY;
        return isfinite(longest) ? fmin(mine, mine / part * stretched * fmax(0, longest - 1)) : mine;
    }
    case SL_FOREIGN_TOPOLOGY:
        if (f->config.spares > 0 && s->component != SL_COMPONENT_GROUP)
            return 0;
        return is_uneven(f, s) ? mine * f->lightest : mine;
    default:
        return 0;
    }
}

double sl_foreign_remaining(const sl_foreign *f, int strategy, int index) {
    if (index < 0 || index >= f->count || f->level_ms <= 0)
        return 0;
    double left = left_of(f, strategy, index), mine = share(f, index) * excess(f);
    double level = f->level_ms - mine + left;
    return level > 0 ? left / level : 0;
}

double sl_foreign_keeping(const sl_foreign *f, int strategy) {
    double slowest, stretched;
    int *split = NULL, most = 0;
    if (strategy != SL_FOREIGN_BALANCE || f->replicas < 2 || devices(f, &slowest, &stretched) <= 0 ||
        sl_alloc(&split, (size_t)f->replicas, sizeof *split) != SL_OK)
        return 0;
    if (isfinite(balanced(f, split)))
        for (int i = 0; i < f->replicas; i++)
            most = split[i] > most ? split[i] : most;
    sl_free(split);
    double longer = most > 0 ? stretched * (most / (double)f->config.microbatches - 1) : 0;
    return longer > 0 ? longer / (f->healthy_ms + longer) : 0;
}

void sl_foreign_why(const sl_foreign *f, int strategy, int index, char *text, size_t size) {
    const sl_suspect *s = &f->slow[index];
    text[0] = 0;
    if (f->refused & (1u << strategy))
        snprintf(text, size, "nobody here can carry it out");
    else if (strategy == SL_FOREIGN_BALANCE && !is_device(s))
        snprintf(text, size, "a link does not get faster by other work");
    else if (strategy == SL_FOREIGN_BALANCE && replicas_of_host(f) >= f->replicas &&
             s->component == SL_COMPONENT_HOST)
        snprintf(text, size, "all ranks are on the slow host");
    else if (strategy == SL_FOREIGN_BALANCE && f->replicas < 2)
        snprintf(text, size, "no other rank does the same");
    else if (strategy == SL_FOREIGN_TOPOLOGY && s->component == SL_COMPONENT_GROUP)
        snprintf(text, size, "no single host is known to be slow");
    else if (strategy == SL_FOREIGN_TOPOLOGY && f->config.spares <= 0 && is_device(s))
        snprintf(text, size, "no spare host, and as slow at any other place");
    else if (strategy == SL_FOREIGN_TOPOLOGY && f->config.spares <= 0 && !is_uneven(f, s))
        snprintf(text, size, "no spare host, and no better seating is known");
}
