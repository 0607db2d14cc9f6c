/* Reading YAML through tables: every complaint names file, line and key; --set reaches any key. */
#include "check.h"

#include "base/config.h"
#include "base/memory.h"

typedef struct thing {
    int count, on, colour;
    int64_t seed;
    double rate;
    char *name;
    int inner;
} thing;

static const char *const colours[] = {"red", "green", NULL};
static const sl_key inner_keys[] = {{.name = "size",
                                     .type = SL_KEY_INT,
                                     .standard = "3",
                                     .offset = offsetof(thing, inner),
                                     .minimum = 1,
                                     .maximum = 9},
                                    {0}};
static const sl_key keys[] = {
    {.name = "count",
     .type = SL_KEY_INT,
     .required = 1,
     .offset = offsetof(thing, count),
     .minimum = 1,
     .maximum = 100},
    {.name = "on", .type = SL_KEY_BOOL, .standard = "true", .offset = offsetof(thing, on)},
    {.name = "colour",
     .type = SL_KEY_CHOICE,
     .standard = "green",
     .offset = offsetof(thing, colour),
     .choices = colours},
    {.name = "seed", .type = SL_KEY_INT64, .standard = "1", .offset = offsetof(thing, seed)},
    {.name = "rate",
     .type = SL_KEY_REAL,
     .standard = "0.5",
     .offset = offsetof(thing, rate),
     .minimum = 0,
     .maximum = 10},
    {.name = "name", .type = SL_KEY_TEXT, .standard = "x", .offset = offsetof(thing, name)},
    {.name = "inner", .type = SL_KEY_SECTION, .section = inner_keys},
    {0}};

static sl_status read_thing(const char *text, const char *set, thing *t) {
    sl_document document;
    *t = (thing){0};
    sl_status status = sl_document_parse("f.yaml", text, &document);
    if (status == SL_OK && set)
        status = sl_document_set(&document, set);
    if (status == SL_OK)
        status = sl_config_read(document.root, "f.yaml", keys, t);
    sl_document_close(&document);
    return status;
}

static void defaults_and_values_arrive(void **state) {
    (void)state;
    thing t;
    assert_ok(read_thing("count: 7\nseed: 9000000000000000000\nname: \"12\"\ninner: {size: 4}\n", NULL, &t));
    assert_int_equal(t.count, 7);
    assert_true(t.on == 1 && t.colour == 1 && t.rate == 0.5);
    assert_true(t.seed == 9000000000000000000);
    assert_string_equal(t.name, "12");
    assert_int_equal(t.inner, 4);
    sl_config_free(keys, &t);
    assert_null(t.name);
}

static void set_changes_adds_and_appends(void **state) {
    (void)state;
    thing t;
    assert_ok(read_thing("count: 7\n", "inner.size=5", &t));
    assert_int_equal(t.inner, 5);
    sl_config_free(keys, &t);
    sl_document document;
    assert_ok(sl_document_parse("f", "list: [{a: 1}]\n", &document));
    assert_ok(sl_document_set(&document, "list.1={a: [2, 3]}"));
    assert_ok(sl_document_set(&document, "list.2.a=4"));
    const sl_yaml *list = sl_yaml_find(document.root, "list");
    assert_int_equal(list->children, 3);
    assert_string_equal(sl_yaml_find(list->child[1], "a")->child[1]->text, "3");
    assert_fails(sl_document_set(&document, "list.9.a=4"), SL_EINVAL, "'9' is not an index");
    assert_fails(sl_document_set(&document, "list.0.a.b=4"), SL_EINVAL, "cannot have keys");
    assert_fails(sl_document_set(&document, "nothing"), SL_EINVAL, "KEY=VALUE");
    assert_fails(sl_document_set(&document, "a..b=1"), SL_EINVAL, "empty part");
    assert_fails(sl_document_set(&document, "a=[1"), SL_EINVAL, "is not valid YAML");
    assert_fails(sl_document_set(&document, "a= "), SL_EINVAL, "a value is missing");
    sl_document_close(&document);
}

static void every_mistake_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"count: 0\n", "f.yaml:1: 'count' must be from 1 to 100, got 0"},
        {"count: 1.5\n", "'count' must be a whole number"},
        {"count: '3'\n", "'count' must be a whole number"},
        {"count: 99999999999999999999\n", "f.yaml:1: 'count' must be from"},
        {"count: 1\nrate: nan\n", "f.yaml:2: 'rate' must be a number, got 'nan'"},
        {"count: 1\nrate: 0x10\n", "'rate' must be a number"},
        {"count: 1\nrate: -1\n", "'rate' must be at least 0, got -1"},
        {"count: 1\nrate: 1e400\n", "'rate' must be a number"},
        {"count: 1\nrate: 5 ms\n", "'rate' must be a number, got '5 ms'"},
        {"count: 1\nrate: {a: 1}\n", "'rate' must be a number"},
        {"count: 1\non: yes\n", "'on' must be true or false"},
        {"count: 1\ncolour: blue\n", "must be one of red, green; got 'blue'"},
        {"count: 1\ncuont: 2\n", "f.yaml:2: 'cuont' is not a known key; did you mean 'count'?"},
        {"count: 1\nsomething: 2\n", "'something' is not a known key"},
        {"count: 1\ncount: 2\n", "f.yaml:2: duplicate key 'count'"},
        {"on: true\n", "'count' is missing"},
        {"count: 1\ninner: 4\n", "'inner' must be a map"},
        {"count: 1\ninner: {size: 10}\n", "'size' must be from 1 to 9"},
        {"count: [1\n", "f.yaml:2: invalid YAML"},
        {"- 1\n", "must be a map"},
        {"", "empty"},
        {"a: *x\n", "aliases"},
        {"a: &x 1\nb: *x\n", "f.yaml:1: anchors ('x')"},
        {"a: {b: &x [1]}\n", "f.yaml:1: anchors ('x')"},
        {"a:\n  b: !!int 3\n", "f.yaml:2: tags ('tag:yaml.org,2002:int')"},
        {"a: 1\n\"b\\0c\": 1\n", "f.yaml:2: a key must not hold a zero byte"},
        {"count: 1\n---\ncount: 2\n", "more than one document"},
        {"? [a]\n: 1\n", "a key must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        thing t;
        assert_fails(read_thing(cases[i].text, NULL, &t), SL_EINVAL, cases[i].says);
        sl_config_free(keys, &t);
    }
    char deep[2000] = "";
    for (int i = 0; i < 100; i++)
        strcat(deep, "[");
    thing t;
    assert_fails(read_thing(deep, NULL, &t), SL_EINVAL, "nested deeper");
}

static void every_failed_allocation_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    int failures = 0;
    for (long n = 0; n < 1000; n++) {
        thing t;
        sl_alloc_fail_at(n);
        sl_status status = read_thing("count: 7\ninner: {size: 4}\nname: abc\n", "inner.size=5", &t);
        sl_alloc_fail_at(-1);
        sl_config_free(keys, &t);
        if (status == SL_OK)
            break;
        assert_int_equal(status, SL_ENOMEM);
        failures++;
    }
    assert_in_range(failures, 10, 900);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_and_values_arrive),
        cmocka_unit_test(set_changes_adds_and_appends),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(every_failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
