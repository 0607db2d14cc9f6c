/* Tests whether the work of iterations has grown, with a change at any remembered time: a two-sample t-test
 * on logarithms of work before and after (a generalized likelihood ratio for a step, Siegmund 1985). If the
 * work is unknown, times replace it.
 *
 * A series is tested after each iteration, for about ninety times of change, so the threshold is high
 * (tests/adapt/orchestrator/test_loads.c tries series of log-normal work). */
#pragma once

enum { SL_LOADS = 96, SL_LOADS_MIN = 8 };
#define SL_LOADS_ERRORS 5.5

/* By row number modulo SL_LOADS; 0: unknown. */
typedef struct sl_loads {
    double work[SL_LOADS], time[SL_LOADS];
    int rows;
    int since; /* the first row that counts */
} sl_loads;

/* The last `rows` have `times` the earlier work, `before`; 0 rows: no growth. */
typedef struct sl_growth {
    int rows, announced; /* 1: from reported work; 0: from times */
    double before, times;
} sl_growth;

void sl_loads_add(sl_loads *loads, double work, double time);
/** The most likely growth by a factor of at least `least`. `quiet`: the first row with comparable times. */
sl_growth sl_loads_grown(const sl_loads *loads, int quiet, double least);
/* Count, mean, and sum of squared deviations. */
typedef struct sl_sums {
    double count, mean, squares;
} sl_sums;

void sl_sums_add(sl_sums *sums, double value);
/** The growth of the mean in standard errors of a normal distribution; 0: too few values. */
double sl_sums_errors(const sl_sums *before, const sl_sums *since);
/** The number of standard errors of a normal distribution that is as rare as t with `freedom` degrees of
 * freedom (Wallace 1959). */
double sl_errors_of_student(double t, double freedom);
