/* The cut's rules, each on a job of two ranks that is written down by hand. */
#include "check.h"

#include "notice/control/hold_cut.h"

enum { WORLD = 7, TAG = 3, LOOKS = 6 };

static sl_gate_view *view[2];

static void open_views(void) {
    for (int r = 0; r < 2; r++) {
        view[r] = calloc(1, sizeof *view[r]);
        *view[r] = (sl_gate_view){.rank = r, .held = 1, .drained = 1};
    }
}

/* Adds a channel to a rank's view; its index. */
static uint32_t add(int r, uint32_t kind, int source, int destination, int tag, uint64_t entered) {
    uint32_t at = view[r]->channels++;
    view[r]->channel[at] = (sl_gate_view_channel){
        .key = {WORLD, source, destination, tag, kind}, .ready = 1, .announced = entered, .entered = entered};
    return at;
}

static void put(int r, sl_gate_state state, uint32_t channel, uint64_t number, int need) {
    view[r]->threads = 1;
    view[r]->thread[0] = (sl_gate_view_thread){
        .state = state, .serial = 5, .entries = 1, .entry = {{channel, (uint32_t)need, number}}};
}

/* The last verdict of a few looks at a job in which nothing moves; the first look that closes ends them. */
static sl_cut_verdict looks_at_standing_views(void) {
    const sl_gate_view *const views[2] = {view[0], view[1]};
    const sl_cut_raise *raises;
    sl_cut_verdict verdict = SL_CUT_MOVING;
    sl_cut *cut;
    size_t count;
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){.time = INT64_MAX / 2}));
    for (int i = 0; i < LOOKS && verdict == SL_CUT_MOVING; i++)
        assert_ok(sl_cut_step(cut, views, i * 1000, &verdict, &raises, &count));
    sl_cut_destroy(cut);
    free(view[0]);
    free(view[1]);
    return verdict;
}

/* Rank 0 has posted `posted` receives from any source and blocks in the last; rank 1 has sent `sent` messages
 * to it and is parked at its next call. */
static sl_cut_verdict receive_from_any_source(uint64_t posted, uint64_t sent, int tag_of_sender,
                                              int wild_tag) {
    open_views();
    for (int r = 0; r < 2; r++)
        add(r, SL_CHANNEL_COLLECTIVE, -1, -1, -1, 0);
    uint32_t wild = add(0, SL_CHANNEL_WILD, -1, 0, wild_tag, posted);
    view[0]->wild = (uint32_t)posted;
    view[0]->channel[wild].target = posted; /* as raised by the first look */
    put(0, SL_GATE_INSIDE, wild, posted, 0);
    uint32_t point = add(1, SL_CHANNEL_POINT, 1, 0, tag_of_sender, sent),
             at = add(1, SL_CHANNEL_LOCAL, -1, 1, -1, 0);
    view[1]->channel[point].target = sent;
    view[1]->channel[at].announced = 0;
    add(0, SL_CHANNEL_POINT, 1, 0, tag_of_sender, 0);
    view[0]->channel[view[0]->channels - 1].target = sent;
    put(1, SL_GATE_PARKED, at, 1, 0);
    return looks_at_standing_views();
}

static void a_receive_from_anybody_that_nobody_has_sent_to_may_stay(void **state) {
    (void)state;
    assert_int_equal(receive_from_any_source(1, 0, TAG, -1), SL_CUT_CLOSED);
    assert_int_equal(receive_from_any_source(3, 2, TAG, -1), SL_CUT_CLOSED); /* two of three are served */
}

static void no_cut_closes_while_a_message_for_a_blocked_receive_is_under_way(void **state) {
    (void)state;
    assert_int_equal(receive_from_any_source(1, 1, TAG, -1), SL_CUT_MOVING);
    assert_int_equal(receive_from_any_source(1, 1, TAG, TAG), SL_CUT_MOVING);
    assert_int_equal(receive_from_any_source(2, 3, TAG, -1), SL_CUT_MOVING);
}

static void a_message_that_the_receive_would_not_take_does_not_count(void **state) {
    (void)state;
    assert_int_equal(receive_from_any_source(1, 1, TAG, TAG + 1), SL_CUT_CLOSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_from_anybody_that_nobody_has_sent_to_may_stay),
        cmocka_unit_test(no_cut_closes_while_a_message_for_a_blocked_receive_is_under_way),
        cmocka_unit_test(a_message_that_the_receive_would_not_take_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
