/* Which strategies a ladder has, and at how much lost time it climbs to each: ski rental with several rungs,
 * where nobody knows for how long the trouble lasts.
 *
 * Trouble loses `loss` a second; rung i costs c_i once, from then on l_i a second is lost. Whoever knew the
 * duration T would pay best(T) = min(loss T, min_i (c_i + l_i T)). Our total over best(T), at the worst T, is
 * the ratio.
 *
 * The rule: a rung is applied when the time lost so far, A, equals its cost. Call rungs c_1 < c_2 < ... with
 * falling l_i a chain. Against the choices within the chain its ratio is at most 1 + max_m (c_1 + ... + c_m)
 * / c_m: as long as A <= c_(m+1), every choice costs at least A. Ignoring: what we lost is no more than loss
 * T. A rung i <= m: we had lost c_i when we applied it and at most l_i a second since, so A <= c_i + l_i T. A
 * later one costs c_(m+1) >= A alone. And we paid A + c_1 + ... + c_m, with A >= c_m. So one strategy has 2,
 * k have at most k + 1.
 *
 * What makes it k + 1 are rungs of nearly the same cost: all are paid where one would do. So the chain is the
 * subset of the rungs with the smallest worst ratio against ALL of them, computed exactly, among those that
 * end with the rung that leaves the least (a lasting trouble must end there). Left out are rungs that the
 * model says cannot help, that a cheaper one beats, and that the others make dispensable. With up to three
 * strategies it is thus at most 4.
 *
 * For more: let t_j be when best(t_j) = 2^j, and apply at t_j the rung that is best for the duration t_(j+1).
 * From t_j to t_(j+1) that pays at most best(t_(j+1)) = 2^(j+1); all before, 2^j + 2^(j-1) + ... = 2^(j+1);
 * and best(T) >= 2^j: 4, whatever the number of rungs (no rule has less than 3.618 for every ladder:
 * Damaschke 2003). This chain is taken where the subsets give more than 4, so that 4 always holds. */
#pragma once

#include "adapt/ladder/strategy.h"

/* Costs in any unit of time, losses a unit of that time. */
typedef struct sl_rung {
    double cost; /* > 0 */
    double loss; /* that remains, >= 0 */
} sl_rung;

typedef struct sl_chain {
    int count; /* 0: no rung helps */
    int rung[SL_STRATEGIES_MAX];
    double trigger[SL_STRATEGIES_MAX];  /* time lost at which it is applied; ascending */
    double ratio;                       /* at the worst duration; at least 1 */
} sl_chain;

/** The chain for trouble that loses `loss` (> 0) a unit of time; count <= SL_STRATEGIES_MAX. Never fails. */
void sl_chain_choose(double loss, const sl_rung *rungs, int count, sl_chain *chain);

/** The largest ratio of what `chain` pays to the best choice in hindsight among all `rungs`, over all
 * durations. INFINITY where it has no bound. */
double sl_chain_ratio(double loss, const sl_rung *rungs, int count, const sl_chain *chain);

/** What `chain` pays in all for trouble of that duration; a rung whose turn comes in this moment is paid. */
double sl_chain_pays(double loss, const sl_rung *rungs, const sl_chain *chain, double duration);

/** What the best choice in hindsight pays. */
double sl_chain_best(double loss, const sl_rung *rungs, int count, double duration);

/** Climbs whenever the best choice in hindsight has doubled, beginning at `first` (> 0): at most 4 when that
 * is at most half the least cost. */
void sl_chain_doubling(double loss, const sl_rung *rungs, int count, double first, sl_chain *chain);

/** Falcon's algorithm 1: every rung in the order of cost, each when the time lost has reached its cost. */
void sl_chain_falcon(double loss, const sl_rung *rungs, int count, sl_chain *chain);
