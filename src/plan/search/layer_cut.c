#include "plan/search/layer_cut.h"
#include "base/clock.h"
#include "base/memory.h"
#include "plan/bound/bound.h"
#include "plan/family/family.h"
#include "plan/pipeline/layers.h"
#include "plan/search/order_value.h"
#include "plan/search/portfolio.h"

#include <math.h>
#include <string.h>

#define FEW_CUTS 2000
#define FEW_CHOICES 400 /* of cut and stages that recompute: all are tried */

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
    double needed = 0, hosted = 0;
    for (int i = begin; i < end; i++) {
        hosted += l->hosted ? l->hosted[i] : 0;
        needed += l->weights[i] + (l->recompute          ? fmin(l->input[i], l->delta[SL_F][i])
                                   : p->recompute[stage] ? l->input[i]
                                                         : l->delta[SL_F][i]);
    }
    if (hosted > l->host_memory)
        return 0;
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

/* ---- the best cuts found ---- */

typedef struct cut_search {
    sl_problem *p;
    sl_limit until;
    sl_layer_cuts *cuts;
    int *first;           /* [stages + 1] the cut at hand */
    unsigned char *again; /* [stages] its stages that recompute */
    sl_time value;
} cut_search;

static int is_same(const cut_search *s, const sl_layer_cut *cut) {
    size_t stages = (size_t)s->p->stages;
    return memcmp(cut->first, s->first, (stages + 1) * sizeof *s->first) == 0 &&
           memcmp(cut->again, s->again, stages) == 0;
}

/* Keeps the cut at hand if it is among the best. */
static void keep(cut_search *s) {
    sl_layer_cuts *all = s->cuts;
    int at = all->count;
    size_t stages = (size_t)s->p->stages;
    for (int i = 0; i < all->count; i++)
        if (is_same(s, &all->cut[i]))
            return;
    while (at > 0 && s->value < all->cut[at - 1].value)
        at--;
    if (at == SL_CUTS || s->value == SL_TIME_NEVER)
        return;
    sl_layer_cut last = all->cut[SL_CUTS - 1]; /* its arrays are used again */
    memmove(&all->cut[at + 1], &all->cut[at], (size_t)(SL_CUTS - 1 - at) * sizeof last);
    all->cut[at] = last;
    all->cut[at].value = s->value;
    memcpy(last.first, s->first, (stages + 1) * sizeof *s->first);
    memcpy(last.again, s->again, stages);
    all->count += all->count < SL_CUTS;
}

static sl_status assess(cut_search *s) {
    memcpy(s->p->recompute, s->again, (size_t)s->p->stages);
    SL_TRY(value_of(s->p, s->first, &s->value));
    keep(s);
    return SL_OK;
}

/* The two copies of a bidirectional stage are alike. */
static void turn(cut_search *s, int stage) {
    s->again[stage] = !s->again[stage];
    if (s->p->placement == SL_BIDIRECTIONAL)
        s->again[stage + s->p->ranks] = s->again[stage];
}

/* Keeps the change to the cut at hand, which `undo` takes back, if it helps. */
typedef struct change {
    int boundary, by;  /* boundary 0: none */
    int turned, other; /* stages whose recomputation changes; -1: none */
} change;

static void apply(cut_search *s, const change *c, int sign) {
    if (c->boundary)
        s->first[c->boundary] += sign * c->by;
    if (c->turned >= 0)
        turn(s, c->turned);
    if (c->other >= 0)
        turn(s, c->other);
}

static sl_status try_change(cut_search *s, const change *c, int *improved) {
    sl_time before = s->value;
    int at = c->boundary;
    if (at && (s->first[at] + c->by <= s->first[at - 1] || s->first[at] + c->by >= s->first[at + 1]))
        return SL_OK;
    apply(s, c, 1);
    sl_status status = assess(s);
    if (status != SL_OK || s->value >= before) {
        apply(s, c, -1);
        s->value = before;
    } else
        *improved = 1;
    return status;
}

/* Boundaries move by up to two layers; stages begin or cease to recompute, one, two neighbors in exchange, or
 * with a layer that moves between them. */
static sl_status climb(cut_search *s) {
    static const int steps[] = {-1, 1, -2, 2};
    int stages = cut_stages(s->p), chooses = s->p->layers->recompute;
    for (int improved = 1; improved;) {
        improved = 0;
        for (int stage = 0; stage < stages; stage++)
            for (int k = 0; k < 4; k++)
                for (int turned = -1; turned < (chooses ? 3 : 0); turned++) {
                    change c = {.boundary = stage, .by = steps[k], .turned = -1, .other = -1};
                    if (stage == 0 && (k > 0 || turned != 0))
                        continue; /* no boundary: only the stage itself */
                    if (turned >= 0 && k > 1)
                        continue;
                    c.turned = turned == 1 ? stage - 1 : turned >= 0 ? stage : -1;
                    c.other = turned == 2 ? stage - 1 : -1;
                    if (sl_limit_is_over(&s->until))
                        return SL_OK;
                    SL_TRY(try_change(s, &c, &improved));
                    if (turned >= 0 && k == 0 && stage > 0) { /* without the boundary */
                        c.boundary = 0;
                        SL_TRY(try_change(s, &c, &improved));
                    }
                }
    }
    return SL_OK;
}

