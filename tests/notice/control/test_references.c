/* Profiles that are kept and compared: the controller's parts with profiles of programs on a virtual clock
 * instead of those that agents send (sl_profiling_take and sl_control_order are replaced when this is
 * linked). */
#include "notice/detect/call_program.h"

#include "notice/control/controller_inside.h"

enum { HEARD = 64 };

static sl_event heard[HEARD];
static int events, asked;
static sl_call_profile *next;

sl_profiled __wrap_sl_profiling_take(sl_control_core *c);
int __wrap_sl_control_order(sl_control_core *c, const char *kind, int64_t round, json_t *order);

sl_profiled __wrap_sl_profiling_take(sl_control_core *c) {
    sl_profiled taken = {
        .profile = next, .end = c->now, .calls = 1, .iterations = 5, .ranks = 4, .complete = 4};
    next = NULL;
    return taken;
}

int __wrap_sl_control_order(sl_control_core *c, const char *kind, int64_t round, json_t *order) {
    (void)c, (void)round;
    asked += strcmp(kind, "profile") == 0;
    json_decref(order);
    return 1;
}

static void hear(void *context, const sl_event *event) {
    (void)context;
    assert_true(events < HEARD);
    heard[events++] = *event;
}

/* Of this kind, after the first `from`; NULL: none. */
static const sl_event *event_of(sl_event_kind kind, int from) {
    for (int i = from; i < events; i++)
        if (heard[i].kind == kind)
            return &heard[i];
    return NULL;
}

/* A job of four ranks on one node, which is never held; it is tracked. */
static void open_core(sl_control_core *c) {
    sl_job_node *node;
    int change;
    json_t *ranks = json_array(), *beat;
    events = asked = 0;
    *c = (sl_control_core){
        .given = {.job = "job", .deadline = SL_SECOND, .event = hear},
        .round = 1,
        .nodes = {.clock = "ours"},
        .view = {.iteration = -1, .onset = -1, .connected = 1, .level_ms = 12, .period = 3}};
    for (int rank = 0; rank < 4; rank++)
        json_array_append_new(
            ranks, json_pack("{s:i,s:i,s:i,s:i}", "rank", rank, "pid", 100 + rank, "size", 4, "period", 3));
    beat = json_pack("{s:s,s:s,s:i,s:i,s:i,s:o}", "node", "here", "clock", "ours", "calls", 1, "lost", 0,
                     "validate", 1, "ranks", ranks);
    assert_ok(sl_nodes_hear(&c->nodes, beat, 0, &node, &change));
    json_decref(beat);
    assert_int_equal(sl_nodes_world(&c->nodes), 4);
#define OPEN(part) assert_ok(sl_##part##_open(c));
    SL_CONTROL_PARTS(OPEN)
#undef OPEN
    sl_control_feed(c, SL_IN_CALLS, 0);
    sl_control_feed(c, SL_IN_PERIOD, 0);
}

static void close_core(sl_control_core *c) {
#define CLOSE(part) sl_##part##_close(c);
    SL_CONTROL_PARTS(CLOSE)
#undef CLOSE
    sl_nodes_close(&c->nodes);
    sl_standing_close(&c->standing);
}

static double waits; /* share of the time in which rank 3 wants a processor and has none */

/* The profile that was asked for arrives: rank 2 computes `longer` times as long as when healthy. */
static void arrives(sl_control_core *c, double longer) {
    static uint64_t draws;
    program p;
    program_data(&p, 4, seed() + ++draws);
    p.slowdown[2] = longer;
    program_run run = program_go(&p, 12, c->now);
    assert_ok(sl_call_profile_make(run.call, run.calls, 4, 0, &next));
    free(run.call);
    for (int rank = 0; rank < 4; rank++)
        next->rank[rank].starved = rank == 3 ? waits : 0;
    c->now += SL_SECOND;
    assert_int_equal(c->view.phase, SL_PHASE_PROFILING);
    sl_control_feed(c, SL_IN_PROFILE, 0);
    assert_null(next);
}

static void get_slow(sl_control_core *c) {
    c->view.slow = 1;
    c->view.healthy_ms = 12;
    c->view.level_ms = 18;
}

static void take_reference(sl_control_core *c) {
    sl_control_feed(c, SL_IN_STABLE, 0);
    arrives(c, 1);
    assert_non_null(event_of(SL_EVENT_PROFILED, 0));
    assert_int_equal(c->view.phase, SL_PHASE_TRACKING);
}

/* Iterations have another number of calls from now on, and the next profile is to be the reference of these.
 */
static void change_shape(sl_control_core *c) {
    sl_control_feed(c, SL_IN_PERIOD_CHANGED, 0);
    sl_control_feed(c, SL_IN_STABLE, 0);
}

