/* Sequences of events as NCCL makes them, through the tables of every version: what the plug-in writes leads
 * the analysis of `watch` to the slow link or rank. Then everything that NCCL may do and should not. */
#include "nccl_job.h"

#include <pthread.h>

enum { MAX = 8, ITERATIONS = 12 };

typedef struct answer {
    sl_suspect suspect[MAX];
    size_t count;
    char reason[256];
} answer;

typedef struct change {
    int late, slow, from, to; /* -1: none */
} change;

static answer ask(int version, int ranks, void (*iterate)(nccl_job *), change what, uint64_t seed) {
    nccl_job before, now;
    answer a = {0};
    job_begin(&before, version, ranks, seed);
    sl_call_profile *healthy = job_profile(&before, iterate, ITERATIONS);
    job_end(&before);
    job_begin(&now, version, ranks, seed + 1000);
    if (what.late >= 0)
        now.late[what.late] = 6 * MS;
    if (what.slow >= 0)
        now.slow[what.slow] = 1.8;
    if (what.from >= 0)
        now.link[what.from][what.to] = 4;
    sl_call_profile *slow = job_profile(&now, iterate, ITERATIONS);
    job_end(&now);
    assert_ok(
        sl_call_profile_compare(slow, healthy, 20000, a.suspect, MAX, &a.count, a.reason, sizeof a.reason));
    sl_call_profile_close(slow);
    sl_call_profile_close(healthy);
    return a;
}

static void expect_rank(const answer *a, int version, int rank) {
    if (a->count != 1 || a->suspect[0].component != SL_COMPONENT_DEVICE || a->suspect[0].rank != rank)
        fail_msg("version %d: %zu suspects, not the device of rank %d: %s", version, a->count, rank,
                 a->reason);
}

static void expect_link(const answer *a, int version, int from, int to) {
    if (a->count != 1 || a->suspect[0].component != SL_COMPONENT_LINK || a->suspect[0].from != from ||
        a->suspect[0].to != to || a->suspect[0].both)
        fail_msg("version %d: %zu suspects, not link %d to %d: %s", version, a->count, from, to, a->reason);
}

static void a_slow_link_of_a_ring_is_named(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++)
        for (int ranks = 3; ranks <= 8; ranks += 5)
            for (int from = 0; from < ranks; from += 2) {
                answer a = ask(version, ranks, job_reduce, (change){-1, -1, from, (from + 1) % ranks}, 7);
                expect_link(&a, version, from, (from + 1) % ranks);
            }
}

enum { WITH_KERNELS = 3 }; /* the first version that shows when a rank's GPU came */

static void a_late_rank_is_named_and_no_link_to_it(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++)
        for (int late = 0; late < 4; late++) {
            answer a = ask(version, 4, job_reduce, (change){late, -1, -1, 0}, 8);
            expect_rank(&a, version, late);
        }
}

static void a_rank_with_a_slow_gpu_is_named(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++) {
        answer a = ask(version, 4, job_reduce, (change){-1, 2, -1, 0}, 9);
        expect_rank(&a, version, 2);
    }
}

static void without_kernels_a_late_rank_is_not_named_and_neither_is_anything_else(void **state) {
    (void)state;
    for (int version = 1; version < WITH_KERNELS; version++)
        for (int late = 0; late < 4; late++) {
            answer a = ask(version, 4, late % 2 ? job_reduce : job_pipeline, (change){late, -1, -1, 0}, 12);
            if (a.count != 0 && a.suspect[0].component != SL_COMPONENT_UNKNOWN)
                fail_msg("version %d: %s", version, a.reason);
        }
}

static void nothing_is_named_when_nothing_is_slow(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            answer a = ask(version, 4, seed % 2 ? job_reduce : job_pipeline, (change){-1, -1, -1, 0}, seed);
            if (a.count != 0)
                fail_msg("version %d, seed %d: %s", version, (int)seed, a.reason);
        }
}

static void a_slow_link_of_a_pipeline_is_named(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++) {
        answer a = ask(version, 4, job_pipeline, (change){-1, -1, 1, 2}, 10);
        expect_link(&a, version, 1, 2);
        a = ask(version, 4, job_pipeline, (change){-1, -1, 3, 2}, 10);
        expect_link(&a, version, 3, 2);
    }
}

