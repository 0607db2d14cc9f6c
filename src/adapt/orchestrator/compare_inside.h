/* What the files of a comparison share: the rows at hand, and how a level is made of them. */
#pragma once

#include "adapt/orchestrator/compare.h"

#define SL_OPS_MIN (0.3 * SL_MS) /* what threads that wake late add to the ops of a microbatch */

typedef struct sl_comparing {
    sl_history *s;
    const int *rows;
    int count, lately, most, ranks; /* most: values of a component, the latest */
    sl_slowness *out;
    double clock_error;
    int *kind;  /* [replicas] which of the replicas that differ from what is healthy it is like; -1: it does
                   not differ */
    int *first; /* [kinds] the first replica of each */
    int *like;  /* [differing] replicas that differ, ascending */
    int kinds, differing, well;      /* well: replicas of simulations that are as when healthy */
    int distinct[SL_ROWS], versions; /* of the rows at hand */
    double *common; /* [kinds * count] what all devices of a replica take longer in each row; 0: nobody can
                       tell */
} sl_comparing;

/* Values of the latest rows, at most `most`, in the order of rows. */
typedef struct sl_latest {
    int most, count;
    double last; /* of the last row of all; 0: none */
    double value[SL_ROWS], raw[SL_ROWS];
} sl_latest;

/* A device: its ops of each row against what they take when healthy. */
typedef struct sl_compared_device {
    int known;
    double now, raw, usual, variance; /* times what is healthy */
    double last;                      /* the same in the last row; 0: it was not measured there */
    double healthy, excess;           /* ns */
} sl_compared_device;

/* ---- compare.c */
sl_usual sl_comparing_norm(const sl_usual *norm, const sl_baseline *b, const sl_level *same);
/** The level over `values`, in the order of rows: the median, or what it has become in the last three; of two
 * that differ the higher one, since no row took their mean. Where all rows are looked at, the least of a few,
 * for one may be a spike. */
double sl_comparing_level(const sl_comparing *c, const double *values, int count, double noise);
/** Rows that make what is healthy. */
int sl_comparing_rows_needed(const sl_comparing *c);
/** Rows that say what it is lately. */
int sl_comparing_rows_wanted(const sl_comparing *c);
/** Of the difference of the medians of so many rows and of healthy ones. */
double sl_norm_variance(const sl_usual *n, int count);
/** Rows come the last one first. 0: these are enough. */
int sl_latest_take(sl_latest *l, int is_last, double value, double raw);
int sl_beyond_noise(double growth, double variance);
sl_status sl_comparing_add(const sl_comparing *c, sl_slow slow);
/** What was given of a replica in the rows at hand; NULL: always what is healthy, or nothing. */
const sl_problem *sl_comparing_shape(const sl_comparing *c, int replica);
/** What is suspected stays so until its level and the last row are well, both; nothing else is suspected by
 * its level before the last row shows it, too. */
int sl_comparing_both_show(const sl_comparing *c, int suspected, int level, int last);
/** The first of the latest rows. */
int sl_comparing_latest(const sl_comparing *c);

/* ---- compare_common.c */
/** What devices have in common in each row, into c->common. value [kinds * count * ranks]: of each row, in
 * terms of healthy; room [3 * replicas + 2 * ranks]. */
void sl_comparing_common(const sl_comparing *c, const double *value, double *room);
/** What all devices of the job have in common, the median over the rows. */
double sl_comparing_common_of_job(const sl_comparing *c);

/* ---- compare_devices.c */
/** devices [kinds * ranks]; value, raw [kinds * count * ranks]; room [3 * replicas + 2 * ranks]. */
sl_status sl_comparing_devices(sl_comparing *c, sl_compared_device *devices, double *value, double *raw,
                               double *room);
/** Of one kind of replicas: which stages have got more work than the one that has least, so that the slowest
 * takes longer than any did; what all of them have is load. */
sl_status sl_comparing_stages(sl_comparing *c, int kind, const sl_compared_device *devices,
                              const double *value, const double *raw);

/* ---- compare_links.c */
sl_status sl_comparing_links(sl_comparing *c);
sl_status sl_comparing_sums(sl_comparing *c, int stages);
