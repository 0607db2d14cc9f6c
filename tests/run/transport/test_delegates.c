/* Ranks as processes with real delegates. */
#include "facts.h"
#include "run/transport/delegation.h"

static void swap_paths(int hosts) {
    for (int count = 1; count <= 3; count += 2) {
        trial w = {.seed = seed_of_the_run(),
                   .hosts = hosts,
                   .ranks = 3,
                   .count = count,
                   .iterations = 30,
                   .messages = 5,
                   .largest = 200000,
                   .swaps = 1};
        open_trial(&w);
        run_ranks(&w, run_rank);
        assert_int_equal(files_in(w.directory, ""), 0);
        close_trial(&w);
    }
}

static void every_byte_is_right_on_both_paths_with_swaps(void **state) {
    (void)state;
    swap_paths(0);
}

static void between_hosts_they_take_two_rails(void **state) {
    (void)state;
    swap_paths(1);
}

static void skip_without_ucx(void) {
#ifndef SL_UCX
    printf("skipped: built without UCX\n");
    skip();
#endif
}

static void one_of_them_may_go_over_ucx(void **state) {
    (void)state;
    skip_without_ucx();
    swap_paths(2);
}

static void killed_delegates_lose_and_double_nothing(void **state) {
    (void)state;
    messages_survive_kills(0, 2, 2, 40, 8, 400000, 20);
}

static void nor_do_they_between_hosts(void **state) {
    (void)state;
    messages_survive_kills(1, 2, 2, 40, 8, 400000, 20);
}

static void nor_do_they_over_ucx(void **state) {
    (void)state;
    skip_without_ucx();
    messages_survive_kills(2, 2, 2, 40, 8, 400000, 20);
}

/* ---- a trainer that is killed ---- */

static void run_for_ever(const trial *w, int rank) {
    sl_launch_delegates launch = {.program = (char *)(uintptr_t)SL_DELEGATE};
    sl_transport_starter starter = sl_launch_delegate_starter(&launch);
    sl_transport_config config = config_of(w, rank, &starter);
    size_t bytes = (size_t)w->ranks * (size_t)w->messages * w->largest;
    uint8_t *in = malloc(bytes), *out = malloc(bytes);
    sl_transport *t;
    MUST(in && out);
    MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
    MUST(start_delegates(w, rank, t, 0, 20 * SL_SECOND) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_OK);
    for (uint32_t k = 0;; k++)
        exchange(w, rank, t, k, in, out);
}

static int living(const trial *w, int rank) {
    int count = 0;
    for (int i = 0; i < PIDS_MAX; i++) {
        int pid = atomic_load(&w->met->pid[rank][i]);
        if (!pid)
            continue;
        while (waitpid(pid, NULL, WNOHANG) > 0) { /* an orphan of ours now */
        }
        count += kill(pid, 0) == 0;
    }
    return count;
}

static void a_killed_trainer_takes_its_delegates_and_sockets_along(void **state) {
    (void)state;
    trial w = {.seed = seed_of_the_run(), .ranks = 2, .count = 2, .messages = 6, .largest = 300000};
    open_trial(&w);
    pid_t child[2];
    for (int r = 0; r < 2; r++)
        child[r] = fork_rank(&w, run_for_ever, r);
    while (atomic_load(&w.met->sending) < 10) /* in the middle of it */
        usleep(1000);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(living(&w, r), 4); /* two each way */
        sl_time killed = sl_clock_now(sl_clock_real()), now = killed;
        kill(child[r], SIGKILL);
        assert_int_equal(waitpid(child[r], NULL, 0), child[r]);
        leftovers.child[r] = 0;
        while (living(&w, r) > 0 && now < killed + 10 * SL_SECOND) {
            usleep(500);
            now = sl_clock_now(sl_clock_real());
        }
        printf("delegates of rank %d gone after %.1f ms\n", r,
               (double)(sl_clock_now(sl_clock_real()) - killed) / 1e6);
        assert_int_equal(living(&w, r), 0);
    }
    reap_all();
    assert_int_equal(files_in(w.directory, "rail."), 0); /* messages.<rank> goes with the run's directory */
    close_trial(&w);
}

/* ---- delegates that cannot be ---- */

