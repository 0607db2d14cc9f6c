/* timeline.json is whole after each iteration: what is killed between two leaves all that came before. */
#include "run/checkpoint/bytes.h"

#include "run/journal/tracing.h"
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

/* One rank's F of microbatch `m` from start to end. */
static sl_timeline one_op(sl_timeline *t, int m, sl_time start, sl_time end) {
    assert_ok(sl_timeline_make(1, 1, 0, t));
    t->span[0] = (sl_span){.op = {.kind = SL_F, .microbatch = m}, .start = start, .end = end};
    return *t;
}

/* The iterations whose ops the file holds now, as bits. Fails when it is not JSON. */
static unsigned recorded(void) {
    char path[600];
    snprintf(path, sizeof path, "%s/timeline.json", folder);
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error), *event;
    if (!file)
        fail_msg("line %d: %s", error.line, error.text);
    unsigned found = 0;
    size_t i;
    json_array_foreach(json_object_get(file, "traceEvents"), i, event) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        if (kind && strcmp(kind, "X") == 0)
            found |= 1u << json_integer_value(json_object_get(json_object_get(event, "args"), "iteration"));
    }
    json_decref(file);
    return found;
}

static void each_iteration_leaves_a_whole_file(void **state) {
    (void)state;
    sl_tracing t;
    sl_timeline line;
    assert_ok(sl_tracing_open(&t, folder, 1, 1));
    assert_int_equal(recorded(), 0);
    for (int i = 0; i < 5; i++) {
        one_op(&line, i % 3, 10 * SL_MS, (11 + i) * SL_MS);
        assert_ok(sl_tracing_add(&t, &line, 1, i * SL_SECOND, i));
        sl_timeline_free(&line);
        assert_int_equal(recorded(), (2u << i) - 1);
    }
    sl_tracing_close(&t);
    assert_int_equal(recorded(), 31);
    assert_ok(sl_tracing_open(&t, folder, 1, 1)); /* anew: nothing of the old one stays */
    assert_int_equal(recorded(), 0);
    sl_tracing_close(&t);
}

static void a_place_that_cannot_be_written_is_named(void **state) {
    (void)state;
    sl_tracing t;
    assert_fails(sl_tracing_open(&t, "/proc/nowhere", 1, 1), SL_ESYS,
                 "/proc/nowhere/timeline.json: cannot be written");
    sl_tracing_close(&t);
    /* a full disk, as /dev/full plays it */
    assert_ok(sl_tracing_open(&t, folder, 1, 1));
    close(t.file);
    t.file = open("/dev/full", O_WRONLY);
    sl_timeline line;
    one_op(&line, 0, 0, SL_MS);
    assert_fails(sl_tracing_add(&t, &line, 1, 0, 0), SL_ESYS, "timeline.json: cannot be written");
    sl_timeline_free(&line);
    sl_tracing_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_iteration_leaves_a_whole_file),
        cmocka_unit_test(a_place_that_cannot_be_written_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
