/* What a state may say, to the last character: texts are sealed here, so only what they say is wrong with
 * them.
 */
#include "run/checkpoint/bytes.h"

#include "run/checkpoint/checkpoint_state.h"
#include "run/checkpoint/checksum.h"

#define SEAL "0000000000000000"
#define SUM "\"xxh64\": \"0123456789abcdef\""

static char names[100][101]; /* [n]: of n letters */

static void put_sealed(const char *body) {
    char text[16384], digits[17], *seal;
    snprintf(text, sizeof text, "{%s, \"seal\": \"" SEAL "\"}", body);
    seal = strstr(text, SEAL);
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)sl_checksum(text, strlen(text)));
    memcpy(seal, digits, 16);
    assert_ok(sl_file_write(in_folder("state.json"), text, strlen(text)));
}

static void put_state(const char *iteration, const char *stages, const char *run, const char *files) {
    char body[12288];
    snprintf(body, sizeof body,
             "\"format\": \"" SL_CHECKPOINT_FORMAT
             "\", \"iteration\": %s, \"stages\": %s, \"run\": %s, \"files\": %s",
             iteration, stages, run, files);
    put_sealed(body);
}

static void is_read(sl_checkpoint_state *state) {
    assert_ok(sl_checkpoint_state_read(in_folder("state.json"), state));
}

static void is_refused(const char *why) {
    sl_checkpoint_state state;
    assert_fails(sl_checkpoint_state_read(in_folder("state.json"), &state), SL_EINVAL, why);
    assert_null(state.file);
}

static void numbers_have_their_ranges(void **state) {
    (void)state;
    sl_checkpoint_state read;
    put_state("0", "1", "{}", "[]");
    is_read(&read);
    assert_true(read.iteration == 0 && read.stages == 1 && read.keys == 0 && read.files == 0);
    sl_checkpoint_state_free(&read);
    put_state("2147483647", "4096", "{}", "[]");
    is_read(&read);
    assert_true(read.iteration == 2147483647 && read.stages == 4096);
    sl_checkpoint_state_free(&read);
    static const char *const iterations[] = {"-1", "2147483648", "1.5", "\"1\"", "null"};
    for (int i = 0; i < 5; i++) {
        put_state(iterations[i], "1", "{}", "[]");
        is_refused("'iteration'");
    }
    put_state("1", "0", "{}", "[]");
    is_refused("'stages'");
}

static void keys_fit_or_are_refused(void **state) {
    (void)state;
    char run[4096], value[128];
    size_t at;
    sl_checkpoint_state read;
    snprintf(value, sizeof value, "\"%s\"", names[61]); /* 63 characters with its quotes */
    snprintf(run, sizeof run, "{\"%s\": %s}", names[39], value);
    put_state("1", "1", run, "[]");
    is_read(&read);
    assert_string_equal(read.key[0].name, names[39]);
    assert_string_equal(read.key[0].value, value);
    sl_checkpoint_state_free(&read);
    snprintf(run, sizeof run, "{\"%s\": 1}", names[40]);
    put_state("1", "1", run, "[]");
    is_refused("too long");
    snprintf(run, sizeof run, "{\"a\": \"%s\"}", names[62]);
    put_state("1", "1", run, "[]");
    is_refused("too long");
    for (int keys = SL_CHECKPOINT_KEYS; keys <= SL_CHECKPOINT_KEYS + 1; keys++) {
        at = (size_t)snprintf(run, sizeof run, "{");
        for (int i = 0; i < keys; i++)
            at += (size_t)snprintf(run + at, sizeof run - at, "%s\"k%d\": %d", i ? ", " : "", i, i);
        snprintf(run + at, sizeof run - at, "}");
        put_state("1", "1", run, "[]");
        if (keys > SL_CHECKPOINT_KEYS) {
            is_refused("too many keys");
        } else {
            is_read(&read);
            assert_true(read.keys == keys && strcmp(read.key[31].name, "k31") == 0);
            sl_checkpoint_state_free(&read);
        }
    }
    put_state("1", "1", "[]", "[]");
    is_refused("no 'run'");
}