/* From a cut with no stage, or all, that recompute. */
static sl_status start(cut_search *s, const int *first, int again) {
    memcpy(s->first, first, ((size_t)s->p->stages + 1) * sizeof *first);
    for (int stage = 0; stage < s->p->stages; stage++)
        s->again[stage] = (unsigned char)(again < 0 ? s->p->recompute[stage] : again);
    SL_TRY(assess(s));
    return s->value < SL_TIME_NEVER && !sl_limit_is_over(&s->until) ? climb(s) : SL_OK;
}

/* The fewest ranks, from the first one on, whose stages must recompute so that the most balanced cut fits:
 * the first ranks hold most microbatches. */
static sl_status recompute_few(cut_search *s, const int *even) {
    int least = 0, most = s->p->layers->recompute ? s->p->ranks : 0;
    memcpy(s->first, even, ((size_t)s->p->stages + 1) * sizeof *even);
    for (int ranks = 0;; ranks = (least + most) / 2) {
        for (int stage = 0; stage < s->p->stages; stage++)
            s->again[stage] =
                s->p->layers->recompute ? sl_problem_rank(s->p, stage) < ranks : s->p->recompute[stage];
        SL_TRY(assess(s));
        if (s->value < SL_TIME_NEVER)
            most = ranks;
        else
            least = ranks + 1;
        if (least > most || (least == most && s->value < SL_TIME_NEVER))
            return SL_OK;
    }
}

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

static void first_cut(int *first, int stages, int layers) {
    for (int s = 0; s < stages; s++)
        first[s] = s;
    first[stages] = layers;
}

/* Every cut and choice of stages that recompute, if there are few. */
static sl_status assess_all(cut_search *s) {
    int stages = cut_stages(s->p), layers = s->p->layers->count,
        choices = s->p->layers->recompute ? stages : 0;
    if (choices > 10 || count_cuts(layers, stages) * (1 << choices) > FEW_CHOICES)
        return SL_OK;
    for (int mask = 0; mask < 1 << choices; mask++) {
        for (int stage = 0; stage < s->p->stages && choices; stage++)
            s->again[stage] = mask >> stage % stages & 1;
        first_cut(s->first, stages, layers);
        do {
            if (sl_limit_is_over(&s->until))
                return SL_OK;
            SL_TRY(assess(s));
        } while (next_cut(s->first, stages, layers));
    }
    return SL_OK;
}

static sl_status find_quickly(cut_search *s, int *even) {
    double work;
    memcpy(even, s->p->layers->first, ((size_t)s->p->stages + 1) * sizeof *even);
    SL_TRY(balanced(s->p, 1, even, &work));
    return work < 1e300 ? recompute_few(s, even) : SL_OK;
}

static sl_status find(cut_search *s, int *even) {
    sl_problem *p = s->p;
    int chooses = p->layers->recompute;
    double work;
    memcpy(even, p->layers->first, ((size_t)p->stages + 1) * sizeof *even);
    for (int again = chooses ? 0 : -1; again < (chooses ? 2 : 0); again++)
        SL_TRY(start(s, even, again));
    SL_TRY(balanced(p, 1, even, &work));
    if (work < 1e300) {
        SL_TRY(recompute_few(s, even));
        if (s->value < SL_TIME_NEVER && !sl_limit_is_over(&s->until))
            SL_TRY(climb(s));
    }
    return assess_all(s);
}

static sl_status make_room(const sl_problem *p, sl_layer_cuts *cuts) {
    for (int i = 0; i < SL_CUTS; i++) {
        SL_TRY(sl_alloc(&cuts->cut[i].first, (size_t)p->stages + 1, sizeof *cuts->cut[i].first));
        SL_TRY(sl_alloc(&cuts->cut[i].again, (size_t)p->stages, 1));
    }
    return SL_OK;
}

static sl_status find_cuts(sl_problem *p, sl_limit until, sl_status (*how)(cut_search *s, int *even),
                           sl_layer_cuts *cuts) {
    cut_search s = {.p = p, .until = until, .cuts = cuts};
    int *even = NULL;
    sl_status status;
    *cuts = (sl_layer_cuts){0};
    SL_TRY_GOTO(done, status, make_room(p, cuts));
    SL_TRY_GOTO(done, status, sl_alloc(&s.first, (size_t)p->stages + 1, sizeof *s.first));
    SL_TRY_GOTO(done, status, sl_alloc(&s.again, (size_t)p->stages, 1));
    SL_TRY_GOTO(done, status, sl_alloc(&even, (size_t)p->stages + 1, sizeof *even));
    SL_TRY_GOTO(done, status, how(&s, even));
    if (cuts->count == 0)
        status = sl_error(SL_ENONE, "no cut of the layers leaves a schedule within the memory limit");
    else
        sl_cut_take(p, &cuts->cut[0]);
done:
    SL_FREE(s.first, s.again, even);
    return status;
}