static void fail_to_start(const trial *w, int rank, const char *program, sl_status expected,
                          const char *words) {
    sl_launch_delegates launch = {.program = (char *)(uintptr_t)program};
    sl_transport_starter starter = sl_launch_delegate_starter(&launch);
    sl_transport_config config = config_of(w, rank, &starter);
    config.deaths_max = 0;
    sl_transport *t;
    uint8_t in[64], out[64];
    MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
    MUST(start_delegates(w, rank, t, 0, 30 * SL_SECOND) == expected);
    if (missing_fact(sl_error_text(), words)) {
        fprintf(stderr, "'%s' lacks a fact of '%s'\n", sl_error_text(), words);
        _exit(1);
    }
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_EINVAL);
    meet(w, 1);
    MUST(w->largest == 64);
    for (uint32_t k = 0; k < 3; k++) { /* the direct path is as it was */
        MUST(sl_transport_receive(t, 1 - rank, k, 0, in, 64) == SL_OK);
        fill(out, 64, rank, 1 - rank, k, 0);
        MUST(sl_transport_send(t, 1 - rank, k, 0, out, 64, 0) == SL_OK);
        MUST(sl_transport_wait(t, 1 - rank, k, 0, SL_TIME_NEVER, NULL) == SL_OK);
        MUST(is_filled(in, 64, 1 - rank, rank, k, 0));
        MUST(sl_transport_wait_sent(t, 1 - rank, k, 0, SL_TIME_NEVER, NULL) == SL_OK);
    }
    sl_transport_close(t);
    _exit(0);
}

static void without_a_program(const trial *w, int rank) {
    fail_to_start(w, rank, "/nonexistent/slackline-delegate", SL_ESYS,
                  "/nonexistent/slackline-delegate cannot be started: No such file or directory");
}

static void with_one_that_ends_at_once(const trial *w, int rank) {
    fail_to_start(w, rank, "/bin/false", SL_EPEER, rank == 0 ? "link 0 -> 1: " : "link 1 -> 0: ");
}

static void delegates_that_cannot_run_are_a_clear_error(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        trial w = {.seed = 1, .ranks = 2, .count = 1, .messages = 1, .largest = 64};
        open_trial(&w);
        run_ranks(&w, i ? with_one_that_ends_at_once : without_a_program);
        assert_int_equal(files_in(w.directory, ""), 0);
        close_trial(&w);
    }
}

/* ---- what ends waits, and what is refused ---- */

static void *abort_soon(void *t) {
    usleep(100000);
    sl_transport_abort(t);
    return NULL;
}

static void be_aborted(const trial *w, int rank) {
    sl_launch_delegates launch = {.program = (char *)(uintptr_t)SL_DELEGATE};
    sl_transport_starter starter = sl_launch_delegate_starter(&launch);
    sl_transport_config config = config_of(w, rank, &starter);
    sl_transport *t;
    uint8_t data[64] = {0};
    pthread_t thread;
    MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_EINVAL); /* there are none */
    MUST(start_delegates(w, rank, t, 0, 20 * SL_SECOND) == SL_OK);
    MUST(sl_transport_receive(t, 1 - rank, 0, 0, data, sizeof data) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_EINVAL); /* something is posted */
    meet(w, 1);
    /* it was posted on the direct path, and comes there */
    MUST(sl_transport_send(t, 1 - rank, 0, 0, data, sizeof data, 0) == SL_OK);
    MUST(sl_transport_wait(t, 1 - rank, 0, 0, SL_TIME_NEVER, NULL) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_EINVAL); /* something is under way */
    MUST(sl_transport_wait_sent(t, 1 - rank, 0, 0, SL_TIME_NEVER, NULL) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_OK);
    MUST(sl_transport_stop_delegates(t) == SL_EINVAL); /* in use */
    MUST(sl_transport_receive(t, 1 - rank, 1, 0, data, sizeof data) == SL_OK);
    sl_time soon = sl_clock_now(sl_clock_real()) + 50 * SL_MS;
    MUST(sl_transport_wait(t, 1 - rank, 1, 0, soon, NULL) == SL_EPEER);
    MUST(!missing_fact(sl_error_text(), "did not come before the deadline"));
    MUST(pthread_create(&thread, NULL, abort_soon, t) == 0);
    MUST(sl_transport_wait(t, 1 - rank, 1, 0, SL_TIME_NEVER, NULL) == SL_EPEER);
    MUST(!missing_fact(sl_error_text(), rank ? "link 0 -> 1" : "link 1 -> 0"));
    MUST(!missing_fact(sl_error_text(), "the run is aborted"));
    pthread_join(thread, NULL);
    sl_transport_close(t); /* ends the delegates as well */
    _exit(0);
}

static void an_abort_ends_waits_on_delegates(void **state) {
    (void)state;
    trial w = {.seed = 1, .ranks = 2, .count = 1, .messages = 2, .largest = 64};
    open_trial(&w);
    run_ranks(&w, be_aborted);
    assert_int_equal(files_in(w.directory, ""), 0);
    close_trial(&w);
}

