#include "check.h"

#include "run/binding/hash.h"

/* xxHash's published vector, XXH64 of nothing with seed 0; and of 16 zero bytes, calculated from the text of
 * the specification (doc/xxhash_spec.md) by a program of its own. */
static void the_hash_is_xxh64(void **state) {
    (void)state;
    sl_hash *hash;
    const float zeros[4] = {0};
    assert_ok(sl_hash_open(&hash));
    assert_true(sl_hash_value(hash) == 0xef46db3751d8e999u);
    sl_hash_add(hash, zeros, 4);
    assert_true(sl_hash_value(hash) == 0xaf09f71516247c32u);
    sl_hash_close(hash);
}

static void pieces_may_be_cut_anywhere(void **state) {
    (void)state;
    float x[1000];
    for (int i = 0; i < 1000; i++)
        x[i] = (float)i * 0.37f;
    sl_hash *whole, *parts;
    assert_ok(sl_hash_open(&whole));
    assert_ok(sl_hash_open(&parts));
    sl_hash_add(whole, x, 1000);
    sl_hash_add(parts, x, 3);
    sl_hash_add(parts, x + 3, 0);
    sl_hash_add(parts, x + 3, 997);
    assert_true(sl_hash_value(whole) == sl_hash_value(parts));
    x[999] += 1;
    sl_hash_add(whole, x + 999, 1);
    sl_hash_add(parts, x + 998, 1);
    assert_true(sl_hash_value(whole) != sl_hash_value(parts));
    sl_hash_close(whole);
    sl_hash_close(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_xxh64),
        cmocka_unit_test(pieces_may_be_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
