/* The device of tests ends the process at each mistake that it is there to find, and computes as the cpu. */
#include "check.h"

#include "run/device/arena.h"
#include "run/device/separate_device.h"
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1500 };

typedef struct setting {
    sl_device *device;
    sl_arena *arena;
    float *array;  /* [N] of the device */
    float host[N]; /* 0, 1, 2, ... */
} setting;

static void open_setting(setting *s) {
    assert_ok(separate_device_open(1, &s->device));
    assert_ok(sl_arena_open(s->device, 4 * sizeof s->host, &s->arena));
    assert_ok(sl_arena_take(s->arena, sizeof s->host, SL_ARENA_LOW, "an array", &s->array));
    for (int i = 0; i < N; i++)
        s->host[i] = (float)i;
    s->device->write(s->device, s->array, s->host, sizeof s->host);
    assert_ok(s->device->finish(s->device));
}

static void close_setting(setting *s) {
    sl_arena_give(s->arena, s->array);
    sl_arena_close(s->arena);
    s->device->close(s->device);
}

/* How a child ends that makes the mistake: its signal, or its exit code. */
static int ending_of(void (*mistake)(setting *s)) {
    pid_t child = fork();
    if (child == 0) {
        setting s;
        signal(SIGSEGV, SIG_DFL);
        open_setting(&s);
        mistake(&s);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void reads_it(setting *s) {
    s->host[0] = *(volatile float *)&s->array[3];
}

static void writes_it(setting *s) {
    *(volatile float *)&s->array[3] = 1;
}

static void gives_a_host_array(setting *s) {
    s->device->gelu(s->device, N, s->host, s->array);
}

static void gives_a_device_array(setting *s) {
    s->device->read(s->device, s->array, s->array, sizeof s->host);
}

static void changes_what_is_written(setting *s) {
    s->device->write(s->device, s->array, s->host, sizeof s->host);
    s->host[7] = -1;
    s->device->finish(s->device);
}

static void finishes(setting *s) {
    s->device->gelu(s->device, N, s->array, s->array);
    s->device->finish(s->device);
}

static void every_mistake_ends_the_process(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: the sanitizer handles SIGSEGV itself\n");
    skip();
#endif
    assert_int_equal(ending_of(reads_it), SIGSEGV);
    assert_int_equal(ending_of(writes_it), SIGSEGV);
    assert_int_equal(ending_of(gives_a_host_array), 99);
    assert_int_equal(ending_of(gives_a_device_array), 99);
    assert_int_equal(ending_of(changes_what_is_written), 99);
    assert_int_equal(ending_of(finishes), 0);
}

/* Sums of squares by hand: of 0 to 1,023 and of 1,024 to 1,499. */
static void results_are_there_after_finish(void **state) {
    (void)state;
    setting s;
    double *sums, out[2];
    open_setting(&s);
    assert_ok(sl_arena_take(s.arena, sizeof out, SL_ARENA_LOW, "sums", &sums));
    s.device->squares(s.device, 0, N, s.array, sums);
    s.device->read(s.device, out, sums, sizeof out);
    assert_true(isnan(out[0]) && isnan(out[1]));
    assert_ok(s.device->finish(s.device));
    assert_near(out[0], 1023.0 * 1024 * 2047 / 6, 0);
    assert_near(out[1], 1499.0 * 1500 * 2999 / 6 - 1023.0 * 1024 * 2047 / 6, 0);
    sl_arena_give(s.arena, sums);
    close_setting(&s);
}

static void a_mark_is_waited_for_alone(void **state) {
    (void)state;
    setting s;
    float first = 0, second = 0;
    open_setting(&s);
    s.device->read(s.device, &first, s.array + 3, sizeof first);
    s.device->mark(s.device, 1);
    s.device->read(s.device, &second, s.array + 4, sizeof second);
    assert_ok(s.device->wait(s.device, 1));
    assert_near((double)first, 3, 0);
    assert_true(isnan(second));
    assert_ok(s.device->finish(s.device));
    assert_near((double)second, 4, 0);
    close_setting(&s);
}

static void marked_rows_are_added_and_cleared(void **state) {
    (void)state;
    const unsigned char marked[3] = {1, 0, 1};
    float *to, out[3][4], left[3][4];
    unsigned char *marks;
    setting s;
    open_setting(&s);
    assert_ok(sl_arena_take(s.arena, sizeof out, SL_ARENA_LOW, "sums", &to));
    assert_ok(sl_arena_take(s.arena, sizeof marked, SL_ARENA_LOW, "marks", &marks));
    s.device->copy(s.device, to, s.array + 100, sizeof out);
    s.device->write(s.device, marks, marked, sizeof marked);
    s.device->add_marked(s.device, 3, 4, marks, s.array, to);
    s.device->add(s.device, 1, s.array + 5, to); /* row 1 was left alone */
    s.device->read(s.device, out, to, sizeof out);
    s.device->read(s.device, left, s.array, sizeof left);
    assert_ok(s.device->finish(s.device));
    for (int row = 0; row < 3; row++)
        for (int i = 0; i < 4; i++) {
            const int at = 4 * row + i;
            assert_near((double)left[row][i], row == 1 ? at : 0, 0);
            assert_near((double)out[row][i], 100 + at + (row == 1 ? 0 : at) + (at == 0 ? 5 : 0), 0);
        }
    sl_arena_give(s.arena, marks);
    sl_arena_give(s.arena, to);
    close_setting(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_ends_the_process),
        cmocka_unit_test(results_are_there_after_finish),
        cmocka_unit_test(a_mark_is_waited_for_alone),
        cmocka_unit_test(marked_rows_are_added_and_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
