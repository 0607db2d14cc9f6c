/* A job to be watched, without MPI: its ranks are processes of their own that make collective calls together,
 * write them into rings as the probe does (record/call.h) and pass the gate (probe/gate.h) before each. An
 * iteration is an allreduce and a barrier, with work before each; the work of a rank can be made longer. And
 * what watches it: a store on a real server, agents and controllers, stepped by the test. */
#ifndef SL_TESTS_WATCHED_JOB_H
#define SL_TESTS_WATCHED_JOB_H

#include "base/clock.h"
#include "base/event.h"
#include "base/file.h"
#include "base/random.h"
#include "check.h"
#include "launch/redis.h"
#include "notice/agent/agent.h"
#include "notice/control/controller.h"
#include "notice/gate/gate.h"
#include "notice/record/call.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB_RANKS 4
#define JOB_RECORDS 1024
#define JOB_EVENTS 256
#define JOB_KEY "the-key-of-the-watched-job"
#define JOB_COMMUNICATOR UINT64_C(0x77)
#define JOB_WORK (12 * SL_MS) /* before the allreduce; before the barrier: 10 ms */

/* Shared with the ranks. */
typedef struct job_shared {
    pthread_barrier_t allreduce, barrier;
    _Atomic int64_t extra[JOB_RANKS]; /* ns of work more, in each iteration */
    _Atomic int64_t iterations[JOB_RANKS];
    _Atomic int gates, stop;
    _Atomic int more; /* bytes: twice as many */
    _Atomic int vary; /* bytes differ from iteration to iteration */
} job_shared;

typedef struct job {
    char folder[2][64]; /* of two nodes: ranks 0 and 1, ranks 2 and 3; or of one */
    int nodes;
    int validate; /* agents start validations */
    char scratch[64];
    job_shared *shared;
    pid_t rank[JOB_RANKS];
    sl_redis redis;
    char url[512];
    sl_store *agent_store[2], *controller_store[2];
    sl_agent *agent[2];
    sl_controller *controller[2];
    sl_event event[JOB_EVENTS];
    int from[JOB_EVENTS]; /* which controller said it */
    int events;
} job;

static inline sl_time job_now(void) {
    return sl_clock_now(sl_clock_real());
}

/* ---- a rank ---- */

/* As the probe does: a ring of this process, and its gate. */
static inline sl_record_ring *job_ring(const char *folder, const sl_process_id *process, int rank, int size,
                                       uint32_t records) {
    char name[SL_FILE_NAME];
    sl_ring_name(process, 0, name);
    sl_ring_file *file = sl_folder_make(folder, name, sizeof *file + sl_record_ring_bytes(records));
    if (!file)
        _exit(3);
    atomic_store(&file->rank, rank);
    atomic_store(&file->size, size);
    sl_record_ring_init((sl_record_ring *)(file + 1), records);
    sl_file_head_write(&file->head, SL_RING_FILE_MAGIC, SL_PROBE_LAYOUT, process);
    if (sl_folder_publish(folder, name, name) != 0)
        _exit(3);
    return (sl_record_ring *)(file + 1);
}

static inline sl_gate *job_gate(const char *folder, const sl_process_id *process, int rank) {
    char name[SL_FILE_NAME];
    sl_gate_name(process, name);
    sl_gate *gate = sl_folder_make(folder, name, sizeof *gate);
    if (!gate)
        _exit(3);
    sl_gate_init(gate, rank, process);
    if (sl_folder_publish(folder, name, name) != 0)
        _exit(3);
    return gate;
}

static inline void job_work(int64_t ns) {
    struct timespec left = {.tv_sec = ns / SL_SECOND, .tv_nsec = ns % SL_SECOND};
    while (nanosleep(&left, &left) != 0)
        ;
}

static inline void job_call(sl_record_ring *ring, sl_gate_caller *caller, sl_gate_channel *channel, int rank,
                            int call, uint64_t bytes, pthread_barrier_t *meet) {
    sl_call record = {.kind = SL_RECORD_CALL,
                      .call = (uint8_t)call,
                      .tag = SL_TAG_NONE,
                      .rank = rank,
                      .peer = SL_PEER_NONE,
                      .communicator = JOB_COMMUNICATOR,
                      .bytes = bytes,
                      .start = job_now(),
                      .device = -1};
    if (channel)
        sl_gate_enter(caller, channel, SL_GATE_BLOCK);
    pthread_barrier_wait(meet);
    if (channel)
        sl_gate_leave(caller);
    record.end = job_now();
    sl_call_write(ring, JOB_RECORDS, &record);
}

