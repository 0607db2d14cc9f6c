/* A program of several ranks on a virtual clock, for tests: each rank computes, sends, receives and meets in
 * collectives; what comes out are the calls that a probe would have recorded. A message is on its way for its
 * link's time, a collective ends its group's time after its last member has come. A long message (rendezvous)
 * sets out when both its sender and its receiver wait inside the library. */
#ifndef SL_TESTS_CALL_PROGRAM_H
#define SL_TESTS_CALL_PROGRAM_H

#include "check.h"

#include "base/random.h"
#include "notice/record/call.h"

enum { PROGRAM_RANKS = 16, PROGRAM_STEPS = 64, PROGRAM_GROUPS = 16 };
#define US 1000ll

static inline uint64_t seed(void) {
    const char *text = getenv("SL_SEED");
    return text ? strtoull(text, NULL, 0) : 20260;
}

typedef enum step_kind {
    COMPUTE,
    SEND,
    RECEIVE,
    MEET,
    POST,
    WAIT,
    ISEND,
    IRECEIVE,
    WAITALL,
    EXCHANGE
} step_kind;

typedef struct step {
    step_kind kind;
    int64_t time; /* COMPUTE */
    int with;     /* peer; of MEET the group; WAIT: for what was posted last */
    int from;     /* EXCHANGE: whom it receives from */
    uint64_t bytes;
} step;

typedef struct program {
    int ranks;
    step step[PROGRAM_RANKS][PROGRAM_STEPS];
    int steps[PROGRAM_RANKS];
    int member[PROGRAM_GROUPS][PROGRAM_RANKS]; /* 1: takes part */
    int64_t group_time[PROGRAM_GROUPS];
    int64_t link[PROGRAM_RANKS][PROGRAM_RANKS]; /* of a message of `usual` bytes */
    double slowdown[PROGRAM_RANKS];
    double jitter;               /* of everything, relative */
    double uneven;               /* of computing, by iteration and rank, at random */
    double stall[PROGRAM_RANKS]; /* chance of a step of computing to be held up for 3 times itself */
    uint64_t random;
    int rendezvous;  /* messages of ISEND and EXCHANGE set out when both sides wait */
    int scale_bytes; /* iterations carry 1 to 3 times the bytes, and compute as much longer */
    double length;   /* of all iterations: bytes and computing are multiplied by it; 0: 1 */
    int skip_most;   /* calls lost at the beginning of a rank's window: 0 to that many */
} program;

static inline double program_random(program *p) {
    return sl_random_unit(sl_random_mix(p->random += SL_RANDOM_STEP));
}

static inline int64_t jittered(program *p, double time) {
    double off = (program_random(p) + program_random(p) + program_random(p) - 1.5) * 2 * p->jitter;
    return (int64_t)(time * (1 + off));
}

static inline void program_add(program *p, int rank, step s) {
    assert_true(p->steps[rank] < PROGRAM_STEPS);
    p->step[rank][p->steps[rank]++] = s;
}

static inline void program_compute(program *p, int rank, int64_t time) {
    program_add(p, rank, (step){.kind = COMPUTE, .time = time});
}

static inline void program_meet(program *p, int rank, int group, uint64_t bytes) {
    p->member[group][rank] = 1;
    program_add(p, rank, (step){.kind = MEET, .with = group, .bytes = bytes});
}

typedef struct program_run {
    sl_call *call;
    size_t calls;
} program_run;

enum { IN_FLIGHT = 512, REQUESTS = 16 };

typedef struct flight {
    int64_t arrive[IN_FLIGHT];
    int sent, taken;
    int64_t left[IN_FLIGHT], sender[IN_FLIGHT],
        receiver[IN_FLIGHT]; /* 0: not yet; sent, and when each began to wait */
} flight;

/* Something posted: message `number` of its channel. */
typedef struct request {
    step what;
    int send, number;
    int64_t posted;
} request;

typedef struct program_state {
    program *p;
    program_run run;
    flight *flight; /* [ranks * ranks] */
    int iteration[PROGRAM_RANKS], at[PROGRAM_RANKS], skip[PROGRAM_RANKS];
    int64_t now[PROGRAM_RANKS], posted[PROGRAM_RANKS];
    int here[PROGRAM_GROUPS][PROGRAM_RANKS]; /* has come to the group's meeting */
    int64_t since[PROGRAM_GROUPS][PROGRAM_RANKS];
    double length[1024]; /* by iteration */
    request request[PROGRAM_RANKS][REQUESTS];
    int requests[PROGRAM_RANKS], waits[PROGRAM_RANKS];
} program_state;

