/* labels: long alone */
/* Agent and controller on a real program of MPI with the probe preloaded, by Open MPI and by MPICH: a rank
 * that works longer is found, held where the probe makes gates, and relieved; the program's results and exit
 * code are its own. SL_SHOW=1 prints the events. */
#include "watched_job.h"

#include <dirent.h>
#include <libgen.h>

#define BEGIN 120
#define EARLIEST 85 /* iterations count from the first that is seen to repeat */

typedef struct family {
    int ranks;
    const char *compiler, *starter;
    const char *option[16];
} family;

static const family openmpi = {4,
                               "mpicc.openmpi",
                               "mpirun.openmpi",
                               {"--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                                "mpi_yield_when_idle", "1", "--mca", "btl_vader_single_copy_mechanism",
                                "none"}};
/* Its ranks wait by spinning and never yield: more of them than cores are trouble by themselves. */
static const family mpich = {2, "mpicc.mpich", "mpiexec.hydra", {NULL}};

static char source[4096], build[4096];

/* Where the sources and what was built lie. */
static void find_folders(void) {
    char self[4096] = "", file[] = __FILE__;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        exit(1);
    snprintf(build, sizeof build, "%s/..", dirname(self));
    snprintf(source, sizeof source, "%s", dirname(file));
}

static int installed(const family *f) {
    char command[256];
    snprintf(command, sizeof command, "command -v %s > /dev/null && command -v %s > /dev/null", f->compiler,
             f->starter);
    return system(command) == 0;
}

static pid_t start_program(const job *j, const family *f) {
    char command[8300], program[128], probe[4200];
    const char *words[40] = {f->starter};
    int count = 1;
    snprintf(program, sizeof program, "%s/slow_rank", j->scratch);
    snprintf(command, sizeof command, "%s -O1 -o %s %s/slow_rank.c", f->compiler, program, source);
    assert_int_equal(system(command), 0);
    for (int i = 0; f->option[i]; i++)
        words[count++] = f->option[i];
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", f->ranks);
    const char *rest[] = {"-n", ranks, program, "600", "120", "480", "1", "25"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        words[count++] = rest[i];
    snprintf(probe, sizeof probe, "%s/libslackline_probe.so", build);
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", probe, 1);
        setenv("SLACKLINE_PROBE", j->folder[0], 1);
        execvp(f->starter, (char *const *)(uintptr_t)words);
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

/* The event, or NULL when it is not said in time. */
static const sl_event *await(job *j, sl_event_kind kind, int from) {
    int place = job_until(j, kind, from, JOB_PATIENCE);
    return place ? &j->event[place - 1] : NULL;
}

/* What was not as it should be; NULL: all was. */
static const char *watch_slow_rank(job *j, int ranks) {
    int from = 0, gated;
    char all[32];
    const sl_event *event;
    if (!await(j, SL_EVENT_TRACKED, 0) || sl_controller_status(j->controller[0])->period != 3)
        return "no period of 3 calls";
    if (!await(j, SL_EVENT_PROFILED, 0))
        return "no reference";
    gated = gates(j);
    snprintf(all, sizeof all, "\"ranks\":%d", ranks);
    do { /* a machine that does other things too may have troubles of its own before */
        if (!(event = await(j, SL_EVENT_ONSET, from)))
            return "no onset";
        from = (int)(event - j->event) + 1;
    } while (event->iteration < EARLIEST);
    if (event->iteration > BEGIN + 10)
        return "a late onset";
    if (!(event = await(j, SL_EVENT_HELD, from)))
        return "no hold";
    if (gated == ranks && !strstr(event->facts, all))
        return "not held";
    if (gated != ranks)
        printf("not tried: holds, for the probe makes no gates here (%d of %d)\n", gated, ranks);
    do {
        if (!(event = await(j, SL_EVENT_VERDICT, from)))
            return "no verdict that names rank 1";
        from = (int)(event - j->event) + 1;
    } while (event->rank != 1);
    if (!await(j, SL_EVENT_RELIEF, from))
        return "no relief";
    return sl_controller_status(j->controller[0])->verdicts == 0 ? NULL : "the verdict outlives the relief";
}

/* The program's result is its own every time; a machine that is busy with others may have its own troubles at
 * the same time as the slow rank, so there are three tries. */
static void slow_rank_is_found_with(const family *f) {
    const char *wrong = "";
    if (!installed(f)) {
        printf("not tried: %s and %s are not both installed\n", f->compiler, f->starter);
        skip();
    }
    for (int try = 0; wrong && try < 3; try++) {
        int status = 0;
        job *j = job_open(1);
        job_add_agent(j, 0, NULL);
        job_add_controller(j, 0, 1, 0);
        pid_t child = start_program(j, f);
        wrong = watch_slow_rank(j, f->ranks);
        for (int i = 0; wrong && i < j->events; i++)
            print_event(&j->event[i]);
        if (!program_ended(j, child, &status))
            fail_msg("the program does not end");
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        sl_controller_finish(j->controller[0]);
        job_close(j);
        if (wrong)
            printf("try %d: %s\n", try + 1, wrong);
    }
    if (wrong)
        fail_msg("%s", wrong);
}

static void slow_rank_of_open_mpi_is_found(void **state) {
    (void)state;
    slow_rank_is_found_with(&openmpi);
}

static void slow_rank_of_mpich_is_found(void **state) {
    (void)state;
    slow_rank_is_found_with(&mpich);
}

int main(void) {
    find_folders();
    if (!installed(&openmpi) && !installed(&mpich)) {
        printf("skipped: neither Open MPI nor MPICH is installed\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_rank_of_open_mpi_is_found),
                                       cmocka_unit_test(slow_rank_of_mpich_is_found)};
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
