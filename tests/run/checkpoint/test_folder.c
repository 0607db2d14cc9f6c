/* A checkpoint is whole or absent, and whatever happens to its bytes is noticed. */
#include "run/checkpoint/bytes.h"

#include "run/checkpoint/checkpoint_folder.h"
#include "run/checkpoint/safetensors.h"
#include "run/checkpoint/weights.h"

static int older; /* its state says nothing of headers */

/* One of two files and a state, published. */
static void make_checkpoint(const char *root, int iteration) {
    char part[4096], path[4400];
    const float data[4] = {1, 2, 3, (float)iteration};
    const sl_tensor_source source = {"a", 2, {2, 2}, data};
    sl_checkpoint_file files[2];
    sl_checkpoint_state state = {.iteration = iteration,
                                 .stages = 1,
                                 .key = {{"model.kind", "\"gpt2\""}, {"optimizer.lr", "0.001"}},
                                 .keys = 2,
                                 .file = files,
                                 .files = 2};
    assert_ok(sl_checkpoint_begin(root, iteration, part));
    for (int i = 0; i < 2; i++) {
        sl_file_seal seal;
        snprintf(files[i].name, sizeof files[i].name, "%s", i ? "b.safetensors" : "a.safetensors");
        snprintf(path, sizeof path, "%s/%s", part, files[i].name);
        assert_ok(sl_safetensors_write(path, &source, 1, NULL, &seal));
        files[i].size = seal.size;
        files[i].checksum = seal.checksum;
        files[i].header = older ? 0 : seal.header;
    }
    snprintf(path, sizeof path, "%s/state.json", part);
    assert_ok(sl_checkpoint_state_write(path, &state));
    assert_ok(sl_checkpoint_publish(root, iteration));
}

static const char *fresh(const char *name) {
    assert_ok(sl_path_remove(in_folder(name)));
    return in_folder(name);
}

static void the_newest_whole_one_is_found(void **state) {
    (void)state;
    sl_checkpoint_found found;
    char root[64];
    snprintf(root, sizeof root, "%s", fresh("find"));
    assert_ok(sl_checkpoint_find(root, &found)); /* no folder at all */
    assert_true(!found.found && found.refusals == 0);
    make_checkpoint(root, 20);
    make_checkpoint(root, 100);
    make_checkpoint(root, 1000000); /* one digit more than the names have */
    assert_ok(sl_directory_make(in_folder("find/step-1")));
    assert_ok(sl_directory_make(in_folder("find/step-0000020")));
    assert_ok(sl_directory_make(in_folder("find/other")));
    assert_ok(sl_checkpoint_find(root, &found));
    assert_true(found.found && found.state.iteration == 1000000 && found.refusals == 0);
    assert_string_equal(found.name, "step-1000000");
    assert_true(found.state.stages == 1 && found.state.files == 2 && found.state.keys == 2);
    assert_string_equal(found.state.key[1].value, "0.001");
    sl_checkpoint_found_free(&found);
}

/* What rank 0 has found whole may be another file where it is read. */
static void who_loads_notices_another_header_and_in_older_ones_any_byte(void **state) {
    (void)state;
    float out[4];
    for (older = 1; older >= 0; older--) {
        sl_checkpoint_found found;
        sl_weights *weights;
        char root[64];
        snprintf(root, sizeof root, "%s", fresh("load"));
        make_checkpoint(root, 20);
        assert_ok(sl_checkpoint_find(root, &found));
        assert_ok(sl_weights_open_checkpoint(found.path, &found.state, &weights));
        assert_ok(sl_weights_read(weights, "a", 2, 2, 0, 4, out));
        assert_true(out[3] == 20);
        sl_weights_close(weights);
        flip_byte(in_folder("load/step-000020/b.safetensors"), 40);
        assert_fails(sl_weights_open_checkpoint(found.path, &found.state, &weights), SL_EINVAL,
                     "b.safetensors: ");
        flip_byte(in_folder("load/step-000020/b.safetensors"), 40);
        flip_byte(in_folder("load/step-000020/a.safetensors"), -1);
        if (older)
            assert_fails(sl_weights_open_checkpoint(found.path, &found.state, &weights), SL_EINVAL,
                         "a.safetensors: was changed");
        else {
            assert_ok(sl_weights_open_checkpoint(found.path, &found.state, &weights));
            assert_fails(sl_weights_read(weights, "a", 2, 2, 0, 2, out), SL_EINVAL,
                         "a.safetensors: tensor 'a' was changed");
            sl_weights_close(weights);
        }
        sl_checkpoint_found_free(&found);
    }
    older = 0;
}