static void a_slow_stage_of_a_pipeline_is_named(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++) {
        answer a = ask(version, 4, job_pipeline, (change){-1, 1, -1, 0}, 11);
        expect_rank(&a, version, 1);
    }
}

/* ---- what NCCL may do ---- */

/* A plug-in of this version for one rank of four, asked for everything. */
static played_nccl begin(int version, void **context) {
    nccl_job j;
    job_begin(&j, version, 4, 1);
    job_end(&j);
    job_calls = 0;
    job_lost = 0;
    job_now = 1000 * MS;
    job_timing = SL_TIMING_DEVICE;
    *context = played_open(&j.n, 4, 2);
    assert_non_null(*context);
    return j.n;
}

static size_t count_of(int kind, int call) {
    size_t count = 0;
    for (size_t i = 0; i < job_calls; i++)
        count += job_call[i].kind == kind && job_call[i].call == call;
    return count;
}

static const sl_call *only(int kind, int call) {
    const sl_call *found = NULL;
    assert_int_equal(count_of(kind, call), 1);
    for (size_t i = 0; i < job_calls; i++)
        found = job_call[i].kind == kind && job_call[i].call == call ? &job_call[i] : found;
    return found;
}

static void a_step_is_split_into_what_it_waited_for(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++) {
        void *context;
        played_nccl n = begin(version, &context);
        void *coll = played_collective(&n, context, 2, 1000, 1);
        void *op = played_op(&n, context, coll, 2, getpid(), 5, 3, 2, 1);
        void *step[2] = {played_step(&n, context, op, 2, 0), played_step(&n, context, op, 2, 1)};
        played_reach(&n, step[0], SL_NCCL_SEND_GPU_WAIT, 0);
        job_now += 10 * MS;
        played_reach(&n, step[1], SL_NCCL_SEND_GPU_WAIT, 0);
        played_reach(&n, step[0], SL_NCCL_SEND_PEER_WAIT, 0);
        job_now += 20 * MS;
        played_reach(&n, step[0], SL_NCCL_SEND_PEER_WAIT, 0); /* NCCL repeats this one while it polls */
        job_now += 5 * MS;
        played_reach(&n, step[0], SL_NCCL_SEND_WAIT, 700);
        job_now += 40 * MS;
        played_reach(&n, step[1], SL_NCCL_SEND_WAIT, 300); /* both are on the network: it counts once */
        job_now += 2 * MS;
        played_stop(&n, step[0]);
        played_stop(&n, step[1]);
        job_now += 1 * MS;
        played_stop(&n, op);
        const sl_call *sent = only(SL_RECORD_COMPLETION, SL_CALL_ncclProxySend);
        assert_int_equal(sent->device, 42 * MS);
        assert_int_equal(sent->end - sent->start, 78 * MS);
        assert_int_equal(sent->rank, 2);
        assert_int_equal(sent->peer, 3);
        assert_int_equal(sent->tag, 5);
        assert_int_equal(sent->communicator, 77);
        assert_int_equal(sent->bytes, version < 4 ? 2 * 4096 : 1000);
        assert_int_equal(only(SL_RECORD_COMPLETION, SL_CALL_ncclProxyGpuWait)->device, 75 * MS);
        assert_int_equal(count_of(SL_RECORD_COMPLETION, SL_CALL_ncclProxyPeerWait), version >= 4);
        if (version >= 4)
            assert_int_equal(only(SL_RECORD_COMPLETION, SL_CALL_ncclProxyPeerWait)->device, 25 * MS);
        played_stop(&n, coll);
        played_close(&n, context);
    }
}

