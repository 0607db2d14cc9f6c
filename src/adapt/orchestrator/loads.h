/* Whether the work of iterations has grown: a change at any time that is remembered, by a two-sample t-test
 * on logarithms of work before and since (a generalised likelihood ratio for a step, Siegmund 1985). Where
 * nobody tells of work, times stand for it.
 *
 * A series is asked after each iteration, for some ninety times of change, so what must be exceeded is far
 * out (tests/adapt/orchestrator/test_loads.c tries series of log-normal work). */
#pragma once

enum { SL_LOADS = 96, SL_LOADS_MIN = 8 };
#define SL_LOADS_ERRORS 5.5

/* By number of the row, modulo SL_LOADS; 0: not known. */
typedef struct sl_loads {
    double work[SL_LOADS], time[SL_LOADS];
    int rows;
    int since; /* the first row that counts */
} sl_loads;

/* The last `rows` have `times` the work of those before, which was `before`; 0 rows: it has not grown. */
typedef struct sl_growth {
    int rows, told; /* told: it is work; 0: times */
    double before, times;
} sl_growth;

void sl_loads_add(sl_loads *loads, double work, double time);
/** The likeliest change to `least` times as much and more. `quiet`: from this row on times can be compared.
 */
sl_growth sl_loads_grown(const sl_loads *loads, int quiet, double least);
/* Numbers: how many, their mean, their squares around it. */
typedef struct sl_sums {
    double count, mean, squares;
} sl_sums;

void sl_sums_add(sl_sums *sums, double value);
/** By how many standard errors the mean since is above the one before, in terms of a normal distribution; 0:
 * too few tell. */
double sl_sums_errors(const sl_sums *before, const sl_sums *since);
/** The standard errors of a normal distribution that are as rare as t is with so many degrees of freedom
 * (Wallace 1959). */
double sl_errors_of_student(double t, double freedom);