static inline void job_rank(job *j, int rank) {
    job_shared *s = j->shared;
    const char *folder = j->folder[j->nodes == 2 && rank >= 2];
    sl_process_id self;
    sl_gate_caller caller = {0};
    sl_gate_channel *channel = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sl_process_find(&self);
    sl_record_ring *ring = job_ring(folder, &self, rank, JOB_RANKS, JOB_RECORDS);
    if (atomic_load(&s->gates)) {
        sl_channel_key key = {.communicator = JOB_COMMUNICATOR,
                              .source = -1,
                              .destination = -1,
                              .tag = -1,
                              .kind = SL_CHANNEL_COLLECTIVE};
        sl_gate *gate = job_gate(folder, &self, rank);
        channel = sl_gate_channel_of(gate, &key);
        sl_gate_join(&caller, gate, NULL);
    }
    for (int64_t i = 0; !atomic_load(&s->stop); i++) {
        uint64_t bytes = atomic_load(&s->vary) ? 8192 + sl_random_mix((uint64_t)i) % 64 * 8 : 1024;
        bytes *= atomic_load(&s->more) ? 2 : 1;
        job_work(JOB_WORK + atomic_load(&s->extra[rank]));
        job_call(ring, &caller, channel, rank, SL_CALL_MPI_Allreduce, bytes, &s->allreduce);
        job_work(10 * SL_MS);
        job_call(ring, &caller, channel, rank, SL_CALL_MPI_Barrier, 0, &s->barrier);
        atomic_store(&s->iterations[rank], i + 1);
    }
    _exit(0);
}

static inline void job_begin_ranks(job *j) {
    pthread_barrierattr_t shared;
    j->shared = mmap(NULL, sizeof *j->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&j->shared->allreduce, &shared, JOB_RANKS);
    pthread_barrier_init(&j->shared->barrier, &shared, JOB_RANKS);
}

static inline void job_start(job *j, int gates) {
    atomic_store(&j->shared->gates, gates);
    for (int rank = 0; rank < JOB_RANKS; rank++) {
        pid_t child = fork();
        if (child == 0)
            job_rank(j, rank);
        j->rank[rank] = child;
    }
}

/* ---- what watches it ---- */

static inline void print_event(const sl_event *event) {
    char *line;
    assert_ok(sl_event_line(event, &line));
    fputs(line, stderr);
    free(line);
}

static inline void job_event(void *context, const sl_event *event) {
    job *j = context;
    if (j->events < JOB_EVENTS)
        j->event[j->events++] = *event;
    if (getenv("SL_SHOW"))
        print_event(event);
}

static inline void job_add_agent(job *j, int node, const char *record) {
    static const char *const names[] = {"node-a", "node-b"};
    assert_ok(sl_store_open(j->url, "job", 0, &j->agent_store[node]));
    assert_ok(sl_store_seal(j->agent_store[node], JOB_KEY));
    sl_agent_config config = {.folder = j->folder[node],
                              .node = names[node],
                              .store = j->agent_store[node],
                              .store_url = j->url,
                              .key = JOB_KEY,
                              .job = "job",
                              .validate = j->validate,
                              .record = record};
    assert_ok(sl_agent_open(&config, &j->agent[node]));
}

static inline void job_drop_agent(job *j, int node) {
    sl_agent_close(j->agent[node]);
    sl_store_close(j->agent_store[node]);
    j->agent[node] = NULL;
    j->agent_store[node] = NULL;
}

static inline void job_add_controller(job *j, int which, int hold, sl_time deadline) {
    assert_ok(sl_store_open(j->url, "job", 0, &j->controller_store[which]));
    assert_ok(sl_store_seal(j->controller_store[which], JOB_KEY));
    sl_controller_config config = {.store = j->controller_store[which],
                                   .job = "job",
                                   .deadline = deadline,
                                   .hold = hold,
                                   .event = job_event,
                                   .context = j};
    assert_ok(sl_controller_open(&config, &j->controller[which]));
}

/* Two controllers that meet no more: its process is gone without a word, so the position is left to expire.
 */