static inline void program_record(program_state *s, sl_call c) {
    if (s->skip[c.rank] > 0)
        s->skip[c.rank]--;
    else
        s->run.call[s->run.calls++] = c;
}

static inline void program_next(program_state *s, int r) {
    s->at[r] = (s->at[r] + 1) % s->p->steps[r];
    s->iteration[r] += s->at[r] == 0;
}

static inline void program_work(program_state *s, int r, const step *what) {
    program *p = s->p;
    double time = (double)what->time * s->length[s->iteration[r]] * p->slowdown[r];
    time *= 1 + p->uneven * program_random(p);
    time *= program_random(p) < p->stall[r] ? 4 : 1;
    s->now[r] += jittered(p, time);
}

static inline void program_send(program_state *s, int r, const step *what, sl_call c) {
    program *p = s->p;
    flight *f = &s->flight[r * p->ranks + what->with];
    double time = (double)p->link[r][what->with] * s->length[s->iteration[r]];
    assert_true(f->sent - f->taken < IN_FLIGHT);
    f->arrive[f->sent++ % IN_FLIGHT] = s->now[r] + jittered(p, time);
    s->now[r] += 5 * US;
    c.call = SL_CALL_MPI_Send;
    c.end = s->now[r];
    program_record(s, c);
}

/* Whether there was something to receive. */
static inline int program_receive(program_state *s, int r, const step *what, sl_call c) {
    flight *f = &s->flight[what->with * s->p->ranks + r];
    if (f->taken == f->sent)
        return 0;
    int64_t arrive = f->arrive[f->taken++ % IN_FLIGHT];
    s->now[r] = (arrive > s->now[r] ? arrive : s->now[r]) + 2 * US;
    c.end = s->now[r];
    c.bytes = 1 << 20; /* its room */
    if (what->kind == WAIT) {
        sl_call wait = c;
        wait.call = SL_CALL_MPI_Wait;
        wait.communicator = wait.bytes = 0;
        wait.peer = SL_PEER_NONE;
        wait.tag = 1;
        program_record(s, wait);
        c.kind = SL_RECORD_COMPLETION;
        c.start = s->posted[r];
    }
    c.call = what->kind == WAIT ? SL_CALL_MPI_Irecv : SL_CALL_MPI_Recv;
    program_record(s, c);
    return 1;
}

static inline flight *program_channel(program_state *s, int r, const request *q) {
    return q->send ? &s->flight[r * s->p->ranks + q->what.with] : &s->flight[q->what.with * s->p->ranks + r];
}

static inline void program_post(program_state *s, int r, const step *what, int send, int with) {
    request *q = &s->request[r][s->requests[r]++];
    assert_true(s->requests[r] <= REQUESTS);
    *q = (request){.what = *what, .send = send, .posted = s->now[r]};
    q->what.with = with;
    flight *f = program_channel(s, r, q);
    q->number = send ? f->sent++ : f->taken++;
    assert_true(q->number < IN_FLIGHT);
    if (send)
        f->left[q->number] = s->now[r];
}

/* When a request is complete; 0: that is not known yet. */
static inline int64_t program_complete(program_state *s, int r, const request *q) {
    program *p = s->p;
    flight *f = program_channel(s, r, q);
    int n = q->number, from = q->send ? r : q->what.with, to = q->send ? q->what.with : r;
    if (q->send && !p->rendezvous)
        return q->posted;
    if (!f->left[n] || (p->rendezvous && (!f->sender[n] || !f->receiver[n])))
        return 0;
    if (!f->arrive[n]) {
        int64_t out = f->left[n];
        if (p->rendezvous)
            out = f->sender[n] > f->receiver[n] ? f->sender[n] : f->receiver[n];
        f->arrive[n] = out + jittered(p, (double)p->link[from][to]);
    }
    return f->arrive[n];
}

