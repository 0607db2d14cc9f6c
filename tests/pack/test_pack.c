/* What was packed is unpacked as it was; what is damaged, cut, or larger than allowed is refused by name. */
#include "check.h"

#include "base/random.h"
#include "pack/pack.h"
#include "pack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static char file[] = "/tmp/slackline-pack.XXXXXX";

typedef struct bytes {
    char *byte;
    size_t size, room;
} bytes;

static sl_status take(void *object, const char *piece, size_t size) {
    bytes *b = object;
    if (b->size + size > b->room)
        return sl_error(SL_EINVAL, "more than was packed");
    memcpy(b->byte + b->size, piece, size);
    b->size += size;
    return SL_OK;
}

static sl_status unpack(uint64_t most, bytes *b) {
    b->size = 0;
    return sl_unpack_file(file, most, &(sl_unpack_sink){take, b});
}

static void pack(const char *byte, size_t size, size_t step) {
    sl_packer *packer;
    int descriptor = open(file, O_RDWR | O_TRUNC);
    assert_true(descriptor >= 0);
    if (sl_packer_open(file, descriptor, &packer) == SL_EINVAL) {
        printf("not tried: no zlib\n");
        exit(77);
    }
    for (size_t at = 0; at < size; at += step)
        assert_int_equal(sl_packer_put(packer, byte + at, step < size - at ? step : size - at), 0);
    assert_int_equal(sl_packer_close(packer), 0);
    assert_int_equal(close(descriptor), 0);
}

static off_t packed_size(void) {
    int descriptor = open(file, O_RDONLY);
    off_t size = lseek(descriptor, 0, SEEK_END);
    close(descriptor);
    return size;
}

static void any_bytes_come_back(void **state) {
    (void)state;
    const char *given = getenv("SL_SEED");
    uint64_t seed = (uint64_t)(given ? atoll(given) : getpid()), at = seed;
    bytes back = {.byte = malloc(1 << 20), .room = 1 << 20};
    char *text = malloc(1 << 20);
    printf("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 40; round++) {
        const size_t size = round == 0 ? 0 : sl_random_mix(at += SL_RANDOM_STEP) % (1 << 20);
        const uint64_t kinds = 1 + sl_random_mix(at += SL_RANDOM_STEP) % 256;
        for (size_t i = 0; i < size; i++)
            text[i] = (char)(sl_random_mix(at += SL_RANDOM_STEP) % kinds);
        pack(text, size, 1 + sl_random_mix(at += SL_RANDOM_STEP) % 100000);
        assert_ok(unpack(1 << 20, &back));
        assert_int_equal(back.size, size);
        assert_memory_equal(back.byte, text, size);
    }
    free(text);
    free(back.byte);
}

static void what_is_not_packed_passes(void **state) {
    (void)state;
    char room[64], head[8];
    bytes back = {.byte = room, .room = sizeof room};
    size_t size;
    int descriptor = open(file, O_WRONLY | O_TRUNC);
    assert_int_equal(write(descriptor, "{\"a\": 1}", 8), 8);
    close(descriptor);
    assert_ok(unpack(8, &back));
    assert_int_equal(back.size, 8);
    assert_fails(unpack(7, &back), SL_EINVAL, "more than 7 bytes");
    assert_ok(sl_unpack_head(file, head, 3, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(head, "{\"a", 3);
    assert_fails(sl_unpack_file("/nowhere/x.gz", 8, &(sl_unpack_sink){take, &back}), SL_EINVAL,
                 "/nowhere/x.gz");
}

static void the_head_is_that_of_the_content(void **state) {
    (void)state;
    char head[16];
    size_t size;
    pack("{\"format\": 1}", 13, 13);
    assert_ok(sl_unpack_head(file, head, 9, &size));
    assert_int_equal(size, 9);
    assert_memory_equal(head, "{\"format\"", 9);
}

/* 64 MB of one byte are some 64 KB. */
static void a_bomb_stops_at_the_limit(void **state) {
    (void)state;
    enum { SIZE = 64 << 20, MOST = 1 << 20 };
    char *text = calloc(SIZE, 1);
    bytes back = {.byte = malloc(MOST), .room = MOST};
    pack(text, SIZE, SIZE);
    assert_true(packed_size() < SIZE / 100);
    assert_fails(unpack(MOST, &back), SL_EINVAL, "more than 1048576 bytes when unpacked");
    assert_true(back.size <= MOST);
    free(back.byte);
    free(text);
}

static void damage_is_an_error_with_the_name(void **state) {
    (void)state;
    char text[5000];
    bytes back = {.byte = malloc(8192), .room = 8192};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(sl_random_mix(i) % 20);
    pack(text, sizeof text, sizeof text);
    const off_t size = packed_size();
    for (off_t cut = size - 1; cut >= 20; cut -= 37) {
        assert_int_equal(truncate(file, cut), 0);
        assert_fails(unpack(8192, &back), SL_EINVAL, file);
    }
    pack(text, sizeof text, sizeof text);
    int descriptor = open(file, O_WRONLY); /* the checksum */
    assert_int_equal(pwrite(descriptor, "wrong", 5, size - 8), 5);
    close(descriptor);
    assert_fails(unpack(8192, &back), SL_EINVAL, file);
    free(back.byte);
}

static void a_full_disk_is_an_error(void **state) {
    (void)state;
    sl_packer *packer;
    int descriptor = open("/dev/full", O_WRONLY);
    if (descriptor < 0) {
        printf("not tried: no /dev/full\n");
        return;
    }
    assert_ok(sl_packer_open("/dev/full", descriptor, &packer));
    assert_int_equal(sl_packer_put(packer, "a", 1), 0); /* still in memory */
    assert_int_equal(sl_packer_close(packer), ENOSPC);
    close(descriptor);
}

static void names_ask_for_it(void **state) {
    (void)state;
    assert_true(sl_packs("plan.json.gz"));
    assert_false(sl_packs("plan.json"));
    assert_false(sl_packs(".gz"));
    assert_false(sl_packs("gz"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(what_is_not_packed_passes),
        cmocka_unit_test(the_head_is_that_of_the_content),
        cmocka_unit_test(a_bomb_stops_at_the_limit),
        cmocka_unit_test(damage_is_an_error_with_the_name),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(names_ask_for_it),
    };
    int descriptor = mkstemp(file);
    if (descriptor < 0)
        return 1;
    close(descriptor);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    return failed;
}
