/* A suspect in words and as JSON. */
#include "check.h"

#include "notice/detect/call_profile.h"

static void a_suspect_survives_json(void **state) {
    (void)state;
    const sl_suspect all[] = {
        {SL_COMPONENT_UNKNOWN, -1, -1, -1, 0, 0, 0, 0, "", "too \"short\""},
        {SL_COMPONENT_DEVICE, 3, -1, -1, 0, 0, 12.5, 5, "cgroup quota", "why"},
        {SL_COMPONENT_LINK, -1, 1, 2, 1, 0, 2, 1, "", ""},
        {SL_COMPONENT_HOST, 0, -1, -1, 0, 0, 2, 1, "", ""},
        {SL_COMPONENT_GROUP, -1, -1, -1, 0, 0xfedcba9876543210u, 2, 1, "", ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sl_suspect back;
        json_t *json = sl_suspect_to_json(&all[i]);
        assert_non_null(json);
        assert_ok(sl_suspect_from_json(json, &back));
        json_decref(json);
        assert_int_equal(back.component, all[i].component);
        assert_int_equal(back.rank, all[i].rank);
        assert_int_equal(back.from, all[i].from);
        assert_int_equal(back.to, all[i].to);
        assert_int_equal(back.both, all[i].both);
        assert_true(back.group == all[i].group);
        assert_near(back.measured, all[i].measured, 0);
        assert_near(back.expected, all[i].expected, 0);
        assert_string_equal(back.cause, all[i].cause);
        assert_string_equal(back.why, all[i].why);
    }
    char text[128];
    sl_suspect_text(&all[1], text, sizeof text);
    assert_string_equal(text, "device of rank 3 x 2.50 (cgroup quota): why");
    sl_suspect_text(&all[2], text, sizeof text);
    assert_string_equal(text, "link 1-2 x 2.00");
}

static void json_from_outside_is_refused_with_the_reason(void **state) {
    (void)state;
    const struct {
        const char *text, *part;
    } wrong[] = {
        {"{}", "missing"},
        {"[]", "missing"},
        {"{\"component\": \"gpu\"}", "gpu"},
        {"{\"component\": 3}", "missing"},
        {"{\"component\": \"device\"}", "names no component"},
        {"{\"component\": \"device\", \"rank\": -1}", "names no component"},
        {"{\"component\": \"device\", \"rank\": 99999999999}", "names no component"},
        {"{\"component\": \"link\", \"link\": [1]}", "names no component"},
        {"{\"component\": \"group\", \"group\": \"xyz\"}", "names no component"},
        {"{\"component\": \"host\", \"rank\": 1, \"measured\": \"2\"}", "wrong type"},
        {"{\"component\": \"host\", \"rank\": 1, \"why\": 2}", "wrong type"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sl_suspect s;
        json_t *json = json_loads(wrong[i].text, 0, NULL);
        assert_non_null(json);
        assert_fails(sl_suspect_from_json(json, &s), SL_EINVAL, wrong[i].part);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspect_survives_json),
        cmocka_unit_test(json_from_outside_is_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