/* Waits for everything that was posted: when it is over; 0: not yet. */
static inline int64_t program_await(program_state *s, int r) {
    int64_t end = s->now[r];
    int known = 1;
    for (int i = 0; i < s->requests[r]; i++) {
        const request *q = &s->request[r][i];
        flight *f = program_channel(s, r, q);
        int64_t *mine = q->send ? &f->sender[q->number] : &f->receiver[q->number];
        *mine = *mine ? *mine : s->now[r];
    }
    for (int i = 0; i < s->requests[r]; i++) {
        int64_t complete = program_complete(s, r, &s->request[r][i]);
        known &= complete > 0;
        end = complete > end ? complete : end;
    }
    return known ? end + 2 * US : 0;
}

static inline int program_waitall(program_state *s, int r, sl_call c) {
    int64_t end = program_await(s, r);
    if (!end)
        return 0;
    sl_call wait = c;
    wait.call = SL_CALL_MPI_Waitall;
    wait.communicator = wait.bytes = 0;
    wait.peer = SL_PEER_NONE;
    wait.tag = s->requests[r];
    wait.end = end;
    program_record(s, wait);
    for (int i = 0; i < s->requests[r]; i++) {
        const request *q = &s->request[r][i];
        c.kind = SL_RECORD_COMPLETION;
        c.call = q->send ? SL_CALL_MPI_Isend : SL_CALL_MPI_Irecv;
        c.peer = q->what.with;
        c.bytes = q->what.bytes;
        c.start = q->posted;
        c.end = end;
        program_record(s, c);
    }
    s->requests[r] = 0;
    s->now[r] = end;
    return 1;
}

static inline int program_exchange(program_state *s, int r, const step *what, sl_call c) {
    if (s->requests[r] == 0) {
        program_post(s, r, what, 1, what->with);
        program_post(s, r, what, 0, what->from);
    }
    c.end = program_await(s, r);
    if (!c.end)
        return 0;
    c.call = SL_CALL_MPI_Sendrecv;
    program_record(s, c);
    c.kind = SL_RECORD_COMPLETION;
    c.peer = what->from;
    program_record(s, c);
    s->requests[r] = 0;
    s->now[r] = c.end;
    return 1;
}

/* Whether all have come; then it is over for all. */
static inline int program_meeting(program_state *s, int r, const step *what, sl_call c) {
    program *p = s->p;
    int g = what->with;
    int64_t latest = 0;
    if (!s->here[g][r])
        s->since[g][r] = s->now[r];
    s->here[g][r] = 1;
    for (int m = 0; m < p->ranks; m++) {
        if (p->member[g][m] && !s->here[g][m])
            return 0;
        if (p->member[g][m] && s->since[g][m] > latest)
            latest = s->since[g][m];
    }
    int64_t end = latest + jittered(p, (double)p->group_time[g] * s->length[s->iteration[r]]);
    for (int m = 0; m < p->ranks; m++) {
        if (!p->member[g][m])
            continue;
        c.rank = m;
        c.call = SL_CALL_MPI_Allreduce;
        c.peer = SL_PEER_NONE;
        c.tag = SL_TAG_NONE;
        c.communicator = 1000 + (uint64_t)g;
        c.start = s->since[g][m];
        s->now[m] = c.end = end + (int64_t)(program_random(p) * 3.0 * (double)US);
        program_record(s, c);
        s->here[g][m] = 0;
        if (m != r)
            program_next(s, m);
    }
    return 1;
}

/* Whether it could be done. */
static inline int program_step(program_state *s, int r) {
    const step *what = &s->p->step[r][s->at[r]];
    sl_call c = {.kind = SL_RECORD_CALL,
                 .rank = r,
                 .peer = what->with,
                 .tag = 3,
                 .communicator = 77,
                 .bytes = (uint64_t)((double)what->bytes * s->length[s->iteration[r]]),
                 .device = -1,
                 .start = s->now[r]};
    if (what->kind == COMPUTE) {
        program_work(s, r, what);
    } else if (what->kind == SEND) {
        program_send(s, r, what, c);
    } else if (what->kind == POST) {
        s->posted[r] = s->now[r];
        c.call = SL_CALL_MPI_Irecv;
        c.bytes = 1 << 20;
        c.end = s->now[r] += US;
        program_record(s, c);
    } else if (what->kind == ISEND || what->kind == IRECEIVE) {
        program_post(s, r, what, what->kind == ISEND, what->with);
        c.call = what->kind == ISEND ? SL_CALL_MPI_Isend : SL_CALL_MPI_Irecv;
        c.end = s->now[r] += US;
        program_record(s, c);
    } else if (what->kind == WAITALL || what->kind == EXCHANGE) {
        if (!(what->kind == WAITALL ? program_waitall(s, r, c) : program_exchange(s, r, what, c)))
            return 0;
    } else if (!(what->kind == MEET ? program_meeting(s, r, what, c) : program_receive(s, r, what, c))) {
        return 0;
    }
    program_next(s, r);
    return 1;
}

