/* What the tests of delegates share: rank processes with real delegates, that meet at a barrier in shared
 * memory, exchange their blocks there and send each other random messages. Whatever happens, no process of a
 * test outlives it: ranks die with the test, delegates with their rank, and the test reaps them all. */
#ifndef SL_TESTS_TRANSPORT_DELEGATION_H
#define SL_TESTS_TRANSPORT_DELEGATION_H

#include "run/message.h"

#include "base/file.h"
#include "launch/delegate_launch.h"
#include "run/transport/delegates_inside.h"
#include "run/transport/peer.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define RANKS_MAX 3
#define BLOCK_MAX 16384
#define PIDS_MAX 64

typedef struct meeting {
    _Atomic uint32_t arrived[64]; /* a futex word for each barrier in turn */
    char block[RANKS_MAX * BLOCK_MAX];
    sl_transport_address address[RANKS_MAX];
    _Atomic uint32_t sending; /* ranks that have begun to exchange messages */
    _Atomic int pid[RANKS_MAX][PIDS_MAX];
    _Atomic uint64_t kills, slowest; /* ns from a kill to the successor's start */
} meeting;

typedef struct trial {
    meeting *met;
    char directory[64];
    uint64_t seed;
    int ranks, count; /* delegates per peer and direction */
    int iterations, messages;
    size_t largest;
    int kills; /* by each rank, of its own delegates */
    int swaps; /* between the paths */
    int hosts; /* 1: every rank counts as another host, with two TCP rails on the loopback interface; 2: the
                * first of them over UCX */
} trial;

/* What the teardown ends and removes when a test failed. */
static struct leftovers {
    char directory[64];
    pid_t child[RANKS_MAX];
} leftovers;

static inline void open_trial(trial *w) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(w->directory, sizeof w->directory, "/dev/shm/slackline-test.XXXXXX");
    assert_non_null(mkdtemp(w->directory));
    leftovers = (struct leftovers){0};
    snprintf(leftovers.directory, sizeof leftovers.directory, "%s", w->directory);
    w->met = mmap(NULL, sizeof *w->met, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(w->met, MAP_FAILED);
}

static inline int files_in(const char *directory, const char *prefix) {
    int count = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0) {
            printf("left: %s\n", e->d_name);
            count++;
        }
    closedir(d);
    return count;
}

static inline void close_trial(trial *w) {
    munmap(w->met, sizeof *w->met);
    assert_ok(sl_path_remove(w->directory));
    leftovers = (struct leftovers){0};
}

static inline void meet(const trial *w, int number) {
    _Atomic uint32_t *word = &w->met->arrived[number];
    atomic_fetch_add(word, 1);
    sl_clock_wake(sl_clock_real(), word);
    for (uint32_t seen; (seen = atomic_load(word)) < (uint32_t)w->ranks;)
        sl_clock_wait(sl_clock_real(), word, seen, SL_TIME_NEVER);
}

static inline sl_transport_config config_of(const trial *w, int rank, const sl_transport_starter *starter) {
    return (sl_transport_config){.rank = rank,
                                 .ranks = w->ranks,
                                 .clock = sl_clock_real(),
                                 .directory = w->directory,
                                 .key = {7, 8, 9},
                                 .message_bytes = w->largest,
                                 .slots = 2 * w->messages,
                                 .starter = starter,
                                 .chunk_bytes = 16384,
                                 .deaths_max = 100000};
}

/* Collective. */
static inline sl_transport *open_transport(const trial *w, int rank, const sl_transport_starter *starter) {
    static const char *const rails[] = {"127.0.0.1", "127.0.0.2"}, *const ucx[] = {"ucx:127.0.0.1",
                                                                                   "127.0.0.2"};
    sl_transport_config config = config_of(w, rank, starter);
    sl_transport *t;
    int socket = -1;
    if (w->hosts) {
        sl_transport_address *own = &w->met->address[rank];
        MUST(sl_transport_listen("127.0.0.1", own, &socket) == SL_OK);
        snprintf(own->host, sizeof own->host, "host-%d", rank);
        meet(w, 10);
        config.addresses = w->met->address;
        config.rails = w->hosts == 2 ? ucx : rails;
        config.rail_count = 2;
    }
    MUST(sl_transport_open(&config, socket, 20 * SL_SECOND, &t) == SL_OK);
    return t;
}