static void a_collective_ends_with_its_last_part_in_any_order(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++)
        for (int order = 0; order < 6; order++) {
            void *context, *part[3];
            static const int first[] = {0, 0, 1, 1, 2, 2}, second[] = {1, 2, 0, 2, 0, 1};
            played_nccl n = begin(version, &context);
            void *coll = played_collective(&n, context, 2, 1000, 2);
            part[0] = coll; /* the host's: enqueued */
            part[1] = played_kernel(&n, context, coll, 0, 1000);
            job_now += 3 * MS;
            part[2] = played_kernel(&n, context, coll, 1, 2000);
            int third = 3 - first[order] - second[order];
            for (int i = 0; i < 3; i++) {
                int which = i == 0 ? first[order] : i == 1 ? second[order] : third;
                job_now += 5 * MS;
                assert_int_equal(count_of(SL_RECORD_COMPLETION, SL_CALL_ncclAllReduce), 0);
                if (which > 0)
                    played_reach(&n, part[which], SL_NCCL_KERNEL_STOP, 5001000 + 1000 * (uint64_t)which);
                played_stop(&n, part[which]);
            }
            const sl_call *done = only(SL_RECORD_COMPLETION, SL_CALL_ncclAllReduce);
            if (version > 3) /* from 1000 to 5003000 of the GPU's clock */
                assert_int_equal(done->device, 5002000);
            assert_int_equal(done->start, only(SL_RECORD_CALL, SL_CALL_ncclAllReduce)->start);
            assert_int_equal(done->end, job_now - (third == 0 ? 5 * MS : 0));
            assert_int_equal(job_lost, 0);
            played_close(&n, context);
        }
}

static void events_that_nccl_masks_are_not_missed(void **state) {
    (void)state;
    void *context;
    played_nccl n = begin(6, &context);
    job_timing = SL_TIMING_ON; /* the profile is over: the next call's events are fewer */
    void *coll = played_collective(&n, context, 2, 10, 2);
    assert_int_equal(played_mask, SL_NCCL_COLLECTIVE | SL_NCCL_MESSAGE | SL_NCCL_COPY_COLLECTIVE);
    assert_null(played_op(&n, context, coll, 2, getpid(), 0, 3, 1, 1));
    played_stop(&n, coll);
    assert_int_equal(job_calls, 1);
    job_timing = SL_TIMING_OFF;
    coll = played_collective(&n, context, 2, 10, 2);
    played_stop(&n, coll);
    assert_int_equal(job_calls, 2); /* a record, without a time */
    assert_int_equal(job_call[1].start, 0);
    played_close(&n, context);
}

static void an_event_of_another_process_is_not_followed(void **state) {
    (void)state;
    void *context;
    played_nccl n = begin(6, &context);
    void *foreign = (void *)(uintptr_t)0x7f1200345678; /* an address there */
    assert_null(played_op(&n, context, foreign, 2, getpid() + 1, 0, 3, 4, 1));
    void *op = played_op(&n, context, foreign, 2, getpid(), 0, 3, 4, 1); /* a parent that is none of ours */
    assert_non_null(op);
    played_stop(&n, op);
    only(SL_RECORD_COMPLETION, SL_CALL_ncclProxySend);
    assert_null(played_step(&n, context, foreign, 2, 0));
    assert_null(played_kernel(&n, context, foreign, 0, 5));
    assert_null(played_collective(&n, foreign, 2, 10, 2)); /* nor a context */
    played_close(&n, foreign);
    played_close(&n, context);
}

static void a_communicator_takes_its_open_events_along(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++) {
        void *context, *other;
        played_nccl n = begin(version, &context);
        other = played_open(&n, 4, 1);
        void *coll = played_collective(&n, context, 2, 10, 2), *kept = played_collective(&n, other, 1, 10, 2);
        void *op = played_op(&n, context, coll, 2, getpid(), 0, 3, 4, 1),
             *step = played_step(&n, context, op, 2, 0);
        void *kernel = played_kernel(&n, context, coll, 0, 5);
        played_reach(&n, step, SL_NCCL_SEND_WAIT, 5);
        job_now += 7 * MS;
        played_close(&n, context);
        assert_int_equal(only(SL_RECORD_COMPLETION, SL_CALL_ncclProxySend)->device, 7 * MS); /* so far */
        size_t before = job_calls;
        played_reach(&n, step, SL_NCCL_RECV_WAIT, 0); /* threads that come late */
        played_stop(&n, step);
        played_stop(&n, op);
        played_reach(&n, kernel, SL_NCCL_KERNEL_STOP, 6);
        played_stop(&n, kernel);
        played_stop(&n, coll);
        assert_null(played_op(&n, context, coll, 2, getpid(), 0, 3, 4, 1));
        assert_int_equal(job_calls, before);
        played_stop(&n, kept);
        only(SL_RECORD_CALL, SL_CALL_ncclAllReduce);
        played_close(&n, other);
        played_close(&n, other); /* twice */
    }
}

