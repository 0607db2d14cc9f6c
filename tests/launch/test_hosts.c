/* Lists of hosts as users write them, and what a host's self-test says. */
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "launch/hosts.h"
#include "launch/selftest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_text(const sl_launch_hosts *hosts, const char *expected) {
    char *text;
    assert_int_equal(sl_launch_hosts_text(hosts, &text), SL_OK);
    assert_string_equal(text, expected);
    sl_free(text);
}

static void a_list_counts_slots_and_keeps_the_order(void **state) {
    (void)state;
    sl_launch_hosts hosts;
    assert_int_equal(sl_launch_hosts_read("b:2,a,user@c.d-1.example:16,a,b:1", &hosts), SL_OK);
    assert_int_equal(hosts.count, 3);
    expect_text(&hosts, "b:3,a:2,user@c.d-1.example:16");
    assert_int_equal(sl_roster_slots(&hosts), 21);
    snprintf(hosts.host[1].why, sizeof hosts.host[1].why, "it is gone");
    assert_int_equal(sl_roster_slots(&hosts), 19);
    expect_text(&hosts, "b:3,user@c.d-1.example:16");
    sl_launch_hosts_free(&hosts);
}

static const char *write_hostfile(const char *text) {
    static char path[] = "/tmp/slackline-hosts-XXXXXX";
    strcpy(path, "/tmp/slackline-hosts-XXXXXX");
    close(mkstemp(path));
    assert_int_equal(sl_file_write(path, text, strlen(text)), SL_OK);
    return path;
}

static void a_hostfile_is_read_as_open_mpi_reads_it(void **state) {
    (void)state;
    sl_launch_hosts hosts;
    const char *path = write_hostfile("# a comment\n\n  node1 slots=4\nnode2\tslots=2 max_slots=8 # more\r\n"
                                      "node3:3\nnode1 slots=1");
    assert_int_equal(sl_launch_hosts_read(path, &hosts), SL_OK);
    expect_text(&hosts, "node1:5,node2:2,node3:3");
    sl_launch_hosts_free(&hosts);
    unlink(path);
}

static void what_is_wrong_is_named_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {{"a:0", "'0' is not a number of slots"},
                 {"a:-1", "'-1' is not a number of slots"},
                 {"a:1x", "'1x' is not a number of slots"},
                 {"a:100001", "'100001' is not a number of slots"},
                 {"a:99999999999999999999", "'99999999999999999999' is not a number of slots"},
                 {"a:", "'' is not a number of slots"},
                 {":2", "a host without a name"},
                 {"", "a host without a name"},
                 {"a,", "a host without a name"},
                 {"a;rm", "'a;rm' is not a host name"}};
    sl_launch_hosts hosts;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(sl_launch_hosts_read(wrong[i].text, &hosts), SL_EINVAL);
        assert_says(sl_error_text(), wrong[i].said);
        sl_launch_hosts_free(&hosts);
    }
    static const char *const lines[] = {"a\nb slots=\n", "a\nb slots=two\n", "a\nb cores=3\n", "a\nb -x\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *path = write_hostfile(lines[i]);
        char place[80];
        snprintf(place, sizeof place, "%s:2: ", path);
        assert_int_equal(sl_launch_hosts_read(path, &hosts), SL_EINVAL);
        assert_ptr_equal(strstr(sl_error_text(), place), sl_error_text());
        sl_launch_hosts_free(&hosts);
        unlink(path);
    }
    const char *path = write_hostfile("# nobody\n");
    assert_int_equal(sl_launch_hosts_read(path, &hosts), SL_EINVAL);
    assert_says(sl_error_text(), "names no host");
    sl_launch_hosts_free(&hosts);
    unlink(path);
    assert_int_equal(sl_launch_hosts_read("/nowhere/hosts", &hosts), SL_EINVAL);
    sl_launch_hosts_free(&hosts);
}

static void a_self_test_says_the_same_for_a_seed_and_something_else_for_another(void **state) {
    (void)state;
    char one[64], two[64];
    uint64_t result = sl_self_test(7);
    assert_int_not_equal(result, 0);
    assert_int_equal(sl_self_test(7), result);
    assert_int_not_equal(sl_self_test(8), result);
    sl_self_test_words(7, result, one, sizeof one);
    sl_self_test_words(7, result ^ 1, two, sizeof two);
    assert_string_not_equal(one, two);
    assert_int_equal(strncmp(one, SL_SELF_TEST_WORDS, strlen(SL_SELF_TEST_WORDS)), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_counts_slots_and_keeps_the_order),
        cmocka_unit_test(a_hostfile_is_read_as_open_mpi_reads_it),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(a_self_test_says_the_same_for_a_seed_and_something_else_for_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
