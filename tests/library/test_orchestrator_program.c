/* A program whose pipeline nobody knows: iteration times tell when something is slow, reports what, and what
 * needs no pipeline can be done about it. By hand: 100 ms healthy, 200 ms while device 2 is twice as slow. */
#include "base/memory.h"
#include "library/check_library.h"

#include <math.h>

typedef struct program {
    slackline_orchestrator *o;
    int64_t now;
    int iteration, onsets, reliefs, unknown;
} program;

static const char *const hosts[] = {"a", "a", "b", "b"};

static void open_program(program *p, unsigned can, const int *split) {
    const slackline_job job = {
        .replicas = 4, .ranks = 1, .tensor = 1, .can = can, .split = split, .host = hosts};
    *p = (program){0};
    works(slackline_orchestrator_open(&job, NULL, &p->o));
}

static void run(program *p, int iterations, int64_t time) {
    slackline_event e;
    for (int i = 0; i < iterations; i++) {
        p->now += time;
        works(slackline_orchestrator_observe(
            p->o, &(slackline_iteration){.iteration = p->iteration++, .now_ns = p->now, .time_ns = time}));
        while (slackline_orchestrator_event(p->o, &e)) {
            p->onsets += strcmp(e.kind, "onset") == 0;
            p->reliefs += strcmp(e.kind, "relief") == 0;
            p->unknown += strcmp(e.kind, "verdict") == 0 && e.rank < 0 && e.from < 0;
        }
    }
}

static void report(program *p, int over) {
    works(slackline_orchestrator_report(
        p->o, p->now,
        &(slackline_report){.id = 1,
                            .over = over,
                            .slow = {.part = SLACKLINE_DEVICE, .a = 2, .b = -1, .slowdown = 2},
                            .loss = -1,
                            .seen = "device 2 at half its clock"}));
}

static void iteration_times_alone_tell_of_trouble_and_relief(void **state) {
    (void)state;
    program p;
    slackline_action action;
    open_program(&p, SLACKLINE_CAN(SLACKLINE_BALANCE), NULL);
    run(&p, 30, 100 * ms);
    assert_true(p.onsets == 0 && !slackline_orchestrator_troubled(p.o));
    run(&p, 20, 200 * ms);
    assert_true(p.onsets == 1 && p.unknown == 1 && p.reliefs == 0 && slackline_orchestrator_troubled(p.o));
    run(&p, 20, 100 * ms);
    assert_true(p.onsets == 1 && p.reliefs == 1 && !slackline_orchestrator_troubled(p.o));
    assert_int_equal(slackline_orchestrator_incidents(p.o, NULL, 0), 0);
    assert_false(slackline_orchestrator_action(p.o, &action));
    slackline_orchestrator_close(p.o);
}

/* Half of the time is lost. Of 32 microbatches of four processes the slow one takes at most 5 and no other
 * more than 10, for 9 1/7 is the least that all can need of the 8 that are healthy; then an iteration takes
 * 125 ms. */
