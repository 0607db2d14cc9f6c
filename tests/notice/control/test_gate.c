/* The gate itself, one promise at a time; numbers worked out by hand. */
#include "base/build_id.h"
#include "check.h"
#include "notice/control/hold_cut.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

#define RANKS 2

static sl_gate *gates[RANKS];
static sl_gate_view *views[RANKS];

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int make(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        gates[r] = calloc(1, sizeof *gates[r]);
        views[r] = calloc(1, sizeof *views[r]);
        sl_gate_init(gates[r], r, NULL);
    }
    return 0;
}

static int unmake(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++) {
        free(gates[r]);
        free(views[r]);
    }
    return 0;
}

static sl_gate_channel *collective(int r, uint64_t communicator) {
    return sl_gate_channel_of(gates[r], &(sl_channel_key){communicator, -1, -1, -1, SL_CHANNEL_COLLECTIVE});
}

static sl_gate_channel *from_0_to_1(int r) {
    return sl_gate_channel_of(gates[r], &(sl_channel_key){1, 0, 1, 5, SL_CHANNEL_POINT});
}

static void look(void) {
    for (int r = 0; r < RANKS; r++)
        sl_gate_look(gates[r], views[r]);
}

static sl_cut_verdict step(sl_cut *cut, size_t *count) {
    const sl_cut_raise *raises;
    sl_cut_verdict verdict;
    look();
    assert_ok(sl_cut_step(cut, (const sl_gate_view *const *)views, 1, &verdict, &raises, count));
    for (size_t i = 0; i < *count; i++)
        assert_int_equal(sl_gate_raise(gates[raises[i].rank], &raises[i].key, raises[i].target), 0);
    return verdict;
}

static void calls_are_numbered_from_one_on_each_channel(void **state) {
    (void)state;
    sl_gate_caller caller;
    sl_gate_join(&caller, gates[0], NULL);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(sl_gate_enter(&caller, collective(0, 7), SL_GATE_BLOCK), i);
        sl_gate_leave(&caller);
    }
    assert_int_equal(sl_gate_enter(&caller, collective(0, 8), SL_GATE_POST), 1);
    sl_gate_leave(&caller);
    assert_ptr_equal(collective(0, 7), collective(0, 7));
    sl_gate_part(&caller);
}

static void a_held_call_passes_up_to_its_target_and_parks_beyond(void **state) {
    (void)state;
    sl_gate_caller caller;
    sl_gate_join(&caller, gates[0], NULL);
    sl_gate_hold(gates[0], 1, 1000);
    sl_gate_channel *channel = collective(0, 7);
    sl_gate_announce(&caller, channel);
    assert_int_equal(sl_gate_try(&caller, SL_GATE_BLOCK, 0), 0);
    look();
    assert_int_equal(views[0]->thread[0].state, SL_GATE_PARKED);
    assert_int_equal(views[0]->channel[0].announced, 1);
    assert_int_equal(views[0]->channel[0].entered, 0);
    sl_gate_raise(gates[0], &channel->key, 1);
    sl_gate_raise(gates[0], &channel->key, 0); /* never falls */
    assert_int_equal(sl_gate_try(&caller, SL_GATE_BLOCK, 0), 1);
    look();
    assert_int_equal(views[0]->channel[0].entered, 1);
    assert_int_equal(views[0]->channel[0].due, 1);
    sl_gate_leave(&caller);
    sl_gate_part(&caller);
}

static void the_deadline_frees_even_when_nobody_raises(void **state) {
    (void)state;
    sl_gate_caller caller;
    sl_gate_join(&caller, gates[0], NULL);
    int64_t deadline = now() + INT64_C(30000000);
    sl_gate_hold(gates[0], 1, deadline);
    sl_gate_enter(&caller, collective(0, 7), SL_GATE_BLOCK); /* really parks */
    assert_true(now() >= deadline);
    assert_int_equal(atomic_load(&gates[0]->hold), 0);
    sl_gate_leave(&caller);
    sl_gate_part(&caller);
}

static void nothing_parks_in_a_forbidden_region(void **state) {
    (void)state;
    sl_gate_caller caller;
    sl_gate_join(&caller, gates[0], NULL);
    sl_gate_forbid(&caller, NULL);
    sl_gate_forbid(&caller, NULL);
    sl_gate_allow(&caller); /* regions nest */
    sl_gate_hold(gates[0], 1, 1000);
    sl_gate_announce(&caller, collective(0, 7));
    assert_int_equal(sl_gate_try(&caller, SL_GATE_BLOCK, 0), 1);
    sl_gate_leave(&caller);
    sl_gate_allow(&caller);
    sl_gate_announce(&caller, collective(0, 7));
    assert_int_equal(sl_gate_try(&caller, SL_GATE_BLOCK, 0), 0);
    sl_gate_part(&caller);
}