static void files_are_described_fully(void **state) {
    (void)state;
    char files[1024];
    sl_checkpoint_state read;
    snprintf(files, sizeof files,
             "[{\"name\": \"%s\", \"size\": 7, " SUM "}, {\"name\": \"b\", \"size\": 0, " SUM
             ", \"header\": \"00000000000000ff\"}]",
             names[95]);
    put_state("1", "1", "{}", files);
    is_read(&read);
    assert_int_equal(read.files, 2);
    assert_string_equal(read.file[0].name, names[95]);
    assert_true(read.file[0].size == 7 && read.file[0].checksum == 0x0123456789abcdef &&
                read.file[0].header == 0);
    assert_true(read.file[1].size == 0 && read.file[1].header == 0xff);
    sl_checkpoint_state_free(&read);
    static const char *const wrong[] = {
        "[{\"size\": 7, " SUM "}]",
        "[{\"name\": \"a\", " SUM "}]",
        "[{\"name\": \"a\", \"size\": 7}]",
        "[{\"name\": \"a\", \"size\": -1, " SUM "}]",
        "[{\"name\": \"a\", \"size\": 1.5, " SUM "}]",
        "[{\"name\": \"a\", \"size\": 7, \"xxh64\": \"0123456789abcde\"}]",
        "[{\"name\": \"a\", \"size\": 7, \"xxh64\": \"0123456789ABCDEF\"}]",
        "[{\"name\": \"a\", \"size\": 7, \"xxh64\": \"0123456789abcdef0\"}]",
        "[{\"name\": \"a\", \"size\": 7, " SUM ", \"header\": \"ff\"}]",
        "[{\"name\": \"a/b\", \"size\": 7, " SUM "}]",
        "[3]",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        put_state("1", "1", "{}", wrong[i]);
        is_refused("describes a file wrongly");
    }
    snprintf(files, sizeof files, "[{\"name\": \"%s\", \"size\": 7, " SUM "}]", names[96]);
    put_state("1", "1", "{}", files);
    is_refused("describes a file wrongly");
    put_state("1", "1", "{}", "{}");
    is_refused("no list of 'files'");
    put_sealed("\"format\": \"slackline-checkpoint-2\"");
    is_refused("'slackline-checkpoint-2'");
    put_sealed("\"a\": 1, \"a\": 1"); /* twice */
    is_refused("not a JSON object");
}

/* What is written is read back, also a header's checksum that begins with zeros. */
static void what_is_written_is_read(void **state) {
    (void)state;
    sl_checkpoint_file file[2] = {{.name = "a", .size = 1u << 31, .checksum = 5, .header = 0},
                                  {.name = "b", .size = 3, .checksum = UINT64_MAX, .header = 9}};
    sl_checkpoint_state read, s = {.iteration = 7,
                                   .stages = 3,
                                   .key = {{"a.b", "0.1"}, {"c", "\"x\""}},
                                   .keys = 2,
                                   .file = file,
                                   .files = 2};
    assert_ok(sl_checkpoint_state_write(in_folder("state.json"), &s));
    is_read(&read);
    assert_true(read.iteration == 7 && read.stages == 3 && read.keys == 2 && read.files == 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(read.key[i].name, s.key[i].name);
        assert_string_equal(read.file[i].name, file[i].name);
        assert_true(read.file[i].size == file[i].size && read.file[i].checksum == file[i].checksum &&
                    read.file[i].header == file[i].header);
    }
    assert_string_equal(read.key[1].value, "\"x\"");
    assert_ok(sl_checkpoint_compare("x", &read, s.key, 2));
    sl_checkpoint_state_free(&read);
}

static void the_checksum_of_a_file_is_that_of_its_bytes(void **state) {
    (void)state;
    uint64_t size, checksum;
    assert_ok(sl_file_write(in_folder("bytes"), "", 0));
    assert_ok(sl_checksum_file(in_folder("bytes"), &size, &checksum));
    assert_true(size == 0 && checksum == UINT64_C(0xef46db3751d8e999)); /* XXH64 of nothing, seed 0 */
    assert_ok(sl_file_write(in_folder("bytes"), "abc", 3));
    assert_ok(sl_checksum_file(in_folder("bytes"), &size, &checksum));
    assert_true(size == 3 && checksum == UINT64_C(0x44bc2cf5ad770999)); /* XXH64 of "abc" */
    assert_ok(sl_directory_make(in_folder("folder")));
    assert_fails(sl_checksum_file(in_folder("folder"), &size, &checksum), SL_EINVAL, "not a regular file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0); /* must not be waited for */
    assert_fails(sl_checksum_file(in_folder("pipe"), &size, &checksum), SL_EINVAL, "not a regular file");
    assert_fails(sl_checksum_file(in_folder("absent"), &size, &checksum), SL_EINVAL, "cannot be read");
}

int main(void) {
    for (int n = 0; n < 100; n++)
        memset(names[n], 'n', (size_t)n);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_their_ranges),
        cmocka_unit_test(keys_fit_or_are_refused),
        cmocka_unit_test(files_are_described_fully),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_checksum_of_a_file_is_that_of_its_bytes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