sl_status sl_cuts_find(sl_problem *p, sl_limit until, sl_layer_cuts *cuts) {
    return find_cuts(p, until, find, cuts);
}

sl_status sl_cut_balance(sl_problem *p) {
    sl_layer_cuts cuts;
    sl_status status = find_cuts(p, (sl_limit){.deadline = SL_TIME_NEVER}, find_quickly, &cuts);
    sl_cuts_free(&cuts);
    return status;
}

void sl_cuts_free(sl_layer_cuts *cuts) {
    for (int i = 0; i < SL_CUTS; i++)
        SL_FREE(cuts->cut[i].first, cuts->cut[i].again);
    *cuts = (sl_layer_cuts){0};
}

void sl_cut_take(sl_problem *p, const sl_layer_cut *cut) {
    memcpy(p->recompute, cut->again, (size_t)p->stages);
    sl_problem_cut(p, cut->first);
}

sl_status sl_cut_choose(sl_problem *p, sl_limit until) {
    sl_layer_cuts cuts;
    if (!p->layers || p->layers->letter)
        return SL_OK;
    sl_status status = sl_cuts_find(p, until, &cuts);
    sl_cuts_free(&cuts);
    return status;
}

/* ---- moving a cut under an order ---- */

/* The value of the order with this cut. */
static sl_status measure(cut_search *s, const sl_order *order) {
    memcpy(s->p->recompute, s->again, (size_t)s->p->stages);
    sl_problem_cut(s->p, s->first);
    return sl_measure(s->p, order, &s->value, NULL);
}

static sl_status refine(cut_search *s, const sl_order *order) {
    static const int steps[] = {-1, 1, -2, 2, 0}; /* 0: recomputation of the stage */
    SL_TRY(measure(s, order));
    for (int improved = 1; improved;) {
        improved = 0;
        for (int stage = 0; stage < cut_stages(s->p); stage++)
            for (int k = 0; k < 5; k++) {
                const change c = {stage, steps[k], steps[k] == 0 ? stage : -1, -1};
                int moved = s->first[stage] + steps[k];
                sl_time before = s->value;
                if (steps[k] ? stage == 0 || moved <= s->first[stage - 1] || moved >= s->first[stage + 1]
                             : !s->p->layers->recompute)
                    continue;
                if (sl_limit_is_over(&s->until))
                    return SL_OK;
                apply(s, &c, 1);
                SL_TRY(measure(s, order));
                if (s->value < before)
                    improved = 1;
                else {
                    apply(s, &c, -1);
                    s->value = before;
                }
            }
    }
    return SL_OK;
}

sl_status sl_cut_refine(sl_problem *p, const sl_order *order, sl_limit until, sl_time *value) {
    cut_search s = {.p = p, .until = until};
    size_t stages = (size_t)p->stages;
    sl_status status;
    SL_TRY_GOTO(done, status, sl_alloc(&s.first, stages + 1, sizeof *s.first));
    SL_TRY_GOTO(done, status, sl_alloc(&s.again, stages, 1));
    memcpy(s.first, p->layers->first, (stages + 1) * sizeof *s.first);
    memcpy(s.again, p->recompute, stages);
    SL_TRY_GOTO(done, status, refine(&s, order));
    memcpy(p->recompute, s.again, stages);
    sl_problem_cut(p, s.first);
    *value = s.value;
done:
    SL_FREE(s.first, s.again);
    return status;
}

/* ---- a bound over all cuts ---- */

static sl_status min_bound(sl_problem *p, int *first, sl_time *bound) {
    int stages = cut_stages(p), layers = p->layers->count;
    *bound = SL_TIME_NEVER;
    if (p->layers->recompute) { /* without it everything is shorter, and with it everything fits */
        memset(p->recompute, 0, (size_t)p->stages);
        sl_free(p->limit);
        p->limit = NULL;
    }
    first_cut(first, stages, layers);
    do {
        sl_time mine;
        sl_problem_cut(p, first);
        SL_TRY(sl_lower_bound(p, 0, &mine));
        *bound = mine < *bound ? mine : *bound;
    } while (next_cut(first, stages, layers));
    return SL_OK;
}

/* Whether ops are divided by a speed, and so rounded to the ns. */
static int is_scaled(const sl_problem *p) {
    int scaled = 0;
    for (int rank = 0; rank < p->ranks; rank++)
        scaled |= p->layers->speed[rank] < 1 || p->layers->speed[rank] > 1;
    return scaled;
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
        sl_time rounded = is_scaled(p) ? 2 * (sl_time)p->microbatches * (p->stages / p->ranks) : 0;
        *bound = (sl_time)((shared > slowest ? shared : slowest) * (1 - 1e-9)) - 2 - rounded;
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
