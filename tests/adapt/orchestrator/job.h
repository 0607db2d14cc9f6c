/* A training job on a virtual clock, drawn from a seed: its shape, what it is like when healthy, what goes
 * wrong and when, what changes without being a fault, and how its measurements are disturbed. From that
 * follow, for any layout and plans, what an iteration takes and what is measured of it. What is true is asked
 * here, never of the code under test: of the planner only the timing model's replay is used.
 *
 * Faults belong to processes and to pairs of them, and go with them when they change places. Several about
 * the same device multiply; of several about the same link the worst counts. */
#ifndef SL_TESTS_JOB_H
#define SL_TESTS_JOB_H

#include "random_problem.h"

#include "adapt/orchestrator/orchestrator.h"

enum {
    JOB_REPLICAS = 8,
    JOB_RANKS = 8,
    JOB_STAGES = 32,
    JOB_PROCESSES = 128,
    JOB_MICROBATCHES = 64,
    JOB_FAULTS = 6,
    JOB_LOADS = 3
};

typedef enum job_fault_kind {
    JOB_DEVICE, /* of process a */
    JOB_LINK,   /* between processes a and b: [0] from a to b, [1] back */
    JOB_CARD,   /* all that process a sends [0] and receives [1] */
    JOB_HOST    /* the same of all processes of the host of a; their devices too when slowdown > 1 */
} job_fault_kind;

typedef struct job_fault {
    job_fault_kind kind;
    int a, b;
    double slowdown;            /* ops take so many times as long */
    double latency[2], pace[2]; /* ns more; ns a byte more */
    int first, until;           /* iterations [first, until) */
} job_fault;

/* More work, which is no fault. */
typedef struct job_load {
    int first, until;
    int replica, stage; /* -1: all */
    double factor;      /* microbatches are so many times as long */
} job_load;

typedef struct job {
    uint64_t seed;
    sl_orchestrator_config config;
    int pipelines; /* different healthy problems */
    sl_problem pipeline[JOB_REPLICAS];
    sl_plan plan[JOB_REPLICAS];
    const sl_problem *problem[JOB_REPLICAS];
    const sl_plan *first[JOB_REPLICAS];
    char name[JOB_PROCESSES][8]; /* of hosts */
    const char *host[JOB_PROCESSES];
    double sum[JOB_STAGES];
    int iterations;
    int quiet; /* iterations at the end without any fault */
    int faults, loads;
    job_fault fault[JOB_FAULTS];
    job_load load[JOB_LOADS];

    /* noise; all of it 0 where iterations are alike to the ns (`still`) */
    int still;
    double jitter;       /* an op takes up to this share longer */
    double spikes;       /* share of ops that take 1.5 to 4 times as long, one of a rank at a time */
    double sums;         /* a sum takes up to this share longer */
    int slow_every;      /* about so often a single iteration is slow; 0: none */
    sl_time clock_error; /* any two clocks differ by so much at most */
    sl_time late;        /* a message arrives up to so much later */
    int resync;          /* clocks are set again so often; 0: never */
    int warm_up;         /* first iterations that are slow */
    int evaluate_every;  /* an evaluation step lengthens every so manieth iteration; 0: none */
    sl_time other;       /* outside the pipeline */
    double gaps;         /* share of measurements that are missing, of each kind */

    /* length of microbatches: an op takes time * (fixed + (1 - fixed - square) * length + square * length^2)
     */
    double sigma, fixed, square; /* log-normal */
    int tells_ops;               /* the work of ops and messages is known */
    int tells_iteration;         /* that of an iteration is */
    int unmeasured;              /* nothing but iterations is */

    /* the body */
    double fails, refuses; /* shares of actions */
    int slow_hands;        /* actions are carried out up to so many iterations later */
    int resumed;           /* after this iteration another process goes on; 0: never */
} job;

/** Everything about a job from its seed. Free with job_free. */
void job_draw(uint64_t seed, job *j);
/** The parts of it, for jobs made otherwise: a healthy shape with first plans and no noise, then what
 * disturbs it. */
void job_draw_shape(uint64_t *seed, job *j);
void job_draw_noise(uint64_t *seed, job *j);
void job_draw_faults(uint64_t *seed, job *j);
void job_draw_loads(uint64_t *seed, job *j);
void job_draw_body(uint64_t *seed, job *j);
/** A plain one: linear, decoupled, equal stages of F = I = W = `op`, links of `link` transfer, 1F1B and no
 * noise. */
void job_plain(int replicas, int ranks, int microbatches, sl_time op, sl_time link, job *j);
void job_free(job *j);
/** As job_fault, from a place: device of a rank (to < 0), or link between two ranks, of a replica in the
 * first layout. */
int job_home(const job *j, int replica, int rank);

/* ---- what is true in an iteration */

/** A replica without noise: healthy, with all faults of `iteration` but number `except` (-1: with all). Free
 * it. */
void job_problem(const job *j, const sl_job_layout *layout, int replica, int iteration, int except,
                 sl_problem *p);
/** What the iteration takes without noise with these plans [replicas], which is the slowest replica's. */
sl_time job_time(const job *j, const sl_job_layout *layout, const sl_plan *const *plan, int iteration,
                 int except);
/** How much slower the device of a process is, and what a message or a share of a sum from one to another has
 * on top. */
double job_slowness(const job *j, int process, int iteration, int except);
void job_link_excess(const job *j, int from, int to, int iteration, int except, double *latency,
                     double *pace);
int job_same_host(const job *j, int a, int b);
/** How many times as long an op of a microbatch takes that is `length` times as long. */
double job_growth(const job *j, double length);
/** The factor by which all microbatches of a stage and replica are longer. */
double job_length(const job *j, int replica, int stage, int iteration);

/* ---- what is measured of it */

typedef struct job_iteration {
    sl_orchestrator_iteration given;
    sl_measured *measured[JOB_REPLICAS];
    int absent;                             /* nothing is told of this iteration at all */
    int seen_ops[JOB_REPLICAS * JOB_RANKS]; /* [replica * ranks + rank] ops were measured */
    int seen_links[JOB_REPLICAS];
    int seen_sums;
    int slow_rank, slow_replica; /* whose ops are slow in this iteration alone; -1: all, -2: nobody's */
    double slow;
} job_iteration;

/* Where noise is drawn from; the same for the same seed, iteration by iteration. What disturbs a rank's ops
 * (a spiked op, a slow iteration) is alone: nothing else does so for some iterations, or it would be no noise
 * but a change. */
typedef struct job_noise {
    uint64_t seed;
    int disturbed[JOB_REPLICAS * JOB_RANKS]; /* iteration of the last one */
    sl_time clock[JOB_PROCESSES];
} job_noise;

void job_noise_begin(const job *j, job_noise *noise);
/** The measurements of an iteration that begins at `now`. Drop with job_iteration_free. */
void job_measure(const job *j, job_noise *noise, const sl_job_layout *layout, const sl_plan *const *plan,
                 int iteration, sl_time now, job_iteration *out);
void job_iteration_free(const job *j, job_iteration *out);
/** All pairs that send each other something in any layout: `measure` has room for JOB_PROCESSES squared;
 * count. */
int job_network(const job *j, const sl_job_layout *layout, job_noise *noise, int iteration,
                sl_network_measure *measure);

/** A program replayed with a duration of its own for every op [spans] and a transfer time and latency for
 * every message, where sends hold no rank. Free the timeline. */
void job_replay(const sl_problem *p, const sl_program *program, const sl_time *duration,
                const sl_time *transfer, const sl_time *latency, sl_timeline *timeline);

#endif
