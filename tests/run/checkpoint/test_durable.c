/* A checkpoint survives a loss of power: nothing has its name before all of it is on disk. Here, the
 * program's write, fsync and rename are those of a disk that notes what it could still forget. */
#include "run/checkpoint/bytes.h"

#include "run/checkpoint/checkpoint_folder.h"
#include "run/checkpoint/safetensors.h"

#include <dlfcn.h>
#include <errno.h>

enum { THINGS = 64 };

/* Files whose bytes, and folders whose names, would be lost. */
static char unsynced[THINGS][512];
static int unsynced_count, renames_of_unsynced, syncs, failing_sync = -1;

static void mark(const char *path) {
    for (int i = 0; i < unsynced_count; i++)
        if (strcmp(unsynced[i], path) == 0)
            return;
    assert_true(unsynced_count < THINGS);
    snprintf(unsynced[unsynced_count++], sizeof unsynced[0], "%s", path);
}

static void unmark(const char *path) {
    for (int i = 0; i < unsynced_count; i++)
        if (strcmp(unsynced[i], path) == 0)
            memcpy(unsynced[i], unsynced[--unsynced_count], sizeof unsynced[0]);
}

static void path_of(int file, char path[512]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, 511);
    path[n > 0 ? n : 0] = 0;
}

static void mark_parent(const char *path) {
    char parent[512];
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = 0;
    mark(parent);
}

ssize_t write(int file, const void *bytes, size_t size) {
    ssize_t (*real)(int, const void *, size_t);
    char path[512];
    *(void **)&real = dlsym(RTLD_NEXT, "write");
    path_of(file, path);
    if (folder[0] && strncmp(path, folder, strlen(folder)) == 0) {
        mark(path);
        mark_parent(path); /* it may be new there */
    }
    return real(file, bytes, size);
}

int fsync(int file) {
    char path[512];
    if (syncs++ == failing_sync) {
        errno = EIO;
        return -1;
    }
    path_of(file, path);
    unmark(path);
    return 0;
}

/* Whoever gives a folder a name must have synced all of it. */
int rename(const char *from, const char *to) {
    int (*real)(const char *, const char *);
    *(void **)&real = dlsym(RTLD_NEXT, "rename");
    for (int i = 0; i < unsynced_count; i++) {
        size_t length = strlen(from);
        renames_of_unsynced += strncmp(unsynced[i], from, length) == 0 &&
                               (unsynced[i][length] == 0 || unsynced[i][length] == '/');
    }
    mark_parent(to);
    return real(from, to);
}

static sl_status make_checkpoint(const char *root, int iteration) {
    char part[4096], path[4400];
    const float data[4] = {1, 2, 3, 4};
    const sl_tensor_source source = {"a", 2, {2, 2}, data};
    sl_checkpoint_file file = {.name = "a.safetensors"};
    sl_checkpoint_state state = {.iteration = iteration, .stages = 1, .file = &file, .files = 1};
    sl_file_seal seal;
    SL_TRY(sl_checkpoint_begin(root, iteration, part));
    snprintf(path, sizeof path, "%s/%s", part, file.name);
    SL_TRY(sl_safetensors_write(path, &source, 1, NULL, &seal));
    file.size = seal.size;
    file.checksum = seal.checksum;
    file.header = seal.header;
    snprintf(path, sizeof path, "%s/state.json", part);
    SL_TRY(sl_checkpoint_state_write(path, &state));
    return sl_checkpoint_publish(root, iteration);
}

static void forget_all(void) {
    unsynced_count = renames_of_unsynced = syncs = 0;
    failing_sync = -1;
}

static void nothing_of_a_published_checkpoint_can_be_forgotten(void **state) {
    (void)state;
    char root[128];
    snprintf(root, sizeof root, "%s", in_folder("whole"));
    for (int again = 0; again < 2; again++) { /* the second time it takes the place of its name */
        forget_all();
        assert_ok(make_checkpoint(root, 20));
        assert_true(syncs >= 4); /* weights, state, the folder, and the one above it */
        assert_int_equal(renames_of_unsynced, 0);
        for (int i = 0; i < unsynced_count; i++)
            if (strncmp(unsynced[i], root, strlen(root)) == 0 && !strstr(unsynced[i], ".part"))
                fail_msg("%s was not synced", unsynced[i]);
    }
}

/* Wherever a sync fails, that is an error; and before the name is given, there is no such checkpoint. */
static void a_sync_that_fails_is_an_error(void **state) {
    (void)state;
    char root[128];
    snprintf(root, sizeof root, "%s", in_folder("broken"));
    forget_all();
    assert_ok(make_checkpoint(root, 20));
    const int all = syncs;
    for (int n = 0; n < all; n++) {
        assert_ok(sl_path_remove(root));
        forget_all();
        failing_sync = n;
        assert_int_equal(make_checkpoint(root, 20), SL_ESYS);
        assert_int_equal(access(in_folder("broken/step-000020"), F_OK), n < all - 1 ? -1 : 0);
    }
    forget_all();
}

/* What is half made, of a checkpoint that is there, is passed over in silence. */
static void a_whole_one_comes_before_a_part_of_its_name(void **state) {
    (void)state;
    char root[128];
    sl_checkpoint_found found;
    snprintf(root, sizeof root, "%s", in_folder("both"));
    forget_all();
    assert_ok(make_checkpoint(root, 20));
    assert_ok(sl_directory_make(in_folder("both/step-000020.part")));
    assert_ok(sl_checkpoint_find(root, &found));
    assert_true(found.found && found.refusals == 0);
    assert_string_equal(found.name, "step-000020");
    sl_checkpoint_found_free(&found);
    flip_byte(in_folder("both/step-000020/a.safetensors"), -1);
    assert_fails(sl_checkpoint_find(root, &found), SL_ENONE, "step-000020 a.safetensors");
    assert_int_equal(found.refusals, 2);
    assert_string_equal(found.refused[0].name, "step-000020");
    assert_string_equal(found.refused[1].name, "step-000020.part");
    sl_checkpoint_found_free(&found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_a_published_checkpoint_can_be_forgotten),
        cmocka_unit_test(a_sync_that_fails_is_an_error),
        cmocka_unit_test(a_whole_one_comes_before_a_part_of_its_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
