/* Processes as ranks over mapped files, on the real clock. */
#include "run/message.h"

#include "base/file.h"
#include "run/transport/transport.h"
#include <dirent.h>
#include <sys/stat.h>

#define RANKS 3
#define MESSAGES 8
#define ITERATIONS 200
#define LARGEST 5000

static char directory[64];

static int make_directory(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "/dev/shm/slackline-test.XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    return sl_path_remove(directory) == SL_OK ? 0 : -1;
}

static int entries(void) {
    int count = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

static sl_transport_config config_of(int rank, int ranks, size_t message_bytes, int slots) {
    return (sl_transport_config){.rank = rank,
                                 .ranks = ranks,
                                 .clock = sl_clock_real(),
                                 .directory = directory,
                                 .key = {1, 2, 3},
                                 .message_bytes = message_bytes,
                                 .slots = slots};
}

static size_t size_of(int from, int to, uint32_t iteration, uint32_t index) {
    return 1 + (size_t)content(from, to, iteration, index, 0) * LARGEST / 256;
}

/* Everybody sends to everybody, and waits in the reverse order. */
static void run_rank(int rank) {
    static uint8_t in[RANKS][MESSAGES][LARGEST], out[RANKS][MESSAGES][LARGEST];
    sl_transport_config config = config_of(rank, RANKS, LARGEST, MESSAGES);
    sl_transport *t;
    MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
    for (uint32_t k = 0; k < ITERATIONS; k++) {
        sl_time deadline = sl_clock_now(config.clock) + 60 * SL_SECOND, arrived;
        sl_sent sent;
        for (int peer = 0; peer < RANKS; peer++)
            for (uint32_t i = 0; i < MESSAGES && peer != rank; i++) {
                size_t bytes = size_of(rank, peer, k, i);
                MUST(sl_transport_receive(t, peer, k, i, in[peer][i], size_of(peer, rank, k, i)) == SL_OK);
                fill(out[peer][i], bytes, rank, peer, k, i);
                MUST(sl_transport_send(t, peer, k, i, out[peer][i], bytes, sl_clock_now(config.clock)) ==
                     SL_OK);
            }
        for (int peer = 0; peer < RANKS; peer++)
            for (uint32_t i = MESSAGES; i-- > 0 && peer != rank;) {
                MUST(sl_transport_wait(t, peer, k, i, deadline, &arrived) == SL_OK);
                MUST(arrived <= sl_clock_now(config.clock));
                MUST(is_filled(in[peer][i], size_of(peer, rank, k, i), peer, rank, k, i));
                MUST(sl_transport_wait_sent(t, peer, k, i, deadline, &sent) == SL_OK);
                MUST(sent.arrive >= sent.due && sent.due == sent.end && sent.start <= sent.end);
            }
    }
    sl_transport_close(t);
    _exit(0);
}

static void many_iterations_between_processes_arrive_whole_and_leave_nothing_behind(void **state) {
    (void)state;
    pid_t child[RANKS];
    for (int r = 0; r < RANKS; r++)
        if ((child[r] = fork()) == 0)
            run_rank(r);
    for (int r = 0; r < RANKS; r++)
        check_child(child[r]);
    assert_int_equal(entries(), 0);
}

/* One direction only, nobody in step: the sender runs ahead until there is no place, and nothing is lost. */
static void a_sender_that_runs_ahead_is_held_back_and_loses_nothing(void **state) {
    (void)state;
    enum { COUNT = 3000, SLOTS = 4 };
    pid_t child = fork();
    if (child == 0) {
        static uint64_t out[COUNT];
        sl_transport_config config = config_of(0, 2, 8, SLOTS);
        sl_transport *t;
        MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
        for (uint32_t k = 0; k < COUNT; k++) {
            sl_time deadline = sl_clock_now(config.clock) + 60 * SL_SECOND;
            out[k] = k * 3 + 1;
            if (k >= SLOTS)
                MUST(sl_transport_wait_sent(t, 1, k - SLOTS, 0, deadline, NULL) == SL_OK);
            MUST(sl_transport_send(t, 1, k, 0, &out[k], 8, 0) == SL_OK);
        }
        for (uint32_t k = COUNT - SLOTS; k < COUNT; k++)
            MUST(sl_transport_wait_sent(t, 1, k, 0, sl_clock_now(config.clock) + 60 * SL_SECOND, NULL) ==
                 SL_OK);
        sl_transport_close(t);
        _exit(0);
    }
    sl_transport_config config = config_of(1, 2, 8, SLOTS);
    sl_transport *t;
    assert_ok(sl_transport_open(&config, -1, 20 * SL_SECOND, &t));
    for (uint32_t k = 0; k < COUNT; k++) {
        uint64_t in = 0;
        if (k % 500 == 0)
            sl_clock_sleep_until(config.clock, sl_clock_now(config.clock) + 3 * SL_MS);
        assert_ok(sl_transport_receive(t, 0, k, 0, &in, 8));
        assert_ok(sl_transport_wait(t, 0, k, 0, sl_clock_now(config.clock) + 60 * SL_SECOND, NULL));
        assert_int_equal(in, (uint64_t)k * 3 + 1);
    }
    check_child(child);
    sl_transport_close(t);
    assert_int_equal(entries(), 0);
}

static int by_size(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return (x > y) - (x < y);
}

static void with_emulated_latency_nothing_arrives_before_it_is_due(void **state) {
    (void)state;
    enum { COUNT = 100 };
    static sl_time error[COUNT];
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config config = config_of(1, 2, 1000, 4);
        uint8_t in[1000];
        sl_transport *t;
        MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
        for (uint32_t k = 0; k < COUNT; k++) {
            sl_time arrived;
            MUST(sl_transport_receive(t, 0, k, 5, in, sizeof in) == SL_OK);
            MUST(sl_transport_wait(t, 0, k, 5, sl_clock_now(config.clock) + 60 * SL_SECOND, &arrived) ==
                 SL_OK);
            MUST(sl_clock_now(config.clock) >= arrived);
        }
        sl_transport_close(t);
        _exit(0);
    }
    sl_transport_config config = config_of(0, 2, 1000, 4);
    uint8_t out[1000] = {0};
    sl_transport *t;
    assert_ok(sl_transport_open(&config, -1, 20 * SL_SECOND, &t));
    sl_transport_emulate(t, 1, (sl_link_emulation){.latency = 2 * SL_MS, .bytes_per_second = 1e6});
    for (uint32_t k = 0; k < COUNT; k++) {
        sl_time ready = sl_clock_now(config.clock) + SL_MS;
        sl_sent sent;
        assert_ok(sl_transport_send(t, 1, k, 5, out, sizeof out, ready));
        assert_ok(sl_transport_wait_sent(t, 1, k, 5, ready + 60 * SL_SECOND, &sent));
        assert_int_equal(sent.start, ready);
        assert_int_equal(sent.end, ready + SL_MS);
        assert_int_equal(sent.due, ready + 3 * SL_MS);
        assert_true(sent.arrive >= sent.due);
        error[k] = sent.arrive - sent.due;
    }
    check_child(child);
    qsort(error, COUNT, sizeof *error, by_size);
    printf("arrival error (%s): p50 %.1f us, p90 %.1f us, max %.1f us\n", sl_transport_scheduling(t),
           (double)error[COUNT / 2] / 1e3, (double)error[COUNT * 9 / 10] / 1e3,
           (double)error[COUNT - 1] / 1e3);
    sl_transport_close(t);
}

