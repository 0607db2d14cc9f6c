/* The board keeps what is usual apart from what is slow, in whatever order events and iterations are read,
 * and has a bound. */
#include "check.h"
#include "dashboard/board.h"
#include "dashboard/page_updates.h"

#include <math.h>

static void iterate(sl_board *b, int iteration, double time, double latency, double work) {
    char line[512];
    int size =
        snprintf(line, sizeof line,
                 "{\"iteration\":%d,\"time_ms\":%g,\"schedule\":\"1f1b\",\"phase\":\"healthy\",\"links\":["
                 "{\"from\":0,\"to\":1,\"latency_ms\":%g,\"transfer_ms\":1}],\"work_ms\":[100,%g]}",
                 iteration, time, latency, work);
    sl_row_iteration row;
    assert_ok(sl_row_iteration_read(line, (size_t)size, &row));
    assert_ok(sl_board_iteration(b, &row));
    json_decref(row.object);
}

static void tell(sl_board *b, const char *line) {
    sl_row_event row;
    assert_ok(sl_row_event_read(line, strlen(line), &row));
    assert_ok(sl_board_event(b, &row));
    json_decref(row.object);
}

static const char suspect[] =
    "{\"kind\":\"suspect\",\"iteration\":20,\"time_s\":1,\"link\":[0,1],\"decided\":\"link 0-1\"}";

/* 20 healthy iterations, 10 slow ones, and with `relieved` 10 healthy ones. */
static void run(sl_board *b, int relieved) {
    for (int i = 0; i < 20; i++)
        iterate(b, i, 100, 2, 50);
    for (int i = 20; i < 30; i++)
        iterate(b, i, 200, 60, 90);
    for (int i = 30; i < 40 && relieved; i++)
        iterate(b, i, 100, 2, 50);
}

static void events_may_come_before_the_iterations_that_they_are_about(void **state) {
    (void)state;
    for (int before = 0; before < 2; before++) {
        sl_board b;
        assert_ok(sl_board_open("x", 0, &b));
        if (before)
            tell(&b, suspect);
        run(&b, 0);
        if (!before)
            tell(&b, suspect);
        assert_near(b.healthy, 100, 0);
        assert_near((double)b.rank[1].time.usual, 50, 0);
        assert_near((double)b.link[0].time.usual, 3, 0);
        assert_int_equal(sl_board_link_health(&b.link[0]), SL_BOARD_SUSPECT);
        assert_int_equal(sl_board_rank_health(&b.rank[1]),
                         SL_BOARD_OK); /* 90 of 50, and nobody has named it */
        assert_int_equal(sl_board_rank_health(&b.rank[0]), SL_BOARD_OK);
        sl_board_close(&b);
    }
}

static void iterations_that_are_fast_again_clear_who_was_named(void **state) {
    sl_board b;
    (void)state;
    assert_ok(sl_board_open("x", 0, &b));
    tell(&b, suspect);
    run(&b, 1);
    assert_int_equal(b.blames, 0);
    assert_int_equal(sl_board_link_health(&b.link[0]), SL_BOARD_OK);
    sl_board_close(&b);
}

static void a_verdict_takes_the_place_of_suspects_and_a_relief_clears_all(void **state) {
    sl_board b;
    (void)state;
    assert_ok(sl_board_open("x", 0, &b));
    run(&b, 0);
    tell(&b, suspect);
    tell(&b,
         "{\"kind\":\"verdict\",\"iteration\":28,\"time_s\":1,\"rank\":1,\"decided\":\"device of rank 1\"}");
    assert_int_equal(b.blames, 1);
    assert_int_equal(sl_board_rank_health(&b.rank[1]), SL_BOARD_SLOW);
    assert_int_equal(sl_board_link_health(&b.link[0]), SL_BOARD_OK);
    tell(&b, "{\"kind\":\"relief\",\"iteration\":30,\"time_s\":1}");
    assert_int_equal(b.blames, 0);
    sl_board_close(&b);
}

static void however_long_a_run_is_the_board_has_a_bound(void **state) {
    sl_board b;
    (void)state;
    assert_ok(sl_board_open("x", 0, &b));
    for (int i = 0; i < 200000; i++) {
        sl_board_row row = {.iteration = i, .time = i == 190000 ? 999 : 1, .predicted = NAN, .loss = NAN};
        assert_ok(sl_board_add_row(&b, &row));
    }
    for (int i = 0; i < 3000; i++)
        tell(&b, "{\"kind\":\"keep\",\"iteration\":1,\"time_s\":1}");
    assert_true(b.rows <= 65536 && b.row[b.rows - 1].iteration == 199999);
    assert_int_equal(b.events, 1000);
    char *whole = sl_page_whole(&b);
    assert_non_null(whole);
    json_t *o = json_loads(whole, 0, NULL);
    const json_t *rows = json_object_get(o, "rows"), *events = json_object_get(o, "events");
    assert_true(json_array_size(rows) <= SL_PAGE_ROWS + 2);
    int peak = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        peak |= json_number_value(json_array_get(json_array_get(rows, i), 1)) > 900;
    assert_true(peak); /* the one that was slow is among them */
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(events, json_array_size(events) - 1), "number")),
        3000);
    json_decref(o);
    free(whole);
    sl_board_close(&b);
}

static void what_has_changed_is_told_once(void **state) {
    sl_board b;
    int64_t version = -1;
    int renewed;
    (void)state;
    assert_ok(sl_board_open("x", 0, &b));
    run(&b, 0);
    assert_null(sl_page_change(&b, &version, &renewed));
    assert_true(renewed); /* ranks and links came */
    assert_null(sl_page_change(&b, &version, &renewed));
    assert_false(renewed);
    iterate(&b, 30, 200, 60, 90);
    iterate(&b, 31, 200, 60, 95);
    char *text = sl_page_change(&b, &version, &renewed);
    json_t *o = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 2);
    assert_int_equal(json_array_size(json_object_get(o, "links")), 0); /* as before */
    assert_int_equal(json_array_size(json_object_get(o, "ranks")), 1);
    json_decref(o);
    free(text);
    assert_null(sl_page_change(&b, &version, &renewed));
    sl_board_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_may_come_before_the_iterations_that_they_are_about),
        cmocka_unit_test(iterations_that_are_fast_again_clear_who_was_named),
        cmocka_unit_test(a_verdict_takes_the_place_of_suspects_and_a_relief_clears_all),
        cmocka_unit_test(however_long_a_run_is_the_board_has_a_bound),
        cmocka_unit_test(what_has_changed_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
