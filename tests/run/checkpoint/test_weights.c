/* Weights from elsewhere: what is missing, extra or of another shape is named. */
#include "run/checkpoint/bytes.h"

#include "run/checkpoint/weights.h"

static const sl_weight_need needs[] = {{"wte", 2, 3}, {"h.0.bias", 0, 3}, {"h.0.weight", 1, 3}};

static int is_mask(const char *name) {
    return strcmp(name, "h.0.attn.bias") == 0;
}

static sl_status check(const char *path, const char *prefix) {
    const sl_weight_rules rules = {.prefix = prefix, .passed_over = is_mask};
    sl_weights *w;
    SL_TRY(sl_weights_open(path, &w));
    sl_status status = sl_weights_check(w, needs, 3, &rules);
    sl_weights_close(w);
    return status;
}

#define T(name, type, shape, begin, end)                                                                     \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static const float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static const char *one_file(const char *header, size_t bytes) {
    assert_ok(sl_path_remove(in_folder("from")));
    assert_ok(sl_directory_make(in_folder("from")));
    put_file("from/model.safetensors", header, data, bytes);
    return in_folder("from");
}

static void a_single_file_with_or_without_a_prefix_is_read(void **state) {
    (void)state;
    const sl_weight_rules rules = {.prefix = "transformer.", .passed_over = is_mask};
    const char *path = one_file(
        "{" T("transformer.wte", "F32", "[2,3]", 0, 24) "," T("h.0.bias", "F32", "[3]", 24, 36) "," T(
            "transformer.h.0.weight", "BF16", "[1,3]", 36, 42) "," T("transformer.h.0.attn.bias", "U8", "[6]",
                                                                     42, 48) "}",
        48);
    sl_weights *w;
    float out[6];
    assert_ok(sl_weights_open(path, &w));
    assert_ok(sl_weights_check(w, needs, 3, &rules));
    assert_ok(sl_weights_read(w, "wte", 2, 3, 0, 6, out));
    assert_memory_equal(out, data, sizeof out);
    assert_ok(sl_weights_read(w, "h.0.bias", 0, 3, 1, 2, out));
    assert_true(out[0] == 8 && out[1] == 9);
    assert_fails(sl_weights_read(w, "wte", 3, 2, 0, 6, out), SL_EINVAL,
                 "has shape [2, 3], the model needs [3, 2]");
    assert_fails(sl_weights_read(w, "h.9", 3, 2, 0, 6, out), SL_EINVAL, "lacks tensor 'h.9'");
    sl_weights_close(w);
    assert_ok(check(in_folder("from/model.safetensors"), "transformer.")); /* the file itself */
    assert_fails(check(path, NULL), SL_EINVAL, "lacks tensor 'wte' and 1 more of the model's 3");
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t bytes;
        const char *says;
    } cases[] = {
        {"{" T("wte", "F32", "[2,3]", 0, 24) "," T("h.0.bias", "F32", "[3]", 24, 36) "}", 36,
         "from: lacks tensor 'h.0.weight'"},
        {"{" T("wte", "F32", "[2,3]", 0, 24) "," T("h.0.bias", "F32", "[1,3]", 24, 36) "}", 36,
         "tensor 'h.0.bias' has shape [1, 3], the model needs [3]"},
        {"{" T("wte", "F32", "[3,2]", 0, 24) "}", 24,
         "tensor 'wte' has shape [3, 2], the model needs [2, 3]"},
        {"{" T("wte", "F32", "[2,3]", 0, 24) "," T("h.0.bias", "I32", "[3]", 24, 36) "}", 36,
         "has dtype I32"},
        {"{" T("wte", "F32", "[2,3]", 0, 24) "," T("h.0.bias", "F16", "[3]", 24, 30) "," T(
             "h.0.weight", "F16", "[1,3]", 30, 36) "," T("h.1.bias", "F32", "[1]", 36, 40) "}",
         40, "has tensor 'h.1.bias', which the model does not know"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_fails(check(one_file(cases[i].header, cases[i].bytes), NULL), SL_EINVAL, cases[i].says);
    assert_ok(sl_directory_make(in_folder("bare")));
    assert_fails(check(in_folder("bare"), NULL), SL_EINVAL, "bare: has neither model.safetensors nor");
    assert_fails(check(in_folder("nowhere"), NULL), SL_EINVAL, "nowhere: cannot be read");
}

static sl_status check_index(const char *index) {
    assert_ok(sl_path_remove(in_folder("shards")));
    assert_ok(sl_directory_make(in_folder("shards")));
    put_file("shards/1.safetensors", "{" T("wte", "F32", "[2,3]", 0, 24) "}", data, 24);
    put_file("shards/2.safetensors",
             "{" T("h.0.bias", "F32", "[3]", 0, 12) "," T("h.0.weight", "F32", "[1,3]", 12, 24) "}", data,
             24);
    put_file("shards/3.safetensors", "{" T("wte", "F32", "[2,3]", 0, 24) "}", data, 24);
    assert_ok(sl_file_write(in_folder("shards/model.safetensors.index.json"), index, strlen(index)));
    return check(in_folder("shards"), NULL);
}

static void shards_are_found_by_their_index(void **state) {
    (void)state;
#define TWO "\"h.0.bias\":\"2.safetensors\",\"h.0.weight\":\"2.safetensors\""
    assert_ok(check_index("{\"metadata\":{},\"weight_map\":{\"wte\":\"1.safetensors\"," TWO "}}"));
    assert_fails(check_index("{\"weight_map\":{\"wte\":\"2.safetensors\"}}"), SL_EINVAL,
                 "'wte' is not in 2.safetensors");
    assert_fails(check_index("{\"weight_map\":{\"wte\":\"4.safetensors\"}}"), SL_EINVAL,
                 "4.safetensors: cannot be read");
    assert_fails(check_index("{\"weight_map\":{\"wte\":\"../1.safetensors\"}}"), SL_EINVAL,
                 "in no file of this folder");
    assert_fails(check_index("{\"weight_map\":{\"wte\":3}}"), SL_EINVAL, "in no file of this folder");
    assert_fails(check_index("{\"weight_map\":{}}"), SL_EINVAL, "has no weight_map");
    assert_fails(check_index("{\n\"weight_map\""), SL_EINVAL, "index.json:2: is not JSON");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_file_with_or_without_a_prefix_is_read),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(shards_are_found_by_their_index),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
