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

/* ---- limits ---- */

/* Two ranks of one communicator, both parked at their first collective call, which is beyond the cut. */
static void park_both(void) {
    open_views();
    for (int r = 0; r < 2; r++)
        put(r, SL_GATE_PARKED, add(r, SL_CHANNEL_COLLECTIVE, -1, -1, -1, 0), 1, 0);
}

typedef struct look {
    sl_cut_verdict verdict;
    const sl_cut_raise *raises;
    size_t count;
} look;

static look look_at(sl_cut *cut, int64_t now) {
    const sl_gate_view *const views[2] = {view[0], view[1]};
    look l;
    assert_ok(sl_cut_step(cut, views, now, &l.verdict, &l.raises, &l.count));
    return l;
}

static void release(sl_cut *cut) {
    sl_cut_destroy(cut);
    free(view[0]);
    free(view[1]);
}

static void three_looks_at_parked_ranks_close_the_cut(void **state) {
    (void)state;
    sl_cut *cut;
    park_both();
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
    assert_int_equal(look_at(cut, 0).verdict, SL_CUT_MOVING); /* nothing was seen before */
    assert_int_equal(look_at(cut, 1).verdict, SL_CUT_MOVING); /* the first that stands */
    assert_int_equal(look_at(cut, 2).verdict, SL_CUT_CLOSED); /* agrees with it */
    assert_string_equal(sl_cut_reason(cut), "");
    release(cut);
}

static void what_moves_or_computes_does_not_stand(void **state) {
    (void)state;
    for (int what = 0; what < 4; what++) {
        sl_cut *cut;
        park_both();
        assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
        for (int i = 0; i < 6; i++) {
            view[0]->drained = what != 0;
            if (what == 1)
                view[0]->thread[0].state = SL_GATE_MOVING;
            if (what == 2)
                view[0]->thread[0].serial++; /* it was elsewhere in between */
            if (what == 3)
                view[0]->thread[0].forbidden = 1;
            assert_int_equal(look_at(cut, i).verdict, SL_CUT_MOVING);
            if (i > 0) /* at the first look nobody has been seen to stand */
                assert_string_equal(sl_cut_reason(cut), "rank 0 moves");
        }
        release(cut);
    }
}

static void a_rank_that_has_finished_stands(void **state) {
    (void)state;
    sl_cut *cut;
    park_both();
    view[1]->threads = 0;
    view[1]->finished = 1;
    view[1]->held = 0;
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
    for (int i = 0; i < 2; i++)
        assert_int_equal(look_at(cut, i).verdict, SL_CUT_MOVING);
    assert_int_equal(look_at(cut, 2).verdict, SL_CUT_CLOSED);
    release(cut);
}

static void time_and_calls_have_limits(void **state) {
    (void)state;
    sl_cut *cut;
    park_both();
    view[0]->drained = 0; /* it never closes */
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
    assert_int_equal(look_at(cut, 500).verdict, SL_CUT_MOVING);
    assert_int_equal(look_at(cut, 500 + 2000000000).verdict, SL_CUT_MOVING);
    assert_int_equal(look_at(cut, 501 + 2000000000).verdict, SL_CUT_RELEASE);
    assert_string_equal(sl_cut_reason(cut), "no closure within 2 s");
    release(cut);
    park_both();
    view[0]->drained = 0;
    view[1]->calls = 100;
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){.time = 1000, .calls = 30}));
    assert_int_equal(look_at(cut, 0).verdict, SL_CUT_MOVING);
    view[1]->calls = 130;
    assert_int_equal(look_at(cut, 1).verdict, SL_CUT_MOVING);
    view[1]->calls = 131;
    assert_int_equal(look_at(cut, 2).verdict, SL_CUT_RELEASE);
    assert_string_equal(sl_cut_reason(cut), "no closure within 3 iterations (rank 1 has made 31 calls)");
    view[1]->calls = 100;
    assert_int_equal(look_at(cut, 1001).verdict, SL_CUT_RELEASE);
    assert_string_equal(sl_cut_reason(cut), "no closure within 1e-06 s");
    release(cut);
}

static void a_rank_that_is_not_or_cannot_be_held_ends_the_hold(void **state) {
    (void)state;
    sl_cut *cut;
    park_both();
    view[1]->held = 0;
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
    assert_int_equal(look_at(cut, 0).verdict, SL_CUT_RELEASE);
    assert_string_equal(sl_cut_reason(cut), "rank 1 resumed: its deadline has passed");
    view[0]->overflow = SL_GATE_EXPOSED;
    assert_int_equal(look_at(cut, 0).verdict, SL_CUT_RELEASE);
    assert_says(sl_cut_reason(cut), "rank 0 MPI_Win_start");
    const sl_gate_view *const crossed[2] = {view[1], view[0]};
    look l;
    assert_fails(sl_cut_step(cut, crossed, 0, &l.verdict, &l.raises, &l.count), SL_EINVAL, "view 0 rank 1");
    release(cut);
    assert_fails(sl_cut_create(&cut, 0, (sl_cut_limits){0}), SL_EINVAL, "at least one rank");
}