static inline void job_forget_controller(job *j, int which) {
    j->controller[which] = NULL; /* leaked on purpose: closing it would tidy up */
}

static inline job *job_open(int nodes) {
    char redis_path[PATH_MAX];
    if (sl_redis_find(redis_path) != SL_OK) {
        printf("skipped: %s\n", sl_error_text());
        exit(77);
    }
    job *j = calloc(1, sizeof *j);
    j->nodes = nodes;
    for (int i = 0; i < nodes; i++) {
        snprintf(j->folder[i], sizeof j->folder[i], "/dev/shm/slackline-agent-test-XXXXXX");
        assert_non_null(mkdtemp(j->folder[i]));
    }
    snprintf(j->scratch, sizeof j->scratch, "/tmp/slackline-agent-test-XXXXXX");
    assert_non_null(mkdtemp(j->scratch));
    assert_ok(sl_redis_start(j->scratch, NULL, &j->redis));
    assert_ok(sl_redis_wait(&j->redis, 10 * SL_SECOND));
    sl_redis_url(&j->redis, "127.0.0.1", j->url, sizeof j->url);
    job_begin_ranks(j);
    return j;
}

static inline void job_close(job *j) {
    for (int i = 0; i < 2; i++) {
        sl_controller_close(j->controller[i]);
        sl_store_close(j->controller_store[i]);
        sl_agent_close(j->agent[i]);
        sl_store_close(j->agent_store[i]);
    }
    for (int rank = 0; rank < JOB_RANKS; rank++)
        if (j->rank[rank] > 0) {
            kill(j->rank[rank], SIGKILL);
            waitpid(j->rank[rank], NULL, 0);
        }
    sl_redis_stop(&j->redis);
    for (int i = 0; i < j->nodes; i++)
        sl_path_remove(j->folder[i]);
    sl_path_remove(j->scratch);
    munmap(j->shared, sizeof *j->shared);
    free(j);
}

/* All that is there steps once, where it is due. */
static inline void job_step(job *j, sl_time due[4]) {
    sl_time now = job_now();
    for (int i = 0; i < 2; i++) {
        if (j->agent[i] && now >= due[i])
            assert_ok(sl_agent_step(j->agent[i], now, &due[i]));
        if (j->controller[i] && now >= due[2 + i])
            assert_ok(sl_controller_step(j->controller[i], now, &due[2 + i]));
    }
    sl_clock_sleep_until(sl_clock_real(), job_now() + SL_MS / 2);
}

static inline int job_said(const job *j, sl_event_kind kind, int from) {
    for (int i = from; i < j->events; i++)
        if (j->event[i].kind == kind)
            return i + 1;
    return 0;
}

/* Steps until an event of this kind is said behind the first `from`; its place + 1, 0 after `limit`. */
static inline int job_until(job *j, sl_event_kind kind, int from, sl_time limit) {
    sl_time due[4] = {0}, end = job_now() + limit;
    while (!job_said(j, kind, from) && job_now() < end)
        job_step(j, due);
    return job_said(j, kind, from);
}

/* A hang of what is tested is no hang of the test; how long all of it may take. */
#define JOB_PATIENCE (60 * SL_SECOND)

/* The event, or the test fails with all that was said. */
static inline const sl_event *job_await(job *j, sl_event_kind kind, int from) {
    int place = job_until(j, kind, from, JOB_PATIENCE);
    if (!place) {
        for (int i = 0; i < j->events; i++)
            print_event(&j->event[i]);
        fail_msg("no event '%s' behind the first %d", sl_event_names[kind].name, from);
    }
    return &j->event[place - 1];
}

static inline void job_run(job *j, sl_time time) {
    sl_time due[4] = {0}, end = job_now() + time;
    while (job_now() < end)
        job_step(j, due);
}

static inline int64_t job_iterations(const job *j) {
    return atomic_load(&j->shared->iterations[0]);
}

/* The program goes on by itself: some iterations more, in what time they take. */
static inline void job_goes_on(const job *j, sl_time limit) {
    int64_t from = job_iterations(j);
    for (sl_time end = job_now() + limit; job_iterations(j) < from + 5 && job_now() < end;)
        job_work(SL_MS);
    if (job_iterations(j) < from + 5)
        fail_msg("the program stands at iteration %lld", (long long)job_iterations(j));
}

#endif
