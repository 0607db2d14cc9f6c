/* timeline.json is whole after each iteration: what is killed between two leaves all that came before. */
#include "run/checkpoint/bytes.h"

#include "run/journal/tracing.h"
#include <jansson.h>
#include <sys/stat.h>

static sl_writer *writer;

/* One rank's F of microbatch `m` from start to end. */
static sl_timeline one_op(sl_timeline *t, int m, sl_time start, sl_time end) {
    assert_ok(sl_timeline_make(1, 1, 0, t));
    t->span[0] = (sl_span){.op = {.kind = SL_F, .microbatch = m}, .start = start, .end = end};
    return *t;
}

/* The iterations whose ops the file holds now, as bits. Fails when it is not JSON. */
static unsigned recorded(void) {
    char path[600];
    assert_true(sl_writer_flush(writer, SL_WRITER_PATIENCE));
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
    assert_ok(sl_writer_open(SL_WRITER_MAX, &writer));
    assert_ok(sl_tracing_open(&t, writer, folder, 1, 1));
    assert_int_equal(recorded(), 0);
    for (int i = 0; i < 5; i++) {
        one_op(&line, i % 3, 10 * SL_MS, (11 + i) * SL_MS);
        assert_ok(sl_tracing_add(&t, &line, 1, i * SL_SECOND, i));
        sl_timeline_free(&line);
        assert_int_equal(recorded(), (2u << i) - 1);
    }
    assert_ok(sl_tracing_open(&t, writer, folder, 1, 1)); /* again: nothing of the old one stays */
    assert_int_equal(recorded(), 0);
    sl_writer_close(writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_iteration_leaves_a_whole_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
