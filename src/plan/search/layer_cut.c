#include "plan/search/layer_cut.h"
#include "base/clock.h"
#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/family/family.h"
#include "plan/pipeline/layers.h"
#include "plan/search/order_value.h"
#include "plan/search/portfolio.h"

#include <string.h>

#define FEW_CUTS 2000

/* Number of stages that are cut; the second pipeline of bidirectional follows the first. */
static int cut_stages(const sl_problem *p) {
    return p->placement == SL_BIDIRECTIONAL ? p->ranks : p->stages;
}

/* ---- the value of a cut ---- */

static sl_status shorter(const sl_problem *p, const sl_order *order, sl_time *best) {
    sl_time value;
    SL_TRY(sl_measure(p, order, &value, NULL));
    *best = sl_sooner(value, *best);
    return SL_OK;
}

/* The shortest of a few quick schedules; SL_TIME_NEVER if none fits. */
static sl_status value_of(sl_problem *p, const int *first, sl_time *best) {
    static const int rules[] = {0, 6, 10};
    sl_relaxation r;
    *best = SL_TIME_NEVER;
    sl_problem_cut(p, first);
    for (const sl_family *family = sl_families; family->name; family++) {
        sl_order order;
        if (!sl_family_fits(family, p) || (family->placements & SL_LABORIOUS && *best < SL_TIME_NEVER))
            continue;
        sl_status status = sl_family_build(family, p, &order);
        if (status == SL_OK) {
            status = shorter(p, &order, best);
            sl_order_free(&order);
        }
        if (status == SL_ENOMEM)
            return status;
    }
    SL_TRY(sl_relaxation_make(p, 0, &r));
    sl_status status = SL_OK;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0] && status != SL_ENOMEM; i++) {
        sl_order order;
        status = sl_portfolio_order(&r, rules[i], &order);
        if (status == SL_OK) {
            status = shorter(p, &order, best);
            sl_order_free(&order);
        }
    }
    sl_relaxation_free(&r);
    return status == SL_ENOMEM ? status : SL_OK;
}

/* ---- the most balanced cut ---- */

/* Minimum work of layers begin .. end - 1 for one microbatch on a rank, with B if it is shorter. */
static double work_of(const sl_layers *l, int begin, int end, double speed) {
    double work = 0;
    for (int i = begin; i < end; i++) {
        sl_time split = l->time[SL_I][i] + l->time[SL_W][i], full = l->time[SL_B][i];
        work += (double)(l->time[SL_F][i] + (split < full ? split : full));
    }
    return work / speed;
}

static int fits(const sl_problem *p, int stage, int begin, int end) {
    const sl_layers *l = p->layers;
    double needed = 0;
    for (int i = begin; i < end; i++)
        needed += l->weights[i] + l->delta[SL_F][i];
    return !l->memory || needed <= l->memory[sl_problem_rank(p, stage)] * (1 + 1e-9);
}

/* least[s * (count + 1) + e]: the minimum over cuts of the largest work of stages 0 .. s that hold layers 0
 * .. e - 1. O(stages * layers^2), with prefix sums. */
static void balance(const sl_problem *p, int with_memory, const double *sum, double *least, int *from) {
    const sl_layers *l = p->layers;
    int n = l->count, stages = cut_stages(p);
    for (int s = 0; s < stages; s++) {
        double speed = l->speed[sl_problem_rank(p, s)];
        for (int e = 0; e <= n; e++) {
            double *best = &least[s * (n + 1) + e];
            *best = 1e300;
            for (int b = s == 0 ? 0 : s; b < e && (s > 0 || b == 0); b++) {
                double mine = (sum[e] - sum[b]) / speed, before = s == 0 ? 0 : least[(s - 1) * (n + 1) + b];
                double worst = mine > before ? mine : before;
                if (worst < *best && (!with_memory || fits(p, s, b, e))) {
                    *best = worst;
                    from[s * (n + 1) + e] = b;
                }
            }
        }
    }
}

/* The balanced cut into `first` (NULL: its value only); *work is the work of its slowest stage per
 * microbatch, 1e300 if no cut fits into memory. */
static sl_status balanced(const sl_problem *p, int with_memory, int *first, double *work) {
    const sl_layers *l = p->layers;
    size_t n = (size_t)l->count, stages = (size_t)cut_stages(p);
    double *sum, *least = NULL;
    int *from = NULL, end = l->count;
    sl_status status;
    SL_TRY(sl_alloc(&sum, n + 1, sizeof *sum));
    SL_TRY_GOTO(done, status, sl_alloc(&least, stages * (n + 1), sizeof *least));
    SL_TRY_GOTO(done, status, sl_alloc(&from, stages * (n + 1), sizeof *from));
    for (size_t i = 0; i < n; i++)
        sum[i + 1] = sum[i] + work_of(l, (int)i, (int)i + 1, 1);
    balance(p, with_memory, sum, least, from);
    *work = least[stages * (n + 1) - 1];
    for (int s = (int)stages - 1; s >= 0 && first && *work < 1e300; s--) {
        first[s + 1] = end;
        end = from[s * ((int)n + 1) + end];
        first[s] = end;
    }
done:
    SL_FREE(sum, least, from);
    return status;
}

