/* The iteration time of a whole job by the timing model, for any layout: positions of processes, microbatches
 * per replica, direct or delegated messages. Slowdowns belong to processes and pairs of processes and move
 * with them: each replica's healthy problem gets the devices and links of the layout, and is planned and
 * replayed. Equal replicas are computed once.
 *
 * It also finds layouts worth trying: another split, exchanged processes. The orchestrator
 * (adapt/orchestrator) compares them with the present one under the same model, so that only ratios count. A
 * simulation, which knows the true slowdowns, uses the same model.
 *
 * Pure: no clock, no files. The same calls in the same order give the same results. One thread at a time.
 *
 *   model      opening, slow components, problems of replicas, times of layouts
 *   divide     microbatches over replicas
 *   positions  processes over positions: topology search, slow devices gathered, exchanges of two */
#pragma once

#include "plan/search/plan.h"

/* A cache of results. Several models of one job may share it (a simulation that plays the job several times),
 * one thread at a time. */
typedef struct sl_model_answers sl_model_answers;

/* A job's shape. A position is (rank, replica, tensor rank); its number is sl_job_position. There are as many
 * positions as processes; process p starts at position p. */
typedef struct sl_job {
    int replicas, ranks, tensor;
    int ring;       /* sums over replicas use a ring; 0: every replica exchanges its share with every other */
    double message; /* bytes of an activation or its gradient between stages; of one tensor rank */
    const double *sum; /* [stages] bytes of a process's gradients of a stage; NULL: sums are not modelled */
    double delegated;  /* additional ns of messages through delegates */
    const char *schedule; /* of new plans: a family's name or "auto" */
    double effort;        /* of the topology search, s (adapt/topology/topology.h) */
    uint64_t seed;
    sl_model_answers *answers; /* shared with other models of this job; NULL: not shared */
} sl_job;

static inline int sl_job_processes(const sl_job *job) {
    return job->replicas * job->ranks * job->tensor;
}
static inline int sl_job_position(const sl_job *job, int rank, int replica, int tensor) {
    return (rank * job->replicas + replica) * job->tensor + tensor;
}
static inline int sl_job_rank(const sl_job *job, int position) {
    return position / (job->replicas * job->tensor);
}
static inline int sl_job_replica(const sl_job *job, int position) {
    return position / job->tensor % job->replicas;
}

typedef struct sl_job_layout {
    int *process;  /* [processes] the process at each position */
    int *split;    /* [replicas] microbatches of each */
    int delegates; /* per link and direction; 0: ranks send by themselves */
} sl_job_layout;

/** All processes at their first positions, `split` copied. Free with sl_job_layout_free. SL_ENOMEM. */
sl_status sl_job_layout_make(const sl_job *job, const int *split, sl_job_layout *layout);
sl_status sl_job_layout_copy(const sl_job *job, const sl_job_layout *from, sl_job_layout *to);
void sl_job_layout_free(sl_job_layout *layout);
/** The position of a process. */
int sl_job_layout_position(const sl_job *job, const sl_job_layout *layout, int process);
/** Whether two processes communicate: neighboring stages of a pipeline (with `problem`'s placement), or the
 * same rank and tensor rank of two replicas. */
int sl_job_layout_talk(const sl_job *job, const sl_job_layout *layout, const sl_problem *problem, int a,
                       int b);

/* A slow component. */ typedef enum sl_part_kind {
    SL_PART_DEVICE, /* process a: ops take `slowdown` times as long */
    SL_PART_LINK,   /* between processes a and b: [0] from a to b, [1] back */
    SL_PART_CARD    /* everything that process a sends [0] and receives [1] */
} sl_part_kind;

typedef struct sl_slow_part {
    sl_part_kind kind;
    int a, b;          /* processes; b: -1 unless a link */
    double slowdown;   /* device */
    double latency[2]; /* ns above healthy, one way */
    double pace[2];    /* ns per byte above healthy */
} sl_slow_part;

typedef struct sl_model sl_model;

/** SL_ENOMEM. Close it after all models that share it. */
sl_status sl_model_answers_open(sl_model_answers **answers);
void sl_model_answers_close(sl_model_answers *answers);

/** `healthy[replicas]`: the problem of each healthy replica; the pointers are kept and may repeat (their
 * numbers of microbatches are ignored). `job` is copied (its arrays and texts too). SL_ENOMEM, SL_EINVAL.
 * Close with sl_model_close. */
sl_status sl_model_open(const sl_job *job, const sl_problem *const *healthy, sl_model **model);
void sl_model_close(sl_model *model);
/** Another healthy level, of the same shape. SL_EINVAL, SL_ENOMEM. */
sl_status sl_model_renew(sl_model *model, const sl_problem *const *healthy);

/** Sets the slow components (copied). Two parts for the same device multiply; for the same link, the worse
 * one counts per direction. Results for unchanged problems are kept. SL_EINVAL: a number out of range;
 * SL_ENOMEM: the previous components still hold. */
sl_status sl_model_see(sl_model *model, const sl_slow_part *part, int parts);

/** A replica's problem in a layout, with its microbatches and sums (`reduce`); decoupled with delegates. Free
 * with sl_problem_free. */
sl_status sl_model_problem(sl_model *model, const sl_job_layout *layout, int replica, sl_problem *problem);

/** Time of an iteration, ns: that of the slowest replica, each planned for its slow components. SL_ENONE: no
 * schedule of some replica fits into memory. */
sl_status sl_model_time(sl_model *model, const sl_job_layout *layout, double *time);

/** The best split of all microbatches (layout->split's sum) for this layout, into layout->split, and its
 * time. */
sl_status sl_model_divide(sl_model *model, sl_job_layout *layout, double *time);

/** The best layout found from `from` by changing positions, and, if `divides`, also the split. Writes it to
 * *to (made by the call, free with sl_job_layout_free; with `from`'s delegates), and its time; *moved:
 * processes that change position, 0: none helps. Large jobs: only among replicas with slow components and a
 * few healthy ones. */
sl_status sl_model_rearrange(sl_model *model, const sl_job_layout *from, int divides, sl_job_layout *to,
                             double *time, int *moved);
