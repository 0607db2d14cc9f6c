/* labels: slow */
/* Hundreds of delegates killed in mid-transfer. */
#include "run/transport/delegation.h"

static void hundreds_of_killed_delegates_lose_and_double_nothing(void **state) {
    (void)state;
    messages_survive_kills(0, 3, 2, 700, 8, 400000, 150);
}

static void between_hosts_too(void **state) {
    (void)state;
    messages_survive_kills(1, 2, 3, 500, 8, 400000, 100);
}

static void with_eight_queues_too(void **state) {
    (void)state;
    messages_survive_kills(0, 2, 8, 500, 24, 100000, 150);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(hundreds_of_killed_delegates_lose_and_double_nothing, clear_up),
        cmocka_unit_test_teardown(between_hosts_too, clear_up),
        cmocka_unit_test_teardown(with_eight_queues_too, clear_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
