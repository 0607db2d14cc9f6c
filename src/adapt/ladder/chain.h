/* The rungs of a ladder and the lost time at which it climbs to each: ski rental with several rungs and an
 * unknown duration of the incident.
 *
 * An incident loses `loss` per second. Rung i costs c_i once; after it, l_i per second is lost. With the
 * duration T known, the best choice pays best(T) = min(loss T, min_i (c_i + l_i T)). The ratio is our total
 * over best(T) at the worst T.
 *
 * The rule: a rung is applied when the time lost so far, A, equals its cost. Rungs c_1 < c_2 < ... with
 * falling l_i are a chain. Against the choices within the chain its ratio is at most 1 + max_m (c_1 + ... +
 * c_m) / c_m: as long as A <= c_(m+1), every choice costs at least A. Ignoring: we lost at most loss T. A
 * rung i <= m: we had lost c_i when we applied it and at most l_i per second since, so A <= c_i + l_i T. A
 * later one alone costs c_(m+1) >= A. And we paid A + c_1 + ... + c_m, with A >= c_m. So the ratio is 2 for
 * one strategy and at most k + 1 for k.
 *
 * The ratio is k + 1 if rungs have nearly the same cost: all are paid although one would suffice. So the
 * chain is the subset of the rungs with the smallest worst ratio against ALL of them, computed exactly, among
 * the subsets that end with the rung with the least remaining loss (a lasting incident must end there). It
 * omits rungs that cannot help according to the model, that a cheaper one beats, and that the others make
 * redundant. With up to three strategies the ratio is thus at most 4.
 *
 * For more: let t_j be when best(t_j) = 2^j, and apply at t_j the rung that is best for the duration t_(j+1).
 * From t_j to t_(j+1) this pays at most best(t_(j+1)) = 2^(j+1); before that, 2^j + 2^(j-1) + ... = 2^(j+1);
 * and best(T) >= 2^j. The ratio is 4 for any number of rungs (no rule has less than 3.618 for every ladder:
 * Damaschke 2003). This chain is used if the subsets give more than 4, so that 4 always holds. */
#pragma once

#include "adapt/ladder/strategy.h"

/* Costs in any unit of time, losses per unit of that time. */
typedef struct sl_rung {
    double cost; /* > 0 */
    double loss; /* that remains, >= 0 */
} sl_rung;

typedef struct sl_chain {
    int count; /* 0: no rung helps */
    int rung[SL_STRATEGIES_MAX];
    double trigger[SL_STRATEGIES_MAX]; /* time lost at which it is applied; ascending */
    double ratio;                      /* at the worst duration; at least 1 */
} sl_chain;

/** The chain for an incident that loses `loss` (> 0) per unit of time; count <= SL_STRATEGIES_MAX. Never
 * fails. */
void sl_chain_choose(double loss, const sl_rung *rungs, int count, sl_chain *chain);

/** The largest ratio, over all durations, of the cost of `chain` to that of the best choice in hindsight
 * among all `rungs`. INFINITY: unbounded. */
double sl_chain_ratio(double loss, const sl_rung *rungs, int count, const sl_chain *chain);

/** Total cost of `chain` for an incident of this duration, including a rung due at its very end. */
double sl_chain_pays(double loss, const sl_rung *rungs, const sl_chain *chain, double duration);

/** Cost of the best choice in hindsight. */
double sl_chain_best(double loss, const sl_rung *rungs, int count, double duration);

/** Climbs whenever the best choice in hindsight has doubled, starting at `first` (> 0): ratio at most 4 if
 * that is at most half the least cost. */
void sl_chain_doubling(double loss, const sl_rung *rungs, int count, double first, sl_chain *chain);

/** Falcon's algorithm 1: every rung in order of cost, each when the time lost reaches its cost. */
void sl_chain_falcon(double loss, const sl_rung *rungs, int count, sl_chain *chain);
