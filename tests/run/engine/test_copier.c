/* The copy engine by itself: when moves begin and end on the virtual clock, and what a failure does. */
#include "check.h"

#include "run/engine/copier.h"
#include "virtual_clock.h"

enum { STEPS = 4, MOVES = 3 };

typedef struct place {
    sl_clock *clock;
    sl_time asked[MOVES];
    int calls, fails; /* fails: this call, from 1; 0: none */
} place;

static sl_status act(void *object, int microbatch) {
    place *p = object;
    p->asked[p->calls++] = sl_clock_now(p->clock);
    return p->calls == p->fails ? sl_error(SL_ENOMEM, "no room for microbatch %d", microbatch) : SL_OK;
}

/* Out behind step 0 and behind step 1, back behind step 2. */
static sl_move moves[MOVES] = {{.kind = SL_OFFLOAD, .microbatch = 0, .after = 0, .before = 2},
                               {.kind = SL_OFFLOAD, .microbatch = 1, .after = 1, .before = -1},
                               {.kind = SL_FETCH, .microbatch = 0, .after = 2, .before = 3}};

static void begin(sl_copier *c, place *p, sl_stage *stage, const sl_rank_program *mine, const sl_time *pace) {
    assert_ok(sl_clock_open_virtual(1, &p->clock));
    *stage = (sl_stage){.object = p, .offload = act, .fetch = act};
    assert_ok(sl_copier_begin(c, mine, stage, pace, p->clock, 100));
}

/* Steps of 10 from 100 on, moves of 15: out 110-125, out at 125 (step 1 ended at 120) until 140, step 2 waits
 * for the first alone, 125-135; back at 140-155, step 3 begins then. */
static void moves_follow_steps_and_each_other(void **state) {
    (void)state;
    sl_copier c = {0};
    place p = {0};
    sl_stage stage;
    const sl_time pace[1] = {15};
    sl_rank_program mine = {.steps = STEPS, .moves = MOVES, .move = moves};
    begin(&c, &p, &stage, &mine, pace);
    sl_time start = 120;
    sl_copier_step(&c, 1, 110);
    sl_copier_step(&c, 2, 120);
    assert_ok(sl_copier_wait(&c, -1, &start));
    assert_int_equal(start, 120);
    assert_ok(sl_copier_wait(&c, 0, &start));
    assert_int_equal(start, 125);
    sl_copier_step(&c, 3, 135);
    start = 135;
    assert_ok(sl_copier_wait(&c, 2, &start));
    assert_int_equal(start, 155);
    sl_copier_step(&c, 4, 165);
    assert_ok(sl_copier_end(&c));
    static const sl_time begun[] = {110, 125, 140}, done[] = {125, 140, 155};
    for (int m = 0; m < MOVES; m++) {
        assert_int_equal(c.begun[m], begun[m]);
        assert_int_equal(c.done[m], done[m]);
        assert_int_equal(p.asked[m], begun[m]); /* not ahead of its time either */
    }
    assert_int_equal(c.overruns, 0);
    sl_copier_free(&c);
    sl_clock_leave(p.clock);
    sl_clock_close(p.clock);
}

static void a_move_that_fails_ends_the_wait_with_its_error(void **state) {
    (void)state;
    for (int fails = 1; fails <= MOVES; fails++) {
        sl_copier c = {0};
        place p = {.fails = fails};
        sl_stage stage;
        const sl_time pace[1] = {15};
        sl_rank_program mine = {.steps = STEPS, .moves = MOVES, .move = moves};
        begin(&c, &p, &stage, &mine, pace);
        sl_time start = 0;
        for (int i = 1; i <= 3; i++)
            sl_copier_step(&c, i, 100 + 10 * i);
        assert_fails(sl_copier_wait(&c, 2, &start), SL_ENOMEM, "no room for microbatch");
        assert_fails(sl_copier_end(&c), SL_ENOMEM, "no room for microbatch");
        assert_int_equal(p.calls, fails);
        sl_copier_free(&c);
        sl_clock_leave(p.clock);
        sl_clock_close(p.clock);
    }
}

/* An iteration that is given up, before any step, in a move's wait and in its sleep: the thread is gone. */
static void an_iteration_given_up_leaves_no_thread(void **state) {
    (void)state;
    for (int steps = 0; steps < STEPS; steps++) {
        sl_copier c = {0};
        place p = {0};
        sl_stage stage;
        const sl_time pace[1] = {1000000};
        sl_rank_program mine = {.steps = STEPS, .moves = MOVES, .move = moves};
        begin(&c, &p, &stage, &mine, pace);
        for (int i = 1; i <= steps; i++)
            sl_copier_step(&c, i, 100 + 10 * i);
        assert_ok(sl_copier_end(&c));
        assert_int_equal(c.running, 0);
        sl_copier_free(&c);
        sl_clock_leave(p.clock);
        sl_clock_close(p.clock);
    }
}

/* What a counter says is there, is there: whoever is woken by one finds all that it counts. */
static sl_copier *looked_at;
static const sl_clock_kind *beneath;
static _Atomic int looks, wrong; /* of any thread */

static void look_and_wake(sl_clock *clock, _Atomic uint32_t *word) {
    const sl_copier *c = looked_at;
    uint32_t moved = atomic_load(&c->moves), stepped = atomic_load(&c->steps);
    for (uint32_t m = 0; word == &c->moves && m < moved; m++, looks++)
        wrong += c->begun[m] <= 0 || c->done[m] <= c->begun[m];
    for (uint32_t i = 0; word == &c->steps && stepped != SL_COPIER_QUIT && i < stepped; i++, looks++)
        wrong += c->ended[i] != 110 + 10 * (sl_time)i;
    beneath->wake(clock, word);
}

static void a_counter_is_published_after_what_it_counts(void **state) {
    (void)state;
    sl_copier c = {0};
    place p = {0};
    sl_stage stage;
    const sl_time pace[1] = {15};
    sl_rank_program mine = {.steps = STEPS, .moves = MOVES, .move = moves};
    sl_clock_kind looking;
    assert_ok(sl_clock_open_virtual(1, &p.clock));
    looked_at = &c;
    looks = wrong = 0;
    beneath = p.clock->kind;
    looking = *beneath;
    looking.wake = look_and_wake;
    p.clock->kind = &looking;
    stage = (sl_stage){.object = &p, .offload = act, .fetch = act};
    assert_ok(sl_copier_begin(&c, &mine, &stage, pace, p.clock, 100));
    sl_time start = 0;
    for (int i = 1; i <= 3; i++)
        sl_copier_step(&c, i, 100 + 10 * i);
    assert_ok(sl_copier_wait(&c, MOVES - 1, &start));
    assert_ok(sl_copier_end(&c));
    assert_int_equal(looks, 1 + 2 + 3 + 1 + 2 + 3); /* steps, moves */
    assert_int_equal(wrong, 0);
    sl_copier_free(&c);
    sl_clock_leave(p.clock);
    sl_clock_close(p.clock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_follow_steps_and_each_other),
        cmocka_unit_test(a_move_that_fails_ends_the_wait_with_its_error),
        cmocka_unit_test(an_iteration_given_up_leaves_no_thread),
        cmocka_unit_test(a_counter_is_published_after_what_it_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
