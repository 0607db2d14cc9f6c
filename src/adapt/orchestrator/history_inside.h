/* Shared by the files of the history. */
#pragma once

#include "adapt/orchestrator/history.h"

#include <math.h>

/* One entry of a row; NULL: none. `room` holds a computed one. */
typedef const sl_level *(*sl_history_level)(const sl_row *row, int replica, int at, sl_level *room);

static inline double sl_history_clamp(double value, double a, double b) {
    return fmin(fmax(value, fmin(a, b)), fmax(a, b));
}

static inline void sl_time_scale(sl_time *time, double share) {
    *time = (sl_time)((double)*time * share);
}

/* ---- history.c */
/** Forgets everything but its owner. */
void sl_baseline_clear(sl_baseline *b);
/** Rows of this layout with measurements of the replica, the last one first, at most `most`. */
int sl_history_rows_of(const sl_history *s, int replica, int most, int *rows);
/** The measurement of a replica that all rows share; NULL: they differ. */
sl_measured *sl_history_same(const sl_history *s, const int *rows, int count, int replica);

/* ---- history_usual.c */
/** 0 if there are none. Sorts `values`. */
double sl_history_median(double *values, int count);
/** An op's level without the common load of all devices, unless their work explains it. */
const sl_level *sl_history_op_at(const sl_row *row, int replica, int at, sl_level *room);
const sl_level *sl_history_link_at(const sl_row *row, int replica, int at, sl_level *room);
/** Sets every time of the problem to the median over the rows with measurements; without any, over all rows
 * of the replica. */
void sl_history_medians(sl_history *s, const int *rows, int count, int replica, sl_problem *p);
/** If the work of ops is known, converts medians to usual work. */
void sl_history_usual_work(sl_history *s, const int *rows, int count, int replica, sl_problem *p);
