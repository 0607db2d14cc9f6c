/* The split for times without a formula: each replica has a window of open counts. A time threshold divides
 * every window in two, and the sums of both halves decide which half has the answer, as in selection from
 * sorted rows. The first thresholds are near the guess, so that few and close counts are requested; after
 * that, the threshold is the time in the middle of the widest window. */
#include "adapt/balance/balance.h"
#include "base/memory.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct window {
    int low, high;   /* the replica takes at least low and at most high */
    int under, upto; /* at the last threshold: most counts below it, and within it */
    int near;        /* start of the next search */
} window;

typedef struct curve_search {
    const sl_replica_curve *curve;
    int replicas, wanted;
    int has_floor, has_ceiling; /* a threshold was too low, too high */
    int step;                   /* from one bound, until the other is found */
    window *window;
} curve_search;

static sl_status time_of(const curve_search *s, int replica, int count, double *time) {
    SL_TRY(s->curve->time(s->curve->context, replica, count, time));
    if (!(*time >= 0))
        return sl_error(SL_EINVAL, "the time of replica %d with %d microbatches must be at least 0, got %g",
                        replica, count, *time);
    return SL_OK;
}

static sl_status is_within(const curve_search *s, int replica, int count, double threshold, int within,
                           int *is) {
    double time;
    SL_TRY(time_of(s, replica, count, &time));
    *is = time < threshold || (within && time == threshold);
    return SL_OK;
}

/* The most microbatches, from `low` to `high`, with a time below `threshold`, or within it: by steps that
 * double away from `near`, then by bisection. */
static sl_status count_within(const curve_search *s, int replica, int low, int high, int near,
                              double threshold, int within, int *count) {
    int is = 1, step = 1, try = near < low ? low : near > high ? high : near;
    while (low < high) {
        if (try > low)
            SL_TRY(is_within(s, replica, try, threshold, within, &is));
        if (is)
            low = try;
        else
            high = try - 1;
        int half = low + (high - low + 1) / 2, far = is ? low + step : high + 1 - step;
        try = step > 0 && (is ? far < half : far > half) ? far : half;
        step = step > 0 && step <= high - low ? 2 * step : 0;
    }
    *count = low;
    return SL_OK;
}

static int widest(const curve_search *s) {
    int most = 0;
    for (int i = 1; i < s->replicas; i++)
        if (s->window[i].high - s->window[i].low > s->window[most].high - s->window[most].low)
            most = i;
    return most;
}

/* Splits every window at `threshold` and sums both counts. */
static sl_status count_all(const curve_search *s, double threshold, int64_t *under, int64_t *upto) {
    *under = *upto = 0;
    for (int i = 0; i < s->replicas; i++) {
        window *w = &s->window[i];
        SL_TRY(count_within(s, i, w->low, w->high, w->near, threshold, 0, &w->under));
        SL_TRY(count_within(s, i, w->under, w->high, w->under, threshold, 1, &w->upto));
        w->near = w->under;
        *under += w->under;
        *upto += w->upto;
    }
    return SL_OK;
}

/* The open count of a window whose time is the next threshold: above low, so either half is smaller. */
static int pivot(curve_search *s, const window *w) {
    int half = w->low + (w->high - w->low + 1) / 2, at = half;
    if (!s->has_floor && !s->has_ceiling)
        at = w->near > w->low ? w->near : w->low + 1;
    else if (!s->has_ceiling)
        at = s->step < half - w->low ? w->low + s->step : half;
    else if (!s->has_floor)
        at = s->step < w->high - half ? w->high - s->step : half;
    s->step = s->step < INT32_MAX / 2 ? 2 * s->step : s->step;
    return at;
}

