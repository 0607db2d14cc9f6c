/* What the files of the history share. */
#pragma once

#include "adapt/orchestrator/history.h"

#include <math.h>

/* One entry of a row; NULL where there was none. room: for what has to be made. */
typedef const sl_level *(*sl_history_level)(const sl_row *row, int replica, int at, sl_level *room);

static inline double sl_history_clamp(double value, double a, double b) {
    return fmin(fmax(value, fmin(a, b)), fmax(a, b));
}

static inline void sl_time_scale(sl_time *time, double share) {
    *time = (sl_time)((double)*time * share);
}

/* ---- history.c */
/** Nothing is known of it any more, but whose it is. */
void sl_baseline_clear(sl_baseline *b);
/** Rows of this layout in which the replica was measured, the last one first, at most `most`. */
int sl_history_rows_of(const sl_history *s, int replica, int most, int *rows);
/** The one measurement of a replica that all rows have; NULL: they differ. */
sl_measured *sl_history_same(const sl_history *s, const int *rows, int count, int replica);

/* ---- history_usual.c */
/** 0 for none. Sorts `values`. */
double sl_history_median(double *values, int count);
/** Without what all devices have in common, unless their work explains it. */
const sl_level *sl_history_op_at(const sl_row *row, int replica, int at, sl_level *room);
const sl_level *sl_history_link_at(const sl_row *row, int replica, int at, sl_level *room);
/** Every time of the problem as the median over the rows in which it was measured; of what was never, over
 * all of the replica. */
void sl_history_medians(sl_history *s, const int *rows, int count, int replica, sl_problem *p);
/** Where the work of ops is known, medians become what usual work takes. */
void sl_history_usual_work(sl_history *s, const int *rows, int count, int replica, sl_problem *p);