static void sixty_four_communicators_are_told_apart(void **state) {
    (void)state;
    void *context, *coll[64];
    played_nccl n = begin(6, &context);
    void *of[64];
    for (int i = 0; i < 64; i++) {
        n.hash = 1000 + (uint64_t)i;
        of[i] = played_open(&n, 8, i % 8);
        assert_non_null(of[i]);
    }
    for (int i = 0; i < 64; i++)
        coll[i] = played_collective(&n, of[i], i % 8, 10, 1);
    for (int i = 63; i >= 0; i--)
        played_stop(&n, coll[i]);
    assert_int_equal(job_calls, 64);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(job_call[i].communicator, 1000 + 63 - i);
        assert_int_equal(job_call[i].rank, (63 - i) % 8);
    }
    for (int i = 0; i < 64; i++)
        played_close(&n, of[i]);
    played_close(&n, context);
}

/* Group calls: sends and receives are enqueued together, below a group whose event is NULL. */
static void a_group_of_messages_is_one_record_each(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++) {
        void *context, *message[6];
        played_nccl n = begin(version, &context);
        for (int i = 0; i < 6; i++)
            message[i] = played_message(&n, context, 2, i % 2, i / 2, 100);
        for (int i = 0; i < 6; i++)
            played_stop(&n, message[i]);
        assert_int_equal(job_calls, 6);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(job_call[i].call, i % 2 ? SL_CALL_ncclSend : SL_CALL_ncclRecv);
            assert_int_equal(job_call[i].peer, i / 2);
            assert_int_equal(job_call[i].bytes, 400);
        }
        played_close(&n, context);
    }
}

/* ---- what nobody should do ---- */

static void bad_arguments_do_nothing(void **state) {
    (void)state;
    void *context, *handle = &context;
    played_nccl n = begin(6, &context);
    sl_nccl_table_v6 *t = n.table;
    int mask = 0;
    assert_int_equal(t->init(NULL, 1, &mask, NULL, 1, 1, 0, NULL), SL_NCCL_SUCCESS);
    assert_int_equal(t->init(&handle, 1, NULL, NULL, 1, 1, 0, NULL), SL_NCCL_SUCCESS);
    sl_nccl_descriptor_v6 d = {.type = SL_NCCL_COLLECTIVE};
    assert_int_equal(t->start(context, NULL, &d), SL_NCCL_SUCCESS);
    assert_int_equal(t->start(context, &handle, NULL), SL_NCCL_SUCCESS);
    assert_null(handle);
    assert_int_equal(t->start(NULL, &handle, &d), SL_NCCL_SUCCESS);
    assert_int_equal(t->start(context, &handle, &d), SL_NCCL_SUCCESS); /* names are NULL */
    assert_null(handle);
    d.collective.function = "Levitate";
    t->start(context, &handle, &d);
    assert_null(handle);
    d.collective.function = "AllReduce";
    d.collective.data_type = "ncclQuaternion";
    d.collective.count = SIZE_MAX;
    d.collective.root = INT32_MIN;
    t->start(context, &handle, &d);
    assert_non_null(handle);
    t->stop(handle);
    assert_int_equal(only(SL_RECORD_CALL, SL_CALL_ncclAllReduce)->bytes, 0);
    for (int bit = 0; bit < 64; bit++) { /* types of later versions, none, and several at once */
        d = (sl_nccl_descriptor_v6){.type = UINT64_C(1) << bit, .parent = (void *)(uintptr_t)bit};
        t->start(context, &handle, &d);
        if (handle)
            t->stop(handle);
    }
    d = (sl_nccl_descriptor_v6){.type = ~UINT64_C(0)};
    t->start(context, &handle, &d);
    assert_null(handle);
    for (int i = -3; i < 100; i++) {
        t->record(NULL, (sl_nccl_state)i, NULL);
        t->record(context, (sl_nccl_state)i, NULL);
    }
    t->stop(NULL);
    t->stop(context);
    t->stop((void *)(uintptr_t)-1);
    t->finalize(NULL);
    d = (sl_nccl_descriptor_v6){.type = SL_NCCL_PROXY_OP, .proxy_op = {getpid(), 255, -7, -1, INT32_MIN, 9}};
    t->start(context, &handle, &d);
    t->record(handle, SL_NCCL_SEND_WAIT, NULL); /* an op has no waits of its own */
    d = (sl_nccl_descriptor_v6){.type = SL_NCCL_PROXY_STEP, .parent = handle, .proxy_step = {-2147483647}};
    void *step;
    t->start(context, &step, &d);
    assert_non_null(step);
    sl_nccl_arguments_v6 a = {.proxy_step = {SIZE_MAX}};
    t->record(step, SL_NCCL_SEND_WAIT, &a);
    t->stop(handle); /* before its step */
    t->stop(step);
    t->stop(handle); /* twice */
    assert_int_equal(only(SL_RECORD_COMPLETION, SL_CALL_ncclProxySend)->bytes, 0);
    played_close(&n, context);
}