/* Finds the time at which the last microbatch ends; each window then has the counts below it and at it. */
static sl_status find_threshold(curve_search *s, double *threshold) {
    for (;;) {
        int64_t under, upto;
        int replica = widest(s);
        SL_TRY(time_of(s, replica, pivot(s, &s->window[replica]), threshold));
        SL_TRY(count_all(s, *threshold, &under, &upto));
        if (under < s->wanted && upto >= s->wanted)
            return SL_OK;
        for (int i = 0; i < s->replicas; i++) {
            if (upto < s->wanted)
                s->window[i].low = s->window[i].upto;
            else
                s->window[i].high = s->window[i].under;
        }
        *(upto < s->wanted ? &s->has_floor : &s->has_ceiling) = 1;
    }
}

/* ---- microbatches that end together ---- */

typedef struct lift {
    double before; /* the replica's time without them */
    int replica;
} lift;

/* The replica that is lifted least comes first, then the lower index. */
static int by_lift(const void *a, const void *b) {
    const lift *x = a, *y = b;
    if (x->before != y->before)
        return x->before > y->before ? -1 : 1;
    return (x->replica > y->replica) - (x->replica < y->replica);
}

static sl_status hand_out(const curve_search *s, lift *l, int *split) {
    int64_t left = s->wanted;
    int lifts = 0;
    for (int i = 0; i < s->replicas; i++) {
        const window *w = &s->window[i];
        split[i] = w->under;
        left -= w->under;
        if (w->upto == w->under)
            continue;
        SL_TRY(time_of(s, i, w->under, &l[lifts].before));
        l[lifts++].replica = i;
    }
    qsort(l, (size_t)lifts, sizeof *l, by_lift);
    for (int i = 0; left > 0; i++) {
        int more = s->window[l[i].replica].upto - s->window[l[i].replica].under;
        split[l[i].replica] += more < left ? more : (int)left;
        left -= more;
    }
    return SL_OK;
}

static sl_status choose(curve_search *s, int *split) {
    double threshold;
    lift *l;
    SL_TRY(find_threshold(s, &threshold));
    if (isinf(threshold))
        return sl_error(SL_ENONE, "the memory of all replicas does not take %d microbatches", s->wanted);
    SL_TRY(sl_alloc(&l, (size_t)s->replicas, sizeof *l));
    sl_status status = hand_out(s, l, split);
    sl_free(l);
    return status;
}

static sl_status divide(curve_search *s, int *split) {
    for (int i = 0; i < s->replicas; i++) {
        int near = s->curve->guess ? s->curve->guess[i] : s->wanted / s->replicas;
        near = near > split[i] ? split[i] : near;
        s->window[i] = (window){.low = 1, .high = split[i], .near = near};
        split[i] = 1;
    }
    return s->wanted > s->replicas ? choose(s, split) : SL_OK;
}

static sl_status largest(const curve_search *s, const int *split, double *makespan) {
    double time;
    *makespan = 0;
    for (int i = 0; i < s->replicas; i++) {
        SL_TRY(time_of(s, i, split[i], &time));
        if (isinf(time))
            return sl_error(SL_ENONE, "the memory of replica %d does not take %d microbatch%s", i, split[i],
                            split[i] == 1 ? "" : "es");
        *makespan = fmax(*makespan, time);
    }
    return SL_OK;
}

sl_status sl_balance_curve(const sl_replica_curve *curve, int replicas, int microbatches, int *split,
                           double *makespan) {
    curve_search s = {.curve = curve, .replicas = replicas, .wanted = microbatches, .step = 1};
    if (replicas < 1 || replicas > SL_MAX_REPLICAS)
        return sl_error(SL_EINVAL, "replicas must be from 1 to %d, got %d", SL_MAX_REPLICAS, replicas);
    for (int i = 0; i < replicas; i++)
        split[i] = curve->limit ? curve->limit[i] : 0;
    SL_TRY(sl_balance_room(replicas, microbatches, split));
    SL_TRY(sl_alloc(&s.window, (size_t)replicas, sizeof *s.window));
    sl_status status = divide(&s, split);
    SL_THEN(status, largest(&s, split, makespan));
    sl_free(s.window);
    return status;
}