static void too_many_channels_release_the_hold_with_the_rank_named(void **state) {
    (void)state;
    for (uint64_t i = 0; i < SL_GATE_CHANNELS; i++)
        assert_non_null(collective(1, i));
    assert_null(collective(1, SL_GATE_CHANNELS));
    sl_cut *cut;
    size_t count;
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    assert_int_equal(step(cut, &count), SL_CUT_RELEASE);
    assert_says(sl_cut_reason(cut), "rank 1");
    sl_cut_destroy(cut);
}

static void memory_that_is_no_gate_is_refused(void **state) {
    char text[128];
    (void)state;
    assert_int_equal(sl_gate_read(gates[0], sizeof(sl_gate), text, sizeof text), SL_FILE_OURS);
    assert_int_equal(sl_gate_read(gates[0], sizeof(sl_gate) - 1, text, sizeof text), SL_FILE_FOREIGN);
    memset(gates[0]->head.build, 0, sizeof gates[0]->head.build);
    memcpy(gates[0]->head.build, "0.0.9", 5);
    assert_int_equal(sl_gate_read(gates[0], sizeof(sl_gate), text, sizeof text), SL_FILE_OTHER);
    assert_says(text, "0.0.9");
    assert_non_null(strstr(text, sl_build_id()));
    gates[0]->head.magic++;
    assert_int_equal(sl_gate_read(gates[0], sizeof(sl_gate), text, sizeof text), SL_FILE_FOREIGN);
}

/* Rank 0 has made collective 1 of A and parks at message 1; rank 1 is parked at collective 1 of B, which
 * comes before its collective 1 of A. So B's target must rise to 1, and only B's. */
static void a_rank_that_owes_is_led_over_another_channel(void **state) {
    (void)state;
    sl_gate_caller zero, one;
    sl_gate_join(&zero, gates[0], NULL);
    sl_gate_join(&one, gates[1], NULL);
    sl_gate_channel *b = collective(1, 66), *message = from_0_to_1(0);
    collective(1, 65);
    sl_gate_enter(&zero, collective(0, 65), SL_GATE_BLOCK);
    for (int r = 0; r < RANKS; r++)
        sl_gate_hold(gates[r], 1, INT64_MAX);
    sl_cut *cut;
    size_t count;
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    assert_int_equal(step(cut, &count), SL_CUT_MOVING);
    sl_gate_announce(&one, b); /* after the first look, so it is not in the maximum */
    assert_int_equal(sl_gate_try(&one, SL_GATE_BLOCK, 0), 0);
    step(cut, &count);
    assert_int_equal(count, 1);
    assert_int_equal(atomic_load(&b->target), 1);
    assert_int_equal(sl_gate_try(&one, SL_GATE_BLOCK, 0), 1);
    sl_gate_leave(&one);
    sl_gate_announce(&one, collective(1, 65)); /* the maximum of A lets it in */
    assert_int_equal(sl_gate_try(&one, SL_GATE_BLOCK, 0), 1);
    sl_gate_leave(&one);
    sl_gate_leave(&zero);
    sl_gate_announce(&zero, message);
    assert_int_equal(sl_gate_try(&zero, SL_GATE_BLOCK, 0), 0);
    sl_gate_announce(&one, from_0_to_1(1));
    assert_int_equal(sl_gate_try(&one, SL_GATE_BLOCK, 0), 0);
    assert_int_equal(step(cut, &count), SL_CUT_MOVING); /* seen once */
    assert_int_equal(step(cut, &count), SL_CUT_MOVING);
    assert_int_equal(step(cut, &count), SL_CUT_CLOSED);
    assert_int_equal(count, 0);
    sl_cut_destroy(cut);
    sl_gate_part(&zero);
    sl_gate_part(&one);
}

/* An enqueued collective is owed though its host thread has gone on, and the hold begins when the device is
 * idle. */
