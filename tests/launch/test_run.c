/* Real runs under mpirun. The program is three in one: the tests, `drive` (a supervisor, which the tests may
 * kill) and `work` (a rank; test_kill.sh drives a real MPI program instead).
 *
 *   test_launch_run drive DIRECTORY RANKS GRACE_MS PROGRAM [ARGUMENT]...
 *   test_launch_run work MODE */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "launch/directory.h"
#include "launch/launch.h"
#include "launch/process.h"
#include "launch/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "held.h"

/* ---- a rank ---- */

static int work(const char *mode) {
    sl_launch_worker worker;
    if (sl_launch_worker_begin(&worker) != SL_OK) {
        fprintf(stderr, "%s\n", sl_error_text());
        return 9;
    }
    int rank = atoi(getenv("OMPI_COMM_WORLD_RANK"));
    if (strcmp(mode, "fail") == 0 && rank == 1)
        sl_launch_worker_fail(&worker, rank, sl_error(SL_EINVAL, "data.txt:3: 'x' is wrong"));
    if (strcmp(mode, "fail") == 0)
        sl_launch_worker_fail(&worker, rank, sl_error(SL_EPEER, "link 1 -> %d: the peer is gone", rank));
    if (strcmp(mode, "exit") == 0 && rank == 1)
        exit(3); /* not _exit: mpirun at times ends with a code and no word, and then our note names the rank
                  */
    if (strcmp(mode, "stubborn") == 0)
        signal(SIGTERM, SIG_IGN);
    printf("rank %d\n", rank);
    fflush(stdout);
    if (strcmp(mode, "good") != 0) {
        /* a grandchild that leaves the process group and session, as a careless library's would */
        if (fork() == 0) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 600 * SL_SECOND);
            _exit(0);
        }
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 600 * SL_SECOND);
    }
    fprintf(stderr, "words of rank %d\n", rank);
    sl_launch_worker_end(&worker);
    return 0;
}

static int drive(char **argument) {
    sl_launch_config config = {.directory = argument[0],
                               .ranks = atoi(argument[1]),
                               .grace = atoi(argument[2]) * SL_MS,
                               .worker = argument + 3};
    if (getenv("SL_TEST_PATIENCE_MS"))
        config.patience = atoi(getenv("SL_TEST_PATIENCE_MS")) * SL_MS;
    int exit_code = -1;
    sl_status status = sl_launch_run(&config, &exit_code);
    if (status != SL_OK)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
    return exit_code;
}

/* ---- the tests ---- */

typedef struct scene {
    char durable[64], out[96], error[96];
    pid_t supervisor;
    char temporary[256]; /* of the run, once up */
    pid_t reaper, mpirun, rank[2];
} scene;

static void sleep_ms(int ms) {
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + ms * SL_MS);
}

static void start(scene *s, const char *mode, const char *grace) {
    char self[512];
    memset(s, 0, sizeof *s);
    strcpy(s->durable, "/tmp/slackline-test-run-XXXXXX");
    assert_non_null(mkdtemp(s->durable));
    snprintf(s->out, sizeof s->out, "%s/out", s->durable);
    snprintf(s->error, sizeof s->error, "%s/error", s->durable);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    s->supervisor = fork();
    if (s->supervisor == 0) {
        dup2(open(s->out, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), 1);
        dup2(open(s->error, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), 2);
        execl(self, self, "drive", s->durable, "2", grace, self, "work", mode, (char *)NULL);
        _exit(1);
    }
}

static char *content(const char *path) {
    char *text;
    size_t size;
    assert_int_equal(sl_file_read(path, &text, &size), SL_OK);
    return text;
}

static pid_t read_pid(const char *path) {
    char *text;
    size_t size;
    if (sl_file_read(path, &text, &size) != SL_OK)
        return 0;
    pid_t pid = atoi(text);
    sl_free(text);
    return pid;
}

static pid_t parent_of(pid_t pid) {
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
    fclose(file);
    return parent;
}

