#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "launch/directory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int exists(const char *path) {
    return access(path, F_OK) == 0;
}

static void the_directory_of_a_living_run_is_left_alone(void **state) {
    (void)state;
    sl_launch_directory directory;
    assert_int_equal(sl_launch_directory_make("/nowhere", &directory), SL_OK);
    pid_t other = fork();
    if (other == 0) {
        close(directory.lock); /* a process of its own, without a share in the lock */
        sl_launch_directory_clear(NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_true(exists(directory.path));
    sl_launch_directory_remove(&directory);
    assert_false(exists(directory.path));
    assert_int_equal(directory.lock, -1);
}

static void what_a_killed_run_left_is_cleared_with_its_processes(void **state) {
    (void)state;
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t owner = fork();
    if (owner == 0) {
        struct {
            sl_launch_directory directory;
            pid_t orphan;
        } left;
        char file[300];
        if (sl_launch_directory_make("/nowhere", &left.directory) != SL_OK)
            _exit(1);
        snprintf(file, sizeof file, "%s/deep/er", left.directory.path);
        sl_directory_make(file);
        left.orphan = fork();
        if (left.orphan == 0) {
            setenv(SL_LAUNCH_VARIABLE, left.directory.path, 1);
            close(told[0]);
            close(told[1]);
            execlp("sleep", "sleep", "1000", (char *)NULL);
            _exit(1);
        }
        sl_clock_sleep_until(sl_clock_real(),
                             sl_clock_now(sl_clock_real()) + 300 * SL_MS); /* until it is sleep */
        if (write(told[1], &left, sizeof left) != (ssize_t)sizeof left)
            _exit(1);
        pause();
    }
    struct {
        sl_launch_directory directory;
        pid_t orphan;
    } left;
    assert_int_equal(read(told[0], &left, sizeof left), sizeof left);
    assert_true(exists(left.directory.path));
    assert_int_equal(kill(left.orphan, 0), 0);
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    sl_launch_directory_clear(NULL);
    assert_false(exists(left.directory.path));
    char stat[64], *text = NULL;
    size_t size;
    snprintf(stat, sizeof stat, "/proc/%d/stat", (int)left.orphan);
    if (sl_file_read(stat, &text, &size) == SL_OK) /* gone, or a zombie that nobody has waited for */
        assert_non_null(strstr(text, ") Z "));
    sl_free(text);
    close(told[0]);
    close(told[1]);
}

static void ranks_without_a_supervisor_share_one_that_the_last_removes(void **state) {
    (void)state;
    char name[64];
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    sl_launch_directory one, two;
    assert_int_equal(sl_launch_directory_join(name, &one), SL_OK);
    assert_int_equal(sl_launch_directory_join(name, &two), SL_OK);
    assert_string_equal(one.path, two.path);
    sl_launch_directory_clear(NULL);
    assert_true(exists(one.path));
    sl_launch_directory_leave(&two);
    assert_true(exists(one.path));
    sl_launch_directory_leave(&one);
    assert_false(exists(one.path));
}

/* Another user has taken the names that can be foreseen, and made directories that look like ours. */
static void other_users_cannot_keep_ranks_from_joining(void **state) {
    (void)state;
    char name[64], squatted[2][200], marker[220];
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    snprintf(squatted[0], sizeof squatted[0], "/dev/shm/slackline-%u-%s", (unsigned)getuid(), name);
    snprintf(squatted[1], sizeof squatted[1], "/dev/shm/slackline-%u-%s.AAAAAA", (unsigned)getuid(), name);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mkdir(squatted[i], 0777), 0);
        snprintf(marker, sizeof marker, "%s/settled", squatted[i]);
        assert_int_equal(mkdir(marker, 0777), 0);
        if (chown(squatted[i], 65534, 65534) != 0) {
            printf("skipped: only root can make a directory of another user\n");
            skip();
        }
    }
    sl_launch_directory one, two;
    struct stat found;
    assert_int_equal(sl_launch_directory_join(name, &one), SL_OK);
    assert_int_equal(sl_launch_directory_join(name, &two), SL_OK);
    assert_string_equal(one.path, two.path);
    assert_int_equal(stat(one.path, &found), 0);
    assert_int_equal(found.st_uid, getuid());
    assert_int_equal(found.st_mode & 0777, 0700);
    sl_launch_directory_leave(&two);
    sl_launch_directory_leave(&one);
    assert_false(exists(one.path));
    for (int i = 0; i < 2; i++) {
        assert_true(exists(squatted[i])); /* not ours to remove */
        assert_int_equal(sl_path_remove(squatted[i]), SL_OK);
    }
}

