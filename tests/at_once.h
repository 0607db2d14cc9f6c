/* A group's tests in several processes at once, each with its share of them: for tests that mostly wait. The
 * program fails when one of them does. A filter (cmocka_set_test_filter) holds in all. */
#ifndef SL_TESTS_AT_ONCE_H
#define SL_TESTS_AT_ONCE_H

#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the number of processes in which a test failed, for main to return. `count` tests, at most 64, are
 * dealt out in turn to `processes` children of the caller, which must have no threads yet. */
static inline int run_at_once(const char *name, const struct CMUnitTest *tests, int count, int processes) {
    int failed = 0;
    pid_t child[64];
    if (count > 64 || processes > 64)
        abort();
    fflush(NULL);
    for (int p = 0; p < processes; p++) {
        child[p] = fork();
        if (child[p] < 0)
            abort();
        if (child[p] == 0) {
            struct CMUnitTest mine[64];
            int n = 0;
            for (int i = p; i < count; i += processes)
                mine[n++] = tests[i];
            setvbuf(stdout, NULL, _IOLBF, 0); /* lines of several processes stay whole */
            exit(_cmocka_run_group_tests(name, mine, (size_t)n, NULL, NULL) != 0);
        }
    }
    for (int p = 0; p < processes; p++) {
        int status = 0;
        if (waitpid(child[p], &status, 0) != child[p] || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            failed++;
    }
    return failed;
}

#endif