/* The temporary part whose owner is this supervisor. */
static int find_temporary(scene *s) {
    DIR *all = opendir("/dev/shm");
    assert_non_null(all);
    int found = 0;
    for (struct dirent *entry; !found && (entry = readdir(all));) {
        char owner[300], *text;
        size_t size;
        int pid = 0;
        snprintf(owner, sizeof owner, "/dev/shm/%.200s/owner", entry->d_name);
        if (strncmp(entry->d_name, "slackline-", 10) != 0 || sl_file_read(owner, &text, &size) != SL_OK)
            continue;
        found = sscanf(text, "pid: %d", &pid) == 1 && pid == s->supervisor;
        if (found)
            snprintf(s->temporary, sizeof s->temporary, "/dev/shm/%.200s", entry->d_name);
        sl_free(text);
    }
    closedir(all);
    return found;
}

/* Until both ranks have said that they are up, and the processes are known. */
static void wait_until_up(scene *s) {
    for (int i = 0; i < 1500; i++, sleep_ms(10)) {
        char *out = access(s->out, R_OK) == 0 ? content(s->out) : NULL;
        int up = out && strstr(out, "rank 0\n") && strstr(out, "rank 1\n");
        sl_free(out);
        if (!up)
            continue;
        assert_true(find_temporary(s));
        for (int rank = 0; rank < 2; rank++) {
            char path[300];
            snprintf(path, sizeof path, "%s/rank.%d", s->temporary, rank);
            s->rank[rank] = read_pid(path);
            assert_true(s->rank[rank] > 0);
        }
        s->mpirun = parent_of(s->rank[0]);
        s->reaper = parent_of(s->mpirun);
        assert_int_equal(parent_of(s->reaper), s->supervisor);
        return;
    }
    fail_msg("the run does not come up");
}

static int wait_end(scene *s) {
    int status = -1;
    for (int i = 0; i < 1500; i++, sleep_ms(10))
        if (waitpid(s->supervisor, &status, WNOHANG) == s->supervisor)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    fail_msg("the supervisor does not end");
    return -1;
}

static void nothing_is_left(const scene *s) {
    int processes = -1;
    for (int i = 0; i < 1000;
         i++, sleep_ms(10)) { /* 10 s; when the supervisor was killed the reaper needs a moment */
        processes = sl_process_signal_run(s->temporary, 0);
        if (processes == 0 && access(s->temporary, F_OK) != 0)
            return;
    }
    assert_int_equal(processes, 0);
    assert_int_not_equal(access(s->temporary, F_OK), 0);
}

static void clean(const scene *s) {
    assert_int_equal(sl_path_remove(s->durable), SL_OK);
}

static void expect_error(const scene *s, const char *line) {
    char *error = content(s->error);
    assert_says(error, line);
    assert_int_equal(strncmp(error, "slackline: ", 11), 0);
    assert_ptr_equal(strchr(error, '\n'), error + strlen(error) - 1);
    sl_free(error);
}

static void a_good_run_passes_its_output_and_leaves_nothing(void **state) {
    (void)state;
    scene s;
    start(&s, "good", "0");
    assert_int_equal(wait_end(&s), 0);
    char *out = content(s.out), *error = content(s.error);
    assert_true(strcmp(out, "rank 0\nrank 1\n") == 0 || strcmp(out, "rank 1\nrank 0\n") == 0);
    assert_non_null(strstr(error, "words of rank 0\n"));
    assert_non_null(strstr(error, "words of rank 1\n"));
    assert_int_equal(strlen(error), 2 * strlen("words of rank 0\n"));
    sl_free(out);
    sl_free(error);
    assert_false(find_temporary(&s));
    char log[128];
    snprintf(log, sizeof log, "%s/mpirun.log", s.durable);
    assert_int_not_equal(access(log, F_OK), 0);
    clean(&s);
}