static void prepare_another_number(const trial *w, int rank) {
    sl_launch_delegates launch = {.program = (char *)(uintptr_t)SL_DELEGATE};
    sl_transport_starter starter = sl_launch_delegate_starter(&launch);
    sl_transport_config config = config_of(w, rank, &starter);
    sl_transport *t;
    MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
    size_t bytes = sl_transport_block_bytes(t);
    MUST(sl_transport_prepare_delegates(t, w->count + rank, w->met->block + (size_t)rank * bytes) == SL_OK);
    meet(w, 0);
    MUST(sl_transport_start_delegates(t, w->met->block, SL_SECOND) == SL_EPEER);
    MUST(!missing_fact(sl_error_text(), "prepared other delegates"));
    meet(w, 1);
    sl_transport_close(t);
    _exit(0);
}

/* Rank 1 leaves without a word; rank 0 has an outage of half a second to wait for it. */
static void be_left_alone(const trial *w, int rank) {
    sl_launch_delegates launch = {.program = (char *)(uintptr_t)SL_DELEGATE};
    sl_transport_starter starter = sl_launch_delegate_starter(&launch);
    sl_transport_config config = config_of(w, rank, &starter);
    config.outage = SL_SECOND / 2;
    sl_transport *t;
    sl_transport_event happened;
    int lost[2] = {0};
    uint8_t data[64] = {0};
    MUST(sl_transport_open(&config, -1, 20 * SL_SECOND, &t) == SL_OK);
    MUST(start_delegates(w, rank, t, 0, 20 * SL_SECOND) == SL_OK);
    MUST(sl_transport_use(t, SL_PATH_DELEGATED) == SL_OK);
    meet(w, 1);
    if (rank == 0) {
        meet(w, 2);
        MUST(sl_transport_receive(t, 1, 0, 0, data, sizeof data) == SL_OK);
        MUST(sl_transport_send(t, 1, 0, 0, data, sizeof data, 0) == SL_OK);
        MUST(sl_transport_wait(t, 1, 0, 0, SL_TIME_NEVER, NULL) == SL_EPEER);
        MUST(!missing_fact(sl_error_text(), "link 1 -> 0: "));
        MUST(sl_transport_wait_sent(t, 1, 0, 0, SL_TIME_NEVER, NULL) == SL_EPEER);
        MUST(!missing_fact(sl_error_text(), "link 0 -> 1: "));
        printf("%s\n", sl_error_text());
        MUST(sl_transport_send(t, 1, 0, 1, data, sizeof data, 0) == SL_EPEER);
        sl_time until = sl_clock_now(sl_clock_real()) + 5 * SL_SECOND; /* they come from delegates */
        while (lost[0] + lost[1] < 2 && sl_clock_now(sl_clock_real()) < until)
            if (sl_transport_next_event(t, &happened) && happened.kind == SL_TRANSPORT_LOST)
                lost[happened.from]++;
        while (sl_transport_next_event(t, &happened)) /* and no third one */
            lost[happened.from] += happened.kind == SL_TRANSPORT_LOST;
        MUST(lost[0] == 1 && lost[1] == 1);
    }
    sl_transport_close(t);
    if (rank == 1)
        meet(w, 2);
    fflush(stdout);
    _exit(0);
}

static void a_queue_without_a_rail_for_too_long_is_lost_and_says_so(void **state) {
    (void)state;
    trial w = {.seed = 1, .ranks = 2, .count = 1, .messages = 2, .largest = 64};
    open_trial(&w);
    run_ranks(&w, be_left_alone);
    assert_int_equal(files_in(w.directory, ""), 0);
    close_trial(&w);
}

static void ranks_that_prepared_differently_are_told(void **state) {
    (void)state;
    trial w = {.seed = 1, .ranks = 2, .count = 1, .messages = 2, .largest = 64};
    open_trial(&w);
    run_ranks(&w, prepare_another_number);
    assert_int_equal(files_in(w.directory, ""), 0);
    close_trial(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(delegates_that_cannot_run_are_a_clear_error, clear_up),
        cmocka_unit_test_teardown(ranks_that_prepared_differently_are_told, clear_up),
        cmocka_unit_test_teardown(a_queue_without_a_rail_for_too_long_is_lost_and_says_so, clear_up),
        cmocka_unit_test_teardown(an_abort_ends_waits_on_delegates, clear_up),
        cmocka_unit_test_teardown(every_byte_is_right_on_both_paths_with_swaps, clear_up),
        cmocka_unit_test_teardown(between_hosts_they_take_two_rails, clear_up),
        cmocka_unit_test_teardown(one_of_them_may_go_over_ucx, clear_up),
        cmocka_unit_test_teardown(nor_do_they_over_ucx, clear_up),
        cmocka_unit_test_teardown(nor_do_they_between_hosts, clear_up),
        cmocka_unit_test_teardown(killed_delegates_lose_and_double_nothing, clear_up),
        cmocka_unit_test_teardown(a_killed_trainer_takes_its_delegates_and_sockets_along, clear_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