static void
a_rank_that_computes_longer_since_iterations_changed_is_named_after_a_second_profile(void **state) {
    (void)state;
    sl_control_core c;
    open_core(&c);
    take_reference(&c);
    change_shape(&c);
    int from = events, before = asked;
    arrives(&c, 1.6);
    assert_non_null(event_of(SL_EVENT_ONSET, from));
    assert_null(event_of(SL_EVENT_VERDICT, from)); /* one profile names nobody */
    assert_int_equal(c.view.slow, 1);
    assert_int_equal(c.view.onsets, 1);
    assert_int_equal(asked, before + 1); /* another one is on its way */
    from = events;
    arrives(&c, 1.6);
    const sl_event *verdict = event_of(SL_EVENT_VERDICT, from);
    assert_non_null(verdict);
    assert_int_equal(verdict->rank, 2);
    assert_null(event_of(SL_EVENT_RELIEF, from));
    assert_int_equal(c.view.verdicts, 1);
    close_core(&c);
}

static void an_onset_that_the_second_profile_does_not_show_is_withdrawn(void **state) {
    (void)state;
    sl_control_core c;
    open_core(&c);
    take_reference(&c);
    change_shape(&c);
    int from = events;
    arrives(&c, 1.6);
    assert_non_null(event_of(SL_EVENT_ONSET, from));
    from = events;
    arrives(&c, 1);
    assert_non_null(event_of(SL_EVENT_RELIEF, from));
    assert_null(event_of(SL_EVENT_VERDICT, from));
    assert_int_equal(c.view.slow, 0);
    assert_int_equal(c.view.reliefs, 1);
    assert_int_equal(c.view.suspects + c.view.verdicts, 0);
    assert_int_equal(c.view.phase, SL_PHASE_TRACKING);
    /* it is not raised again: the next profile is the reference, whatever the one before the change was */
    from = events;
    sl_control_feed(&c, SL_IN_STABLE, 0);
    arrives(&c, 1.6);
    assert_null(event_of(SL_EVENT_ONSET, from));
    assert_non_null(event_of(SL_EVENT_PROFILED, from));
    assert_true(sl_references_last(&c).healthy != NULL);
    close_core(&c);
}

static void a_shape_whose_ranks_compute_as_long_is_no_onset(void **state) {
    (void)state;
    sl_control_core c;
    open_core(&c);
    take_reference(&c);
    change_shape(&c);
    int from = events;
    arrives(&c, 1);
    assert_null(event_of(SL_EVENT_ONSET, from));
    assert_true(sl_references_last(&c).healthy != NULL);
    close_core(&c);
}

/* Iterations take longer than they did, by the clock: that no profile shows why does not refute it. */
static void an_onset_of_iterations_that_take_longer_is_never_withdrawn(void **state) {
    (void)state;
    sl_control_core c;
    open_core(&c);
    take_reference(&c);
    get_slow(&c);
    int from = events;
    sl_control_feed(&c, SL_IN_ONSET, 0);
    arrives(&c, 1);
    assert_null(event_of(SL_EVENT_RELIEF, from));
    const sl_event *verdict = event_of(SL_EVENT_VERDICT, from);
    assert_non_null(verdict);
    assert_int_equal(verdict->rank, -1);
    assert_int_equal(c.view.slow, 1);
    close_core(&c);
}

/* The profile of iterations that may have been slow already is a reference for that, too. */
static void what_a_rank_starves_is_known_without_a_healthy_reference(void **state) {
    (void)state;
    sl_control_core c;
    open_core(&c);
    get_slow(&c);
    sl_control_feed(&c, SL_IN_ONSET, 0);
    arrives(&c, 1);
    assert_true(sl_references_last(&c).starved[3] < 0);
    c.now += SL_SECOND;
    c.view.level_ms = 90;
    sl_references_onset(&c, c.now);
    sl_control_feed(&c, SL_IN_ONSET, 0);
    waits = 0.8;
    arrives(&c, 1);
    waits = 0;
    assert_true(sl_references_last(&c).doubtful);
    assert_near(sl_references_last(&c).starved[3], 0.8, 1e-9);
    assert_near(sl_references_last(&c).starved[1], 0, 1e-9);
    close_core(&c);
}

int main(void) {
    printf("seed %llu (SL_SEED)\n", (unsigned long long)seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_rank_that_computes_longer_since_iterations_changed_is_named_after_a_second_profile),
        cmocka_unit_test(an_onset_that_the_second_profile_does_not_show_is_withdrawn),
        cmocka_unit_test(a_shape_whose_ranks_compute_as_long_is_no_onset),
        cmocka_unit_test(an_onset_of_iterations_that_take_longer_is_never_withdrawn),
        cmocka_unit_test(what_a_rank_starves_is_known_without_a_healthy_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
