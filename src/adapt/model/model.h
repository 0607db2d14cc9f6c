/* What an iteration of a whole job takes, by the timing model, for any layout of it: which process sits at
 * which position, how many microbatches each replica takes, who carries the messages. What is slow belongs to
 * processes and to pairs of them, so it goes with them when they change places: every replica's healthy
 * problem gets the devices and links that it would have, is planned and replayed.
 * Replicas that are alike are asked once.
 *
 * And the layouts worth trying: microbatches divided anew, processes exchanged. Whoever decides
 * (adapt/orchestrator) compares them with the present one, which is asked in the same way, so that only
 * ratios count; whoever knows what is slow by other means (a simulation) asks the same model.
 *
 * Pure: no clock, no files. The same questions in the same order get the same answers. One thread at a time.
 *
 *   model      opening, what is slow, problems of replicas, times of layouts
 *   divide     microbatches over replicas
 *   places     processes over positions: topology search, slow devices gathered, exchanges of two */
#pragma once

#include "plan/search/plan.h"

/* What models have found out, by what was asked: several of one job may share it (a simulation that plays the
 * job several times), one thread at a time. */
typedef struct sl_model_answers sl_model_answers;

/* A job's shape. A position is (rank, replica, tensor rank); its number is sl_job_position. Positions are as
 * many as processes; process p sat at position p in the beginning. */
typedef struct sl_job {
    int replicas, ranks, tensor;
    int ring; /* sums over replicas go round a ring; 0: every replica exchanges its share with every other */
    double message;    /* bytes of an activation or its gradient between stages; of one tensor rank */
    const double *sum; /* [stages] bytes of a process's gradients of a stage; NULL: sums are not modelled */
    double delegated;  /* ns that messages take longer when delegates carry them */
    const char *schedule; /* of new plans: a family's name or "auto" */
    double effort;        /* of the topology search, s (adapt/topology/topology.h) */
    uint64_t seed;
    sl_model_answers *answers; /* shared with other models of this job; NULL: a model has its own */
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
    int *process;  /* [processes] that sits at each position */
    int *split;    /* [replicas] microbatches of each */
    int delegates; /* that carry the messages of a link and direction; 0: ranks send by themselves */
} sl_job_layout;

/** Everybody at home, `split` copied. Free with sl_job_layout_free. SL_ENOMEM. */
sl_status sl_job_layout_make(const sl_job *job, const int *split, sl_job_layout *layout);
sl_status sl_job_layout_copy(const sl_job *job, const sl_job_layout *from, sl_job_layout *to);
void sl_job_layout_free(sl_job_layout *layout);
/** The position of a process. */
int sl_job_layout_position(const sl_job *job, const sl_job_layout *layout, int process);
/** Whether two processes send each other anything: neighbouring stages of a pipeline (of `problem`'s
 * placement), or the same rank and tensor rank of two replicas. */
int sl_job_layout_talk(const sl_job *job, const sl_job_layout *layout, const sl_problem *problem, int a,
                       int b);

/* Something slow. */
typedef enum sl_part_kind {
    SL_PART_DEVICE, /* process a: ops take `slowdown` times as long */
    SL_PART_LINK,   /* between processes a and b: [0] from a to b, [1] back */
    SL_PART_CARD    /* whatever process a sends [0] and receives [1] */
} sl_part_kind;

typedef struct sl_slow_part {
    sl_part_kind kind;
    int a, b;          /* processes; b -1 but for links */
    double slowdown;   /* device */
    double latency[2]; /* ns more than healthy, one way */
    double pace[2];    /* ns a byte more than healthy */
} sl_slow_part;

typedef struct sl_model sl_model;

/** SL_ENOMEM. Close after all models that share them. */
sl_status sl_model_answers_open(sl_model_answers **answers);
void sl_model_answers_close(sl_model_answers *answers);

/** `healthy[replicas]`: what each replica is like when nothing is slow; the pointers are kept, several may be
 * the same (their number of microbatches does not count). `job` is copied (its arrays and texts too).
 * SL_ENOMEM, SL_EINVAL. Close with sl_model_close. */
sl_status sl_model_open(const sl_job *job, const sl_problem *const *healthy, sl_model **model);
void sl_model_close(sl_model *model);
/** Another healthy level, of the same shape. SL_EINVAL, SL_ENOMEM. */
sl_status sl_model_renew(sl_model *model, const sl_problem *const *healthy);

/** What is slow from now on: copied. Two parts about the same device multiply, about the same link the worse
 * counts in each direction. Answers about problems that stay the same are kept. SL_EINVAL: a number out of
 * its range; SL_ENOMEM: what was slow before still is. */
sl_status sl_model_see(sl_model *model, const sl_slow_part *part, int parts);

/** A replica as it would be in a layout, with its microbatches, sums (`reduce`) included; with delegates
 * decoupled. Free with sl_problem_free. */
sl_status sl_model_problem(sl_model *model, const sl_job_layout *layout, int replica, sl_problem *problem);

/** Time of an iteration, ns, every replica planned for what is slow in it: the slowest one's. SL_ENONE: a
 * share fits no schedule into the memory. */
sl_status sl_model_time(sl_model *model, const sl_job_layout *layout, double *time);

/** The best split of all microbatches (layout->split's sum) for this layout, into layout->split, and its
 * time. */
sl_status sl_model_divide(sl_model *model, sl_job_layout *layout, double *time);

/** The best layout that is found from `from` by changing places, and, when `divides`, the split with them;
 * else the split stays. Into *to (made by the call, sl_job_layout_free; with `from`'s delegates) and its
 * time; *moved: processes that sit elsewhere, 0: none helps. Large jobs: only among the replicas that
 * something slow concerns and a few healthy ones. */
sl_status sl_model_places(sl_model *model, const sl_job_layout *from, int divides, sl_job_layout *to,
                          double *time, int *moved);
