#include "adapt/ladder/chain.h"

#include <math.h>

/* ---- cost of a chain ---- */

double sl_chain_best(double loss, const sl_rung *rungs, int count, double duration) {
    double best = loss * duration;
    for (int i = 0; i < count; i++)
        best = fmin(best, rungs[i].cost + rungs[i].loss * duration);
    return best;
}

/* The time at which each rung is applied; INFINITY: never. */
static void moments(double loss, const sl_rung *rungs, const sl_chain *chain, double *at) {
    double now = 0, lost = 0, rate = loss;
    for (int i = 0; i < chain->count; i++) {
        if (chain->trigger[i] > lost) {
            now = rate > 0 ? now + (chain->trigger[i] - lost) / rate : INFINITY;
            lost = chain->trigger[i];
        }
        at[i] = now;
        rate = rungs[chain->rung[i]].loss;
    }
}

/* Loss and costs until `duration`; `at` from moments(). */
static double pays(double loss, const sl_rung *rungs, const sl_chain *chain, const double *at,
                   double duration) {
    double total = 0, from = 0, rate = loss;
    for (int i = 0; i < chain->count && at[i] <= duration; i++) {
        total += rate * (at[i] - from) + rungs[chain->rung[i]].cost;
        from = at[i];
        rate = rungs[chain->rung[i]].loss;
    }
    return total + rate * (duration - from);
}

double sl_chain_pays(double loss, const sl_rung *rungs, const sl_chain *chain, double duration) {
    double at[SL_STRATEGIES_MAX];
    moments(loss, rungs, chain, at);
    return pays(loss, rungs, chain, at, duration);
}

/* As the duration goes to infinity. */
static double in_the_end(double loss, const sl_rung *rungs, int count, const sl_chain *chain,
                         const double *at) {
    double least = loss, cost = 0, rate = loss, paid = 0, from = 0;
    for (int i = 0; i < count; i++)
        if (rungs[i].loss < least || (rungs[i].loss <= least && rungs[i].cost < cost)) {
            least = rungs[i].loss;
            cost = rungs[i].cost;
        }
    for (int i = 0; i < chain->count && isfinite(at[i]); i++) {
        paid += rate * (at[i] - from) + rungs[chain->rung[i]].cost;
        from = at[i];
        rate = rungs[chain->rung[i]].loss;
    }
    if (least > 0)
        return rate / least;
    return rate > 0 ? INFINITY : paid / cost;
}

/* Between two moments at which a rung is applied or the best choice changes, both sides are linear in the
 * duration and their ratio is monotone: its maximum is at one of these moments. */
double sl_chain_ratio(double loss, const sl_rung *rungs, int count, const sl_chain *chain) {
    double at[SL_STRATEGIES_MAX];
    moments(loss, rungs, chain, at);
    double worst = fmax(1, in_the_end(loss, rungs, count, chain, at));
    for (int i = 0; i < chain->count && isfinite(at[i]); i++) {
        double best = sl_chain_best(loss, rungs, count, at[i]);
        worst = fmax(worst, best > 0 ? pays(loss, rungs, chain, at, at[i]) / best : INFINITY);
    }
    for (int i = -1; i < count; i++)
        for (int j = i + 1; j < count; j++) {
            double cost = i < 0 ? 0 : rungs[i].cost, rate = i < 0 ? loss : rungs[i].loss;
            double when = (rungs[j].cost - cost) / (rate - rungs[j].loss);
            if (isfinite(when) && when > 0)
                worst =
                    fmax(worst, pays(loss, rungs, chain, at, when) / sl_chain_best(loss, rungs, count, when));
        }
    return worst;
}

/* ---- selection of rungs ---- */

