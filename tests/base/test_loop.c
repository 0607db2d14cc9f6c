#include "base/loop.c" /* for the names of its timers */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct trace {
    sl_loop *loop;
    char order[16];
    int count;
    sl_loop_timer timer;
    int pipe[2];
    sl_time first;
} trace;

static sl_status note(trace *seen, char what) {
    seen->order[seen->count++] = what;
    seen->order[seen->count] = 0;
    return SL_OK;
}

static sl_status at_a(void *context) {
    trace *seen = context;
    seen->first = sl_clock_now(sl_clock_real());
    return note(seen, 'a');
}

static sl_status at_b(void *context) {
    sl_loop_forget(((trace *)context)->loop, ((trace *)context)->timer);
    return note(context, 'b');
}

static sl_status at_c(void *context) {
    return note(context, 'c');
}

static sl_status at_stop(void *context) {
    sl_loop_stop(((trace *)context)->loop);
    return note(context, 's');
}

static void timers_are_called_in_the_order_of_their_deadlines_and_never_early(void **state) {
    (void)state;
    trace seen = {0};
    sl_time now = sl_clock_now(sl_clock_real());
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 30 * SL_MS, at_stop, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 20 * SL_MS, at_c, &seen, &seen.timer),
                     SL_OK); /* b forgets it */
    assert_int_equal(sl_loop_at(seen.loop, now + 10 * SL_MS, at_b, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 5 * SL_MS, at_a, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now - SL_SECOND, at_c, &seen, NULL), SL_OK); /* past: at once */
    assert_int_equal(sl_loop_run(seen.loop), SL_OK);
    assert_string_equal(seen.order, "cabs");
    assert_true(seen.first >= now + 5 * SL_MS);
    sl_loop_close(seen.loop);
}

/* `last` names were given: one timer gets the last name before a wrap of that many bits, one the first behind
 * it. */
static void check_names_behind(int64_t last) {
    trace seen = {0};
    sl_time now = sl_clock_now(sl_clock_real());
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    seen.loop->last_name = (sl_loop_timer)(last - 1);
    assert_int_equal(sl_loop_at(seen.loop, now + 2 * SL_MS, at_a, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 4 * SL_MS, at_c, &seen, &seen.timer),
                     SL_OK); /* b forgets it */
    assert_int_equal(sl_loop_at(seen.loop, now + 3 * SL_MS, at_b, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 20 * SL_MS, at_stop, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_run(seen.loop), SL_OK);
    assert_string_equal(seen.order, "abs");
    sl_loop_close(seen.loop);
}

static void timers_are_called_and_forgotten_when_2_to_the_31_and_2_to_the_32_were_set_before(void **state) {
    (void)state;
    check_names_behind(INT32_MAX);
    check_names_behind(UINT32_MAX);
}

static sl_status hear_byte(void *context, int file) {
    trace *seen = context;
    char byte;
    ssize_t got = read(file, &byte, 1);
    if (got == 1)
        return note(seen, byte);
    note(seen, got == 0 ? '0' : '?');
    sl_loop_unwatch(seen->loop, file);
    sl_loop_stop(seen->loop);
    return SL_OK;
}

static void a_file_is_heard_byte_by_byte_and_then_its_end(void **state) {
    (void)state;
    trace seen = {0};
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    assert_int_equal(pipe(seen.pipe), 0);
    assert_int_equal(write(seen.pipe[1], "xyz", 3), 3);
    close(seen.pipe[1]);
    assert_int_equal(sl_loop_watch(seen.loop, seen.pipe[0], hear_byte, &seen), SL_OK);
    assert_int_equal(sl_loop_watch(seen.loop, seen.pipe[0], hear_byte, &seen), SL_EINVAL);
    assert_int_equal(sl_loop_run(seen.loop), SL_OK);
    assert_string_equal(seen.order, "xyz0");
    close(seen.pipe[0]);
    sl_loop_close(seen.loop);
}

static sl_status unwatch_other(void *context, int file) {
    trace *seen = context;
    char byte;
    assert_int_equal(read(file, &byte, 1), 1);
    sl_loop_unwatch(seen->loop, seen->pipe[0] == file ? seen->pipe[1] : seen->pipe[0]);
    return note(seen, byte);
}

static void a_file_unwatched_by_a_callback_of_the_same_turn_is_not_called(void **state) {
    (void)state;
    trace seen = {0};
    int one[2], two[2];
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    assert_int_equal(pipe(one) | pipe(two), 0);
    assert_int_equal(write(one[1], "1", 1) + write(two[1], "1", 1), 2);
    seen.pipe[0] = one[0];
    seen.pipe[1] = two[0];
    assert_int_equal(sl_loop_watch(seen.loop, one[0], unwatch_other, &seen), SL_OK);
    assert_int_equal(sl_loop_watch(seen.loop, two[0], unwatch_other, &seen), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, sl_clock_now(sl_clock_real()) + 50 * SL_MS, at_stop, &seen, NULL),
                     SL_OK);
    assert_int_equal(sl_loop_run(seen.loop), SL_OK);
    assert_string_equal(seen.order, "1s");
    for (int i = 0; i < 2; i++) {
        close(one[i]);
        close(two[i]);
    }
    sl_loop_close(seen.loop);
}