/* ---- debts ---- */

/* Rank 0 is in its second collective call; rank 1 is parked before its own, so it owes it, and may make it.
 */
static void who_is_waited_for_in_a_collective_may_make_its_call(void **state) {
    (void)state;
    sl_cut *cut;
    open_views();
    uint32_t at = add(0, SL_CHANNEL_COLLECTIVE, -1, -1, -1, 2);
    add(1, SL_CHANNEL_COLLECTIVE, -1, -1, -1, 1);
    for (int r = 0; r < 2; r++)
        view[r]->channel[at].target = 2 - (uint64_t)r;
    put(0, SL_GATE_INSIDE, at, 2, 0);
    put(1, SL_GATE_PARKED, at, 2, 0);
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
    look l = look_at(cut, 0);
    assert_int_equal(l.verdict, SL_CUT_MOVING);
    assert_string_equal(sl_cut_reason(cut), "rank 1 owes a call");
    assert_int_equal(l.count, 1);
    assert_int_equal(l.raises[0].rank, 1);
    assert_int_equal(l.raises[0].target, 2);
    assert_true(sl_channel_key_same(&l.raises[0].key, &view[1]->channel[at].key));
    release(cut);
}

/* Rank 1 blocks in a receive from rank 0, which has not sent yet and is parked at something else: that call
 * is what it may make. The other way round, a send counts only when it is seen twice. */
static void who_is_waited_for_in_a_message_may_make_the_call_before_it(void **state) {
    (void)state;
    for (int receives = 0; receives < 2; receives++) {
        sl_cut *cut;
        int waits = receives ? 1 : 0, owes = 1 - waits;
        open_views();
        uint32_t point = add(waits, SL_CHANNEL_POINT, 0, 1, TAG, 1), at;
        view[waits]->channel[point].target = 1;
        put(waits, SL_GATE_INSIDE, point, 1, 0);
        add(owes, SL_CHANNEL_POINT, 0, 1, TAG, 0);
        view[owes]->channel[0].target = 1;
        at = add(owes, SL_CHANNEL_LOCAL, -1, owes, -1, 3);
        view[owes]->channel[at].target = 3;
        put(owes, SL_GATE_PARKED, at, 4, 0);
        assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
        look l = look_at(cut, 0);
        assert_int_equal(l.count, receives ? 1 : 0);
        l = receives ? l : look_at(cut, 1);
        assert_int_equal(l.verdict, SL_CUT_MOVING);
        assert_int_equal(l.count, 1);
        assert_int_equal(l.raises[0].rank, owes);
        assert_int_equal(l.raises[0].target, 4);
        assert_int_equal(l.raises[0].key.kind, SL_CHANNEL_LOCAL);
        release(cut);
    }
}

/* The other end has not used the channel yet: it owes all the same, and gets the target by name. */
static void a_channel_that_one_end_has_not_used_yet_is_raised_there_too(void **state) {
    (void)state;
    sl_cut *cut;
    open_views();
    uint32_t point = add(1, SL_CHANNEL_POINT, 0, 1, TAG, 1);
    view[1]->channel[point].target = 1;
    put(1, SL_GATE_INSIDE, point, 1, 0);
    put(0, SL_GATE_PARKED, add(0, SL_CHANNEL_LOCAL, -1, 0, -1, 0), 1, 0);
    assert_ok(sl_cut_create(&cut, 2, (sl_cut_limits){0}));
    look l = look_at(cut, 0);
    assert_int_equal(l.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(l.raises[i].rank, 0);
        assert_int_equal(l.raises[i].target, 1);
    }
    assert_int_equal(l.raises[0].key.kind + l.raises[1].key.kind, SL_CHANNEL_LOCAL + SL_CHANNEL_POINT);
    release(cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_from_anybody_that_nobody_has_sent_to_may_stay),
        cmocka_unit_test(no_cut_closes_while_a_message_for_a_blocked_receive_is_under_way),
        cmocka_unit_test(a_message_that_the_receive_would_not_take_does_not_count),
        cmocka_unit_test(three_looks_at_parked_ranks_close_the_cut),
        cmocka_unit_test(what_moves_or_computes_does_not_stand),
        cmocka_unit_test(a_rank_that_has_finished_stands),
        cmocka_unit_test(time_and_calls_have_limits),
        cmocka_unit_test(a_rank_that_is_not_or_cannot_be_held_ends_the_hold),
        cmocka_unit_test(who_is_waited_for_in_a_collective_may_make_its_call),
        cmocka_unit_test(who_is_waited_for_in_a_message_may_make_the_call_before_it),
        cmocka_unit_test(a_channel_that_one_end_has_not_used_yet_is_raised_there_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
