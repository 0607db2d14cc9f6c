/* The safetensors format, by files made by hand. Its own reader in Python is the judge in test_package.py. */
#include "run/checkpoint/bytes.h"

#include "run/checkpoint/checksum.h"
#include "run/checkpoint/safetensors.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static sl_status open_text(const char *header, const void *data, size_t size) {
    sl_safetensors *file;
    sl_status status = sl_safetensors_open(put_file("x.safetensors", header, data, size), &file);
    if (status == SL_OK)
        sl_safetensors_close(file);
    return status;
}

static void tensors_of_three_types_are_read_as_f32(void **state) {
    (void)state;
    /* IEEE 754: binary16 1, -2, 65504 (largest), 2^-24 (smallest), 2^-14 (smallest normal), infinity;
     * bfloat16 1 and 3.140625 */
    static const struct __attribute__((packed)) {
        float f32[3];
        uint16_t f16[6], bf16[2];
        int64_t other;
    } data = {{1.5f, -0.0f, 3e38f}, {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00}, {0x3f80, 0x4049}, 7};
    const char *path = put_file("x.safetensors",
                                "{\"c\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[24,28]},"
                                "\"__metadata__\":{\"format\":\"pt\"},"
                                "\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                                "\"d\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]},"
                                "\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[12,24]},"
                                "\"e\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[36,36]}}   ",
                                &data, sizeof data);
    sl_safetensors *file;
    float out[6];
    assert_ok(sl_safetensors_open(path, &file));
    assert_int_equal(sl_safetensors_count(file), 5);
    assert_string_equal(sl_safetensors_tensor(file, 1)->name, "b");
    assert_null(sl_safetensors_find(file, "f"));
    const sl_tensor *b = sl_safetensors_find(file, "b"), *c = sl_safetensors_find(file, "c");
    assert_true(b->dimensions == 2 && b->shape[0] == 2 && b->shape[1] == 3 && b->count == 6);
    assert_ok(sl_safetensors_read(file, sl_safetensors_find(file, "a"), 0, 3, out));
    assert_memory_equal(out, data.f32, sizeof data.f32);
    assert_ok(sl_safetensors_read(file, b, 0, 6, out));
    assert_true(out[0] == 1 && out[1] == -2 && out[2] == 65504 && out[3] == 0x1p-24f && out[4] == 0x1p-14f &&
                isinf(out[5]) && out[5] > 0);
    assert_ok(sl_safetensors_read(file, c, 1, 1, out));
    assert_true(out[0] == 3.140625f);
    assert_fails(sl_safetensors_read(file, c, 1, 2, out), SL_EINVAL, "no elements 1 to 3");
    assert_fails(sl_safetensors_read(file, sl_safetensors_find(file, "d"), 0, 1, out), SL_EINVAL,
                 "dtype I64");
    assert_int_equal(sl_safetensors_find(file, "e")->count, 0);
    sl_safetensors_close(file);
}

#define ONE(offsets) "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" offsets "}}"

static void a_header_that_lies_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } cases[] = {
        {ONE("[0,8]"), 7, "ends at byte 8 of the data, the file has only 7 (truncated?)"},
        {ONE("[0,8]"), 9, "1 bytes after the last tensor belong to no tensor"},
        {ONE("[0,12]"), 12, "has 12 bytes, which do not fit its shape and dtype F32"},
        {ONE("[4,12]"), 12, "leaves a hole before it"},
        {ONE("[8,0]"), 8, "no data_offsets"},
        {ONE("[-8,0]"), 8, "no data_offsets"},
        {ONE("[0,8.0]"), 8, "no data_offsets"},
        {ONE("[0]"), 8, "no data_offsets"},
        {ONE("[0,18446744073709551615]"), 8, "not JSON"},
        {ONE("[0,9223372036854775807]"), 8, "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         8, "'b' overlaps the one before"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "shape that overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         "do not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "not a list of integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "not a list of integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "at most 8 dimensions"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "dtype 'F31', which is not known"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no shape"},
        {"{\"a\":3}", 0, "not described by a map"},
        {"{\"a\":{},\"a\":{}}", 0, "not JSON: duplicate"},
        {"{\"__metadata__\":{\"x\":1}}", 0, "not a map of texts"},
        {"{\"a\":", 0, "not JSON"},
        {"{}x", 0, "not JSON"},
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{", 0, "does not fit a file of 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char data[16] = {0};
        assert_fails(open_text(cases[i].header, data, cases[i].data), SL_EINVAL, cases[i].says);
        assert_says(sl_error_text(), "/x.safetensors: ");
    }
    assert_ok(open_text("{}", "", 0));
}