static void the_cause_is_reported_and_not_its_consequence(void **state) {
    (void)state;
    scene s;
    start(&s, "fail", "0");
    assert_int_equal(wait_end(&s), 2); /* the worker's SL_EINVAL */
    expect_error(&s, "slackline: rank 1: data.txt:3: 'x' is wrong\n");
    assert_false(find_temporary(&s));
    clean(&s);
}

static void a_rank_that_just_exits_is_named(void **state) {
    (void)state;
    scene s;
    start(&s, "exit", "0");
    assert_int_equal(wait_end(&s), 1);
    expect_error(&s, "slackline: rank 1 ended with exit code 3\n");
    assert_false(find_temporary(&s));
    clean(&s);
}

static void a_killed_rank_ends_the_run_in_one_line(void **state) {
    (void)state;
    scene s;
    char line[200];
    start(&s, "sleep", "0");
    wait_until_up(&s);
    kill(s.rank[1], SIGKILL);
    assert_int_equal(wait_end(&s), 1);
    nothing_is_left(&s);
    snprintf(line, sizeof line, "slackline: rank 1 (pid %d) was killed by signal 9 (SIGKILL)\n",
             (int)s.rank[1]);
    expect_error(&s, line);
    clean(&s);
}

static void a_killed_mpirun_ends_the_run(void **state) {
    (void)state;
    scene s;
    char line[200];
    start(&s, "stubborn", "0");
    wait_until_up(&s);
    kill(s.mpirun, SIGKILL);
    assert_int_equal(wait_end(&s), 1);
    nothing_is_left(&s);
    snprintf(line, sizeof line, "slackline: mpirun (pid %d) was killed by signal 9 (SIGKILL)\n",
             (int)s.mpirun);
    expect_error(&s, line);
    clean(&s);
}

static void a_killed_reaper_ends_the_run(void **state) {
    (void)state;
    scene s;
    char line[200];
    start(&s, "stubborn", "0");
    wait_until_up(&s);
    kill(s.reaper, SIGKILL);
    assert_int_equal(wait_end(&s), 1);
    nothing_is_left(&s);
    snprintf(line, sizeof line, "slackline: the reaper (pid %d) was killed by signal 9 (SIGKILL)\n",
             (int)s.reaper);
    expect_error(&s, line);
    clean(&s);
}

static void a_killed_supervisor_leaves_nothing(void **state) {
    (void)state;
    scene s;
    start(&s, "stubborn", "0");
    wait_until_up(&s);
    kill(s.supervisor, SIGKILL);
    assert_int_equal(wait_end(&s), -SIGKILL);
    nothing_is_left(&s);
    clean(&s);
}

static void when_supervisor_and_reaper_are_killed_the_next_start_clears(void **state) {
    (void)state;
    scene s, next;
    start(&s, "sleep", "0");
    wait_until_up(&s);
    kill(s.reaper, SIGSTOP); /* so that it cannot act between the two */
    kill(s.supervisor, SIGKILL);
    kill(s.reaper, SIGKILL);
    assert_int_equal(wait_end(&s), -SIGKILL);
    for (int i = 0; i < 1000 && kill(s.reaper, 0) == 0; i++) /* the lock is its until it has ended */
        sleep_ms(10);
    assert_int_equal(access(s.temporary, F_OK), 0);
    start(&next, "good", "0");
    assert_int_equal(wait_end(&next), 0);
    nothing_is_left(&s);
    clean(&s);
    clean(&next);
}

static void an_interrupt_ends_the_run_and_says_so(void **state) {
    (void)state;
    const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        scene s;
        start(&s, i == 0 ? "sleep" : "stubborn", "300");
        wait_until_up(&s);
        kill(s.supervisor, signals[i]);
        assert_int_equal(wait_end(&s), 1);
        nothing_is_left(&s);
        expect_error(&s, "slackline:");
        clean(&s);
    }
}