/* Process ids of the living ones, at most `most`; returns how many. */
static inline int living_delegates(sl_transport *t, pid_t *pids, int most) {
    int count = t->delegates ? sl_delegates_living(t->delegates, pids, most) : 0;
    return count < most ? count : most;
}

/* Collective: the delegates of all ranks, ready to be used. */
static inline sl_status start_delegates(const trial *w, int rank, sl_transport *t, int barrier,
                                        sl_time timeout) {
    size_t bytes = sl_transport_block_bytes(t);
    MUST(bytes <= BLOCK_MAX);
    MUST(sl_transport_prepare_delegates(t, w->count, w->met->block + (size_t)rank * bytes) == SL_OK);
    meet(w, barrier);
    sl_status status = sl_transport_start_delegates(t, w->met->block, timeout);
    pid_t pids[PIDS_MAX];
    int count = living_delegates(t, pids, PIDS_MAX);
    for (int i = 0; i < PIDS_MAX; i++)
        atomic_store(&w->met->pid[rank][i], i < count ? pids[i] : 0);
    return status;
}

static inline size_t size_of(const trial *w, int from, int to, uint32_t iteration, uint32_t index) {
    uint64_t state =
        w->seed ^ ((uint64_t)from << 50) ^ ((uint64_t)to << 40) ^ ((uint64_t)iteration << 16) ^ index;
    uint64_t r = random_next(&state);
    if (r % 16 == 0)
        return 0;
    return (size_t)(random_next(&state) % ((r >> 8) % 4 ? 5000 : w->largest)) + 1;
}

/* Half of an iteration's sends by name, in the order in which they were handed over, the others as they come,
 * whichever peer they went to. */
static inline void wait_for_sent(const trial *w, int rank, sl_transport *t, uint32_t k, sl_time deadline) {
    sl_message_name left[RANKS_MAX * 32];
    int count = 0;
    sl_sent sent;
    for (int peer = 0; peer < w->ranks; peer++)
        for (uint32_t i = 0; i < (uint32_t)w->messages && peer != rank; i++) {
            if (i % 2) {
                left[count++] = (sl_message_name){.peer = peer, .iteration = k, .index = i};
                continue;
            }
            MUST(sl_transport_wait_sent(t, peer, k, i, deadline, &sent) == SL_OK);
            MUST(sent.arrive >= sent.due && sent.due >= sent.end && sent.end >= sent.start);
        }
    while (count > 0) {
        int which, some = count < SL_ANY_SENT ? count : SL_ANY_SENT;
        sl_message_name *names = left + count - some;
        MUST(sl_transport_wait_any_sent(t, names, some, deadline, &which, &sent) == SL_OK);
        MUST(which >= 0 && which < some && sent.arrive >= sent.due);
        names[which] = left[--count];
    }
}

