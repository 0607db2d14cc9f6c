/* The scanner gives out each item of a list, however the bytes are cut, and refuses what is not of the form.
 */
#include "check.h"

#include "base/memory.h"
#include "base/scan.h"

typedef struct heard {
    char text[4096]; /* what came, one piece after the other */
} heard;

static sl_status hear_event(void *object, int list, const char *text, size_t size, long line) {
    heard *h = object;
    assert_int_equal(strlen(text), size);
    size_t used = strlen(h->text);
    snprintf(h->text + used, sizeof h->text - used, "%s%ld:%s;", list ? "second " : "", line, text);
    return SL_OK;
}

static sl_status hear_member(void *object, const char *key, const char *text, size_t size) {
    heard *h = object;
    assert_int_equal(strlen(text), size);
    size_t used = strlen(h->text);
    snprintf(h->text + used, sizeof h->text - used, "%s=%s;", key, text);
    return SL_OK;
}

static const char *const trace_lists[] = {"traceEvents", NULL}, *const plan_lists[] = {"ops", "transfers",
                                                                                       NULL};
static const sl_scan_form trace_form = {"a Chrome trace", "an event", trace_lists, 1, 64 << 20},
                          plan_form = {"a plan", "an entry", plan_lists, 0, 100};

static sl_status scan_as(const sl_scan_form *form, const char *text, size_t step, heard *h) {
    sl_scanner *scanner;
    sl_scan_sink sink = {hear_event, hear_member, h};
    *h = (heard){0};
    assert_ok(sl_scan_open("t.json", form, &sink, &scanner));
    sl_status status = SL_OK;
    for (size_t at = 0, size = strlen(text); at < size && status == SL_OK; at += step)
        status = sl_scan_feed(scanner, text + at, step < size - at ? step : size - at);
    if (status == SL_OK)
        status = sl_scan_end(scanner);
    sl_scan_close(scanner);
    return status;
}

static sl_status scan(const char *text, size_t step, heard *h) {
    return scan_as(&trace_form, text, step, h);
}

static void every_cut_of_the_bytes_gives_the_same_events(void **unused) {
    (void)unused;
    static const char trace[] =
        " {\"a\": 1.5, \"b\" : {\"x\": [\"]\"]},\n\"traceEvents\": [ {\"n\":\"}\\\"{\"},\n\n"
        "{\"m\":[{}]} ], \"c\":true}\n";
    for (size_t step = 1; step < sizeof trace; step++) {
        heard h;
        assert_ok(scan(trace, step, &h));
        assert_string_equal(h.text, "a=1.5;b={\"x\": [\"]\"]};2:{\"n\":\"}\\\"{\"};4:{\"m\":[{}]};c=true;");
    }
}

static void a_bare_list_may_lack_its_end(void **unused) {
    (void)unused;
    heard h;
    assert_ok(scan("[{\"a\":1},\n{\"b\":2}", 3, &h));
    assert_string_equal(h.text, "1:{\"a\":1};2:{\"b\":2};");
    assert_ok(scan("[{\"a\":1},\n", 3, &h));
    assert_ok(scan("[]", 3, &h));
    assert_string_equal(h.text, "");
}

static void what_is_no_trace_is_told_with_its_line(void **unused) {
    (void)unused;
    heard h;
    assert_fails(scan("", 9, &h), SL_EINVAL, "t.json: not a Chrome trace: it is empty");
    assert_fails(scan("\nhello", 9, &h), SL_EINVAL, "t.json:2: not a Chrome trace");
    assert_fails(scan("{}", 9, &h), SL_EINVAL, "'traceEvents' is missing");
    assert_fails(scan("{\"traceEvents\":\n3}", 9, &h), SL_EINVAL, "t.json:2: 'traceEvents' must be a list");
    assert_fails(scan("{\"traceEvents\":[{} {}]}", 9, &h), SL_EINVAL, "t.json:1: invalid JSON: '{'");
    assert_fails(scan("{\"traceEvents\":[1]}", 9, &h), SL_EINVAL, "t.json:1: invalid JSON: '1'");
    assert_fails(scan("{\"traceEvents\":[{}\n,{\"a\":", 9, &h), SL_EINVAL,
                 "t.json:2: the file ends in the middle");
    assert_fails(scan("{\"traceEvents\":[{}]", 9, &h), SL_EINVAL, "ends before its last");
    assert_fails(scan("{\"traceEvents\":[]}}", 9, &h), SL_EINVAL, "t.json:1: invalid JSON: '}'");
    assert_fails(scan("{\"a\" 1}", 9, &h), SL_EINVAL, "t.json:1: invalid JSON: '1'");
}

static void several_lists_of_one_object_are_told_apart(void **unused) {
    (void)unused;
    heard h;
    assert_ok(scan_as(&plan_form, "{\"transfers\":[{\"a\":1}],\"x\":[],\"ops\":[{\"b\":2},{}]}", 3, &h));
    assert_string_equal(h.text, "second 1:{\"a\":1};x=[];1:{\"b\":2};1:{};");
    assert_ok(scan_as(&plan_form, "{}", 3, &h));
    assert_fails(scan_as(&plan_form, "[{}]", 3, &h), SL_EINVAL, "t.json:1: not a plan");
    assert_fails(scan_as(&plan_form, "", 3, &h), SL_EINVAL, "t.json: not a plan: it is empty");
    assert_fails(scan_as(&plan_form, "{\"ops\":\n{}}", 3, &h), SL_EINVAL, "t.json:2: 'ops' must be a list");
    assert_fails(scan_as(&plan_form, "{\"ops\":[],\n\"ops\":[]}", 3, &h), SL_EINVAL, "t.json:2: 'ops' twice");
    assert_fails(scan_as(&plan_form, "{\"ops\":[{}]", 3, &h), SL_EINVAL, "ends before its last");
}

static void an_item_beyond_the_limit_is_refused(void **unused) {
    (void)unused;
    const sl_scan_form small = {"a plan", "an entry", plan_lists, 0, 1000};
    char text[8192] = "{\"ops\":[{\"a\":\"";
    heard h;
    memset(text + strlen(text), 'b', 5000);
    strcat(text, "\"}]}");
    assert_fails(scan_as(&small, text, 100, &h), SL_EINVAL, "t.json:1: an entry of more than 0 MB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_of_the_bytes_gives_the_same_events),
        cmocka_unit_test(a_bare_list_may_lack_its_end),
        cmocka_unit_test(what_is_no_trace_is_told_with_its_line),
        cmocka_unit_test(several_lists_of_one_object_are_told_apart),
        cmocka_unit_test(an_item_beyond_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