static void a_length_that_lies_is_refused(void **state) {
    (void)state;
    static const unsigned char longest[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    sl_safetensors *file;
    assert_ok(sl_file_write(in_folder("y"), longest, sizeof longest));
    assert_fails(sl_safetensors_open(in_folder("y"), &file), SL_EINVAL,
                 "18446744073709551615 bytes does not fit");
    assert_ok(sl_file_write(in_folder("y"), longest, 5));
    assert_fails(sl_safetensors_open(in_folder("y"), &file), SL_EINVAL, "5 bytes are too few");
    assert_fails(sl_safetensors_open(in_folder("absent"), &file), SL_EINVAL, "absent: cannot be read");
    assert_fails(sl_safetensors_open(folder, &file), SL_EINVAL, "not a regular file");
}

/* A file that shrinks after its header was read is an error, not a signal. */
static void a_file_cut_while_it_is_open_is_an_error(void **state) {
    (void)state;
    float data[2] = {1, 2}, out[2];
    sl_safetensors *file;
    assert_ok(sl_safetensors_open(put_file("x.safetensors", ONE("[0,8]"), data, sizeof data), &file));
    assert_int_equal(truncate(in_folder("x.safetensors"), 8 + (off_t)strlen(ONE("[0,8]")) + 4), 0);
    assert_fails(sl_safetensors_read(file, sl_safetensors_find(file, "a"), 0, 2, out), SL_EINVAL,
                 "within a tensor");
    sl_safetensors_close(file);
}

static void what_is_written_reads_back_and_has_the_sum_it_states(void **state) {
    (void)state;
    enum { COUNT = 3000 };
    float data[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i * 0.37f;
    const sl_tensor_source sources[] = {
        {"z", 2, {30, 100}, data}, {"a\"b", 1, {7}, data + 5}, {"empty", 1, {0}, data}};
    sl_file_seal seal;
    uint64_t size, checksum;
    sl_safetensors *file;
    unlink(in_folder("w"));
    assert_ok(sl_safetensors_write(in_folder("w"), sources, 3, NULL, &seal));
    assert_ok(sl_checksum_file(in_folder("w"), &size, &checksum));
    assert_true(size == seal.size && checksum == seal.checksum);
    assert_ok(sl_safetensors_open(in_folder("w"), &file));
    const sl_tensor *z = sl_safetensors_find(file, "z");
    assert_true(z->shape[0] == 30 && z->shape[1] == 100 && z->dimensions == 2 && z->begin % 64 == 0);
    assert_ok(sl_safetensors_read(file, z, 0, COUNT, out));
    assert_memory_equal(out, data, sizeof data);
    assert_ok(sl_safetensors_read(file, sl_safetensors_find(file, "a\"b"), 2, 5, out));
    assert_memory_equal(out, data + 7, 5 * sizeof *out);
    sl_safetensors_close(file);
    assert_fails(sl_safetensors_write(in_folder("w"), sources, 3, NULL, &seal), SL_ESYS, "File exists");
}

/* Between a check of the file and the reading of it, or on a host with a copy of its own. */
static void a_byte_changed_after_opening_is_noticed_by_whoever_reads_its_tensor(void **state) {
    (void)state;
    enum { COUNT = 70000 }; /* more than one piece */
    static float data[COUNT], out[COUNT];
    const sl_tensor_source sources[] = {{"changed", 1, {COUNT}, data}, {"sound", 1, {3}, data}};
    sl_file_seal seal;
    sl_safetensors *file;
    unlink(in_folder("c"));
    assert_ok(sl_safetensors_write(in_folder("c"), sources, 2, NULL, &seal));
    assert_ok(sl_safetensors_open(in_folder("c"), &file));
    const sl_tensor *changed = sl_safetensors_find(file, "changed"),
                    *sound = sl_safetensors_find(file, "sound");
    assert_ok(sl_safetensors_read(file, changed, 69000, 1000, out));
    int descriptor = open(in_folder("c"), O_WRONLY);
    assert_int_equal(pwrite(descriptor, "x", 1, (off_t)changed->begin + 66000 * 4), 1);
    close(descriptor);
    assert_fails(sl_safetensors_read(file, changed, 0, COUNT, out), SL_EINVAL,
                 "/c: tensor 'changed' was changed");
    assert_fails(sl_safetensors_read(file, changed, 10, 5, out), SL_EINVAL, "tensor 'changed' was changed");
    assert_ok(sl_safetensors_read(file, sound, 0, 3, out));
    sl_safetensors_close(file);
}

#define SEALED_HALVES(sum)                                                                                   \
    "{\"__metadata__\":{\"xxh64.a\":\"" sum                                                                  \
    "\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,6]}}"

static void a_stated_sum_counts_for_halves_too_and_must_be_one(void **state) {
    (void)state;
    const uint16_t data[3] = {0x3f80, 0x4000, 0x4040}; /* 1, 2, 3 */
    float out[3] = {0};
    char header[256];
    sl_safetensors *file;
    snprintf(header, sizeof header, SEALED_HALVES("%016llx"),
             (unsigned long long)sl_checksum(data, sizeof data));
    assert_ok(sl_safetensors_open(put_file("h", header, data, sizeof data), &file));
    assert_ok(sl_safetensors_read(file, sl_safetensors_find(file, "a"), 1, 2, out));
    assert_true(out[0] == 2 && out[1] == 3);
    sl_safetensors_close(file);
    flip_byte(in_folder("h"), -6);
    assert_ok(sl_safetensors_open(in_folder("h"), &file));
    assert_fails(sl_safetensors_read(file, sl_safetensors_find(file, "a"), 1, 2, out), SL_EINVAL,
                 "was changed");
    sl_safetensors_close(file);
    assert_fails(sl_safetensors_open(put_file("h", SEALED_HALVES("12"), data, sizeof data), &file), SL_EINVAL,
                 "xxh64.a is not an xxh64");
}

static void what_cannot_be_written_is_an_error_and_leaves_nothing(void **state) {
    (void)state;
    static float data[100000];
    const sl_tensor_source source = {"a", 1, {100000}, data};
    struct rlimit before, small;
    sl_file_seal seal;
    atomic_int stop = 1;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){200000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_fails(sl_safetensors_write(in_folder("big"), &source, 1, NULL, &seal), SL_ESYS, "big: ");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(access(in_folder("big"), F_OK), -1);
    assert_fails(sl_safetensors_write(in_folder("big"), &source, 1, &stop, &seal), SL_ENONE, "stopped");
    assert_int_equal(access(in_folder("big"), F_OK), -1);
    assert_fails(sl_safetensors_write(in_folder("nowhere/big"), &source, 1, NULL, &seal), SL_ESYS,
                 "No such file");
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    float data[2] = {1, 2};
    const char *path = put_file("x.safetensors", ONE("[0,8]"), data, sizeof data);
    for (long n = 0; n < 3; n++) {
        sl_safetensors *file;
        sl_alloc_fail_at(n);
        assert_int_equal(sl_safetensors_open(path, &file), SL_ENOMEM);
        sl_alloc_fail_at(-1);
        assert_null(file);
    }
}

/* The published value for nothing, and that pieces may be cut anywhere. */
static void the_checksum_is_xxh64(void **state) {
    (void)state;
    sl_checksum_stream *stream;
    assert_true(sl_checksum("", 0) == 0xef46db3751d8e999u);
    assert_ok(sl_checksum_open(&stream));
    sl_checksum_add(stream, "slack", 5);
    sl_checksum_add(stream, "", 0);
    sl_checksum_add(stream, "line", 4);
    assert_true(sl_checksum_value(stream) == sl_checksum("slackline", 9));
    sl_checksum_close(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_three_types_are_read_as_f32),
        cmocka_unit_test(a_header_that_lies_is_refused),
        cmocka_unit_test(a_length_that_lies_is_refused),
        cmocka_unit_test(a_file_cut_while_it_is_open_is_an_error),
        cmocka_unit_test(what_is_written_reads_back_and_has_the_sum_it_states),
        cmocka_unit_test(a_byte_changed_after_opening_is_noticed_by_whoever_reads_its_tensor),
        cmocka_unit_test(a_stated_sum_counts_for_halves_too_and_must_be_one),
        cmocka_unit_test(what_cannot_be_written_is_an_error_and_leaves_nothing),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
        cmocka_unit_test(the_checksum_is_xxh64),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
