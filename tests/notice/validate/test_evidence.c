/* The GPUs that a process holds, by the names of its open files; files stand in for devices. */
#include "check.h"
#include "notice/validate/evidence.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
        cmocka_unit_test(gpus_are_counted_once_each_by_the_numbers_of_their_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