typedef void (*harm)(void);

static void flip_data(void) {
    flip_byte(in_folder("harm/step-000040/b.safetensors"), -3);
}
static void flip_header(void) {
    flip_byte(in_folder("harm/step-000040/a.safetensors"), 12);
}
static void cut(void) {
    assert_int_equal(truncate(in_folder("harm/step-000040/a.safetensors"), 30), 0);
}
static void lose_file(void) {
    assert_int_equal(unlink(in_folder("harm/step-000040/b.safetensors")), 0);
}
static void lose_state(void) {
    assert_int_equal(unlink(in_folder("harm/step-000040/state.json")), 0);
}
static void empty_state(void) {
    assert_int_equal(truncate(in_folder("harm/step-000040/state.json"), 0), 0);
}
static void text_for_state(void) {
    assert_ok(sl_file_write(in_folder("harm/step-000040/state.json"), "{\"iteration\": 40}", 17));
}
static void folder_for_file(void) {
    lose_file();
    assert_ok(sl_directory_make(in_folder("harm/step-000040/b.safetensors")));
}
static void another_ones_place(void) {
    assert_ok(sl_path_remove(in_folder("harm/step-000040")));
    assert_int_equal(rename(in_folder("harm/step-000030"), in_folder("harm/step-000040")), 0);
}
static void half_made(void) {
    assert_int_equal(rename(in_folder("harm/step-000040"), in_folder("harm/step-000040.part")), 0);
}

static void a_damaged_one_is_refused_with_its_reason_and_the_one_before_is_used(void **state) {
    (void)state;
    static const struct {
        harm harm;
        const char *why;
    } cases[] = {
        {flip_data, "b.safetensors was changed"},
        {flip_header, "a.safetensors was changed"},
        {cut, "a.safetensors has 30 bytes, not "},
        {lose_file, "b.safetensors is missing"},
        {lose_state, "state.json is missing"},
        {empty_state, "state.json is not a complete JSON"},
        {text_for_state, "state.json is not a complete"},
        {folder_for_file, "b.safetensors "},
        {another_ones_place, "of another checkpoint"},
        {half_made, "is incomplete"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_checkpoint_found found;
        char root[64];
        snprintf(root, sizeof root, "%s", fresh("harm"));
        make_checkpoint(root, 20);
        make_checkpoint(root, 30);
        make_checkpoint(root, 40);
        cases[i].harm();
        assert_ok(sl_checkpoint_find(root, &found));
        assert_true(found.found && found.state.iteration == (cases[i].harm == another_ones_place ? 20 : 30));
        assert_int_equal(found.refusals, 1);
        assert_int_equal(strncmp(found.refused[0].name, "step-000040", 11), 0);
        assert_says(found.refused[0].why, cases[i].why);
        sl_checkpoint_found_free(&found);
    }
}

static void no_byte_of_a_state_can_change_unnoticed(void **state) {
    (void)state;
    char root[64], path[128], *text;
    size_t size;
    snprintf(root, sizeof root, "%s", fresh("bytes"));
    make_checkpoint(root, 20);
    snprintf(path, sizeof path, "%s/step-000020/state.json", root);
    assert_ok(sl_file_read(path, &text, &size));
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            sl_checkpoint_state read;
            text[i] ^= (char)(1 << bit);
            assert_ok(sl_file_write(path, text, size));
            text[i] ^= (char)(1 << bit);
            if (sl_checkpoint_state_read(path, &read) == SL_OK)
                fail_msg("byte %zu, bit %d was changed and nobody noticed", i, bit);
        }
    sl_free(text);
}

/* The seal holds, but what it seals does not: as somebody would make it who means harm. */
static void a_state_that_leads_out_of_the_folder_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"../a", "/etc/passwd", ".hidden", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        sl_checkpoint_file file = {.size = 3};
        sl_checkpoint_state read, s = {.iteration = 1, .stages = 1, .file = &file, .files = 1};
        snprintf(file.name, sizeof file.name, "%s", names[i]);
        assert_ok(sl_checkpoint_state_write(in_folder("state.json"), &s));
        assert_fails(sl_checkpoint_state_read(in_folder("state.json"), &read), SL_EINVAL,
                     "describes a file wrongly");
    }
}