static void a_reported_device_is_balanced_until_it_is_over(void **state) {
    (void)state;
    static const int split[] = {8, 8, 8, 8};
    program p;
    slackline_incident incident;
    slackline_action action;
    slackline_layout layout;
    open_program(&p, SLACKLINE_CAN(SLACKLINE_BALANCE), split);
    run(&p, 30, 100 * ms);
    report(&p, 0);
    run(&p, 40, 200 * ms);
    assert_int_equal(slackline_orchestrator_incidents(p.o, &incident, 1), 1);
    assert_true(incident.slow.part == SLACKLINE_DEVICE && incident.slow.a == 2 && incident.verdict);
    assert_near(incident.loss, 0.5, 0.01);
    assert_true(slackline_orchestrator_action(p.o, &action));
    assert_int_equal(action.what, SLACKLINE_DO_LAYOUT);
    assert_int_equal(action.strategy, SLACKLINE_BALANCE);
    assert_null(action.layout.process);
    int given[4], all = 0;
    for (int r = 0; r < 4; r++) {
        all += given[r] = action.layout.split[r];
        assert_in_range(given[r], 1, r == 2 ? 5 : 10);
    }
    assert_int_equal(all, 32);
    works(slackline_orchestrator_carried_out(p.o, action.id, p.now, SLACKLINE_DONE, ms));
    works(slackline_orchestrator_layout(p.o, &layout));
    assert_memory_equal(layout.split, given, sizeof given);
    assert_int_equal(layout.process[3], 3);
    run(&p, 40, 125 * ms);
    assert_int_equal(slackline_orchestrator_incidents(p.o, &incident, 1), 1);
    assert_near(incident.loss, 0.2, 0.01);
    report(&p, 1);
    run(&p, 40, 112 * ms);
    assert_int_equal(slackline_orchestrator_incidents(p.o, NULL, 0), 0);
    assert_int_equal(p.reliefs, p.onsets);
    run(&p, 400, 112 * ms);
    assert_true(slackline_orchestrator_action(p.o, &action));
    assert_true(action.undo && action.layout.split[2] == 8);
    works(slackline_orchestrator_carried_out(p.o, action.id, p.now, SLACKLINE_DONE, ms));
    works(slackline_orchestrator_layout(p.o, &layout));
    assert_int_equal(layout.split[2], 8);
    slackline_orchestrator_close(p.o);
}

/* 600 s for what loses half of the time: after 1,200 s. */
static void a_restart_leaves_the_host_of_what_is_slow_if_it_may(void **state) {
    (void)state;
    for (int may = 0; may < 2; may++) {
        program p;
        slackline_action action;
        open_program(&p, SLACKLINE_CAN(SLACKLINE_RESTART), NULL);
        works(slackline_orchestrator_may_leave(p.o, "b", may));
        refuses(slackline_orchestrator_may_leave(p.o, "c", may), "'c'");
        run(&p, 30, 100 * ms);
        report(&p, 0);
        run(&p, 5900, 200 * ms);
        assert_false(slackline_orchestrator_action(p.o, &action));
        run(&p, 300, 200 * ms);
        assert_int_equal(slackline_orchestrator_action(p.o, &action), may);
        if (may) {
            assert_int_equal(action.what, SLACKLINE_DO_LEAVE);
            assert_string_equal(action.host, "b");
        }
        slackline_orchestrator_close(p.o);
    }
}

static void what_needs_a_pipeline_is_refused_and_changes_nothing(void **state) {
    (void)state;
    program p;
    slackline_orchestrator *o;
    slackline_plan *plan;
    slackline_problem *question;
    int64_t time;
    char *text;
    static const int uneven[] = {8, 8, 8, 7};
    slackline_job job = {.replicas = 4, .ranks = 1, .tensor = 1, .can = SLACKLINE_CAN(SLACKLINE_SCHEDULE)};
    refuses(slackline_orchestrator_open(&job, NULL, &o), "need a pipeline");
    job = (slackline_job){.replicas = 4, .ranks = 1, .tensor = 1, .split = uneven};
    refuses(slackline_orchestrator_open(&job, NULL, &o), "equal numbers");
    job = (slackline_job){.replicas = 4, .ranks = 0, .tensor = 1};
    refuses(slackline_orchestrator_open(&job, NULL, &o), "ranks");
    open_program(&p, SLACKLINE_CAN(SLACKLINE_BALANCE), NULL);
    run(&p, 10, 100 * ms);
    assert_int_equal(slackline_orchestrator_plan(p.o, 0, &plan), SLACKLINE_NO_ANSWER);
    assert_int_equal(slackline_orchestrator_forecast(p.o, 0, &time), SLACKLINE_NO_ANSWER);
    assert_int_equal(slackline_orchestrator_question(p.o, 0, &question), SLACKLINE_NO_ANSWER);
    assert_int_equal(slackline_orchestrator_adapted(p.o, 0), 0);
    assert_int_equal(slackline_orchestrator_idle(p.o, ms), 0);
    refuses(slackline_orchestrator_save(p.o, &text, NULL), "not known");
    slackline_span span = {.end_ns = ms};
    const slackline_measurements given[4] = {{.span = &span, .spans = 1}};
    slackline_iteration i = {.iteration = 10, .now_ns = p.now + ms, .time_ns = 100 * ms, .replica = given};
    refuses(slackline_orchestrator_observe(p.o, &i), "not known");
    i = (slackline_iteration){.iteration = 10, .now_ns = p.now - 1, .time_ns = 100 * ms};
    refuses(slackline_orchestrator_observe(p.o, &i), "comes after");
    i = (slackline_iteration){.iteration = 10, .now_ns = p.now, .time_ns = 100 * ms, .work = NAN};
    refuses(slackline_orchestrator_observe(p.o, &i), "work");
    slackline_report r = {.slow = {.part = SLACKLINE_DEVICE, .a = 4, .b = -1, .slowdown = 2}};
    refuses(slackline_orchestrator_report(p.o, p.now, &r), "slow.a must be from 0 to 3, got 4");
    run(&p, 10, 100 * ms);
    slackline_orchestrator_close(p.o);
}

