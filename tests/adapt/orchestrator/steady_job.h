/* A job whose iterations take what its order takes on the links and devices as they are. The problem is
 * design.md's: 4 ranks, 12 microbatches, F=I=W=10 ms, 390 ms per iteration. */
#pragma once

#include "check.h"

#include "adapt/orchestrator/orchestrator.h"

enum { HOLD = 5, DWELL = 20, RANKS = 4, REPLICAS = 2, EVENTS = 16 };

typedef struct steady_job {
    int replicas, iteration;
    sl_problem healthy, now[REPLICAS];
    sl_plan first;
    sl_orchestrator_config config;
    sl_orchestrator *orchestrator;
    sl_time clock;
    /* of the last iteration */
    sl_time takes; /* by the order that ran */
    sl_event event[EVENTS];
    int events;
    int swap, back;  /* a plan was asked for, or the first one */
    int delegates;   /* asked for; -1: none any more; 0: no change */
    char family[64]; /* that it was made by; "known" and "search" are none */
    sl_time best;    /* that the plan takes on its own problem */
    double gain;     /* time lost per second that it is expected to save */
    int for_all;     /* it is for all replicas */
    int ends_alike;  /* backwards end in it as in the first */
    int first_again; /* its order is the first's */
    sl_time (*look)(
        struct steady_job *); /* what to ask of a plan that is asked for, into `looked`; or NULL */
    const sl_plan *asked;
    sl_time looked;
} steady_job;

#define SCHEDULE (1u << SL_STRATEGY_SCHEDULE)
#define DELEGATE (1u << SL_STRATEGY_DELEGATE)

void make_job(steady_job *j, int replicas);
void plan_and_start(steady_job *j, const char *family);
void open_job(steady_job *j, unsigned can);
void close_job(steady_job *j);
void set_delay(steady_job *j, double ms);
void make_rank_slow(sl_problem *p, int stage, int percent);
sl_time time_on(const sl_problem *p, const sl_plan *plan, int delegates);
void observe(steady_job *j, int iterations);
const sl_event *event_of(const steady_job *j, sl_event_kind kind);
int changes(const steady_job *j);
