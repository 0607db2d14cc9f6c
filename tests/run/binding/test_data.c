#include "check.h"

#include "base/file.h"
#include "base/memory.h"
#include "run/binding/data.h"
#include <math.h>
#include <unistd.h>

/* A folder of its own, removed at the end. */
static char folder[] = "/tmp/slackline-test-data-XXXXXX";

static char *path_of(const char *name) {
    static char path[4][256];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, 256, "%s/%s", folder, name);
    return p;
}

/* b.txt: bytes 0..99, a.txt: 100..199, and a link c.txt to a.txt. */
static int make_files(void **state) {
    (void)state;
    char bytes[200];
    for (int i = 0; i < 200; i++)
        bytes[i] = (char)i;
    if (!mkdtemp(folder))
        return -1;
    return sl_file_write(path_of("b.txt"), bytes, 100) || sl_file_write(path_of("a.txt"), bytes + 100, 100) ||
           symlink("a.txt", path_of("c.txt")) || sl_directory_make(path_of("d.txt"));
}

static int remove_files(void **state) {
    (void)state;
    return sl_path_remove(folder) == SL_OK ? 0 : -1;
}

static sl_data_config config_of(char **pattern) {
    return (sl_data_config){.patterns = pattern,
                            .pattern_count = 1,
                            .seed = 1,
                            .held_out = 0.2,
                            .context = 4,
                            .batch = 2,
                            .microbatches = 3};
}

static void files_are_read_in_order_and_once(void **state) {
    (void)state;
    char *pattern = path_of("*.txt");
    sl_data_config c = config_of(&pattern);
    sl_data *d;
    assert_ok(sl_data_open(&c, &d));
    assert_int_equal(sl_data_all_tokens(d), 200);
    uint16_t token[8], target[8];
    /* the tail is the last 40 bytes of a then b: bytes 60..99; its first microbatch begins there */
    sl_data_validation_batch(d, 0, token, target);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(token[i], 60 + i);
        assert_int_equal(target[i], 61 + i);
    }
    assert_int_equal(sl_data_validation_batches(d), 39 / 8);
    sl_data_validation_batch(d, 3, token, target);
    assert_int_equal(target[7], 60 + 32);
    /* 200 different bytes: log 200 */
    assert_near(sl_data_entropy(d), log(200), 1e-12);
    sl_data_close(d);
}

/* 159 / 4 = 39 windows: each once in an epoch, another order in the next one, targets one byte later. */
static void an_epoch_reads_every_window_once(void **state) {
    (void)state;
    char *pattern = path_of("*.txt");
    sl_data_config c = config_of(&pattern);
    sl_data *d;
    assert_ok(sl_data_open(&c, &d));
    int seen[39] = {0}, same = 0;
    for (uint64_t n = 0; n < 39; n++) {
        size_t start = sl_data_window(d, n);
        assert_int_equal(start % 4, 0);
        assert_true(start + 4 < 160);
        seen[start / 4]++;
        same += start == sl_data_window(d, n + 39);
    }
    for (int i = 0; i < 39; i++)
        assert_int_equal(seen[i], 1);
    assert_true(same < 10); /* one in expectation */
    sl_data_close(d);
}

static void a_microbatch_is_a_function_of_seed_and_position(void **state) {
    (void)state;
    char *pattern = path_of("*.txt");
    sl_data_config c = config_of(&pattern);
    sl_data *d, *again, *other;
    assert_ok(sl_data_open(&c, &d));
    assert_ok(sl_data_open(&c, &again));
    c.seed = 2;
    assert_ok(sl_data_open(&c, &other));
    uint16_t token[3][8], target[8];
    int differ = 0;
    for (int iteration = 20; iteration >= 0; iteration--)
        for (int m = 0; m < 3; m++) {
            sl_data_batch(d, iteration, m, token[0], target);
            sl_data_batch(again, iteration, m, token[1], NULL);
            sl_data_batch(other, iteration, m, token[2], NULL);
            assert_memory_equal(token[0], token[1], sizeof token[0]);
            differ += memcmp(token[0], token[2], sizeof token[0]) != 0;
            for (int row = 0; row < 2; row++) {
                uint64_t n = ((uint64_t)iteration * 3 + (uint64_t)m) * 2 + (uint64_t)row;
                assert_int_equal(token[0][row * 4], (100 + sl_data_window(d, n)) % 200);
                assert_int_equal(target[row * 4 + 3], (100 + sl_data_window(d, n) + 4) % 200);
            }
        }
    assert_true(differ > 50);
    sl_data_close(d);
    sl_data_close(again);
    sl_data_close(other);
}

