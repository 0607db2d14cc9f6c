/* The worst that an adversary finds for ladders of 1 to 4 strategies: random ladders, then climbing from the
 * worst of them, for each rule on its own. Durations are no part of the search: sl_chain_ratio has the worst
 * one exactly.
 *
 * Usage: bench_ladder [SEED [STARTS [STEPS [MAX]]]]. One JSON object. */
#include "adapt/ladder/chain.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef double (*rule)(const sl_rung *rungs, int count);

/* Durations from a second to a day: what the two naive rules lose grows with them without end. */
static const double shortest = 1, longest = 86400;

static double ours(const sl_rung *rungs, int count) {
    sl_chain chain;
    sl_chain_choose(1, rungs, count, &chain);
    return chain.ratio;
}

static double falcon(const sl_rung *rungs, int count) {
    sl_chain chain;
    sl_chain_falcon(1, rungs, count, &chain);
    return chain.ratio;
}

/* What the rule of Falcon is made for: a costlier strategy leaves less. (Where it leaves more, it is applied
 * all the same and the ratio has no bound.) All rules get such ladders. */
static void put_in_order(sl_rung *rungs, int count) {
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++) {
            sl_rung a = rungs[i], b = rungs[j];
            rungs[i] = (sl_rung){fmin(a.cost, b.cost), fmax(a.loss, b.loss)};
            rungs[j] = (sl_rung){fmax(a.cost, b.cost), fmin(a.loss, b.loss)};
        }
    for (int i = 1; i < count; i++) /* a sort has no order for equal costs */
        rungs[i].cost = fmax(rungs[i].cost, rungs[i - 1].cost * (1 + 1e-9));
}

/* The strategy that leaves the least, in the first moment. Worst for the shortest trouble. */
static double at_once(const sl_rung *rungs, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (rungs[i].loss < rungs[best].loss)
            best = i;
    return (rungs[best].cost + rungs[best].loss * shortest) / sl_chain_best(1, rungs, count, shortest);
}

static double never(const sl_rung *rungs, int count) {
    return longest / sl_chain_best(1, rungs, count, longest);
}

typedef struct source {
    uint64_t seed, drawn;
} source;

static double unit(source *s) {
    return sl_random_unit(sl_random_mix(s->seed + SL_RANDOM_STEP * ++s->drawn));
}

/* Costs from a second to an hour, and what remains from nothing to all of it. */
static sl_rung random_rung(source *s) {
    double left = unit(s);
    return (sl_rung){.cost = exp(unit(s) * log(3600)), .loss = left < 0.1 ? 0 : fmax(1e-9, pow(unit(s), 3))};
}

static sl_rung nearby(source *s, sl_rung r) {
    double size = pow(10, -4 * unit(s));
    r.cost = fmin(3600, fmax(1, r.cost * exp(size * (unit(s) - 0.5))));
    r.loss = fmin(1, r.loss * exp(4 * size * (unit(s) - 0.5)));
    r.loss = r.loss < 1e-9 ? 0 : r.loss; /* of what is left, not of how small a double can be */
    return unit(s) < 0.02 ? random_rung(s) : r;
}

static double climb(source *s, rule rule_of, int count, int starts, int steps, sl_rung *worst) {
    double most = 0;
    for (int start = 0; start < starts; start++) {
        sl_rung now[SL_STRATEGIES_MAX], next[SL_STRATEGIES_MAX];
        for (int i = 0; i < count; i++)
            now[i] = random_rung(s);
        put_in_order(now, count);
        double height = rule_of(now, count);
        for (int step = 0; step < steps; step++) {
            for (int i = 0; i < count; i++)
                next[i] = unit(s) < 0.6 ? nearby(s, now[i]) : now[i];
            put_in_order(next, count);
            double there = rule_of(next, count);
            if (there >= height) {
                height = there;
                for (int i = 0; i < count; i++)
                    now[i] = next[i];
            }
        }
        if (height > most) {
            most = height;
            for (int i = 0; i < count; i++)
                worst[i] = now[i];
        }
    }
    return most;
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        rule rule;
    } rules[] = {{"ours", ours}, {"falcon", falcon}, {"at_once", at_once}, {"never", never}};
    source s = {.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1};
    int starts = argc > 2 ? atoi(argv[2]) : 20, steps = argc > 3 ? atoi(argv[3]) : 20000;
    int most = argc > 4 ? atoi(argv[4]) : 4;
    printf("{\"seed\": %llu, \"starts\": %d, \"steps\": %d", (unsigned long long)s.seed, starts, steps);
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        printf(", \"%s\": [", rules[r].name);
        for (int count = 1; count <= most && count <= SL_STRATEGIES_MAX; count++) {
            sl_rung worst[SL_STRATEGIES_MAX];
            printf("%s{\"ratio\": %.6g, \"ladder\": [", count > 1 ? ", " : "",
                   climb(&s, rules[r].rule, count, starts, steps, worst));
            for (int i = 0; i < count; i++)
                printf("%s[%.6g, %.6g]", i ? ", " : "", worst[i].cost, worst[i].loss);
            printf("]}");
        }
        printf("]");
    }
    printf("}\n");
    return 0;
}