static void a_second_run_in_the_same_directory_is_refused(void **state) {
    (void)state;
    scene s;
    start(&s, "sleep", "300");
    wait_until_up(&s);
    char *worker[] = {"/bin/true", NULL};
    sl_launch_config config = {.directory = s.durable, .ranks = 1, .worker = worker};
    int exit_code = 0;
    assert_int_equal(sl_launch_run(&config, &exit_code), SL_ENONE);
    assert_int_equal(exit_code, 1);
    assert_says(sl_error_text(), "another run is using this directory");
    kill(s.supervisor, SIGTERM);
    assert_int_equal(wait_end(&s), 1);
    nothing_is_left(&s);
    clean(&s);
}

static void a_worker_that_does_not_exist_is_named(void **state) {
    (void)state;
    char directory[] = "/tmp/slackline-test-run-XXXXXX";
    assert_non_null(mkdtemp(directory));
    char *worker[] = {"/nowhere/worker", NULL};
    sl_launch_config config = {.directory = directory, .ranks = 2, .worker = worker};
    int exit_code = 0;
    assert_int_not_equal(sl_launch_run(&config, &exit_code), SL_OK);
    assert_int_equal(exit_code, 1);
    assert_says(sl_error_text(), "/nowhere/worker");
    assert_null(strchr(sl_error_text(), '\n'));
    assert_int_equal(sl_path_remove(directory), SL_OK);
}

/* mpirun, held as its own debugger could: dead and not to be collected. */
static void what_cannot_be_killed_is_left_behind_and_said(void **state) {
    (void)state;
    for (int killed = 0; killed < 2; killed++) { /* the user interrupts; mpirun is killed from outside */
        scene s;
        char line[300];
        setenv("SL_TEST_PATIENCE_MS", "1000", 1);
        start(&s, "sleep", "300");
        unsetenv("SL_TEST_PATIENCE_MS");
        wait_until_up(&s);
        pid_t tracer = hold(s.mpirun);
        kill(killed ? s.mpirun : s.supervisor, killed ? SIGKILL : SIGINT);
        assert_int_equal(wait_end(&s), 1);
        if (tracer > 0) {
            char *error = content(s.error);
            snprintf(line, sizeof line, "(pid %d)", (int)s.mpirun);
            assert_says(error, "slackline: 1 SIGKILL");
            assert_true(!killed || strstr(error, line));
            assert_ptr_equal(strchr(strchr(error, '\n') + 1, '\n'),
                             error + strlen(error) - 1); /* two lines */
            sl_free(error);
            let_go(tracer);
        }
        nothing_is_left(&s);
        clean(&s);
        if (tracer < 0) {
            print_message("one process may not trace another here\n");
            skip();
        }
    }
}

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "drive") == 0)
        return drive(argv + 2);
    if (argc > 2 && strcmp(argv[1], "work") == 0)
        return work(argv[2]);
    if (system("command -v mpirun >/dev/null 2>&1") != 0) {
        printf("skipped: mpirun is not installed\n");
        return 77;
    }
    if (access("/dev/shm", W_OK) != 0) {
        printf("skipped: /dev/shm cannot be written\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_run_passes_its_output_and_leaves_nothing),
        cmocka_unit_test(the_cause_is_reported_and_not_its_consequence),
        cmocka_unit_test(a_rank_that_just_exits_is_named),
        cmocka_unit_test(a_killed_rank_ends_the_run_in_one_line),
        cmocka_unit_test(a_killed_mpirun_ends_the_run),
        cmocka_unit_test(a_killed_reaper_ends_the_run),
        cmocka_unit_test(a_killed_supervisor_leaves_nothing),
        cmocka_unit_test(when_supervisor_and_reaper_are_killed_the_next_start_clears),
        cmocka_unit_test(an_interrupt_ends_the_run_and_says_so),
        cmocka_unit_test(what_cannot_be_killed_is_left_behind_and_said),
        cmocka_unit_test(a_second_run_in_the_same_directory_is_refused),
        cmocka_unit_test(a_worker_that_does_not_exist_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
