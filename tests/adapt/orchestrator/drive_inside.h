/* What the files of the driver share.
 *
 *   drive    the body: it observes, reads, carries out
 *   judge    what is said, planned and asked for, against what is true
 *   culprit  which fault explains what was named */
#ifndef SL_TESTS_DRIVE_INSIDE_H
#define SL_TESTS_DRIVE_INSIDE_H

#include "drive.h"

typedef struct watch { /* of a fault */
    int measured;      /* iterations in which its component was measured since it has cost enough */
    int began;         /* iteration of the first of them; -1: none */
    int judged;        /* it counts, and was named or not */
    int open;          /* an incident of it lasts */
    int named;
    int unsure; /* meanwhile it was said that nobody can tell */
    int costs;
} watch;

typedef struct driver {
    job j; /* a copy whose faults may end early, when a host is left */
    const drive_options *options;
    tally *sum;
    sl_orchestrator *o;
    job_noise noise;
    FILE *log;
    int iteration;
    sl_time now, healthy; /* what an iteration takes by the first plans without faults */
    sl_time reference;    /* what one would take now without them */
    int first_split[JOB_REPLICAS];
    sl_time quick; /* actions that cost no more come at once */
    double lost, paid[SL_STRATEGY_KINDS];
    int last_swap[JOB_REPLICAS], last_quick[SL_DO_NETWORK + 1], last_undo[SL_DO_NETWORK + 1];
    unsigned refused;
    int failed;         /* actions that did not come about */
    unsigned char *met; /* [processes * processes] sat at the same rank and replica at some time */
    int home[JOB_PROCESSES], before[JOB_PROCESSES]; /* layouts in the beginning, before the last change */
    sl_order running[JOB_REPLICAS];
    int split[JOB_REPLICAS];
    watch watch[JOB_FAULTS];
    int changed;      /* plans, path or layout, since costs were last asked for */
    int moved;        /* the layout is another than in the beginning */
    int broken;       /* plans cannot be replayed: the job ends */
    int pending, due; /* an action is under way */
    int said[PROMISES];
    int accused[64], accusations; /* wrong incidents that were reported, by id */
    int idle;                     /* up to this iteration nothing is to come */
    sl_orchestrator_action action;
} driver;

/** Counts it, and prints the first three of a kind and job. */
void drive_violate(driver *d, promise what, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- culprit.c */
static inline int drive_processes(const driver *d) {
    return sl_job_processes(&d->j.config.job);
}
int drive_recent(const driver *d, const job_fault *f);
int drive_met(const driver *d, int a, int b);
void drive_meet(driver *d);
int drive_slows_devices(const job_fault *f);
int drive_slows_links(const job_fault *f);
int drive_all_links_slow(const driver *d, int process);
int drive_place_of(const driver *d, int rank, int replica);
int drive_explains_incident(const driver *d, const job_fault *f, const sl_incident_view *v);
int drive_explains_event(const driver *d, const job_fault *f, const sl_event *e);
int drive_explains_surely(const driver *d, const job_fault *f, const sl_event *e);
int drive_tells_of_work(const driver *d, const sl_event *e);
int drive_covers(const driver *d, const job_fault *f, const sl_incident_view *v);
/* ---- judge.c */
void drive_judge_idle(driver *d, const char *what);
void drive_judge_event(driver *d, const sl_event *e);
void drive_judge_incidents(driver *d);
void drive_judge_plans(driver *d);
void drive_judge_unchanged(driver *d, const char *when);
void drive_judge_action(driver *d, const sl_orchestrator_action *a);
void drive_judge_done(driver *d, const sl_orchestrator_action *a);
void drive_judge_costs(driver *d);
void drive_judge_faults(driver *d, const job_iteration *m);
void drive_judge_end(driver *d);

#endif