static void a_host_event_that_is_stopped_twice_counts_once(void **state) {
    (void)state;
    void *context;
    played_nccl n = begin(6, &context);
    void *coll = played_collective(&n, context, 2, 10, 1), *kernel = played_kernel(&n, context, coll, 0, 100);
    played_stop(&n, coll);
    played_stop(&n, coll);
    assert_int_equal(count_of(SL_RECORD_COMPLETION, SL_CALL_ncclAllReduce), 0);
    played_reach(&n, kernel, SL_NCCL_KERNEL_STOP, 900);
    played_stop(&n, kernel);
    assert_int_equal(only(SL_RECORD_COMPLETION, SL_CALL_ncclAllReduce)->device, 800);
    only(SL_RECORD_CALL, SL_CALL_ncclAllReduce);
    played_close(&n, context);
}

/* A kernel whose GPU clock runs backward, or is 0, is timed by the host. */
static void wrong_times_of_the_gpu_are_replaced(void **state) {
    (void)state;
    static const uint64_t times[][2] = {{500, 400}, {0, 0}, {1, UINT64_MAX}, {0, 700}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        void *context;
        played_nccl n = begin(6, &context);
        void *coll = played_collective(&n, context, 2, 10, 1),
             *kernel = played_kernel(&n, context, coll, 0, times[i][0]);
        job_now += 9 * MS;
        played_stop(&n, coll);
        played_reach(&n, kernel, SL_NCCL_KERNEL_STOP, times[i][1]);
        played_stop(&n, kernel);
        assert_int_equal(only(SL_RECORD_COMPLETION, SL_CALL_ncclAllReduce)->device, 9 * MS);
        played_close(&n, context);
    }
}

static void more_events_than_slots_are_counted(void **state) {
    (void)state;
    enum { MANY = 20000 };
    void *context, **op = calloc(MANY, sizeof *op), **coll = calloc(MANY, sizeof *coll);
    played_nccl n = begin(6, &context);
    for (int i = 0; i < MANY; i++) {
        coll[i] = played_collective(&n, context, 2, 10, 1);
        op[i] = played_op(&n, context, coll[i], 2, getpid(), 0, 3, 1, 1);
        assert_non_null(coll[i]);
        assert_non_null(op[i]);
    }
    assert_in_range(job_lost, 2 * (MANY - 8192 - 100), 2 * MANY);
    uint32_t lost = job_lost;
    for (int i = 0; i < MANY; i++) { /* the newest are still there, the oldest do nothing */
        played_stop(&n, op[i]);
        played_stop(&n, coll[i]);
    }
    assert_int_equal(job_lost, lost);
    assert_int_equal(count_of(SL_RECORD_COMPLETION, SL_CALL_ncclProxySend),
                     MANY); /* the evicted as far as they came */
    assert_in_range(count_of(SL_RECORD_CALL, SL_CALL_ncclAllReduce), 8000, 8192);
    played_close(&n, context);
    for (int i = 0; i < 2000; i++) /* more communicators than slots */
        op[i] = played_open(&n, 2, 0);
    assert_in_range(job_lost - lost, 2000 - 1024 - 16, 2000 - 1024 + 16);
    for (int i = 0; i < 2000; i++)
        played_close(&n, op[i]);
    free(op);
    free(coll);
}