/* 1: there was no memory, and no other excuse. */
static int failed(slackline_status status) {
    if (status != SLACKLINE_OK && status != SLACKLINE_NO_MEMORY)
        fail_msg("status %d, '%s'", (int)status, slackline_error());
    return status == SLACKLINE_NO_MEMORY;
}

/* A device is slow, is balanced, and recovers; the n-th allocation fails, and what failed is said again, but
 * an iteration. How many calls have failed. */
static int play_without_memory(long n) {
    static const int split[] = {8, 8, 8, 8};
    program p;
    slackline_action action;
    slackline_event e;
    int fails = 0, balanced = 0, undone = 0;
    open_program(&p, SLACKLINE_CAN(SLACKLINE_BALANCE), split);
    sl_alloc_fail_at(n);
    for (int i = 0; i < 700; i++) {
        int64_t time = i < 20 || i >= 110 ? 100 * ms : balanced ? 125 * ms : 200 * ms;
        slackline_report r = {.id = 1,
                              .over = i == 110,
                              .slow = {.part = SLACKLINE_DEVICE, .a = 2, .b = -1, .slowdown = 2},
                              .loss = -1};
        p.now += time;
        fails += failed(slackline_orchestrator_observe(
            p.o, &(slackline_iteration){.iteration = i, .now_ns = p.now, .time_ns = time}));
        while ((i == 30 || i == 110) && failed(slackline_orchestrator_report(p.o, p.now, &r)))
            fails++;
        while (slackline_orchestrator_action(p.o, &action)) {
            *(action.undo ? &undone : &balanced) += 1;
            while (failed(slackline_orchestrator_carried_out(p.o, action.id, p.now, SLACKLINE_DONE, ms)))
                fails++;
        }
        while (slackline_orchestrator_event(p.o, &e)) {
            p.onsets += strcmp(e.kind, "onset") == 0;
            p.reliefs += strcmp(e.kind, "relief") == 0;
        }
        if (i == 100)
            assert_int_equal(slackline_orchestrator_incidents(p.o, NULL, 0), 1);
    }
    sl_alloc_fail_at(-1);
    if (p.onsets != p.reliefs || p.onsets < 1 || balanced != 1 || undone != 1 ||
        slackline_orchestrator_troubled(p.o) || slackline_orchestrator_incidents(p.o, NULL, 0))
        fail_msg("allocation %ld: %d onsets, %d reliefs, balanced %d, undone %d", n, p.onsets, p.reliefs,
                 balanced, undone);
    slackline_orchestrator_close(p.o);
    return fails;
}

static void after_any_failed_allocation_the_program_goes_on(void **state) {
    (void)state;
    long last = 0;
    assert_int_equal(play_without_memory(-1), 0);
    for (long n = 0; n <= last + 2; n++)
        last = play_without_memory(n) ? n : last;
    print_message("each of %ld allocations failed once\n", last + 1);
    assert_true(last > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iteration_times_alone_tell_of_trouble_and_relief),
        cmocka_unit_test(a_reported_device_is_balanced_until_it_is_over),
        cmocka_unit_test(a_restart_leaves_the_host_of_what_is_slow_if_it_may),
        cmocka_unit_test(what_needs_a_pipeline_is_refused_and_changes_nothing),
        cmocka_unit_test(after_any_failed_allocation_the_program_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
