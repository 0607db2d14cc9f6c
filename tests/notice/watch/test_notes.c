/* What waits for the first thread of a watch is bounded, whatever keeps that thread: the newest view counts.
 */
#include "check.h"

#include "notice/watch/noticing.c" /* its queue */

static sl_noticing *open_queue(void) {
    sl_noticing *n;
    assert_ok(sl_alloc(&n, 1, sizeof *n));
    pthread_mutex_init(&n->lock, NULL);
    n->file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return n;
}

static void close_queue(sl_noticing *n) {
    sl_note note;
    while (sl_noticing_take(n, &note))
        free(note.standing);
    close(n->file);
    pthread_mutex_destroy(&n->lock);
    sl_free(n);
}

static void put(sl_noticing *n, sl_note_kind kind, int number) {
    sl_note note = {.kind = kind};
    note.view.iteration = note.event.iteration = number;
    note.standing = kind == SL_NOTE_STANDING ? malloc(100000) : NULL;
    if (!say(n, &note))
        free(note.standing);
}

static void of_many_views_the_newest_is_taken_in_the_order_of_events(void **state) {
    (void)state;
    sl_noticing *n = open_queue();
    sl_note note;
    for (int i = 0; i < 1000; i++) {
        put(n, SL_NOTE_VIEW, i);
        put(n, SL_NOTE_STANDING, i);
        if (i == 500)
            put(n, SL_NOTE_EVENT, i);
    }
    assert_true(sl_noticing_take(n, &note));
    assert_int_equal(note.kind, SL_NOTE_EVENT);
    assert_true(sl_noticing_take(n, &note));
    assert_int_equal(note.kind, SL_NOTE_VIEW);
    assert_int_equal(note.view.iteration, 999);
    assert_true(sl_noticing_take(n, &note));
    assert_int_equal(note.kind, SL_NOTE_STANDING);
    free(note.standing);
    assert_false(sl_noticing_take(n, &note));
    close_queue(n);
}

static void views_stay_with_the_seat_that_they_belong_to(void **state) {
    (void)state;
    static const sl_note_kind expected[] = {SL_NOTE_LEADS, SL_NOTE_VIEW, SL_NOTE_REPLACED, SL_NOTE_VIEW,
                                            SL_NOTE_DONE};
    sl_noticing *n = open_queue();
    sl_note note;
    put(n, SL_NOTE_LEADS, 0);
    put(n, SL_NOTE_VIEW, 1);
    put(n, SL_NOTE_VIEW, 2);
    put(n, SL_NOTE_REPLACED, 0);
    put(n, SL_NOTE_VIEW, 3);
    put(n, SL_NOTE_VIEW, 4);
    put(n, SL_NOTE_DONE, 0);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_true(sl_noticing_take(n, &note));
        assert_int_equal(note.kind, expected[i]);
        if (i == 1)
            assert_int_equal(note.view.iteration, 2);
    }
    assert_false(sl_noticing_take(n, &note));
    close_queue(n);
}

static void events_that_nobody_takes_do_not_fill_the_memory(void **state) {
    (void)state;
    sl_noticing *n = open_queue();
    sl_event event = {.iteration = 1};
    sl_note note;
    int first = -1, taken = 0, passed = 0;
    for (int i = 0; i < 20000; i++) {
        put(n, SL_NOTE_EVENT, i);
        sl_noticing_pass(n, &event);
    }
    put(n, SL_NOTE_DONE, 0); /* has room whatever waits */
    for (; sl_noticing_take(n, &note) && note.kind == SL_NOTE_EVENT; taken++)
        first = first < 0 ? note.event.iteration : first;
    assert_int_equal(note.kind, SL_NOTE_DONE);
    assert_int_equal(first, 0); /* the beginning of a story, and not its end */
    assert_true(taken >= 100 && taken <= 2000);
    for (queued_notice *q = n->passed; q; q = q->next)
        passed++;
    assert_true(passed >= 100 && passed <= 2000);
    publish_passed(n);
    close_queue(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_many_views_the_newest_is_taken_in_the_order_of_events),
        cmocka_unit_test(views_stay_with_the_seat_that_they_belong_to),
        cmocka_unit_test(events_that_nobody_takes_do_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