/* The calls of `iterations`, of all ranks in any order; free call. */
static inline program_run program_go(program *p, int iterations, int64_t start) {
    program_state *s = calloc(1, sizeof *s);
    s->p = p;
    s->run.call = calloc((size_t)(p->ranks * iterations * PROGRAM_STEPS * 2), sizeof *s->run.call);
    s->flight = calloc((size_t)(p->ranks * p->ranks), sizeof *s->flight);
    for (int i = 0; i < iterations; i++)
        s->length[i] =
            (p->scale_bytes ? 1 + (int)(3 * program_random(p)) : 1) * (p->length > 0 ? p->length : 1);
    for (int r = 0; r < p->ranks; r++) {
        s->now[r] = start + (int64_t)(program_random(p) * 50.0 * (double)US);
        s->skip[r] = (int)(program_random(p) * (p->skip_most + 1));
    }
    for (int moved = 1; moved;) {
        moved = 0;
        for (int r = 0; r < p->ranks; r++)
            while (s->iteration[r] < iterations && program_step(s, r))
                moved = 1;
    }
    for (int r = 0; r < p->ranks; r++)
        assert_int_equal(s->iteration[r], iterations);
    program_run run = s->run;
    for (size_t i = run.calls; i > 1; i--) {
        size_t j = (size_t)(program_random(p) * (double)i);
        sl_call swap = run.call[i - 1];
        run.call[i - 1] = run.call[j];
        run.call[j] = swap;
    }
    free(s->flight);
    free(s);
    return run;
}

/* ---- programs ---- */

static inline void program_begin(program *p, int ranks, uint64_t seed) {
    *p = (program){.ranks = ranks, .random = seed, .jitter = 0.02};
    for (int a = 0; a < ranks; a++) {
        p->slowdown[a] = 1;
        for (int b = 0; b < ranks; b++)
            p->link[a][b] = 400 * US;
    }
    for (int g = 0; g < PROGRAM_GROUPS; g++)
        p->group_time[g] = 1500 * US;
}

/* Data parallel: everybody computes, then all meet, three times an iteration. */
static inline void program_data(program *p, int ranks, uint64_t seed) {
    program_begin(p, ranks, seed);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < 3; i++) {
            program_compute(p, r, 4000 * US);
            program_meet(p, r, 0, 1000000);
        }
}

/* `replicas` pipelines of `stages`, GPipe with 4 microbatches, rank = replica * stages + stage; then each
 * stage meets its like in the other replicas, and all meet. Receives are posted before `waiting` when
 * asked for. */
static inline void program_pipelines(program *p, int stages, int replicas, int waiting, uint64_t seed) {
    program_begin(p, stages * replicas, seed);
    for (int d = 0; d < replicas; d++)
        for (int s = 0; s < stages; s++) {
            int r = d * stages + s;
            for (int back = 0; back < 2; back++)
                for (int m = 0; m < 4; m++) {
                    int from = back ? s + 1 : s - 1, to = back ? s - 1 : s + 1;
                    step receive = {.kind = waiting ? WAIT : RECEIVE, .with = d * stages + from};
                    step post = {.kind = POST, .with = d * stages + from};
                    step send = {.kind = SEND, .with = d * stages + to, .bytes = 250000};
                    if (from >= 0 && from < stages) {
                        if (waiting)
                            program_add(p, r, post);
                        program_add(p, r, receive);
                    }
                    program_compute(p, r, (back ? 4000 : 2000) * US);
                    if (to >= 0 && to < stages)
                        program_add(p, r, send);
                }
            if (replicas > 1)
                program_meet(p, r, s, 1000000);
            program_meet(p, r, stages, 8);
        }
    p->group_time[stages] = 50 * US;
}

/* Four microbatches down a pipeline: what a rank sent is waited for together with what it receives next. The
 * last rank reports to the first. */