static void a_peer_that_does_not_come_is_named_and_nothing_stays(void **state) {
    (void)state;
    sl_transport_config config = config_of(0, 2, 100, 2);
    sl_transport *t;
    sl_time before = sl_clock_now(config.clock);
    assert_fails(sl_transport_open(&config, -1, 30 * SL_MS, &t), SL_EPEER,
                 "link 0 -> 1: rank 1 did not open");
    assert_true(sl_clock_now(config.clock) >= before + 30 * SL_MS);
    assert_null(t);
    assert_int_equal(entries(), 0);
}

static void a_file_of_another_run_is_not_taken_for_the_peer(void **state) {
    (void)state;
    int ready[2];
    char go;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) { /* a rank 1 with another key, which waits for its own rank 0 in vain */
        sl_transport_config other = config_of(1, 2, 100, 2);
        sl_transport *t;
        other.key[31] = 9;
        MUST(write(ready[1], "", 1) == 1);
        MUST(sl_transport_open(&other, -1, 300 * SL_MS, &t) == SL_EPEER);
        MUST(!missing_fact(sl_error_text(), "rank 0 did not open"));
        _exit(0);
    }
    assert_int_equal(read(ready[0], &go, 1), 1);
    sl_transport_config config = config_of(0, 2, 100, 2);
    sl_transport *t;
    assert_fails(sl_transport_open(&config, -1, 200 * SL_MS, &t), SL_EPEER, "rank 1 did not open");
    check_child(child);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(entries(), 0);
}

static void ranks_that_disagree_about_the_sizes_are_told_so(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        sl_transport_config other = config_of(1, 2, 200, 2);
        sl_transport *t;
        MUST(sl_transport_open(&other, -1, SL_SECOND, &t) == SL_EPEER);
        MUST(!missing_fact(sl_error_text(), "rank 0"));
        _exit(0);
    }
    sl_transport_config config = config_of(0, 2, 100, 2);
    sl_transport *t;
    /* one of them sees the other's file; the second may find it gone again, and says that nobody came */
    assert_int_equal(sl_transport_open(&config, -1, SL_SECOND, &t), SL_EPEER);
    assert_says(sl_error_text(), "rank 1");
    check_child(child);
    assert_int_equal(entries(), 0);
}

static void memory_that_is_not_there_is_an_error_when_opening(void **state) {
    (void)state;
    sl_transport_config config = config_of(0, 2, (size_t)1 << 40, 16); /* 16 TiB */
    sl_transport *t;
    assert_fails(sl_transport_open(&config, -1, SL_SECOND, &t), SL_ESYS, "bytes of shared memory");
    assert_null(t);
    assert_int_equal(entries(), 0);
    config = config_of(0, 2, SIZE_MAX / 2, 16);
    assert_fails(sl_transport_open(&config, -1, SL_SECOND, &t), SL_EINVAL, "do not fit");
    config = config_of(0, 2, 10, 1);
    config.directory = "/dev/shm/slackline-test-nowhere";
    assert_fails(sl_transport_open(&config, -1, SL_SECOND, &t), SL_ESYS, "/dev/shm/slackline-test-nowhere");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_iterations_between_processes_arrive_whole_and_leave_nothing_behind),
        cmocka_unit_test(a_sender_that_runs_ahead_is_held_back_and_loses_nothing),
        cmocka_unit_test(with_emulated_latency_nothing_arrives_before_it_is_due),
        cmocka_unit_test(a_peer_that_does_not_come_is_named_and_nothing_stays),
        cmocka_unit_test(a_file_of_another_run_is_not_taken_for_the_peer),
        cmocka_unit_test(ranks_that_disagree_about_the_sizes_are_told_so),
        cmocka_unit_test(memory_that_is_not_there_is_an_error_when_opening),
    };
    struct stat facts;
    if (stat("/dev/shm", &facts) != 0) {
        printf("skipped: /dev/shm is absent\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
