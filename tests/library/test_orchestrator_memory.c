/* Whatever allocation fails, in whatever iteration: that call says so, the next one works, and in the end the
 * job is where it would have been. */
#include "base/memory.h"
#include "library/simulated_job.h"

enum { ITERATIONS = 36, ONSET = 7, RELIEF = 23 };

/* What was measured, in both worlds: it is the same in every run. */
typedef struct worlds {
    simulated_job j;
    int replicas;
    measured_replica *healthy, *slow;
} worlds;

/* What a program has heard and done. */
typedef struct session {
    slackline_orchestrator *o;
    int64_t now;
    int onsets, reliefs, plans, verdicts, failures; /* failures: calls that had no memory */
    int adapted;                                    /* just before relief */
    int incidents;
} session;

/* Two ranks with four microbatches of 10 ms ops, and 30 ms on their link or none; or two such replicas, of
 * one of which the second rank is twice as slow or not. */
static void make_worlds(worlds *w, int replicas, unsigned can) {
    slackline_problem *problem;
    w->replicas = replicas;
    works(slackline_problem_make(SLACKLINE_LINEAR, 2, 0, 4, &problem));
    for (int stage = 0; stage < 2; stage++)
        for (int kind = SLACKLINE_F; kind <= SLACKLINE_W; kind++)
            works(slackline_problem_set_time(problem, stage, (slackline_kind)kind, 10 * ms));
    make_job_of(&w->j, problem, "1f1b", replicas, can);
    for (int slow = 0; slow < 2; slow++) {
        measured_replica *kept = calloc(1, sizeof *kept);
        set_delay(&w->j, 0, slow && replicas == 1 ? 30 * ms : 0);
        set_speed(&w->j, 0, 1, slow && replicas == 2 ? 200 : 100);
        play(&w->j, 0, 0);
        *kept = w->j.measured[0];
        kept->given.span = kept->span;
        kept->given.transfer = kept->transfer;
        *(slow ? &w->slow : &w->healthy) = kept;
    }
}

/* No memory is the only excuse; 1: there was none. */
static int failed(session *s, slackline_status status, const char *call) {
    if (status != SLACKLINE_OK && status != SLACKLINE_NO_MEMORY)
        fail_msg("%s: status %d, '%s'", call, (int)status, slackline_error());
    s->failures += status == SLACKLINE_NO_MEMORY;
    return status == SLACKLINE_NO_MEMORY;
}
#define TRY_CALL(call) failed(s, (call), #call)

static void hear(session *s) {
    slackline_event e;
    while (slackline_orchestrator_event(s->o, &e)) {
        s->onsets += strcmp(e.kind, "onset") == 0;
        s->reliefs += strcmp(e.kind, "relief") == 0;
        s->verdicts += strcmp(e.kind, "verdict") == 0;
    }
}

/* What fails for want of memory is said again. */
static void act(session *s) {
    slackline_action a;
    hear(s);
    for (int n = 0; slackline_orchestrator_action(s->o, &a); n++) {
        slackline_plan *plan;
        assert_true(n < 10);
        while (TRY_CALL(slackline_orchestrator_plan(s->o, 0, &plan)))
            assert_null(plan);
        slackline_plan_free(plan);
        s->plans++;
        s->now += ms;
        while (TRY_CALL(slackline_orchestrator_carried_out(
            s->o, a.id, s->now, a.what == SLACKLINE_DO_PLAN ? SLACKLINE_DONE : SLACKLINE_FAILED, ms)))
            ;
        hear(s);
    }
}

/* The n-th allocation from `iteration` on fails. */
static session play_session(const worlds *w, int iteration, long n) {
    session run = {0}, *s = &run;
    slackline_orchestrator_options options;
    slackline_orchestrator_defaults(&options);
    options.work = 0;
    options.dwell = 5;
    works(slackline_orchestrator_open(&w->j.shape, &options, &s->o));
    for (int i = 0; i < ITERATIONS; i++) {
        int slow = i >= ONSET && i < RELIEF;
        const measured_replica *m = slow ? w->slow : w->healthy;
        const slackline_measurements given[2] = {m->given, w->healthy->given};
        s->now += m->time;
        if (i == iteration)
            sl_alloc_fail_at(n);
        (void)TRY_CALL(slackline_orchestrator_observe(
            s->o,
            &(slackline_iteration){.iteration = i, .now_ns = s->now, .time_ns = m->time, .replica = given}));
        act(s);
        if (i == RELIEF - 1) {
            s->incidents = slackline_orchestrator_incidents(s->o, NULL, 0);
            s->adapted = slackline_orchestrator_adapted(s->o, 0);
        }
    }
    sl_alloc_fail_at(-1);
    assert_int_equal(slackline_orchestrator_incidents(s->o, NULL, 0), 0);
    assert_int_equal(slackline_orchestrator_adapted(s->o, 0), 0);
    assert_false(slackline_orchestrator_troubled(s->o));
    slackline_orchestrator_close(s->o);
    return run;
}

/* Each allocation of a session fails once; what must be the same in the end is. */
static void fail_each(const worlds *w, const session *well) {
    long all = 0;
    const int step = 10 / cases(10);
    for (long n = 0; n <= all + 2 * step; n += step) {
        session s = play_session(w, 0, n);
        all = s.failures ? n : all;
        if (s.onsets != 1 || s.reliefs != 1 || s.incidents != 1 || s.verdicts != 1 ||
            s.adapted != well->adapted || (w->replicas == 1 && s.plans != well->plans))
            fail_msg("allocation %ld: %d onsets, %d reliefs, %d verdicts, %d incidents, adapted %d, %d plans",
                     n, s.onsets, s.reliefs, s.verdicts, s.incidents, s.adapted, s.plans);
    }
    print_message("of %ld allocations one in %d failed, one at a time\n", all + 1, step);
    assert_true(all > 1000);
}

static void after_any_failed_allocation_the_job_goes_on(void **state) {
    (void)state;
    for (int replicas = 1; replicas <= 2; replicas++) {
        worlds w;
        make_worlds(&w, replicas, SLACKLINE_CAN(replicas == 1 ? SLACKLINE_SCHEDULE : SLACKLINE_BALANCE));
        session well = play_session(&w, 0, -1);
        assert_true(well.onsets == 1 && well.reliefs == 1 && well.incidents == 1 && well.failures == 0);
        assert_true(well.adapted == (replicas == 1) && well.plans > 0 && well.verdicts == 1);
        fail_each(&w, &well);
        free(w.healthy);
        free(w.slow);
        close_job(&w.j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_any_failed_allocation_the_job_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
