/* The solver's process: whatever happens to it, the caller gets one clear error and nothing is left behind.
 * Skipped where OR-tools is absent. */
#include "check.h"

#include "base/clock.h"
#include "base/memory.h"
#include "plan/exact/exact.h"
#include "plan/exact/protobuf.h"
#include "plan/exact/solver.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/slackline-solver-XXXXXX";

/* ---- what is left behind ---- */

static int open_files(void) {
    DIR *listing = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

static int files_before;

static int remember(void **state) {
    (void)state;
    files_before = open_files();
    return 0;
}

static int nothing_is_left(void **state) {
    (void)state;
    unsetenv("SLACKLINE_SOLVER");
    if (open_files() != files_before)
        return printf("%d files are open, %d were\n", open_files(), files_before);
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        return printf("a child is left\n");
    return 0;
}

/* ---- models ---- */

/* x in 0..9, y in 0..9, x + 2y >= 7, least 2x + 3y: 11 with x = 1, y = 3 (y = 4, x = 0: 12; x = 7: 14). */
static void make_tiny_model(sl_protobuf *model) {
    sl_protobuf inner = {0}, outer = {0};
    for (int i = 0; i < 2; i++) {
        sl_protobuf_clear(&inner);
        sl_protobuf_ints(&inner, 2, (int64_t[]){0, 9}, 2);
        sl_protobuf_nest(model, 2, &inner);
    }
    sl_protobuf_clear(&inner);
    sl_protobuf_ints(&inner, 1, (int64_t[]){0, 1}, 2);
    sl_protobuf_ints(&inner, 2, (int64_t[]){1, 2}, 2);
    sl_protobuf_ints(&inner, 3, (int64_t[]){7, INT64_MAX}, 2);
    sl_protobuf_nest(&outer, 12, &inner);
    sl_protobuf_nest(model, 3, &outer);
    sl_protobuf_clear(&inner);
    sl_protobuf_ints(&inner, 1, (int64_t[]){0, 1}, 2);
    sl_protobuf_ints(&inner, 4, (int64_t[]){2, 3}, 2);
    sl_protobuf_nest(model, 4, &inner);
    assert_int_equal(model->status | inner.status | outer.status, SL_OK);
    sl_protobuf_free(&inner);
    sl_protobuf_free(&outer);
}

/* Solves `model` with at most `limit_s`. */
static sl_status run(const void *model, size_t size, double limit_s, sl_blob *response) {
    sl_solver solver;
    sl_protobuf parameters = {0};
    sl_blob asked = {NULL, size};
    sl_protobuf_int(&parameters, 135, 0); /* catch_sigint_signal */
    sl_protobuf_int(&parameters, 206, 1); /* num_workers */
    assert_ok(sl_solver_find(&solver));
    assert_ok(sl_alloc(&asked.bytes, size, 1));
    memcpy(asked.bytes, model, size);
    sl_status status = sl_solver_run(&solver, &asked, &(sl_blob){parameters.bytes, parameters.size}, limit_s,
                                     NULL, response);
    sl_free(asked.bytes);
    sl_protobuf_free(&parameters);
    sl_solver_free(&solver);
    return status;
}

static void a_tiny_model_is_solved(void **state) {
    (void)state;
    sl_protobuf model = {0};
    sl_blob response;
    sl_protobuf_field field;
    int status = -1, seen = 0;
    make_tiny_model(&model);
    assert_ok(run(model.bytes, model.size, 30, &response));
    const unsigned char *bytes = response.bytes;
    size_t size = response.size;
    while (sl_protobuf_next(&bytes, &size, &field) == 1) {
        if (field.number == 1)
            status = (int)field.value;
        if (field.number == 2) {
            uint64_t x, y;
            assert_true(sl_protobuf_varint(&field.bytes, &field.size, &x));
            assert_true(sl_protobuf_varint(&field.bytes, &field.size, &y));
            assert_int_equal(x, 1);
            assert_int_equal(y, 3);
            seen = 1;
        }
    }
    assert_int_equal(size, 0);
    assert_int_equal(status, 4); /* OPTIMAL */
    assert_true(seen);
    sl_free(response.bytes);
    sl_protobuf_free(&model);
}

/* ---- trouble ---- */

static void bytes_that_are_no_model_end_the_child_alone(void **state) {
    (void)state;
    sl_blob response;
    assert_fails(run("\xff\xff\xff no model", 12, 30, &response), SL_ESYS, "signal 6");
    assert_null(response.bytes);
}

/* A program of our own in the solver's place. */
static void play_solver(const char *lines) {
    static char path[sizeof folder + 16];
    snprintf(path, sizeof path, "%s/solver", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", lines);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
    setenv("SLACKLINE_SOLVER", path, 1);
}

static void a_child_that_fails_in_any_way_is_an_error(void **state) {
    (void)state;
    sl_blob response;
    size_t size = 1 << 22; /* more than the socket holds */
    char *large = calloc(1, size);
    assert_non_null(large);
    play_solver("exec sleep 1000");
    assert_fails(run("", 0, 0.2, &response), SL_ESYS, "within 0.2 s");
    assert_fails(run(large, size, 0.2, &response), SL_ESYS, "within 0.2 s");
    play_solver("exit 3");
    assert_fails(run(large, size, 30, &response), SL_ESYS, "exit status 3");
    play_solver("cat >/dev/null; echo good morning to you all");
    assert_fails(run("", 0, 0.5, &response), SL_ESYS, "within 0.5 s");
    play_solver("echo good morning to you all");
    assert_fails(run("", 0, 30, &response), SL_ESYS, "did not answer with a solver's response");
    play_solver("kill -SEGV $$");
    assert_fails(run("", 0, 30, &response), SL_ESYS, "the solver");
    play_solver("printf 'r\\001'"); /* breaks off */
    assert_fails(run("", 0, 30, &response), SL_ESYS, "the solver");
    setenv("SLACKLINE_SOLVER", folder, 1);
    sl_solver solver;
    assert_fails(sl_solver_find(&solver), SL_ENONE, "SLACKLINE_SOLVER");
    sl_solver_free(&solver);
    free(large);
}

/* The one child of process `parent` (its first thread's); 0: none yet. */
static pid_t child_of(pid_t parent) {
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%d", &child) != 1)
        child = 0;
    fclose(file);
    return child;
}

static void nap(void) {
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 5 * SL_MS);
}

static void *kill_child(void *unused) {
    pid_t child;
    (void)unused;
    while ((child = child_of(getpid())) == 0)
        nap();
    kill(child, SIGKILL);
    return NULL;
}

/* A minute's work and more: 12 x 64 with uneven times and little memory. */
static void make_long_problem(sl_problem *p) {
    assert_ok(sl_problem_make(12, 12, 64, p));
    assert_ok(sl_alloc(&p->limit, 12, sizeof *p->limit));
    for (int s = 0; s < 12; s++) {
        p->time[SL_F][s] = 101 + 7 * s;
        p->time[SL_I][s] = 113 - 5 * s;
        p->time[SL_W][s] = 97 + 3 * s;
        p->time[SL_B][s] = 1000;
        p->limit[s] = 7;
    }
}

static void a_killed_child_is_an_error(void **state) {
    (void)state;
    sl_problem p;
    sl_exact_result result;
    pthread_t killer;
    make_long_problem(&p);
    assert_int_equal(pthread_create(&killer, NULL, kill_child, NULL), 0);
    assert_fails(sl_exact_solve(&p, NULL, 100, 1, 1, 0, NULL, &result), SL_ESYS, "signal 9");
    assert_false(result.found || result.proven);
    pthread_join(killer, NULL);
    sl_problem_free(&p);
}

/* Gone, or a zombie that nobody has waited for: our child's child belongs to another process then. */
static int is_gone(pid_t pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z' || state == 'X';
}

static void the_solver_ends_with_its_caller(void **state) {
    (void)state;
    sl_problem p;
    make_long_problem(&p);
    pid_t caller = fork(), solver;
    assert_true(caller >= 0);
    if (caller == 0) {
        sl_exact_result result;
        sl_exact_solve(&p, NULL, 100, 1, 1, 0, NULL, &result);
        _exit(0);
    }
    while ((solver = child_of(caller)) == 0)
        nap();
    nap();
    kill(caller, SIGKILL);
    assert_int_equal(waitpid(caller, NULL, 0), caller);
    while (!is_gone(solver)) /* without end where it stays: the test's time limit says so */
        nap();
    sl_problem_free(&p);
}

/* ---- finding it ---- */

static void wrong_libraries_are_said(void **state) {
    (void)state;
    char kept[4096], path[sizeof folder + 32];
    const char *before = getenv("SLACKLINE_ORTOOLS");
    sl_solver solver;
    sl_blob response;
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    setenv("SLACKLINE_ORTOOLS", "/nowhere/at/all", 1);
    assert_fails(sl_solver_find(&solver), SL_ENONE, "/nowhere/at/all");
    sl_solver_free(&solver);
    assert_int_equal(sl_exact_available(), 0);
    snprintf(path, sizeof path, "%s/empty", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    setenv("SLACKLINE_ORTOOLS", path, 1);
    assert_fails(sl_solver_find(&solver), SL_ENONE, "holds no libortools.so.9");
    sl_solver_free(&solver);
    rmdir(path);
    snprintf(path, sizeof path, "%s/text.so", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("no library", file);
    fclose(file);
    setenv("SLACKLINE_ORTOOLS", path, 1);
    assert_fails(run("", 0, 30, &response), SL_ESYS, "text.so");
    setenv("SLACKLINE_ORTOOLS", "/lib/x86_64-linux-gnu/libm.so.6", 1);
    if (access(getenv("SLACKLINE_ORTOOLS"), R_OK) == 0)
        assert_fails(run("", 0, 30, &response), SL_ESYS, "SolveCpModelWithParameters");
    unlink(path);
    if (before)
        setenv("SLACKLINE_ORTOOLS", kept, 1);
    else
        unsetenv("SLACKLINE_ORTOOLS");
}

static int clear_folder(void **state) {
    (void)state;
    char path[sizeof folder + 16];
    snprintf(path, sizeof path, "%s/solver", folder);
    unlink(path);
    return rmdir(folder);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, remember, nothing_is_left)
    const struct CMUnitTest tests[] = {
        TEST(a_tiny_model_is_solved),
        TEST(bytes_that_are_no_model_end_the_child_alone),
        TEST(a_child_that_fails_in_any_way_is_an_error),
        TEST(a_killed_child_is_an_error),
        TEST(the_solver_ends_with_its_caller),
        TEST(wrong_libraries_are_said),
    };
    if (!sl_exact_available()) {
        printf("skipped: %s\n", sl_error_text());
        return 77;
    }
    if (!mkdtemp(folder))
        return 1;
    return cmocka_run_group_tests(tests, NULL, clear_folder);
}