/* The indices in ascending order of cost; if equal, the smaller remaining loss first. */
static void by_cost(const sl_rung *rungs, int count, int *order) {
    for (int i = 0; i < count; i++) {
        int j = i;
        for (; j > 0; j--) {
            const sl_rung *a = &rungs[order[j - 1]], *b = &rungs[i];
            if (a->cost < b->cost || (a->cost <= b->cost && a->loss <= b->loss))
                break;
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
}

static void append(sl_chain *chain, int rung, double trigger) {
    chain->rung[chain->count] = rung;
    chain->trigger[chain->count++] = trigger;
}

void sl_chain_falcon(double loss, const sl_rung *rungs, int count, sl_chain *chain) {
    int order[SL_STRATEGIES_MAX];
    by_cost(rungs, count, order);
    *chain = (sl_chain){0};
    for (int i = 0; i < count; i++)
        append(chain, order[i], rungs[order[i]].cost);
    chain->ratio = sl_chain_ratio(loss, rungs, count, chain);
}

/* Rungs that leave less than `loss` and than every cheaper one, by cost. */
static int useful(double loss, const sl_rung *rungs, int count, int *order) {
    int kept = 0, all[SL_STRATEGIES_MAX];
    double least = loss;
    by_cost(rungs, count, all);
    for (int i = 0; i < count; i++)
        if (rungs[all[i]].loss < least) {
            order[kept++] = all[i];
            least = rungs[all[i]].loss;
        }
    return kept;
}

/* When the best choice in hindsight reaches `value`; INFINITY: never. */
static double when_best_is(double loss, const sl_rung *rungs, int count, double value) {
    double when = value / loss;
    for (int i = 0; i < count; i++)
        if (rungs[i].cost <= value)
            when = fmax(when, rungs[i].loss > 0 ? (value - rungs[i].cost) / rungs[i].loss : INFINITY);
    return when;
}

/* The rung of `order` that is best for a duration; -1: none. */
static int best_for(double loss, const sl_rung *rungs, const int *order, int count, double duration) {
    int best = -1;
    double least = loss * duration, rate = loss, cost = 0;
    for (int i = 0; i < count; i++) {
        const sl_rung *r = &rungs[order[i]];
        double total = isfinite(duration) ? r->cost + r->loss * duration : 0;
        int better =
            isfinite(duration) ? total < least : r->loss < rate || (r->loss <= rate && r->cost < cost);
        if (better) {
            best = i;
            least = total;
            rate = r->loss;
            cost = r->cost;
        }
    }
    return best;
}

void sl_chain_doubling(double loss, const sl_rung *rungs, int count, double first, sl_chain *chain) {
    double lost = 0, now = 0, rate = loss;
    int order[SL_STRATEGIES_MAX], in_use = -1;
    int kept = useful(loss, rungs, count, order);
    *chain = (sl_chain){0};
    for (double value = first; in_use < kept - 1; value *= 2) {
        double then = when_best_is(loss, rungs, count, value);
        if (!isfinite(then))
            break;
        lost += rate * (then - now);
        now = then;
        int next = best_for(loss, rungs, order, kept, when_best_is(loss, rungs, count, 2 * value));
        if (next > in_use) {
            append(chain, order[next], lost);
            rate = rungs[order[next]].loss;
            in_use = next;
        }
    }
    chain->ratio = sl_chain_ratio(loss, rungs, count, chain);
}

void sl_chain_choose(double loss, const sl_rung *rungs, int count, sl_chain *chain) {
    int order[SL_STRATEGIES_MAX];
    int kept = useful(loss, rungs, count, order);
    *chain = (sl_chain){.ratio = 1};
    if (!kept)
        return;
    chain->ratio = INFINITY;
    for (int others = (1 << (kept - 1)) - 1; others >= 0;
         others--) { /* the more rungs first: ties keep them */
        sl_chain candidate = {0};
        for (int i = 0; i < kept; i++)
            if (i == kept - 1 || (others >> i & 1))
                append(&candidate, order[i], rungs[order[i]].cost);
        candidate.ratio = sl_chain_ratio(loss, rungs, count, &candidate);
        if (candidate.ratio < chain->ratio)
            *chain = candidate;
    }
    for (int phase = 0; phase < 4 && chain->ratio > 4; phase++) {
        sl_chain candidate;
        sl_chain_doubling(loss, rungs, count, rungs[order[0]].cost * exp2(phase / 4.0 - 2), &candidate);
        if (candidate.ratio < chain->ratio)
            *chain = candidate;
    }
}
