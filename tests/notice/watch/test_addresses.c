/* Where a server for other nodes has to listen: at the addresses by which this host reaches its launcher, or
 * at all of its own where nobody says. */
#include "check.h"
#include "notice/watch/addresses.h"

#include <string.h>

static const char *const variables[] = {"OMPI_MCA_orte_hnp_uri", "SLURM_LAUNCH_NODE_IPADDR", "MASTER_ADDR"};

static int forget(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static void all_of_this_host_where_the_launcher_says_nothing(void **state) {
    (void)state;
    sl_addresses none, loopback;
    sl_addresses_find(&none);
    for (int i = 0; i < none.count; i++) {
        assert_int_not_equal(strncmp(none.text[i], "127.", 4), 0);
        assert_string_not_equal(none.text[i], "0.0.0.0");
        assert_string_not_equal(none.text[i], "::1");
        for (int j = 0; j < i; j++)
            assert_string_not_equal(none.text[i], none.text[j]);
    }
    setenv("MASTER_ADDR", "127.0.0.1", 1); /* other nodes do not reach this one there */
    setenv("SLURM_LAUNCH_NODE_IPADDR", "a-name", 1);
    sl_addresses_find(&loopback);
    assert_int_equal(loopback.count, none.count);
}

static void the_way_to_the_launcher_alone_where_it_is_known(void **state) {
    (void)state;
    sl_addresses all, found;
    char uri[200];
    sl_addresses_find(&all);
    if (all.count == 0 || strchr(all.text[0], ':')) {
        print_message("skipped: this host has no IPv4 address but loopback\n");
        skip();
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        forget(state);
        snprintf(uri, sizeof uri, i == 0 ? "1234.0;tcp://%s,127.0.0.1:4567" : "%s", all.text[0]);
        setenv(variables[i], uri, 1); /* the launcher is here: the way to it is its own address */
        sl_addresses_find(&found);
        assert_int_equal(found.count, 1);
        assert_string_equal(found.text[0], all.text[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_of_this_host_where_the_launcher_says_nothing, forget, forget),
        cmocka_unit_test_setup_teardown(the_way_to_the_launcher_alone_where_it_is_known, forget, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
