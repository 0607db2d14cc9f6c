/* Which addresses only this machine reaches, and secrets that are compared whole. */
#include "check.h"
#include "http/server.h"

static void loopback_is_told_from_what_others_reach(void **state) {
    static const char *const own[] = {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"};
    static const char *const others[] = {
        "0.0.0.0", "10.0.0.1", "128.0.0.1", "::", "fe80::1", "::ffff:10.0.0.1", "localhost", ""};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_true(sl_server_is_loopback(own[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(sl_server_is_loopback(others[i]));
}

static void a_secret_is_the_same_only_when_all_of_it_is(void **state) {
    static const char secret[] = "0123456789abcdef";
    static const char *const wrong[] = {"",
                                        "0",
                                        "0123456789abcde",
                                        "0123456789abcdeF",
                                        "0123456789abcdef0",
                                        "0123456789abcdef0123456789abcdef",
                                        "1123456789abcdef"};
    (void)state;
    assert_true(sl_server_same_secret(secret, secret));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(sl_server_same_secret(secret, wrong[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_told_from_what_others_reach),
        cmocka_unit_test(a_secret_is_the_same_only_when_all_of_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
