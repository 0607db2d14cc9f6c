/* What the files of the remedy share; on the rank that leads. */
#ifndef SL_RUN_REMEDY_REMEDY_INSIDE_H
#define SL_RUN_REMEDY_REMEDY_INSIDE_H

#include "adapt/ladder/ladder.h"
#include "adapt/schedule/findings.h"
#include "run/arrange/departure.h"
#include "run/remedy/remedy.h"

#define SL_REMEDY_PIECES 64 /* slow ones at a time; more are left out, the least first */

/* A slow piece of the cluster. */
typedef struct sl_piece {
    int id;
    sl_cause cause;
    int home[2];      /* device: the process (and of several tensor ranks the first), -1; link: both ends */
    int replica;      /* that showed it; -1: all */
    sl_finding found; /* ranks and stages of the present arrangement */
    sl_time back;     /* link: the growth of the other direction */
    double excess;    /* ns of an iteration that it would cost alone */
    double loss;      /* share of the time that it loses now */
    char seen[160];
} sl_piece;

#define SL_REMEDY_LEAST 0.02   /* share of the time that must be lost before anything is an incident */
#define SL_REMEDY_REMEMBERS 50 /* iterations */

/* What is known of the cluster, by homes. Of two processes that do not talk where they sit now: what they
 * were like when they last did, for some time. */
typedef struct sl_cluster_view {
    int homes;
    double *slow;    /* [homes] times as long as healthy ops */
    double *latency; /* [from * homes + to] ns more than healthy */
    double *pace;    /* [from * homes + to] ns a byte more than healthy */
} sl_cluster_view;

struct sl_remedy {
    sl_ladder *ladder;     /* NULL: what is healthy is not known yet */
    int rung[SL_REMEDIES]; /* place in the ladder; -1: not in it */
    int kind[SL_STRATEGIES_MOST];
    int rungs;
    sl_time at_once; /* what costs no more is not waited for */
    sl_time *took;   /* [hold] of the last iterations since something changed */
    int filled, next;
    sl_time healthy;                                        /* of an iteration; 0: not yet known */
    sl_piece now[SL_REMEDY_PIECES], told[SL_REMEDY_PIECES]; /* what is seen; what the ladder has been told */
    int nows, tolds;
    int fresh; /* something was changed: the next losses are what it brought */
    /* What is under way, -1: nothing; for the schedule, iterations that its own decision was waited for. */
    int waiting, waited;
    /* model.c's answers of this step, by what was asked */
    sl_cluster_view view;
    int measured[SL_REMEDIES]; /* what it costs to apply it */
    int known[SL_REMEDIES];
    double takes[SL_REMEDIES]; /* ns of an iteration with that strategy, as measured ones */
    double present;            /* by the model, as it runs now */
    double believed;           /* sl_remedy_believed of this step */
    int *unseen;               /* [from * homes + to] iterations since that pair was last seen */
    sl_time healthy_model; /* what the model says of an iteration when nothing is slow; 0: not yet known */
    sl_time *looked;       /* [stages] what the sums had grown by at the last look at the network */
    int *even;             /* [data] the split that the run began with */
    int *places, *places_split;  /* [world], [data]: what the topology came to */
    int *tried, *tried_split;    /* while it is looked for */
    int *split;                  /* [data] what the balance came to */
    int *next_home, *next_split; /* what is carried out */
    char host[256];              /* whom a restart would leave out */
    sl_trainer *t;
};

/** Reads the findings of all replicas: pieces and their losses into now[]. *ready: it could be told. */
sl_status sl_remedy_see(sl_trainer *t, int *ready);
/** Median of the last iterations; 0: too few. */
sl_time sl_remedy_iteration(const sl_remedy *r);

/** What a message of so many bytes takes longer from one process to another (homes) than on the best such
 * connection, by the last look at the network, ns; -1: it was not looked at. */
double sl_remedy_pair_time(const sl_trainer *t, int from, int to, double bytes);
/** What an iteration takes: as measured, but no longer than what is slow explains, ns. */
double sl_remedy_believed(const sl_remedy *r);
/** What the model says that the running orders take on what was measured lately, the slowest replica. */
sl_status sl_remedy_running(const sl_trainer *t, sl_time *time);

/** The world rank where the process of that home sits now. */
int sl_remedy_sits(const sl_trainer *t, int home);
/** Fills view from now[]. */
sl_status sl_remedy_view(sl_trainer *t);
/** Time of an iteration by the model, ns, in an arrangement: home[world]; split[data]: given, or when `find`
 * the best one is found and written there. */
sl_status sl_remedy_model(sl_trainer *t, const int *home, int *split, int find, double *time);

/** What each replica would be like in an arrangement: problem[data]; free each with sl_problem_free, also on
 * error. */
sl_status sl_remedy_problems(const sl_trainer *t, const int *home, const int *split, sl_problem *problem);

/** home[world], split[data]: the best that exchanges of two places from the present arrangement lead to.
 * `balances`: microbatches may be divided anew. Returns how many processes move; *moved 0: none helps. */
sl_status sl_remedy_exchange(sl_trainer *t, int balances, int *home, int *moved);

/** How much longer ops would take at a place in an arrangement home[world]. */
double sl_remedy_slowness(const sl_trainer *t, const int *home, int rank, int replica);
/** home[world]: the present arrangement with slow devices gathered in as few replicas as can be. Returns how
 * many places change; 0: none. */
int sl_remedy_gather(const sl_trainer *t, int *home);

/** Opens the ladder with the strategies that this run allows; what an iteration takes when nothing is slow is
 * known by now. */
sl_status sl_remedy_ladder(sl_trainer *t);

#endif