static inline void program_stream(program *p, int ranks, uint64_t seed) {
    program_begin(p, ranks, seed);
    p->rendezvous = 1;
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < 4; i++) {
            if (r > 0) {
                program_add(p, r, (step){.kind = IRECEIVE, .with = r - 1, .bytes = 65536});
                program_add(p, r, (step){.kind = WAITALL});
            }
            program_compute(p, r, 3000 * US);
            if (r + 1 < ranks)
                program_add(p, r, (step){.kind = ISEND, .with = r + 1, .bytes = 65536});
        }
        if (r + 1 < ranks)
            program_add(p, r, (step){.kind = WAITALL});
        else
            program_add(p, r, (step){.kind = SEND, .with = 0, .bytes = 8});
        if (r == 0)
            program_add(p, r, (step){.kind = RECEIVE, .with = ranks - 1});
    }
}

/* A ring whose ranks post to and from both neighbors, compute, and wait for all; every second iteration all
 * meet. What is posted after `late` computing is not hidden behind it. */
static inline void program_ring(program *p, int ranks, int rendezvous, int late, uint64_t seed) {
    program_begin(p, ranks, seed);
    p->rendezvous = rendezvous;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < 2; i++) {
            int left = (r + ranks - 1) % ranks, right = (r + 1) % ranks;
            if (late)
                program_compute(p, r, 8000 * US);
            program_add(p, r, (step){.kind = IRECEIVE, .with = left, .bytes = 65536});
            program_add(p, r, (step){.kind = IRECEIVE, .with = right, .bytes = 65536});
            program_add(p, r, (step){.kind = ISEND, .with = right, .bytes = 65536});
            program_add(p, r, (step){.kind = ISEND, .with = left, .bytes = 65536});
            if (!late)
                program_compute(p, r, 8000 * US);
            program_add(p, r, (step){.kind = WAITALL});
            if (i == 1)
                program_meet(p, r, 0, 8);
        }
    p->group_time[0] = 50 * US;
}

/* A ring that shifts to the right and then to the left by MPI_Sendrecv, computing before each. */
static inline void program_shifts(program *p, int ranks, int rendezvous, uint64_t seed) {
    program_begin(p, ranks, seed);
    p->rendezvous = rendezvous;
    for (int r = 0; r < ranks; r++) {
        int left = (r + ranks - 1) % ranks, right = (r + 1) % ranks;
        program_compute(p, r, 5000 * US);
        program_add(p, r, (step){.kind = EXCHANGE, .with = right, .from = left, .bytes = 65536});
        program_compute(p, r, 3000 * US);
        program_add(p, r, (step){.kind = EXCHANGE, .with = left, .from = right, .bytes = 65536});
    }
}

/* A ring that hands on to the next rank, then to the one after it, and so on, computing before each; nothing
 * comes back, so that a wave of lateness may go around. */
static inline void program_hops(program *p, int ranks, int hops, int ms, uint64_t seed) {
    program_begin(p, ranks, seed);
    p->rendezvous = 1;
    for (int r = 0; r < ranks; r++)
        for (int h = 1; h <= hops; h++) {
            program_compute(p, r, ms * 1000 * US / hops);
            program_add(p, r,
                        (step){.kind = EXCHANGE,
                               .with = (r + h) % ranks,
                               .from = (r + ranks - h) % ranks,
                               .bytes = 65536});
        }
}

/* A grid of 4 x `rows`, periodic: halos of two lengths to four neighbors, and a dot product of all. */
static inline void program_grid(program *p, int rows, int rendezvous, uint64_t seed) {
    program_begin(p, 4 * rows, seed);
    p->rendezvous = rendezvous;
    for (int r = 0; r < 4 * rows; r++) {
        int row = r / 4, column = r % 4;
        int to[4] = {row * 4 + (column + 1) % 4, row * 4 + (column + 3) % 4, (row + 1) % rows * 4 + column,
                     (row + rows - 1) % rows * 4 + column};
        for (int i = 0; i < 4; i++)
            program_add(p, r, (step){.kind = IRECEIVE, .with = to[i], .bytes = i < 2 ? 8192 : 32768});
        for (int i = 0; i < 4; i++)
            program_add(p, r, (step){.kind = ISEND, .with = to[i ^ 1], .bytes = i < 2 ? 8192 : 32768});
        program_compute(p, r, 2000 * US);
        program_add(p, r, (step){.kind = WAITALL});
        program_compute(p, r, 4000 * US);
        program_meet(p, r, 0, 8);
    }
    p->group_time[0] = 60 * US;
}

#endif
