/* Which paths are trusted, and which program a name in PATH is. Owners and groups are tried by
 * tests/cli/test_found.py, which may be another user. */
#include "check.h"

#include "base/file.h"
#include "base/find.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/slackline-find-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[4][PATH_MAX];
    static int next;
    char *made = path[next++ % 4];
    snprintf(made, PATH_MAX, "%s/%s", folder, name);
    return made;
}

static void make_folder(const char *name, mode_t mode) {
    assert_int_equal(mkdir(in_folder(name), 0700), 0);
    assert_int_equal(chmod(in_folder(name), mode), 0);
}

static void make_program(const char *name) {
    assert_ok(sl_file_write(in_folder(name), "#!/bin/sh\n", 10));
    assert_int_equal(chmod(in_folder(name), 0755), 0);
}

static int open_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    make_folder("mine", 0755);
    make_folder("open", 0777);
    make_folder("sticky", 01777);
    make_program("mine/tool");
    make_program("open/tool");
    make_program("sticky/tool");
    return 0;
}

static int close_folder(void **state) {
    (void)state;
    assert_int_equal(chdir("/"), 0);
    sl_path_remove(folder);
    return 0;
}

static void a_path_is_trusted_when_nobody_else_can_replace_a_part_of_it(void **state) {
    (void)state;
    assert_ok(sl_find_trust(in_folder("mine/tool")));
    assert_ok(sl_find_trust(in_folder("sticky/tool")));
    assert_ok(sl_find_trust(in_folder(".//mine/./tool")));
    assert_fails(sl_find_trust(in_folder("open/tool")), SL_ESYS, "everybody may write to");
    assert_fails(sl_find_trust(in_folder("open/../mine/tool")), SL_ESYS, "/open (mode 777)");
    assert_ok(sl_find_trust(in_folder("mine/../sticky/../mine/tool")));
    assert_int_equal(chmod(in_folder("mine/tool"), 0757), 0);
    assert_fails(sl_find_trust(in_folder("mine/tool")), SL_ESYS, "/mine/tool (mode 757)");
    assert_int_equal(chmod(in_folder("mine/tool"), 0755), 0);
    assert_fails(sl_find_trust("mine/tool"), SL_ENONE, "not an absolute path");
    assert_fails(sl_find_trust(in_folder("mine/none")), SL_ENONE, "No such file");
}

static void links_are_followed_and_each_part_of_their_way_counts(void **state) {
    (void)state;
    assert_int_equal(symlink(in_folder("mine"), in_folder("sticky/absolute")), 0);
    assert_int_equal(symlink("../open/", in_folder("mine/relative")), 0);
    assert_int_equal(symlink("../mine/tool", in_folder("open/out")), 0);
    assert_int_equal(symlink("b", in_folder("mine/a")), 0);
    assert_int_equal(symlink("a", in_folder("mine/b")), 0);
    assert_ok(sl_find_trust(in_folder("sticky/absolute/tool")));
    assert_fails(sl_find_trust(in_folder("mine/relative/tool")), SL_ESYS, "/open (mode 777)");
    assert_fails(sl_find_trust(in_folder("open/out")), SL_ESYS, "/open (mode 777)");
    assert_fails(sl_find_trust(in_folder("mine/a")), SL_ENONE, "too many links");
}

static void relative_entries_of_path_count_for_the_users_own_command_alone(void **state) {
    (void)state;
    char path[PATH_MAX], entries[2 * PATH_MAX];
    assert_int_equal(chdir(in_folder("mine")), 0);
    assert_int_equal(setenv("PATH", ":.:../mine", 1), 0);
    assert_false(sl_find_program("tool", SL_FIND_ABSOLUTE, path));
    assert_int_equal(errno, ENOENT);
    assert_true(sl_find_program("tool", SL_FIND_AS_SHELL, path));
    assert_string_equal(path, "./tool");
    snprintf(entries, sizeof entries, ":%s:%s", in_folder("none"), in_folder("sticky"));
    assert_int_equal(setenv("PATH", entries, 1), 0);
    assert_true(sl_find_program("tool", SL_FIND_ABSOLUTE, path));
    assert_string_equal(path, in_folder("sticky/tool"));
    assert_true(sl_find_program("./tool", SL_FIND_ABSOLUTE, path)); /* the user's word */
    assert_false(sl_find_program("/", SL_FIND_ABSOLUTE, path));
    assert_int_equal(errno, EISDIR);
}

static void what_a_variable_names_becomes_absolute(void **state) {
    (void)state;
    char path[PATH_MAX];
    assert_int_equal(chdir(in_folder("mine")), 0);
    assert_int_equal(setenv("SLACKLINE_TEST", "tool", 1), 0);
    assert_ok(sl_find_named("SLACKLINE_TEST", path));
    assert_string_equal(path, in_folder("mine/tool"));
    assert_int_equal(setenv("SLACKLINE_TEST", "", 1), 0);
    assert_ok(sl_find_named("SLACKLINE_TEST", path));
    assert_string_equal(path, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_trusted_when_nobody_else_can_replace_a_part_of_it),
        cmocka_unit_test(links_are_followed_and_each_part_of_their_way_counts),
        cmocka_unit_test(relative_entries_of_path_count_for_the_users_own_command_alone),
        cmocka_unit_test(what_a_variable_names_becomes_absolute),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