static void wrong_data_is_named(void **state) {
    (void)state;
    char *pattern = path_of("none*");
    sl_data_config c = config_of(&pattern);
    sl_data *d;
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "none*");
    pattern = path_of("d.txt");
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "directories");
    pattern = path_of("a.txt");
    c.context = 40;
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "100 tokens are too few, at least 122");
    c.context = 4;
    c.held_out = 1;
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "held-out");
    c.held_out = 0.1;
    assert_int_equal(sl_file_write(path_of("empty"), "", 0), SL_OK);
    pattern = path_of("empty");
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "is empty");
    pattern = "/dev/zero"; /* never ends */
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "data file '/dev/zero' is not a regular file");
    assert_int_equal(symlink("nowhere", path_of("broken")), 0);
    pattern = path_of("brok*");
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "broken");
    pattern = path_of("a.txt");
    for (long n = 0; n < 5; n++) { /* the data, its files twice, its text, its entropy */
        sl_alloc_fail_at(n);
        assert_int_equal(sl_data_open(&c, &d), SL_ENOMEM);
    }
    sl_alloc_fail_at(-1);
}

/* Ids of two bytes, the lower first: 0x0102 is stored as 2, 1. */
static void ids_are_read_and_checked(void **state) {
    (void)state;
    unsigned char bytes[2 * 60];
    char *pattern = path_of("ids");
    sl_data_config c = config_of(&pattern);
    sl_data *d;
    uint16_t token[8], target[8];
    c.tokens = SL_DATA_UINT16;
    c.vocabulary = 50257;
    for (int i = 0; i < 60; i++) {
        int id = i % 3 == 2 ? 50256 : 300 * i;
        bytes[2 * i] = (unsigned char)(id % 256);
        bytes[2 * i + 1] = (unsigned char)(id / 256);
    }
    assert_ok(sl_file_write(path_of("ids"), (const char *)bytes, sizeof bytes));
    assert_ok(sl_data_open(&c, &d));
    assert_int_equal(sl_data_all_tokens(d), 60);
    sl_data_validation_batch(d, 0, token, target); /* the last 12 ids */
    assert_int_equal(token[0], 300 * 48);
    assert_int_equal(token[2], 50256);
    assert_int_equal(target[7], 50256); /* number 48 + 8 */
    /* 50256 twenty times, forty others once: 1/3 log 3 + 2/3 log 60 */
    assert_near(sl_data_entropy(d), log(3) / 3 + 2 * log(60) / 3, 1e-12);
    sl_data_close(d);
    c.vocabulary = 50256;
    assert_fails(sl_data_open(&c, &d), SL_EINVAL,
                 "ids': token 50256 at byte 4 is outside the vocabulary of 50256");
    c.vocabulary = 65536;
    assert_ok(sl_file_write(path_of("odd"), (const char *)bytes, 101));
    pattern = path_of("odd");
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "odd' has 101 bytes, no whole number of uint16 ids");
    c.tokens = SL_DATA_BYTES;
    c.vocabulary = 199;
    pattern = path_of("a.txt");
    assert_fails(sl_data_open(&c, &d), SL_EINVAL, "a.txt': token 199 at byte 99 is outside");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_in_order_and_once),
        cmocka_unit_test(an_epoch_reads_every_window_once),
        cmocka_unit_test(a_microbatch_is_a_function_of_seed_and_position),
        cmocka_unit_test(wrong_data_is_named),
        cmocka_unit_test(ids_are_read_and_checked),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
