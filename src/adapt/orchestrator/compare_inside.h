/* Shared by the files of a comparison: the rows, and the levels computed from them. */
#pragma once

#include "adapt/orchestrator/compare.h"

#define SL_OPS_MIN (0.3 * SL_MS) /* time that late thread wake-ups add to the ops of a microbatch */

typedef struct sl_comparing {
    sl_history *s;
    const int *rows;
    int count, lately, most, ranks; /* most: maximum of latest values per component */
    sl_slowness *out;
    double clock_error;
    int *kind;  /* [replicas] kind of a replica that differs from healthy; -1: it does not differ */
    int *first; /* [kinds] the first replica of each */
    int *like;  /* [differing] replicas that differ, ascending */
    int kinds, differing, well;      /* well: healthy replicas of simulations */
    int distinct[SL_ROWS], versions; /* of the rows */
    double *common; /* [kinds * count] common factor of all devices of a replica per row; 0: unknown */
    double stretch[SL_ROWS]; /* [count] by how much load stretches messages of the replica at hand, per row */
} sl_comparing;

/* Values of the latest rows, at most `most`, in the order of rows. */
typedef struct sl_latest {
    int most, count;
    double last; /* of the very last row; 0: none */
    double value[SL_ROWS], raw[SL_ROWS];
} sl_latest;

/* A device: its ops of each row compared with healthy. */
typedef struct sl_compared_device {
    int known;
    double now, raw, usual, variance; /* relative to healthy */
    double last;                      /* the same in the last row; 0: not measured */
    double healthy, excess;           /* ns */
} sl_compared_device;

/* ---- compare.c */
sl_usual sl_comparing_norm(const sl_usual *norm, const sl_baseline *b, const sl_level *same);
/** The level of `values`, in the order of rows: the median, or the new level of the last three; of two
 * different values the higher one, because no row had their mean. If all rows are compared and there are few,
 * the minimum, because one may be a spike. */
double sl_comparing_level(const sl_comparing *c, const double *values, int count, double noise);
/** Number of rows needed for a healthy level. */
int sl_comparing_rows_needed(const sl_comparing *c);
/** Number of rows needed for a recent level. */
int sl_comparing_rows_wanted(const sl_comparing *c);
/** Variance of the difference between the median of `count` rows and the healthy median. */
double sl_usual_variance(const sl_usual *n, int count);
/** Takes rows from the last to the first. 0: there are enough. */
int sl_latest_take(sl_latest *l, int is_last, double value, double raw);
int sl_beyond_noise(double growth, double variance);
sl_status sl_comparing_add(const sl_comparing *c, sl_slow slow);
/** A replica's problem as measured in the rows; NULL: always healthy, or never measured. */
const sl_problem *sl_comparing_shape(const sl_comparing *c, int replica);
/** A suspect remains one until both its level and the last row are healthy; a new one needs both its level
 * and the last row. */
int sl_comparing_both_show(const sl_comparing *c, int suspected, int level, int last);
/** Index of the first of the latest rows. */
int sl_comparing_latest(const sl_comparing *c);

/* ---- compare_common.c */
/** Computes the common factors of devices per row, into c->common. value [kinds * count * ranks]: per row,
 * relative to healthy; room [3 * replicas + 2 * ranks]. */
void sl_comparing_common(const sl_comparing *c, const double *value, double *room);
/** The common factor of all devices of the job, as the median over the rows. */
double sl_comparing_common_of_job(const sl_comparing *c);

/* ---- compare_devices.c */
/** devices [kinds * ranks]; value, raw [kinds * count * ranks]; room [3 * replicas + 2 * ranks]. */
sl_status sl_comparing_devices(sl_comparing *c, sl_compared_device *devices, double *value, double *raw,
                               double *room);
/** For one kind of replicas: finds stages that got more work than the stage with the least, so that the
 * slowest takes longer than any did; work that all of them got is load. */
sl_status sl_comparing_stages(sl_comparing *c, int kind, const sl_compared_device *devices,
                              const double *value, const double *raw);

/* ---- compare_links.c */
sl_status sl_comparing_links(sl_comparing *c);
sl_status sl_comparing_sums(sl_comparing *c, int stages);