/* Fills the pipe until it takes no more, then wants to be called no longer. */
static sl_status fill_pipe(void *context, int file) {
    static const char block[4096];
    trace *seen = context;
    ssize_t put = write(file, block, sizeof block);
    if (put > 0)
        return note(seen, seen->count ? '+' : 'w');
    assert_int_equal(errno, EAGAIN);
    return note(seen, '?');
}

static sl_status drain_pipe(void *context) {
    trace *seen = context;
    static char block[4096];
    while (read(seen->pipe[0], block, sizeof block) > 0) {
    }
    return note(seen, 'd');
}

static sl_status stop_wanting(void *context) {
    trace *seen = context;
    assert_int_equal(sl_loop_watch_writable(seen->loop, seen->pipe[1], 0), SL_OK);
    return note(seen, 'n');
}

static void a_file_is_called_when_it_can_be_written_to_and_only_while_wanted(void **state) {
    (void)state;
    trace seen = {0};
    static const char block[4096];
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    assert_int_equal(pipe2(seen.pipe, O_NONBLOCK), 0);
    fcntl(seen.pipe[1], F_SETPIPE_SZ, 4096); /* one block */
    while (write(seen.pipe[1], block, sizeof block) > 0) {
    }
    assert_int_equal(sl_loop_watch_writable(seen.loop, seen.pipe[1], 1), SL_EINVAL);
    assert_int_equal(sl_loop_watch(seen.loop, seen.pipe[1], fill_pipe, &seen), SL_OK);
    assert_int_equal(sl_loop_watch_writable(seen.loop, seen.pipe[1], 1), SL_OK);
    sl_time now = sl_clock_now(sl_clock_real());
    assert_int_equal(sl_loop_at(seen.loop, now + 10 * SL_MS, drain_pipe, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 30 * SL_MS, stop_wanting, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 40 * SL_MS, drain_pipe, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, now + 60 * SL_MS, at_stop, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_run(seen.loop), SL_OK);
    assert_string_equal(seen.order, "d+nds"); /* full, drained, filled once, not wanted any more */
    close(seen.pipe[0]);
    close(seen.pipe[1]);
    sl_loop_close(seen.loop);
}

static sl_status hear_signal(void *context, const siginfo_t *heard) {
    assert_int_equal(heard->si_signo, SIGUSR1);
    assert_int_equal(heard->si_pid, getpid());
    sl_loop_stop(((trace *)context)->loop);
    return note(context, 'u');
}

static void a_blocked_signal_reaches_the_loop(void **state) {
    (void)state;
    trace seen = {0};
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, &before), 0);
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    assert_int_equal(sl_loop_signals(seen.loop, &set, hear_signal, &seen), SL_OK);
    kill(getpid(), SIGUSR1);
    assert_int_equal(sl_loop_run(seen.loop), SL_OK);
    assert_string_equal(seen.order, "u");
    sl_loop_close(seen.loop);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static sl_status at_failure(void *context) {
    (void)context;
    return sl_error(SL_EPEER, "broken");
}

static void a_failing_callback_ends_the_loop_with_its_status(void **state) {
    (void)state;
    trace seen = {0};
    assert_int_equal(sl_loop_open(&seen.loop), SL_OK);
    assert_int_equal(sl_loop_at(seen.loop, 0, at_failure, &seen, NULL), SL_OK);
    assert_int_equal(sl_loop_run(seen.loop), SL_EPEER);
    assert_string_equal(sl_error_text(), "broken");
    sl_loop_close(seen.loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_are_called_in_the_order_of_their_deadlines_and_never_early),
        cmocka_unit_test(timers_are_called_and_forgotten_when_2_to_the_31_and_2_to_the_32_were_set_before),
        cmocka_unit_test(a_file_is_heard_byte_by_byte_and_then_its_end),
        cmocka_unit_test(a_file_unwatched_by_a_callback_of_the_same_turn_is_not_called),
        cmocka_unit_test(a_file_is_called_when_it_can_be_written_to_and_only_while_wanted),
        cmocka_unit_test(a_blocked_signal_reaches_the_loop),
        cmocka_unit_test(a_failing_callback_ends_the_loop_with_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
