/* Files appear whole, with the mode that the user's umask leaves, and the umask is never touched: it belongs
 * to all threads of the process, and a file that another thread makes meanwhile would get a wrong mode. */
#include "base/file.h"
#include "check.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int changes;

/* In place of the library's: whoever calls it is counted. */
mode_t umask(mode_t mask) {
    changes++;
    return (mode_t)syscall(SYS_umask, mask);
}

static mode_t mode_of(const char *path) {
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return found.st_mode & 07777;
}

static void writing_never_changes_the_umask(void **state) {
    (void)state;
    char folder[] = "/tmp/slackline-file-XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    syscall(SYS_umask, 027);
    changes = 0;
    assert_ok(sl_file_write(path, "one", 3));
    assert_int_equal(mode_of(path), 0640);
    assert_ok(sl_file_renew(path, "two", 3));
    assert_int_equal(mode_of(path), 0640);
    syscall(SYS_umask, 0);
    assert_ok(sl_file_renew(path, "three", 5));
    assert_int_equal(mode_of(path), 0666);
    assert_int_equal(changes, 0);
    assert_ok(sl_path_remove(folder));
}

static void a_secret_is_the_users_own_whatever_the_umask(void **state) {
    (void)state;
    char folder[] = "/tmp/slackline-file-XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/secret", folder);
    syscall(SYS_umask, 0);
    assert_ok(sl_file_write(path, "others may read this", 20));
    assert_ok(sl_file_write_private(path, "secret", 6));
    assert_int_equal(mode_of(path), 0600);
    char *content;
    size_t size;
    assert_ok(sl_file_read(path, &content, &size));
    assert_string_equal(content, "secret");
    free(content);
    assert_ok(sl_path_remove(folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writing_never_changes_the_umask),
        cmocka_unit_test(a_secret_is_the_users_own_whatever_the_umask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
