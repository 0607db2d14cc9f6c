/* Numbers of long lists are written as jansson writes them. */
#include "check.h"

#include "base/json.h"
#include "base/random.h"

#include <unistd.h>

static void as_jansson(double value, const char *text, int length) {
    json_t *number = json_real(value);
    char *theirs = json_dumps(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (strlen(theirs) != (size_t)length || memcmp(theirs, text, (size_t)length) != 0)
        fail_msg("%.17g: %.*s, jansson has %s", value, length, text, theirs);
    free(theirs);
    json_decref(number);
}

static void numbers_are_written_as_jansson_does(void **state) {
    (void)state;
    static const sl_time times[] = {0,
                                    1,
                                    99,
                                    100,
                                    101,
                                    999999,
                                    1000000,
                                    1000001,
                                    1500000,
                                    -1,
                                    -2500000,
                                    1000000000000000 - 1,
                                    1000000000000000,
                                    4000000000000000000};
    static const double reals[] = {0,    -0.0, 1,     -1,     7,      0.1, 1e-7, 123456789, 999999999999999,
                                   1e15, 1e16, 1e300, 2.5e10, 16384.0};
    const char *given = getenv("SL_SEED");
    uint64_t seed = (uint64_t)(given ? atoll(given) : getpid()), at = seed;
    char text[SL_JSON_NUMBER];
    printf("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        as_jansson(sl_to_ms(times[i]), text, sl_json_ms(times[i], text));
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        as_jansson(reals[i], text, sl_json_real(reals[i], text));
    for (int i = 0; i < 200000; i++) {
        const int bits = (int)(sl_random_mix(at += SL_RANDOM_STEP) % 62);
        const sl_time time = (sl_time)(sl_random_mix(at += SL_RANDOM_STEP) >> (63 - bits));
        as_jansson(sl_to_ms(time), text, sl_json_ms(time, text));
        as_jansson((double)time / 4, text, sl_json_real((double)time / 4, text));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_written_as_jansson_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
