/* The only store of measurements and the only baseline: the measurements of every replica in the last
 * iterations, and the healthy level from those without slow components.
 *
 * Healthy is the median over up to SL_HEALTHY_ROWS such iterations, known after `hold` of them. It follows
 * drift, but for ops only up to 5% above their first level, so that a gradual slowdown is still found. If
 * work is known, a line through time and work (least squares over the same iterations) gives the expected
 * time of an op; every time is converted to the usual work before any comparison.
 *
 * A replica with always the same measurement (a simulation) costs only a comparison of pointers. */
#pragma once

#include "adapt/orchestrator/loads.h"
#include "adapt/orchestrator/orchestrator_types.h"

enum { SL_ROWS = 48, SL_HEALTHY_ROWS = 32, SL_ROWS_HEALTHY_MIN = 3 };

/* The healthy value of a level. */
typedef struct sl_usual {
    int rows;                 /* number of rows of the median; 0: unknown */
    double time, usual;       /* ns, for usual work; usual: bound of most rows */
    double spread;            /* robust standard deviation of rows around the median */
    double work, slope;       /* usual work, 0: unknown; ns per unit of work, negative: unknown */
    double first, first_work; /* time learned first, and its work */
} sl_usual;

typedef struct sl_baseline {
    int as; /* replica with the same measurements in all rows, whose baseline it shares: itself or an earlier
               one */
    sl_measured *same; /* the only measurement of all rows; norms are absent and `problem` is empty */
    sl_problem problem;
    sl_usual *op, *link, *sum; /* as in sl_measured; sum [stages] */
} sl_baseline;

typedef struct sl_row {
    int iteration, slow; /* slow: not used for the baseline */
    int named;           /* a component was slow: not even if load turns out to be normal */
    int version;         /* rows of the same version have the same measurements of every replica */
    int complete;        /* every replica was measured */
    sl_time time, clock_error;
    double work;
    sl_measured **replica; /* [replicas] */
    double *common; /* [replicas] common factor of all devices (compare.h); negative: as in the rows before;
                       0: unknown */
} sl_row;

typedef struct sl_history {
    int replicas, hold;
    sl_row row[SL_ROWS]; /* by number modulo SL_ROWS */
    sl_loads loads;      /* by the same numbers */
    int rows, versions;  /* totals so far */
    int since;           /* first row of the present layout */
    int quiet;   /* first row of the present plans and path: earlier iteration times are not compared */
    int settled; /* healthy is known from enough rows to change little */
    int renewed; /* former load is healthy now, and the losses are not updated yet */
    int learnt, learns;   /* learns: number of times */
    int assumed;          /* the healthy level was given */
    sl_baseline *healthy; /* [replicas] */
    sl_usual iteration;
    float *suspected; /* [replicas * ranks] known slowdown factor of ops; 0: not an incident */
    struct sl_suspected_link {
        int replica, from, to;
    } suspected_link[64];
    int suspected_links;
    int ranks;
    double *room; /* [2 * SL_ROWS] scratch */
} sl_history;

sl_status sl_history_open(int replicas, int ranks, int hold, sl_history *series);
/** Sets the healthy level from the start: healthy[replicas], equal pointers for equal replicas. SL_ENOMEM. */
sl_status sl_history_assume(sl_history *series, const sl_problem *const *healthy);
void sl_history_close(sl_history *series);
/** Adds a row. */
sl_status sl_history_add(sl_history *series, const sl_orchestrator_iteration *iteration);
/** Forgets the iteration times of all rows. */
void sl_history_untimed(sl_history *series);
/** A row that is still remembered. */
static inline sl_row *sl_history_row(sl_history *series, int row) {
    return &series->row[row % SL_ROWS];
}
static inline int sl_history_oldest(const sl_history *series) {
    return series->rows > SL_ROWS ? series->rows - SL_ROWS : 0;
}
/** The baseline of a replica. */
static inline const sl_baseline *sl_history_baseline(const sl_history *series, int replica) {
    return &series->healthy[series->healthy[replica].as];
}
/** One row per version, into distinct[SL_ROWS], in order; returns their number. */
int sl_history_distinct(const sl_history *series, const int *rows, int count, int *distinct);
/** Whether the last `count` rows have the same measurements of every replica, and none is missing. */
int sl_history_repeats(const sl_history *series, int count);
/** Whether two replicas have the same measurements in these rows. */
int sl_history_alike(const sl_history *series, const int *rows, int count, int replica, int other);
/** Numbers of the stored rows in [first, last), at most the last `most`, ascending; `healthy`: only healthy
 * ones. */
int sl_history_collect(const sl_history *series, int first, int last, int most, int healthy, int *rows);
/** The last `most` rows without those in which a component was slow; their number. */
int sl_history_unnamed(const sl_history *series, int most, int *rows);
/** Numbers of rows in [first, last) with a measured replica, at most the last `most`, ascending.
 * rows[SL_ROWS]. */
int sl_history_latest(const sl_history *series, int first, int last, int most, int *rows);
/** Relearns the healthy level from the healthy rows, if there are enough. */
sl_status sl_history_learn(sl_history *series);
/** A component much faster than healthy for `hold` rows was slow when healthy was learned: its new level
 * becomes healthy, and earlier rows are not used any more. Returns 0: there is none. */
int sl_history_lower(sl_history *series);
/** Clears a replica's baseline, which is then its own or that of `as`. */
void sl_history_clear(sl_history *series, int replica, int as);
/** Allocates norms for a problem's shape, all unknown. */
sl_status sl_baseline_make_room(const sl_problem *shape, sl_baseline *baseline);
/** The layout changes from the next row on; healthy stays the same. */
void sl_history_moved(sl_history *series);
/** Makes the last `keep` rows, as far as no component was slow in them, the healthy ones, without any before
 * them. Nothing changes if fewer than `hold` are left. */
sl_status sl_history_renew(sl_history *series, int keep);

/** A time converted to usual work. */
double sl_usual_time(const sl_usual *norm, double time, double work);
/** Medians of the last `count` rows of this layout with measurements of the replica. SL_ENONE: no such row.
 * Free with sl_problem_free. */
sl_status sl_history_typical(sl_history *series, int replica, int count, sl_problem *problem);
/** Number of rows of this layout with measurements of the replica, at most `most`. */
int sl_history_measured(const sl_history *series, int replica, int most);
/** Whether an op was measured in the last `count` of these. */
int sl_history_saw(const sl_history *series, int replica, int count, int kind, int stage);
/** The healthy problem of a replica; NULL: not learned. */
const sl_problem *sl_history_healthy(const sl_history *series, int replica);
/** Median time of an iteration over the last rows since `quiet`, at most `hold`; a change by half in two of
 * the last three replaces it. 0: fewer than three (or `hold`). */
double sl_history_time(sl_history *series);
/** Standard error of its difference from healthy. */
double sl_history_time_error(sl_history *series);
/** The same over the last three rows only; 0: fewer. */
double sl_history_recent_time(sl_history *series);
