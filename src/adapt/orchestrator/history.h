/* The one store of measurements, and the one baseline: what was measured of every replica in the last
 * iterations, and what is healthy, from those in which nothing was slow.
 *
 * Healthy is the median over up to SL_HEALTHY_ROWS such iterations, known from `hold` of them on. It follows
 * what drifts, but ops only up to a twentieth above what they took at first: what slowly becomes slow is
 * slow. Where work is known, the line through time and work (least squares over the same iterations) says
 * what an op should take; every time is put in terms of the usual work before it is compared with anything.
 *
 * A replica of which always the same measurement was given (a simulation) costs a comparison of pointers. */
#pragma once

#include "adapt/orchestrator/loads.h"
#include "adapt/orchestrator/orchestrator.h"

enum { SL_ROWS = 48, SL_HEALTHY_ROWS = 32, SL_ROWS_HEALTHY_MIN = 3 };

/* What a level is when nothing is slow. */
typedef struct sl_usual {
    int rows;                 /* it is the median of so many; 0: not known */
    double time, usual;       /* ns, of usual work; what most rows stay below */
    double spread;            /* of rows around the median, robust standard deviation */
    double work, slope;       /* usual work, 0: not known; ns per unit of work, negative: not known */
    double first, first_work; /* time as it was learnt at first, and the work that it was for */
} sl_usual;

typedef struct sl_baseline {
    int as; /* the replica whose baseline it is, measured alike in all rows: itself or one before it */
    sl_measured *same; /* all rows were this one; norms are absent and `problem` is empty */
    sl_problem problem;
    sl_usual *op, *link, *sum; /* as in sl_measured; sum [stages] */
} sl_baseline;

typedef struct sl_row {
    int iteration, slow; /* slow: no measure of health */
    int version;         /* rows of the same version were given the same of every replica */
    int complete;        /* every replica was measured */
    sl_time time, clock_error;
    double work;
    sl_measured **replica; /* [replicas] */
    double *common; /* [replicas] times as long as all devices take (compare.h); negative: as in rows before;
                       0: nobody knows */
} sl_row;

typedef struct sl_history {
    int replicas, hold;
    sl_row row[SL_ROWS]; /* by number modulo SL_ROWS */
    sl_loads loads;      /* by the same numbers */
    int rows, versions;  /* all so far */
    int since;           /* first row of the present layout */
    int quiet;   /* first row of the present plans and path: iteration times before it are not compared */
    int settled; /* healthy is known from so many rows that it changes little any more */
    int renewed; /* what was load is healthy now, and the losses do not know it yet */
    int learnt, learns;   /* learns: how often something was learnt */
    int assumed;          /* what is healthy was said */
    sl_baseline *healthy; /* [replicas] */
    sl_usual iteration;
    float *suspected; /* [replicas * ranks] how many times as long ops take there, as is known; 0: it is no
                         incident */
    struct sl_suspected_link {
        int replica, from, to;
    } suspected_link[64];
    int suspected_links;
    int ranks;
    double *room; /* [2 * SL_ROWS] scratch */
} sl_history;

sl_status sl_history_open(int replicas, int ranks, int hold, sl_history *series);
/** What is healthy is known from the beginning: healthy[replicas], equal pointers for equal ones. SL_ENOMEM.
 */
sl_status sl_history_assume(sl_history *series, const sl_problem *const *healthy);
void sl_history_close(sl_history *series);
/** One more row. */
sl_status sl_history_add(sl_history *series, const sl_orchestrator_iteration *iteration);
/** What iterations took is not known of any row. */
void sl_history_untimed(sl_history *series);
/** A row that is still remembered. */
static inline sl_row *sl_history_row(sl_history *series, int row) {
    return &series->row[row % SL_ROWS];
}
static inline int sl_history_oldest(const sl_history *series) {
    return series->rows > SL_ROWS ? series->rows - SL_ROWS : 0;
}
/** The baseline that holds for a replica. */
static inline const sl_baseline *sl_history_baseline(const sl_history *series, int replica) {
    return &series->healthy[series->healthy[replica].as];
}
/** Of these rows one of each version, into distinct[SL_ROWS], in their order; how many. */
int sl_history_distinct(const sl_history *series, const int *rows, int count, int *distinct);
/** Whether the last `count` rows were given the same of every replica, and all were measured. */
int sl_history_repeats(const sl_history *series, int count);
/** Whether two replicas were given the same measurements in these rows. */
int sl_history_alike(const sl_history *series, const int *rows, int count, int replica, int other);
/** Numbers of rows [first, last) that are remembered, at most the last `most`, ascending; `healthy`: only
 * such. */
int sl_history_collect(const sl_history *series, int first, int last, int most, int healthy, int *rows);
/** Numbers of rows [first, last) in which some replica was measured, at most the last `most`, ascending.
 * rows[SL_ROWS]. */
int sl_history_latest(const sl_history *series, int first, int last, int most, int *rows);
/** Learns what is healthy again from the rows that are; nothing where they are too few. */
sl_status sl_history_learn(sl_history *series);
/** What has taken much less than healthy for `hold` rows was slow when healthy was learnt: that is healthy
 * now, and no row before is a measure of it. 0: nothing has. */
int sl_history_lower(sl_history *series);
/** A replica's baseline is nothing any more, and its own or that of `as`. */
void sl_history_clear(sl_history *series, int replica, int as);
/** Norms for a problem's shape, nothing known. */
sl_status sl_baseline_make_room(const sl_problem *shape, sl_baseline *baseline);
/** From the next row on everybody may sit elsewhere: healthy stays what it is. */
void sl_history_moved(sl_history *series);
/** The last `keep` rows are what is healthy now, and none before them. */
sl_status sl_history_renew(sl_history *series, int keep);

/** A time in terms of usual work. */
double sl_norm_time(const sl_usual *norm, double time, double work);
/** Medians of the last `count` rows of this layout in which the replica was measured. SL_ENONE: there is
 * none. Free with sl_problem_free. */
sl_status sl_history_typical(sl_history *series, int replica, int count, sl_problem *problem);
/** Rows of this layout in which the replica was measured, at most `most`. */
int sl_history_measured(const sl_history *series, int replica, int most);
/** Whether an op was measured in the last `count` of these. */
int sl_history_saw(const sl_history *series, int replica, int count, int kind, int stage);
/** The problem of a replica when nothing is slow; NULL: not learnt. */
const sl_problem *sl_history_healthy(const sl_history *series, int replica);
/** Median time of an iteration over the last rows since `quiet`, at most `hold`; what is half as long again
 * or shorter in two of the last three is believed. 0: fewer than three (or `hold`). */
double sl_history_time(sl_history *series);
/** Standard error of the difference of that and of what is healthy. */
double sl_history_time_error(sl_history *series);
/** Of the last three alone; 0: fewer. */
double sl_history_recent_time(sl_history *series);
