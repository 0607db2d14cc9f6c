/* A job of several ranks on a virtual clock, whose NCCL events go through the plug-in's tables; what the
 * plug-in writes are the calls of a profile. All ranks are in this process: each has a communicator of its
 * own, as a process with several devices has.
 *
 * A collective is a ring: each rank's kernel starts when the rank has computed, no data moves before the last
 * has come, and step by step each rank waits for its GPU, which waits for the step before, then for its
 * network. A pipeline's stages receive, compute, send. */
#ifndef SL_TESTS_NCCL_JOB_H
#define SL_TESTS_NCCL_JOB_H

#include "check.h"

#include "base/random.h"
#include "notice/detect/call_profile.h"
#include "notice/probe/reported_events.h"
#include "played_nccl.h"

#define MS 1000000ll
enum { JOB_RANKS = 8, JOB_STEPS = 4, JOB_EVENTS = 1 << 17, JOB_CALLS = 1 << 17 };

extern sl_nccl_table_v1 ncclProfiler_v1;
extern sl_nccl_table_v2 ncclProfiler_v2;
extern sl_nccl_table_v3 ncclProfiler_v3;
extern sl_nccl_table_v4 ncclProfiler_v4;
extern sl_nccl_table_v5 ncclProfiler_v5;
extern sl_nccl_table_v6 ncclProfiler_v6;

/* ---- what the probe does for the plug-in ---- */

static int64_t job_now;
static sl_timing job_timing = SL_TIMING_DEVICE;
static int job_plugged = 1;
static uint32_t job_lost;
static size_t job_calls;
static sl_call job_call[JOB_CALLS];

int sl_reported_plugged(void) {
    return job_plugged;
}

sl_timing sl_reported_timing(void) {
    return job_timing;
}

int64_t sl_reported_now(void) {
    return job_timing == SL_TIMING_OFF ? 0 : job_now;
}

void sl_reported_write(sl_call *call) {
    size_t at = __atomic_fetch_add(&job_calls, 1, __ATOMIC_RELAXED);
    if (at < JOB_CALLS)
        job_call[at] = *call;
}

void sl_reported_lost(uint32_t events) {
    __atomic_fetch_add(&job_lost, events, __ATOMIC_RELAXED);
}

/* ---- events at their times ---- */

typedef enum job_what {
    JOB_TASK,
    JOB_STOP_TASK,
    JOB_OP,
    JOB_STOP_OP,
    JOB_STEP,
    JOB_REACH,
    JOB_STOP_STEP,
    JOB_KERNEL,
    JOB_STOP_KERNEL
} job_what;

typedef struct job_event {
    int64_t at;
    job_what what;
    int rank, task, op, step, state, order;
} job_event;

typedef struct job_task {
    int rank, sends, peer; /* peer -1: a collective */
    void *handle, *kernel[8];
} job_task;

typedef struct job_op {
    int task, channel, peer, sends;
    void *handle, *step[JOB_STEPS];
} job_op;

typedef struct nccl_job {
    played_nccl n;
    int ranks, channels;
    double slow[JOB_RANKS];            /* of computing */
    double link[JOB_RANKS][JOB_RANKS]; /* factor of a message's time, from, to */
    int64_t late[JOB_RANKS];           /* ns that a rank comes later */
    int64_t computing, message;
    double jitter;
    uint64_t random;
    void *context[JOB_RANKS];
    int64_t now[JOB_RANKS];
    job_event *event;
    job_task *task;
    job_op *op;
    int events, tasks, ops;
} nccl_job;

static inline int64_t job_jitter(nccl_job *j, double time) {
    double r = sl_random_unit(sl_random_mix(j->random += SL_RANDOM_STEP));
    return (int64_t)(time * (1 + j->jitter * (2 * r - 1)));
}

static inline void job_begin(nccl_job *j, int version, int ranks, uint64_t seed) {
    static void *const tables[] = {NULL,
                                   &ncclProfiler_v1,
                                   &ncclProfiler_v2,
                                   &ncclProfiler_v3,
                                   &ncclProfiler_v4,
                                   &ncclProfiler_v5,
                                   &ncclProfiler_v6};
    *j = (nccl_job){.n = {.version = version, .table = tables[version], .hash = 77},
                    .ranks = ranks,
                    .channels = 2,
                    .computing = 8 * MS,
                    .message = 2 * MS,
                    .jitter = 0.02,
                    .random = seed};
    for (int a = 0; a < JOB_RANKS; a++) {
        j->slow[a] = 1;
        for (int b = 0; b < JOB_RANKS; b++)
            j->link[a][b] = 1;
    }
    j->event = calloc(JOB_EVENTS, sizeof *j->event);
    j->task = calloc(JOB_EVENTS / 8, sizeof *j->task);
    j->op = calloc(JOB_EVENTS / 8, sizeof *j->op);
}