/* All of them at the same moment, again and again. */
static void ranks_that_start_together_share_one(void **state) {
    enum { TOGETHER = 12, ROUNDS = 20 };
    (void)state;
    char name[64];
    for (int round = 0; round < ROUNDS; round++) {
        char path[TOGETHER][256];
        int start[2], told[2], end[2];
        pid_t rank[TOGETHER];
        assert_int_equal(pipe(start) | pipe(told) | pipe(end), 0);
        snprintf(name, sizeof name, "together-%d-%d", (int)getpid(), round);
        for (int i = 0; i < TOGETHER; i++)
            if ((rank[i] = fork()) == 0) {
                sl_launch_directory directory;
                char byte;
                close(start[1]);
                close(end[1]);
                if (read(start[0], &byte, 1) != 0 || sl_launch_directory_join(name, &directory) != SL_OK ||
                    write(told[1], directory.path, 256) != 256 || read(end[0], &byte, 1) != 0)
                    _exit(1);
                sl_launch_directory_leave(&directory);
                _exit(0);
            }
        close(start[1]); /* now */
        for (int i = 0; i < TOGETHER; i++) {
            assert_int_equal(read(told[0], path[i], 256), 256);
            assert_string_equal(path[i], path[0]);
        }
        assert_true(exists(path[0]));
        close(end[1]);
        for (int i = 0; i < TOGETHER; i++) {
            int status;
            assert_int_equal(waitpid(rank[i], &status, 0), rank[i]);
            assert_int_equal(status, 0);
        }
        assert_false(exists(path[0]));
        close(start[0]);
        close(told[0]);
        close(told[1]);
        close(end[0]);
    }
}

static void ranks_on_another_host_share_one_and_leave_the_supervisors_alone(void **state) {
    (void)state;
    char path[] = "/tmp/slackline-enter-XXXXXX";
    assert_non_null(mkdtemp(path));
    sl_launch_directory first, second; /* mpirun's daemon has made it, no supervisor holds it */
    assert_int_equal(sl_launch_directory_enter(path, &first), SL_OK);
    assert_int_equal(sl_launch_directory_enter(path, &second), SL_OK);
    assert_true(first.lock >= 0 && second.lock >= 0);
    sl_launch_directory_leave(&first);
    assert_int_equal(access(path, F_OK), 0);
    sl_launch_directory_leave(&second);
    assert_int_not_equal(access(path, F_OK), 0);
    char durable[] = "/tmp/slackline-enter-XXXXXX";
    assert_non_null(mkdtemp(durable));
    sl_launch_directory own, rank;
    assert_int_equal(sl_launch_directory_make(durable, &own), SL_OK);
    assert_int_equal(sl_launch_directory_enter(own.path, &rank), SL_OK);
    assert_int_equal(rank.lock, -1);
    sl_launch_directory_leave(&rank);
    assert_int_equal(access(own.path, F_OK), 0);
    sl_launch_directory_remove(&own);
    assert_int_equal(sl_path_remove(durable), SL_OK);
}

static int replace_next; /* the file of the next lock is removed and made again before that */

int flock(int file, int how) {
    int (*real)(int, int);
    *(void **)&real = dlsym(RTLD_NEXT, "flock");
    if (replace_next) {
        char path[300], link[64];
        replace_next = 0;
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = 0;
        unlink(path);
        close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600));
    }
    return real(file, how);
}

/* Between opening and locking, another process may have removed the file, and a third made it again: a lock
 * on what has no name any more keeps nobody out. */
static void a_lock_on_a_file_that_was_replaced_is_none(void **state) {
    (void)state;
    sl_launch_directory directory;
    struct stat locked, named;
    char owner[300];
    replace_next = 1;
    assert_int_equal(sl_launch_directory_make("/nowhere", &directory), SL_OK);
    assert_int_equal(replace_next, 0); /* it happened */
    snprintf(owner, sizeof owner, "%s/owner", directory.path);
    assert_int_equal(fstat(directory.lock, &locked), 0);
    assert_int_equal(stat(owner, &named), 0);
    assert_int_equal(locked.st_ino, named.st_ino);
    sl_launch_directory_remove(&directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_of_a_living_run_is_left_alone),
        cmocka_unit_test(what_a_killed_run_left_is_cleared_with_its_processes),
        cmocka_unit_test(ranks_without_a_supervisor_share_one_that_the_last_removes),
        cmocka_unit_test(other_users_cannot_keep_ranks_from_joining),
        cmocka_unit_test(ranks_that_start_together_share_one),
        cmocka_unit_test(ranks_on_another_host_share_one_and_leave_the_supervisors_alone),
        cmocka_unit_test(a_lock_on_a_file_that_was_replaced_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
