/* The GPUs that a process holds, by the names of its open files, for which files stand in; and how long
 * quotas of real control groups have stopped a process. */
#include "base/clock.h"
#include "check.h"
#include "notice/validate/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a control group with a quota of 4 ms in 20 ms ---- */

static int write_to(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    int done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0)
        close(file);
    return done;
}

/* The version of the group that was made below the root; 0: none could be. */
static int make_group(char folder[128]) {
    static const char *const root[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"};
    const int version = access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK) == 0 ? 1 : 2;
    snprintf(folder, 128, "%s/slackline-evidence-%d", root[version - 1], (int)getpid());
    if (mkdir(folder, 0755) != 0)
        return 0;
    if (version == 1
            ? write_to(folder, "cpu.cfs_period_us", "20000") && write_to(folder, "cpu.cfs_quota_us", "4000")
            : write_to(folder, "cpu.max", "4000 20000"))
        return version;
    rmdir(folder);
    return 0;
}

static pid_t start_computing(void) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile long i = 0;; i++)
            ;
    }
    return child;
}

/* Two processes compute for a second, one of them in the group. */
static void a_quota_has_stopped_the_process_in_its_group_and_no_other(void **state) {
    (void)state;
    char folder[128], id[16];
    double quota, others;
    const int version = make_group(folder);
    if (!version) {
        printf("not tried: %s: %s\n", folder, strerror(errno));
        skip();
    }
    const pid_t held = start_computing(), free_one = start_computing();
    snprintf(id, sizeof id, "%d", (int)held);
    const int joined = write_to(folder, "cgroup.procs", id);
    const sl_time before = sl_quota_stopped(held, &quota), before_other = sl_quota_stopped(free_one, &others);
    sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + SL_SECOND);
    const sl_time after = sl_quota_stopped(held, &quota), after_other = sl_quota_stopped(free_one, &others);
    kill(held, SIGKILL), kill(free_one, SIGKILL);
    waitpid(held, NULL, 0), waitpid(free_one, NULL, 0);
    for (int i = 0; i < 100 && rmdir(folder) != 0; i++) /* it is busy for a moment */
        usleep(10000);
    assert_true(joined);
    assert_true(access(folder, F_OK) != 0);
    assert_near(quota, 0.2, 1e-6);
    assert_true(before >= 0);
    assert_in_range(after - before, SL_SECOND / 5,
                    SL_SECOND + SL_SECOND / 10); /* 0.8 s, or less under load */
    assert_true(after_other - before_other < SL_SECOND / 20);
}

static void gpus_are_counted_once_each_by_the_numbers_of_their_files(void **state) {
    (void)state;
    static const char *const open_files[] = {"nvidia0",   "nvidia3",    "nvidia3",
                                             "nvidiactl", "nvidia-uvm", "renderD128"};
    char folder[] = "/tmp/slackline-gpus-XXXXXX", path[128], name[128];
    int file[6];
    assert_non_null(mkdtemp(folder));
    snprintf(name, sizeof name, "%s/nvidia", folder);
    assert_int_equal(sl_gpus_of(getpid(), name), 0);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, open_files[i]);
        file[i] = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        assert_true(file[i] >= 0);
    }
    assert_int_equal(sl_gpus_of(getpid(), name), 2);
    close(file[0]);
    assert_int_equal(sl_gpus_of(getpid(), name), 1);
    snprintf(name, sizeof name, "%s/renderD", folder);
    assert_int_equal(sl_gpus_of(getpid(), name), 1);
    for (int i = 0; i < 6; i++) {
        close(file[i]);
        snprintf(path, sizeof path, "%s/%s", folder, open_files[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_has_stopped_the_process_in_its_group_and_no_other),
        cmocka_unit_test(gpus_are_counted_once_each_by_the_numbers_of_their_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