static inline void job_add(nccl_job *j, int64_t at, job_event e) {
    assert_true(j->events < JOB_EVENTS);
    e.at = at;
    e.order = j->events;
    j->event[j->events++] = e;
}

/* A collective or message of a rank: enqueued at `posted`, on the device from `began` to `ended`. */
static inline int job_add_task(nccl_job *j, job_task task, int64_t posted, int64_t began, int64_t ended) {
    int t = j->tasks++;
    j->task[t] = task;
    job_add(j, posted, (job_event){.what = JOB_TASK, .rank = task.rank, .task = t});
    job_add(j, posted + 5000, (job_event){.what = JOB_STOP_TASK, .rank = task.rank, .task = t});
    for (int c = 0; c < j->channels; c++) {
        job_add(j, began + 1000 * c,
                (job_event){.what = JOB_KERNEL, .rank = task.rank, .task = t, .step = c});
        job_add(j, ended + 1000 * c,
                (job_event){.what = JOB_STOP_KERNEL, .rank = task.rank, .task = t, .step = c});
    }
    return t;
}

/* A proxy op from `posted` on; its step s is given by the GPU (a send) or asked for (a receive) at given[s],
 * moves until moved[s]. */
static inline void job_add_op(nccl_job *j, job_op op, int64_t posted, const int64_t *given,
                              const int64_t *moved) {
    int o = j->ops++, rank = j->task[op.task].rank;
    int64_t before = posted + 10000; /* steps are posted ahead */
    j->op[o] = op;
    job_event e = {.rank = rank, .op = o, .task = op.task};
    e.what = JOB_OP;
    job_add(j, before, e);
    for (int s = 0; s < JOB_STEPS; s++) {
        e.step = s;
        e.what = JOB_STEP;
        job_add(j, before, e);
        e.what = JOB_REACH;
        e.state = op.sends ? SL_NCCL_SEND_GPU_WAIT : SL_NCCL_RECV_WAIT;
        job_add(j, before + 1, e);
        if (op.sends) {
            e.state = SL_NCCL_SEND_PEER_WAIT;
            job_add(j, given[s] - 1000, e);
            e.state = SL_NCCL_SEND_WAIT;
            job_add(j, given[s], e);
        } else {
            e.state = SL_NCCL_RECV_FLUSH_WAIT;
            job_add(j, moved[s] + 1000, e);
        }
        e.what = JOB_STOP_STEP;
        job_add(j, moved[s] + (op.sends ? 0 : 2000), e);
    }
    e.what = JOB_STOP_OP;
    job_add(j, moved[JOB_STEPS - 1] + 3000, e);
}

/* All ranks compute, then reduce around the ring. */
static inline void job_reduce(nccl_job *j) {
    int64_t began[JOB_RANKS], all = 0, step = 0, moved[JOB_RANKS][JOB_STEPS], given[JOB_RANKS][JOB_STEPS];
    int task[JOB_RANKS];
    for (int r = 0; r < j->ranks; r++) {
        began[r] = j->now[r] + job_jitter(j, (double)j->computing * j->slow[r]) + j->late[r];
        all = began[r] > all ? began[r] : all;
    }
    int64_t start = all;
    for (int s = 0; s < JOB_STEPS; s++) { /* in lockstep: the slowest link sets the pace */
        int64_t pace = 0;
        for (int r = 0; r < j->ranks; r++) {
            step = job_jitter(j, (double)j->message / JOB_STEPS * j->link[r][(r + 1) % j->ranks]);
            given[r][s] = s == 0 ? began[r] + 20000 : start; /* the first step sends what the rank has */
            moved[r][s] = given[r][s] + step;
            pace = moved[r][s] > pace ? moved[r][s] : pace;
        }
        start = pace;
    }
    for (int r = 0; r < j->ranks; r++)
        task[r] =
            job_add_task(j, (job_task){.rank = r, .peer = -1}, j->now[r] - 3 * MS, began[r], start + 10000);
    for (int r = 0; r < j->ranks; r++) {
        int next = (r + 1) % j->ranks, previous = (r + j->ranks - 1) % j->ranks;
        for (int c = 0; c < j->channels; c++) {
            job_add_op(j, (job_op){.task = task[r], .channel = c, .peer = next, .sends = 1},
                       j->now[r] - 3 * MS, given[r], moved[r]);
            job_add_op(j, (job_op){.task = task[r], .channel = c, .peer = previous}, j->now[r] - 3 * MS,
                       given[previous], moved[previous]);
        }
    }
    for (int r = 0; r < j->ranks; r++)
        j->now[r] = start + 10000;
}