static void when_all_are_damaged_that_is_an_error(void **state) {
    (void)state;
    sl_checkpoint_found found;
    char root[64];
    snprintf(root, sizeof root, "%s", fresh("all"));
    make_checkpoint(root, 20);
    make_checkpoint(root, 40);
    assert_ok(sl_directory_make(in_folder("all/step-000060.part")));
    flip_byte(in_folder("all/step-000020/a.safetensors"), -1);
    assert_int_equal(unlink(in_folder("all/step-000040/b.safetensors")), 0);
    assert_fails(
        sl_checkpoint_find(root, &found), SL_ENONE,
        "none of 2 checkpoints can be used, the newest (step-000040) because b.safetensors is missing");
    assert_int_equal(found.refusals, 3);
    sl_checkpoint_found_free(&found);
    /* what was only begun is no checkpoint: nothing is damaged */
    assert_ok(sl_path_remove(in_folder("all/step-000020")));
    assert_ok(sl_path_remove(in_folder("all/step-000040")));
    assert_ok(sl_checkpoint_find(root, &found));
    assert_true(!found.found && found.refusals == 1 && found.damaged == 0);
    sl_checkpoint_found_free(&found);
}

static void the_newest_stay_and_one_takes_the_place_of_its_name(void **state) {
    (void)state;
    sl_checkpoint_state read;
    char root[64], moved[4096];
    snprintf(root, sizeof root, "%s", fresh("keep"));
    for (int i = 1; i <= 5; i++)
        make_checkpoint(root, 10 * i);
    assert_ok(sl_checkpoint_prune(root, 2));
    assert_int_equal(access(in_folder("keep/step-000030"), F_OK), -1);
    assert_ok(sl_checkpoint_verify(in_folder("keep/step-000040"), &read));
    sl_checkpoint_state_free(&read);
    flip_byte(in_folder("keep/step-000050/a.safetensors"), -1);
    assert_fails(sl_checkpoint_verify(in_folder("keep/step-000050"), &read), SL_EINVAL, "was changed");
    make_checkpoint(root, 50);
    assert_ok(sl_checkpoint_verify(in_folder("keep/step-000050"), &read));
    sl_checkpoint_state_free(&read);
    assert_int_equal(access(in_folder("keep/step-000050.part"), F_OK), -1);
    assert_ok(sl_directory_make(in_folder("keep/step-000060.part")));
    assert_ok(sl_checkpoint_clear(root));
    assert_int_equal(access(in_folder("keep/step-000060.part"), F_OK), -1);
    assert_ok(sl_checkpoint_set_aside(root, moved));
    assert_string_equal(moved, in_folder("keep.before-1"));
    assert_ok(sl_checkpoint_verify(in_folder("keep.before-1/step-000040"), &read));
    sl_checkpoint_state_free(&read);
    assert_ok(sl_checkpoint_set_aside(root, moved));
    assert_string_equal(moved, "");
}

static void another_run_is_refused_by_the_name_of_its_key(void **state) {
    (void)state;
    const sl_checkpoint_state then = {
        .key = {{"model.width", "64"}, {"optimizer.lr", "0.001"}, {"model.kind", "\"gpt2\""}}, .keys = 3};
    const sl_checkpoint_key same[] = {{"model.kind", "\"gpt2\""},
                                      {"optimizer.lr", "1e-3"},
                                      {"model.width", "64.0"}},
                            wider[] = {{"model.width", "128"},
                                       {"optimizer.lr", "0.001"},
                                       {"model.kind", "\"gpt2\""}},
                            fewer[] = {{"model.width", "64"}, {"optimizer.lr", "0.001"}},
                            more[] = {{"model.tied", "true"}};
    assert_ok(sl_checkpoint_compare("step-000020", &then, same, 3));
    assert_fails(sl_checkpoint_compare("step-000020", &then, wider, 3), SL_EINVAL,
                 "'model.width' is 128, but step-000020 was trained with 64");
    assert_fails(sl_checkpoint_compare("step-000020", &then, fewer, 2), SL_EINVAL,
                 "'model.kind' of \"gpt2\"");
    assert_fails(sl_checkpoint_compare("step-000020", &then, more, 1), SL_EINVAL, "'model.tied' is true");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_loads_notices_another_header_and_in_older_ones_any_byte),
        cmocka_unit_test(the_newest_whole_one_is_found),
        cmocka_unit_test(a_damaged_one_is_refused_with_its_reason_and_the_one_before_is_used),
        cmocka_unit_test(no_byte_of_a_state_can_change_unnoticed),
        cmocka_unit_test(a_state_that_leads_out_of_the_folder_is_refused),
        cmocka_unit_test(when_all_are_damaged_that_is_an_error),
        cmocka_unit_test(the_newest_stay_and_one_takes_the_place_of_its_name),
        cmocka_unit_test(another_run_is_refused_by_the_name_of_its_key),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