/* One iteration of everybody with everybody, waited for in a random order; every byte is checked. */
static inline void exchange(const trial *w, int rank, sl_transport *t, uint32_t k, uint8_t *in,
                            uint8_t *out) {
    sl_time deadline = sl_clock_now(sl_clock_real()) + 120 * SL_SECOND, arrived;
    uint64_t random = w->seed + k * 31 + (uint64_t)rank;
    uint32_t messages = (uint32_t)w->messages;
    size_t most = w->largest;
    for (int peer = 0; peer < w->ranks; peer++)
        for (uint32_t i = 0; i < messages && peer != rank; i++)
            MUST(sl_transport_receive(t, peer, k, i, in + ((size_t)peer * messages + i) * most,
                                      size_of(w, peer, rank, k, i)) == SL_OK);
    for (uint32_t i = 0; i < messages; i++)
        for (int peer = 0; peer < w->ranks; peer++) {
            if (peer == rank)
                continue;
            uint8_t *data = out + ((size_t)peer * messages + i) * most;
            size_t bytes = size_of(w, rank, peer, k, i);
            fill(data, bytes, rank, peer, k, i);
            MUST(sl_transport_send(t, peer, k, i, data, bytes, sl_clock_now(sl_clock_real())) == SL_OK);
        }
    atomic_fetch_add(&w->met->sending, 1);
    for (int peer = 0; peer < w->ranks; peer++) {
        uint32_t first = (uint32_t)random_next(&random) % messages;
        for (uint32_t n = 0; n < messages && peer != rank; n++) {
            uint32_t i = (first + n) % messages;
            MUST(sl_transport_wait(t, peer, k, i, deadline, &arrived) == SL_OK);
            MUST(arrived <= sl_clock_now(sl_clock_real()));
            MUST(is_filled(in + ((size_t)peer * messages + i) * most, size_of(w, peer, rank, k, i), peer,
                           rank, k, i));
        }
    }
    wait_for_sent(w, rank, t, k, deadline);
}

/* ---- killing ---- */

typedef struct hunt {
    const trial *w;
    int rank;
    sl_transport *t;
    _Atomic int stop;
} hunt;

/* Kills a random delegate, waits until it has been replaced, and so on. */
static inline void *kill_delegates(void *object) {
    hunt *k = object;
    uint64_t random = k->w->seed * 17 + (uint64_t)k->rank;
    for (int i = 0; i < k->w->kills && !atomic_load(&k->stop); i++) {
        pid_t pids[PIDS_MAX];
        sl_time now = sl_clock_now(sl_clock_real());
        sl_clock_sleep_until(sl_clock_real(), now + (sl_time)(random_next(&random) % 20000000));
        int count = living_delegates(k->t, pids, PIDS_MAX);
        if (count == 0)
            continue;
        sl_time killed = sl_clock_now(sl_clock_real());
        kill(pids[random_next(&random) % (uint64_t)count], SIGKILL);
        sl_transport_event happened = {.kind = SL_TRANSPORT_RAIL_UP};
        while (happened.kind != SL_TRANSPORT_REPLACED || happened.time < killed) {
            if (sl_transport_next_event(k->t, &happened))
                continue;
            now = sl_clock_now(sl_clock_real());
            MUST(now < killed + 30 * SL_SECOND);
            sl_clock_sleep_until(sl_clock_real(), now + SL_MS / 4);
        }
        uint64_t took = (uint64_t)(happened.time - killed), slowest = atomic_load(&k->w->met->slowest);
        while (took > slowest && !atomic_compare_exchange_weak(&k->w->met->slowest, &slowest, took)) {
        }
        atomic_fetch_add(&k->w->met->kills, 1);
    }
    return NULL;
}

/* ---- ranks ---- */