static void without_a_probe_nothing_is_asked_for(void **state) {
    (void)state;
    int mask = 99;
    void *context = &mask;
    job_plugged = 0;
    ncclProfiler_v5.init(&context, 5, &mask, NULL, 1, 2, 0, NULL);
    job_plugged = 1;
    assert_int_equal(mask, 0);
    assert_null(context);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 3000, WINDOW = 64 };

typedef struct shared_job {
    played_nccl n;
    void *context;
    void *_Atomic task[WINDOW];
    _Atomic int done;
} shared_job;

/* Starts and stops collectives, as the program's thread. */
static void *host_thread(void *of) {
    shared_job *s = of;
    for (int i = 0; i < ROUNDS; i++) {
        void *coll = played_collective(&s->n, s->context, 2, 10, 2);
        atomic_store(&s->task[i % WINDOW], coll);
        played_stop(&s->n, coll);
    }
    atomic_fetch_add(&s->done, 1);
    return NULL;
}

/* Follows them, also ones that have ended, as proxy threads. */
static void *proxy_thread(void *of) {
    shared_job *s = of;
    for (int i = 0; atomic_load(&s->done) < THREADS / 2; i++) {
        void *coll = atomic_load(&s->task[i % WINDOW]);
        void *kernel = played_kernel(&s->n, s->context, coll, i % 2, 100 + (uint64_t)i);
        void *op = played_op(&s->n, s->context, coll, 2, getpid(), i % 2, 3, 1, i % 2);
        void *step = played_step(&s->n, s->context, op, 2, i);
        played_reach(&s->n, step, i % 2 ? SL_NCCL_SEND_WAIT : SL_NCCL_RECV_WAIT, 10);
        played_stop(&s->n, step);
        played_stop(&s->n, op);
        played_reach(&s->n, kernel, SL_NCCL_KERNEL_STOP, 200 + (uint64_t)i);
        played_stop(&s->n, kernel);
        if (i % 1000 == 0) { /* communicators come and go meanwhile */
            void *other = played_open(&s->n, 2, 0);
            played_stop(&s->n, played_collective(&s->n, other, 0, 1, 1));
            played_close(&s->n, other);
        }
    }
    return NULL;
}

static void threads_need_no_order(void **state) {
    (void)state;
    shared_job s = {.done = 0};
    pthread_t thread[THREADS];
    s.n = begin(6, &s.context);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i % 2 ? proxy_thread : host_thread, &s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    played_close(&s.n, s.context);
    assert_true(job_calls >= ROUNDS * THREADS / 2);
    assert_int_equal(job_lost, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_of_a_ring_is_named),
        cmocka_unit_test(a_late_rank_is_named_and_no_link_to_it),
        cmocka_unit_test(a_rank_with_a_slow_gpu_is_named),
        cmocka_unit_test(without_kernels_a_late_rank_is_not_named_and_neither_is_anything_else),
        cmocka_unit_test(nothing_is_named_when_nothing_is_slow),
        cmocka_unit_test(a_slow_link_of_a_pipeline_is_named),
        cmocka_unit_test(a_slow_stage_of_a_pipeline_is_named),
        cmocka_unit_test(a_step_is_split_into_what_it_waited_for),
        cmocka_unit_test(a_collective_ends_with_its_last_part_in_any_order),
        cmocka_unit_test(events_that_nccl_masks_are_not_missed),
        cmocka_unit_test(an_event_of_another_process_is_not_followed),
        cmocka_unit_test(a_communicator_takes_its_open_events_along),
        cmocka_unit_test(sixty_four_communicators_are_told_apart),
        cmocka_unit_test(a_group_of_messages_is_one_record_each),
        cmocka_unit_test(bad_arguments_do_nothing),
        cmocka_unit_test(a_host_event_that_is_stopped_twice_counts_once),
        cmocka_unit_test(wrong_times_of_the_gpu_are_replaced),
        cmocka_unit_test(more_events_than_slots_are_counted),
        cmocka_unit_test(without_a_probe_nothing_is_asked_for),
        cmocka_unit_test(threads_need_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