/* ---- choosing ---- */

/* Moves each boundary by up to two layers while this helps. */
static sl_status climb(sl_problem *p, sl_limit until, int *first, sl_time *best) {
    static const int steps[] = {-1, 1, -2, 2};
    int stages = cut_stages(p);
    for (int improved = 1; improved;) {
        improved = 0;
        for (int s = 1; s < stages; s++)
            for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
                sl_time value;
                int kept = first[s], moved = kept + steps[k];
                if (moved <= first[s - 1] || moved >= first[s + 1])
                    continue;
                if (sl_limit_is_over(&until))
                    return SL_OK;
                first[s] = moved;
                SL_TRY(value_of(p, first, &value));
                if (value < *best) {
                    *best = value;
                    improved = 1;
                } else {
                    first[s] = kept;
                }
            }
    }
    return SL_OK;
}

static sl_status choose(sl_problem *p, sl_limit until, int *first, int *other) {
    size_t bytes = ((size_t)p->stages + 1) * sizeof *first;
    sl_time best, value;
    double work;
    memcpy(first, p->layers->first, bytes);
    SL_TRY(value_of(p, first, &best));
    memcpy(other, first, bytes);
    SL_TRY(balanced(p, 1, other, &work));
    if (work < 1e300) {
        SL_TRY(value_of(p, other, &value));
        if (value < best) {
            best = value;
            memcpy(first, other, bytes);
        }
    }
    SL_TRY(climb(p, until, first, &best));
    sl_problem_cut(p, first);
    return best < SL_TIME_NEVER
               ? SL_OK
               : sl_error(SL_ENONE, "no cut of the layers leaves a schedule within the memory limit");
}

sl_status sl_cut_choose(sl_problem *p, sl_limit until) {
    int *first;
    if (!p->layers || p->layers->letter)
        return SL_OK;
    SL_TRY(sl_alloc(&first, 2 * ((size_t)p->stages + 1), sizeof *first));
    sl_status status = choose(p, until, first, first + p->stages + 1);
    sl_free(first);
    return status;
}

/* ---- a bound over all cuts ---- */

static double count_cuts(int layers, int stages) {
    double cuts = 1;
    for (int i = 1; i < stages && cuts <= FEW_CUTS; i++)
        cuts = cuts * (layers - i) / i;
    return cuts;
}

/* The next cut in lexical order; 0 after the last. */
static int next_cut(int *first, int stages, int layers) {
    for (int s = stages - 1; s >= 1; s--)
        if (first[s] < layers - (stages - s)) {
            first[s]++;
            for (int t = s + 1; t < stages; t++)
                first[t] = first[t - 1] + 1;
            return 1;
        }
    return 0;
}

static sl_status min_bound(sl_problem *p, int *first, sl_time *bound) {
    int stages = cut_stages(p), layers = p->layers->count;
    *bound = SL_TIME_NEVER;
    for (int s = 0; s < stages; s++)
        first[s] = s;
    first[stages] = layers;
    do {
        sl_time mine;
        sl_problem_cut(p, first);
        SL_TRY(sl_lower_bound(p, 0, &mine));
        *bound = mine < *bound ? mine : *bound;
    } while (next_cut(first, stages, layers));
    return SL_OK;
}

sl_status sl_cut_bound(const sl_problem *p, sl_time *bound) {
    int stages = cut_stages(p);
    if (count_cuts(p->layers->count, stages) > FEW_CUTS) {
        double work, total = work_of(p->layers, 0, p->layers->count, 1), speeds = 0;
        SL_TRY(balanced(p, 0, NULL, &work));
        for (int rank = 0; rank < p->ranks; rank++)
            speeds += p->layers->speed[rank];
        int copies = p->placement == SL_BIDIRECTIONAL ? 2 : 1;
        double shared = total / speeds * p->microbatches, slowest = work * (p->microbatches / copies);
        *bound = (sl_time)((shared > slowest ? shared : slowest) * (1 - 1e-9)) - 2;
        *bound = *bound > 0 ? *bound : 0;
        return SL_OK;
    }
    sl_problem copy;
    int *first;
    SL_TRY(sl_problem_copy(p, &copy));
    sl_status status = sl_alloc(&first, (size_t)p->stages + 1, sizeof *first);
    if (status == SL_OK) {
        status = min_bound(&copy, first, bound);
        sl_free(first);
    }
    sl_problem_free(&copy);
    return status;
}
