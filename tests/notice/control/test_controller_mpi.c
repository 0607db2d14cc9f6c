/* Agent and controller on a real program of MPI with the probe preloaded: a rank that works longer is found,
 * held where the probe makes gates, and relieved; the program's results and exit code are its own. */
#include "watched_job.h"

#include <dirent.h>
#include <libgen.h>

#define ITERATIONS "420"
#define BEGIN 120
#define END "300"

static char source[4096], build[4096];

/* Where the sources and what was built lie. */
static void find_folders(void) {
    char self[4096] = "", file[] = __FILE__;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        exit(1);
    snprintf(build, sizeof build, "%s/..", dirname(self));
    snprintf(source, sizeof source, "%s/../../..", dirname(file));
}

static void need(const char *command, const char *what) {
    if (system(command) != 0) { /* quiet: its output goes nowhere */
        printf("skipped: %s\n", what);
        exit(77);
    }
}

static pid_t start_program(const job *j) {
    char probe[4200], python[4200], script[4200];
    snprintf(probe, sizeof probe, "%s/libslackline_probe.so", build);
    snprintf(python, sizeof python, "%s/.venv/bin/python", source);
    snprintf(script, sizeof script, "%s/tests/notice/control/slow_rank.py", source);
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", probe, 1);
        setenv("SLACKLINE_PROBE", j->folder[0], 1);
        execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
               "mpi_yield_when_idle", "1", "--mca", "btl_vader_single_copy_mechanism", "none", "-n", "4",
               python, script, ITERATIONS, "120", END, "1", "25", (char *)NULL);
        _exit(127);
    }
    return child;
}

static int gates(const job *j) {
    int count = 0;
    DIR *folder = opendir(j->folder[0]);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strstr(entry->d_name, ".gate") != NULL;
    if (folder)
        closedir(folder);
    return count;
}

static int program_ended(job *j, pid_t child, int *status) {
    sl_time due[4] = {0};
    for (sl_time end = job_now() + 120 * SL_SECOND; job_now() < end; job_step(j, due))
        if (waitpid(child, status, WNOHANG) == child)
            return 1;
    kill(child, SIGTERM);
    waitpid(child, status, 0);
    return 0;
}

static void slow_rank_of_a_program_is_found(void **state) {
    (void)state;
    job *j = job_open(1);
    job_add_agent(j, 0, NULL);
    job_add_controller(j, 0, 1, 0);
    pid_t child = start_program(j);
    job_await(j, SL_EVENT_TRACKED, 0);
    assert_int_equal(sl_controller_status(j->controller[0])->period, 3);
    job_await(j, SL_EVENT_PROFILED, 0);
    int gated = gates(j);
    const sl_event *event = job_await(j, SL_EVENT_ONSET, 0);
    assert_near(event->iteration, BEGIN, 12);
    int from = j->events;
    event = job_await(j, SL_EVENT_HELD, from);
    if (gated == 4 && !strstr(event->seen, "4 ranks stand"))
        fail_msg("not held: %s, %s", event->seen, event->why);
    if (gated != 4)
        printf("not tried: holds, for the probe makes no gates here (%d of 4)\n", gated);
    event = job_await(j, SL_EVENT_VERDICT, from);
    assert_int_equal(event->rank, 1);
    from = j->events;
    job_await(j, SL_EVENT_RELIEF, from);
    assert_int_equal(sl_controller_status(j->controller[0])->verdicts, 0);
    int status = 0;
    if (!program_ended(j, child, &status))
        fail_msg("the program does not end");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    sl_controller_finish(j->controller[0]);
    job_close(j);
}

int main(void) {
    char python[4400];
    find_folders();
    snprintf(python, sizeof python, "%s/.venv/bin/python -c 'import mpi4py, numpy' > /dev/null 2>&1", source);
    need(python, "mpi4py and numpy in .venv are needed");
    need("mpirun --version 2>/dev/null | grep -q 'Open MPI'", "mpirun of Open MPI is needed");
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_rank_of_a_program_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
