/* labels: slow */
/* The conduit under random trouble: 200,000 seeds, none of them those of test_conduit_random.c. */
#include "check.h"

#include "run/conduit/simulate_conduit.h"

static void every_message_is_published_once_in_order_whatever_happens(void **state) {
    (void)state;
    assert_int_equal(simulate_seeds(1000001, 200000), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_published_once_in_order_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