/* A message, which both enqueue well ahead and which moves when both kernels have started. */
static inline void job_send(nccl_job *j, int from, int to) {
    int64_t started = j->now[from] > j->now[to] ? j->now[from] : j->now[to], given[JOB_STEPS],
            moved[JOB_STEPS], at = started + 20000;
    for (int s = 0; s < JOB_STEPS; s++) {
        given[s] = at;
        at += job_jitter(j, (double)j->message / JOB_STEPS * j->link[from][to]);
        moved[s] = at;
    }
    int out = job_add_task(j, (job_task){.rank = from, .sends = 1, .peer = to}, j->now[from] - 3 * MS,
                           j->now[from], at + 5000);
    int in =
        job_add_task(j, (job_task){.rank = to, .peer = from}, j->now[to] - 3 * MS, j->now[to], at + 8000);
    for (int c = 0; c < j->channels; c++) {
        job_add_op(j, (job_op){.task = out, .channel = c, .peer = to, .sends = 1}, j->now[from] - 3 * MS,
                   given, moved);
        job_add_op(j, (job_op){.task = in, .channel = c, .peer = from}, j->now[to] - 3 * MS, given, moved);
    }
    j->now[from] = at + 5000 + 3000;
    j->now[to] = at + 8000 + 3000;
}

/* Four microbatches through all stages, forward and back. */
static inline void job_pipeline(nccl_job *j) {
    for (int back = 0; back < 2; back++)
        for (int m = 0; m < 4; m++)
            for (int s = 0; s < j->ranks; s++) {
                int r = back ? j->ranks - 1 - s : s, next = back ? r - 1 : r + 1;
                j->now[r] += job_jitter(j, (double)j->computing / 4 * j->slow[r]) + j->late[r] / 8;
                if (s + 1 < j->ranks)
                    job_send(j, r, next);
            }
}

/* ---- playing ---- */

static inline int order_job_events(const void *a, const void *b) {
    const job_event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static inline void job_play_one(nccl_job *j, const job_event *e) {
    const played_nccl *n = &j->n;
    void *context = j->context[e->rank];
    job_task *task = &j->task[e->task];
    job_op *op = &j->op[e->op];
    switch (e->what) {
    case JOB_TASK:
        task->handle = task->peer < 0 ? played_collective(n, context, e->rank, 1000000, j->channels)
                                      : played_message(n, context, e->rank, task->sends, task->peer, 1000000);
        break;
    case JOB_STOP_TASK:
        played_stop(n, task->handle);
        break;
    case JOB_OP:
        op->handle = played_op(n, context, task->handle, e->rank, getpid(), op->channel, op->peer, JOB_STEPS,
                               op->sends);
        break;
    case JOB_STOP_OP:
        played_stop(n, op->handle);
        break;
    case JOB_STEP:
        op->step[e->step] = played_step(n, context, op->handle, e->rank, e->step);
        break;
    case JOB_REACH:
        played_reach(n, op->step[e->step], e->state, 500);
        break;
    case JOB_STOP_STEP:
        played_stop(n, op->step[e->step]);
        break;
    case JOB_KERNEL: /* the GPUs' clocks have nothing to do with the host's */
        task->kernel[e->step] =
            played_kernel(n, context, task->handle, e->step, (uint64_t)(e->at + 900000 * MS * (e->rank + 1)));
        break;
    case JOB_STOP_KERNEL:
        played_reach(n, task->kernel[e->step], SL_NCCL_KERNEL_STOP,
                     (uint64_t)(e->at + 900000 * MS * (e->rank + 1)));
        played_stop(n, task->kernel[e->step]);
    }
}

/* Plays all events in the order of their times. */
static inline void job_play(nccl_job *j) {
    job_calls = 0;
    job_lost = 0;
    job_now = 1000 * MS;
    for (int r = 0; r < j->ranks; r++)
        j->context[r] = played_open(&j->n, j->ranks, r);
    qsort(j->event, (size_t)j->events, sizeof *j->event, order_job_events);
    for (int i = 0; i < j->events; i++) {
        job_now = j->event[i].at;
        job_play_one(j, &j->event[i]);
    }
    for (int r = 0; r < j->ranks; r++)
        played_close(&j->n, j->context[r]);
    assert_true(job_calls < JOB_CALLS);
}

static inline void job_end(nccl_job *j) {
    free(j->event);
    free(j->task);
    free(j->op);
}

/* The profile of `iterations` of what `iterate` does, as the controller makes it from the rings. */
static inline sl_call_profile *job_profile(nccl_job *j, void (*iterate)(nccl_job *), int iterations) {
    sl_call_profile *profile;
    for (int r = 0; r < j->ranks; r++)
        j->now[r] = 5000 * MS;
    for (int i = 0; i < iterations; i++)
        iterate(j);
    job_play(j);
    assert_ok(sl_call_profile_make(job_call, job_calls, j->ranks, 0, &profile));
    return profile;
}

#endif
