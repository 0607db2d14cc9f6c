/* A solver that does not even end by SIGKILL: the search goes on without it and says so. The solver is this
 * program, so no OR-tools is needed. */
#include "check.h"

#include "base/memory.h"
#include "held.h"
#include "plan/exact/solver.h"

static char told[] = "/tmp/slackline-held-XXXXXX";

/* As slackline-solver, held by a tracer whose process id goes into a file: it never answers. */
static int solve(void) {
    FILE *file = fopen(getenv("SL_TEST_TOLD"), "w");
    fprintf(file, "%d %d\n", (int)hold(getpid()), (int)getpid());
    fclose(file);
    while (pause() == -1)
        ;
    return 0;
}

static void a_solver_that_cannot_be_ended_is_left_behind(void **state) {
    (void)state;
    unsigned char byte = 0;
    char self[] = "/proc/self/exe", library[] = "none", expected[96];
    sl_blob model = {&byte, 1}, parameters = {&byte, 1}, response;
    sl_solver solver = {.program = self, .library = library, .patience = 200 * SL_MS};
    assert_true(mkstemp(told) >= 0);
    setenv("SL_TEST_TOLD", told, 1);
    alarm(20);
    sl_status status = sl_solver_run(&solver, &model, &parameters, 1, NULL, &response);
    alarm(0);
    int tracer, pid;
    FILE *file = fopen(told, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d %d", &tracer, &pid), 2);
    fclose(file);
    unlink(told);
    if (tracer < 0) {
        print_message("one process may not trace another here\n");
        skip();
    }
    snprintf(expected, sizeof expected,
             "slackline-solver (pid %d) remains: it has not ended 0.2 s after SIGKILL", pid);
    assert_int_equal(status, SL_ESYS);
    assert_string_equal(sl_error_text(), expected);
    assert_null(response.bytes);
    kill(tracer, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "none") == 0) /* and what started it */
        return solve();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_solver_that_cannot_be_ended_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