static inline void run_rank(const trial *w, int rank) {
    /* who does not leave when told to keeps the test until it is timed out */
    sl_launch_delegates launch = {.program = (char *)(uintptr_t)SL_DELEGATE, .grace = 1000 * SL_SECOND};
    sl_transport_starter starter = sl_launch_delegate_starter(&launch);
    size_t bytes = (size_t)w->ranks * (size_t)w->messages * w->largest;
    uint8_t *in = malloc(bytes), *out = malloc(bytes);
    MUST(in && out);
    sl_transport *t = open_transport(w, rank, &starter);
    exchange(w, rank, t, 0, in, out); /* the direct path first */
    MUST(start_delegates(w, rank, t, 0, 20 * SL_SECOND) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_OK);
    hunt killer = {.w = w, .rank = rank, .t = t};
    pthread_t thread;
    if (w->kills)
        MUST(pthread_create(&thread, NULL, kill_delegates, &killer) == 0);
    uint64_t random = w->seed; /* the same on all ranks */
    for (uint32_t k = 1; k <= (uint32_t)w->iterations; k++) {
        for (int peer = 0; w->swaps && peer < w->ranks; peer++)
            if (peer != rank)
                sl_transport_emulate(t, peer, (sl_link_emulation){.latency = (sl_time)(k % 3) * SL_MS});
        if (w->swaps && random_next(&random) % 3 == 0)
            MUST(sl_transport_use(t, t->path == SL_PATH_DIRECT ? SL_PATH_DELEGATED : SL_PATH_DIRECT) ==
                 SL_OK);
        exchange(w, rank, t, k, in, out);
    }
    if (w->kills) {
        /* killings that messages did not wait for come to nothing: nothing is under way any more */
        atomic_store(&killer.stop, 1);
        pthread_join(thread, NULL);
    }
    meet(w, 1); /* nobody's delegates leave while somebody still wants an acknowledgement */
    MUST(sl_transport_use(t, SL_PATH_DIRECT) == SL_OK);
    MUST(sl_transport_stop_delegates(t) == SL_OK);
    exchange(w, rank, t, (uint32_t)w->iterations + 1, in, out);
    sl_transport_close(t);
    free(in);
    free(out);
    _exit(0);
}

static inline pid_t fork_rank(const trial *w, void (*body)(const trial *, int), int rank) {
    fflush(NULL);
    pid_t test = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return leftovers.child[rank] = pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == test)
        body(w, rank);
    _exit(1);
}

/* Ends what is left of this test; returns how many processes (orphans too) that were. */
static inline int reap_all(void) {
    int count = 0;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, 0)) > 0 || errno == EINTR)
        count += pid > 0;
    return count;
}

static inline int clear_up(void **state) {
    (void)state;
    for (int r = 0; r < RANKS_MAX; r++)
        if (leftovers.child[r])
            kill(leftovers.child[r], SIGKILL);
    reap_all();
    return leftovers.directory[0] ? (int)sl_path_remove(leftovers.directory) : 0;
}

/* All ranks have to end well; when one does not, the others are killed, and then it is said. */
static inline void run_ranks(const trial *w, void (*body)(const trial *, int)) {
    pid_t child[RANKS_MAX];
    int how, failed = 0, orphans = 0;
    for (int r = 0; r < w->ranks; r++)
        child[r] = fork_rank(w, body, r);
    for (int left = w->ranks; left > 0;) {
        pid_t pid = waitpid(-1, &how, 0);
        if (pid < 0)
            break;
        int mine = 0;
        for (int r = 0; r < w->ranks; r++)
            if (child[r] == pid) {
                child[r] = leftovers.child[r] = 0;
                mine = 1;
            }
        left -= mine;
        orphans += !mine;
        if (mine && (!WIFEXITED(how) || WEXITSTATUS(how) != 0)) {
            failed++;
            for (int r = 0; r < w->ranks; r++)
                if (child[r])
                    kill(child[r], SIGKILL);
        }
    }
    orphans += reap_all();
    assert_int_equal(failed, 0);
    assert_int_equal(orphans, 0); /* each rank has ended its delegates */
}

static inline void messages_survive_kills(int hosts, int ranks, int count, int iterations, int messages,
                                          size_t largest, int kills) {
    trial w = {.seed = seed_of_the_run(),
               .hosts = hosts,
               .ranks = ranks,
               .count = count,
               .iterations = iterations,
               .messages = messages,
               .largest = largest,
               .kills = kills};
    open_trial(&w);
    run_ranks(&w, run_rank);
    printf("%llu delegates killed, the slowest successor after %.1f ms\n",
           (unsigned long long)atomic_load(&w.met->kills), (double)atomic_load(&w.met->slowest) / 1e6);
    assert_int_equal(files_in(w.directory, ""), 0);
    close_trial(&w);
}

#endif
