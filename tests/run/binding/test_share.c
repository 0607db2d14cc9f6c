/* Shares of a stage's parameters: every element in exactly one of them, cuts at blocks of 1,024 elements
 * only. */
#include "check.h"
#include "random_problem.h"

#include "base/memory.h"
#include "run/binding/gradient_norm.h"
#include "run/binding/reduce.h"
#include "run/model/parameter.h"

enum { MAX = 12 };

static uint64_t roll(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static int roll_list(uint64_t *state, sl_parameter *list) {
    int count = 1 + (int)(roll(state) % MAX);
    for (int i = 0; i < count; i++)
        list[i] = (sl_parameter){.count = 1 + roll(state) % (i % 3 ? 5000 : 40)};
    return count;
}

static void every_element_lies_in_one_share(void **unused) {
    (void)unused;
    uint64_t state = seed_of(7);
    for (int round = 0; round < 300; round++) {
        sl_parameter list[MAX];
        sl_shares cut;
        int count = roll_list(&state, list), shares = 1 + (int)(roll(&state) % 6);
        size_t elements = 0, covered = 0, all = 0;
        assert_ok(sl_shares_make(list, count, shares, &cut));
        assert_true(sl_shares_begin(&cut, 0) == 0 && sl_shares_begin(&cut, shares) == cut.first[count]);
        for (int i = 0; i < count; i++) {
            size_t next = 0; /* the shares ascend within a parameter and leave nothing out */
            elements += list[i].count;
            for (int share = 0; share < shares; share++) {
                size_t begin = sl_shares_begin(&cut, share), end = sl_shares_begin(&cut, share + 1), at,
                       position;
                size_t piece = sl_shares_piece(&cut, i, begin, end, &at, &position);
                if (piece == 0)
                    continue;
                assert_true(at == next && at % SL_NORM_BLOCK == 0 && position % SL_NORM_BLOCK == 0);
                assert_true(position + piece <= (end - begin) * SL_NORM_BLOCK);
                next = at + piece;
                assert_true(next == list[i].count || next % SL_NORM_BLOCK == 0);
            }
            assert_true(next == list[i].count);
            covered += next;
        }
        for (int share = 0; share < shares; share++) {
            size_t blocks = sl_shares_begin(&cut, share + 1) - sl_shares_begin(&cut, share);
            assert_true(blocks <= sl_shares_longest(&cut) && sl_shares_longest(&cut) - blocks <= 1);
            all += sl_shares_elements(&cut, share);
        }
        assert_true(covered == elements && all == elements);
        sl_shares_free(&cut);
    }
}

/* By hand: 2,500 and 100 elements are 3 and 1 blocks; two shares get two blocks each, so the cut is in the
 * first parameter behind 2,048 elements. */
static void a_cut_lies_at_a_block(void **unused) {
    (void)unused;
    const sl_parameter list[2] = {{.count = 2500}, {.count = 100}};
    sl_shares cut;
    size_t at, position;
    assert_ok(sl_shares_make(list, 2, 2, &cut));
    assert_true(sl_shares_begin(&cut, 1) == 2);
    assert_true(sl_shares_piece(&cut, 0, 0, 2, &at, &position) == 2048 && at == 0 && position == 0);
    assert_true(sl_shares_piece(&cut, 0, 2, 4, &at, &position) == 452 && at == 2048 && position == 0);
    assert_true(sl_shares_piece(&cut, 1, 2, 4, &at, &position) == 100 && at == 0 && position == 1024);
    assert_true(sl_shares_piece(&cut, 1, 0, 2, &at, &position) == 0);
    assert_true(sl_shares_before(&cut, 1, 2, 4) == 452 && sl_shares_elements(&cut, 1) == 552);
    sl_shares_free(&cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_lies_in_one_share),
        cmocka_unit_test(a_cut_lies_at_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