static void what_a_device_waits_in_is_owed_and_must_be_done(void **state) {
    (void)state;
    sl_gate_caller caller[RANKS];
    sl_cut *cut;
    size_t count;
    for (int r = 0; r < RANKS; r++) {
        sl_gate_join(&caller[r], gates[r], NULL);
        collective(r, 65);
        collective(r, 66);
    }
    sl_gate_enter(&caller[0], collective(0, 65), SL_GATE_ENQUEUE);
    sl_gate_leave(&caller[0]);
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    for (int r = 0; r < RANKS; r++) {
        sl_gate_hold(gates[r], 1, INT64_MAX);
        sl_gate_announce(&caller[r], collective(r, 66));
        assert_int_equal(sl_gate_try(&caller[r], SL_GATE_POST, 0), 0);
    }
    step(cut, &count);
    assert_int_equal(atomic_load(&collective(1, 66)->target), 1); /* rank 1 owes the enqueued one */
    sl_gate_try(&caller[1], SL_GATE_POST, 0);
    sl_gate_leave(&caller[1]);
    sl_gate_enter(&caller[1], collective(1, 65), SL_GATE_ENQUEUE);
    sl_gate_leave(&caller[1]);
    sl_gate_try(&caller[0], SL_GATE_POST, 0);
    sl_gate_leave(&caller[0]);
    for (int r = 0; r < RANKS; r++) {
        sl_gate_announce(&caller[r], collective(r, 66));
        assert_int_equal(sl_gate_try(&caller[r], SL_GATE_POST, 0), 0);
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(step(cut, &count), SL_CUT_MOVING); /* enqueued, not done */
    for (int r = 0; r < RANKS; r++)
        atomic_store(&gates[r]->drained, 1);
    step(cut, &count);
    assert_int_equal(step(cut, &count), SL_CUT_CLOSED);
    sl_cut_destroy(cut);
    for (int r = 0; r < RANKS; r++)
        sl_gate_part(&caller[r]);
}

/* Rank 0 has posted a nonblocking collective and sent a message, rank 1 neither: both straddle the cut, which
 * closes where the ranks are parked. */
static void posts_and_returned_sends_straddle_the_cut(void **state) {
    (void)state;
    sl_gate_caller caller[RANKS];
    sl_cut *cut;
    size_t count;
    for (int r = 0; r < RANKS; r++) {
        sl_gate_join(&caller[r], gates[r], NULL);
        collective(r, 65);
        collective(r, 66);
    }
    sl_gate_enter(&caller[0], collective(0, 65), SL_GATE_POST);
    sl_gate_leave(&caller[0]);
    sl_gate_enter(&caller[0], from_0_to_1(0), SL_GATE_BLOCK);
    sl_gate_leave(&caller[0]);
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    for (int r = 0; r < RANKS; r++)
        sl_gate_hold(gates[r], 1, INT64_MAX);
    step(cut, &count);
    for (int r = 0; r < RANKS; r++) {
        sl_gate_announce(&caller[r], collective(r, 66));
        assert_int_equal(sl_gate_try(&caller[r], SL_GATE_BLOCK, 0), 0);
    }
    step(cut, &count);
    step(cut, &count);
    assert_int_equal(step(cut, &count), SL_CUT_CLOSED);
    assert_int_equal(atomic_load(&collective(1, 66)->target), 0);
    sl_cut_destroy(cut);
    for (int r = 0; r < RANKS; r++)
        sl_gate_part(&caller[r]);
}

/* A grouped send on a device: its receiver owes it, though no thread of the sender is in it. */
static void an_enqueued_message_is_owed_by_its_receiver(void **state) {
    (void)state;
    sl_gate_caller caller[RANKS];
    sl_cut *cut;
    size_t count;
    for (int r = 0; r < RANKS; r++)
        sl_gate_join(&caller[r], gates[r], NULL);
    sl_gate_enter(&caller[0], from_0_to_1(0), SL_GATE_ENQUEUE);
    sl_gate_leave(&caller[0]);
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    for (int r = 0; r < RANKS; r++)
        sl_gate_hold(gates[r], 1, INT64_MAX);
    step(cut, &count);
    sl_gate_announce(&caller[1], collective(1, 66)); /* what rank 1 does before it receives */
    assert_int_equal(sl_gate_try(&caller[1], SL_GATE_POST, 0), 0);
    step(cut, &count);
    assert_int_equal(atomic_load(&collective(1, 66)->target), 1);
    sl_cut_destroy(cut);
    for (int r = 0; r < RANKS; r++)
        sl_gate_part(&caller[r]);
}

static _Atomic int polled, moved;

static void move(void *context) {
    (void)context;
    moved++;
}

static int idle_at_the_third_look(void *context) {
    (void)context;
    return ++polled >= 3;
}

static const sl_gate_shim polling = {move, idle_at_the_third_look, NULL};

static void *one_held_call(void *argument) {
    sl_gate_caller *caller = argument;
    sl_gate_enter(caller, collective(0, 66), SL_GATE_BLOCK);
    sl_gate_leave(caller);
    return NULL;
}

static void a_parked_thread_moves_messages_and_polls_its_device(void **state) {
    (void)state;
    sl_gate_caller caller;
    pthread_t thread;
    polled = moved = 0;
    sl_gate_join(&caller, gates[0], &polling);
    sl_gate_enter(&caller, collective(0, 65), SL_GATE_ENQUEUE);
    sl_gate_leave(&caller);
    sl_gate_hold(gates[0], 1, now() + SL_GATE_DEADLINE);
    assert_int_equal(pthread_create(&thread, NULL, one_held_call, &caller), 0);
    do
        look();
    while (!views[0]->drained);
    sl_gate_release(gates[0]);
    pthread_join(thread, NULL);
    assert_true(polled >= 3);
    assert_true(moved >= 2);
    sl_gate_part(&caller);
}

static void a_rank_that_is_not_to_be_held_says_its_first_reason(void **state) {
    (void)state;
    sl_gate_refuse(gates[1], SL_GATE_CANCELLED);
    sl_gate_refuse(gates[1], SL_GATE_FULL);
    sl_cut *cut;
    size_t count;
    assert_ok(sl_cut_create(&cut, RANKS, (sl_cut_limits){0}));
    assert_int_equal(step(cut, &count), SL_CUT_RELEASE);
    assert_says(sl_cut_reason(cut), "rank 1");
    sl_cut_destroy(cut);
}

static void needs_that_were_looked_at_again_replace_the_first(void **state) {
    (void)state;
    sl_gate_caller caller;
    sl_gate_join(&caller, gates[0], NULL);
    sl_gate_announce(&caller, collective(0, 7));
    sl_gate_need(&caller, collective(0, 8), 1);
    sl_gate_need(&caller, from_0_to_1(0), 1);
    sl_gate_no_needs(&caller);
    sl_gate_need(&caller, collective(0, 8), 2);
    sl_gate_pass(&caller, SL_GATE_BLOCK);
    look();
    const sl_gate_view_thread *thread = &views[0]->thread[0];
    assert_int_equal(thread->entries, 2);
    assert_int_equal(thread->entry[0].need, 0);
    assert_int_equal(thread->entry[1].need, 1);
    assert_int_equal(thread->entry[1].number, 2);
    sl_gate_leave(&caller);
    sl_gate_part(&caller);
}

static _Atomic uint64_t passed;
static _Atomic int stop;

static void *calls_without_end(void *argument) {
    sl_gate_caller *caller = argument;
    sl_gate_channel *channel = collective(0, 65);
    while (!atomic_load(&stop)) {
        uint64_t number = sl_gate_enter(caller, channel, SL_GATE_BLOCK);
        atomic_store_explicit(&passed, number, memory_order_relaxed);
        sl_gate_leave(caller);
    }
    return NULL;
}

/* The order that plain adds leave to the holder's barrier: what it does not count has seen the hold. */
static void a_call_that_the_holder_did_not_count_parks(void **state) {
    (void)state;
    sl_gate_caller caller;
    pthread_t thread;
    if (!sl_gate_use_barriers(gates[0]))
        skip();
    atomic_store(&collective(0, 65)->plain, 1);
    sl_gate_join(&caller, gates[0], NULL);
    passed = 0;
    stop = 0;
    assert_int_equal(pthread_create(&thread, NULL, calls_without_end, &caller), 0);
    for (uint32_t hold = 1; hold <= 3000; hold++) {
        sl_gate_hold(gates[0], hold, now() + SL_GATE_DEADLINE);
        uint64_t counted = atomic_load(&collective(0, 65)->announced);
        do
            look();
        while (views[0]->thread[0].state != SL_GATE_PARKED);
        uint64_t through = atomic_load(&passed);
        sl_gate_release(gates[0]);
        assert_true(through <= counted);
        for (int i = 0; i < 200 && atomic_load(&passed) == through; i++)
            sched_yield();
    }
    stop = 1;
    pthread_join(thread, NULL);
    sl_gate_part(&caller);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
    const struct CMUnitTest tests[] = {
        TEST(calls_are_numbered_from_one_on_each_channel),
        TEST(a_held_call_passes_up_to_its_target_and_parks_beyond),
        TEST(the_deadline_frees_even_when_nobody_raises),
        TEST(nothing_parks_in_a_forbidden_region),
        TEST(too_many_channels_release_the_hold_with_the_rank_named),
        TEST(memory_that_is_no_gate_is_refused),
        TEST(a_rank_that_owes_is_led_over_another_channel),
        TEST(what_a_device_waits_in_is_owed_and_must_be_done),
        TEST(posts_and_returned_sends_straddle_the_cut),
        TEST(an_enqueued_message_is_owed_by_its_receiver),
        TEST(a_parked_thread_moves_messages_and_polls_its_device),
        TEST(a_rank_that_is_not_to_be_held_says_its_first_reason),
        TEST(needs_that_were_looked_at_again_replace_the_first),
        TEST(a_call_that_the_holder_did_not_count_parks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
