/* What would be done about a foreign program's slow parts, on views made by hand. Expected shares are by
 * hand: 4 ranks, 100 ms healthy, 200 ms slow, all of it computing; a device twice as slow. Of 32 microbatches
 * (8 each) it takes 4 and the others 10, 9 and 9, so an iteration takes 125 ms: 20 % are lost. */
#include "check.h"

#include "notice/watch/advice.h"

#include <math.h>

enum { EVENTS = 400, ACTIONS = 40 };

typedef struct world {
    sl_advice *advice;
    sl_status_view view;
    double now; /* s */
    sl_event event[EVENTS];
    int events;
    sl_orchestrator_action action[ACTIONS]; /* without their incidents */
    int actions;
} world;

static sl_time at(double seconds) {
    return (sl_time)llround(seconds * 1e9);
}

static void on_report(void *context, const sl_event *event) {
    world *w = context;
    assert_true(w->events < EVENTS);
    w->event[w->events++] = *event;
}

static void on_act(void *context, const sl_orchestrator_action *action, const sl_event *event) {
    world *w = context;
    assert_true(w->actions < ACTIONS && action->count > 0);
    assert_int_equal(event->kind, SL_EVENT_ADVICE);
    w->action[w->actions++] = *action;
}

static void open_world(world *w, int carried) {
    sl_advice_config config = {.offer = sl_advice_offer_defaults(),
                               .carried = carried,
                               .report = on_report,
                               .act = on_act,
                               .context = w};
    *w = (world){.view = {.phase = SL_PHASE_TRACKING,
                          .nodes = 1,
                          .ranks = 4,
                          .period = 3,
                          .iteration = 100,
                          .level_ms = 100,
                          .onset = -1}};
    assert_ok(sl_advice_open(&config, &w->advice));
}

static void close_world(world *w) {
    sl_advice_close(w->advice);
}

/* Seconds of iterations, ten views each. */
static void run(world *w, double seconds) {
    for (int i = 0; i < (int)(seconds * 10); i++) {
        w->now += 0.1;
        w->view.iteration += 1;
        assert_ok(sl_advice_view(w->advice, at(w->now), at(w->now), &w->view));
    }
}

static void become_slow(world *w, double level, sl_suspect slow) {
    w->view.slow = 1;
    w->view.onset = w->view.iteration;
    w->view.onsets++;
    w->view.healthy_ms = 100;
    w->view.level_ms = level;
    w->view.verdicts = 1;
    w->view.verdict[0] = slow;
}

static void become_healthy(world *w) {
    w->view.slow = 0;
    w->view.reliefs++;
    w->view.onset = -1;
    w->view.healthy_ms = 0;
    w->view.level_ms = 100;
    w->view.verdicts = 0;
}

static sl_suspect device(int rank, double times) {
    return (sl_suspect){.component = SL_COMPONENT_DEVICE,
                        .rank = rank,
                        .from = -1,
                        .to = -1,
                        .measured = times,
                        .expected = 1};
}

static sl_suspect link_of(int from, int to) {
    return (sl_suspect){
        .component = SL_COMPONENT_LINK, .rank = -1, .from = from, .to = to, .measured = 2, .expected = 1};
}

static void ended(world *w, sl_outcome outcome, double took) {
    w->now += took;
    assert_true(w->actions > 0);
    assert_ok(sl_advice_ended(w->advice, at(w->now), at(w->now), w->action[w->actions - 1].id, outcome,
                              at(took), "said so"));
}

static const sl_event *last_of(const world *w, sl_event_kind kind) {
    for (int i = w->events; i-- > 0;)
        if (w->event[i].kind == kind)
            return &w->event[i];
    fail_msg("no event of this kind");
    return NULL;
}

static void must_say(const char *text, const char *part) {
    assert_says(text, part);
}

static char *log_of(const world *w) {
    char *text;
    assert_ok(sl_advice_text(w->advice, &text));
    assert_non_null(text);
    return text;
}

static void an_advice_says_gain_cost_and_why_not_the_others(void **state) {
    (void)state;
    world w;
    char text[128];
    open_world(&w, 0);
    run(&w, 5);
    assert_int_equal(w.events, 0);
    become_slow(&w, 200, device(2, 2));
    run(&w, 1);
    const sl_event *e = last_of(&w, SL_EVENT_ADVICE);
    assert_int_equal(e->rank, 2);
    must_say(e->seen, "device of rank 2");
    must_say(e->seen, "time lost 50.0%");
    must_say(e->decided, "balance after 5 s of lost time (time lost 50.0%, would be 20.0%; cost 5 s)");
    must_say(e->why, "topology: no spare host");
    must_say(e->why, "restart after 1800 s of lost time");
    must_say(e->why, "delegate: left out, the program's pipeline is not known");
    sl_advice_line(w.advice, text, sizeof text);
    must_say(text, "'advice: balance' 5 50% 20%");
    json_t *json = sl_advice_json(w.advice);
    const json_t *incident = json_array_get(json_object_get(json, "incidents"), 0);
    assert_int_equal(json_integer_value(json_object_get(incident, "rank")), 2);
    assert_near(json_real_value(json_object_get(incident, "loss")), 0.5, 1e-12);
    const json_t *balance = json_array_get(json_object_get(incident, "strategies"), 0);
    assert_string_equal(json_string_value(json_object_get(balance, "state")), "waits");
    assert_near(json_real_value(json_object_get(balance, "when_lost_s")), 5, 1e-9);
    json_decref(json);
    close_world(&w);
}

/* How often a strategy was advised; `now`: to be applied now. */
static int said(const world *w, const char *strategy, int now) {
    char fact[60];
    int count = 0;
    snprintf(fact, sizeof fact, "\"strategy\":\"%s\"", strategy);
    for (int i = 0; i < w->events; i++) {
        const sl_event *e = &w->event[i];
        int applies = strstr(e->facts, "\"action\":\"apply\"") != NULL;
        count += e->kind == SL_EVENT_ADVICE && strstr(e->facts, fact) && applies == now;
    }
    return count;
}

/* Iterations of 170 to 260 ms where 100 are healthy: 41 to 62 % are lost, and balance is best throughout. */
static void the_same_advice_with_other_numbers_is_said_once(void **state) {
    (void)state;
    const double levels[] = {200, 170, 230, 260, 180, 240};
    world w;
    open_world(&w, 0);
    become_slow(&w, 200, device(2, 2));
    for (int i = 0; i < 60; i++) {
        w.view.level_ms = levels[i % 6];
        run(&w, 0.5);
    }
    assert_int_equal(said(&w, "balance", 0), 1);
    assert_int_equal(said(&w, "balance", 1), 1);
    assert_int_equal(w.events, 2);
    run(&w, 100); /* advised three times in vain: the ladder has given it up */
    w.view.level_ms = 300;
    run(&w, 1);
    assert_int_equal(said(&w, "restart", 0), 1); /* another action */
    assert_int_equal(w.events, 3);
    become_healthy(&w);
    run(&w, 30);
    become_slow(&w, 200, device(2, 2));
    run(&w, 1);
    assert_int_equal(said(&w, "balance", 0), 2); /* trouble of its own */
    close_world(&w);
}

/* A verdict that names another part now and then, and this one again. */
static void who_is_named_in_turns_is_advised_on_once(void **state) {
    (void)state;
    world w;
    open_world(&w, 0);
    become_slow(&w, 200, device(2, 2));
    for (int i = 0; i < 10; i++) {
        w.view.verdict[0] = i % 2 ? link_of(1, 2) : device(2, 2);
        run(&w, 0.5);
    }
    int device_2 = 0, link_1_2 = 0;
    for (int i = 0; i < w.events; i++) {
        device_2 += w.event[i].rank == 2;
        link_1_2 += w.event[i].from == 1;
    }
    assert_int_equal(device_2, 1);
    assert_int_equal(link_1_2, 1);
    close_world(&w);
}

/* 0.5 s are lost a second: 5 s after 10 s. */
static void without_a_hook_it_stays_advice_and_is_said_once(void **state) {
    (void)state;
    world w;
    open_world(&w, 0);
    become_slow(&w, 200, device(2, 2));
    run(&w, 9.9);
    int before = w.events;
    run(&w, 0.5);
    assert_true(w.events > before);
    assert_non_null(strstr(w.event[before].decided, "balance"));
    must_say(w.event[before].why, "no program carries it out");
    assert_near((double)w.event[before].time / 1e9, 10.1, 0.11); /* the incident begins with the first view */
    run(&w, 400);
    assert_int_equal(said(&w, "balance", 1), 1);
    assert_int_equal(w.actions, 0);
    char *log = log_of(&w);
    must_say(log, "no program carries it out");
    must_say(log, "advised three times");
    must_say(log, "(time lost 50.0%, would be 50.0%): no spare host, and just as slow at any other position");
    assert_null(strstr(log, "failed"));
    free(log);
    close_world(&w);
}

static void what_is_carried_out_is_judged_and_its_time_is_learnt(void **state) {
    (void)state;
    world w;
    open_world(&w, 1);
    become_slow(&w, 200, device(2, 2));
    run(&w, 11);
    assert_int_equal(w.actions, 1);
    assert_int_equal(w.action[0].strategy, SL_STRATEGY_BALANCE);
    assert_false(w.action[0].undo);
    assert_near(w.action[0].loss, 0.5, 1e-9);
    assert_near(w.action[0].expected, 0.2, 1e-9);
    ended(&w, SL_OUTCOME_DONE, 2);
    must_say(last_of(&w, SL_EVENT_HOOK)->decided, "carried out");
    json_t *json = sl_advice_json(w.advice);
    const json_t *incident = json_array_get(json_object_get(json, "incidents"), 0);
    assert_string_equal(json_string_value(json_object_get(incident, "in_effect")), "balance");
    const json_t *balance = json_array_get(json_object_get(incident, "strategies"), 0);
    assert_string_equal(json_string_value(json_object_get(balance, "state")), "in effect");
    json_decref(json);
    w.view.level_ms = 160; /* not all that was foretold: 37.5 % */
    run(&w, 6);
    char *log = log_of(&w);
    must_say(log, "re-balance microbatches is in effect; it took 2 s");
    must_say(log, "with re-balance microbatches: time lost 37.5% (predicted 20.0%)");
    free(log);
    become_healthy(&w);
    run(&w, 5);
    assert_int_equal(w.actions, 1);
    run(&w, 60); /* kept it loses 0.13 a second (60 ms of 100 are stretched), and to undo it costs 5 s */
    assert_int_equal(w.actions, 2);
    assert_true(w.action[1].undo);
    assert_int_equal(w.action[1].strategy, SL_STRATEGY_BALANCE);
    close_world(&w);
}

/* That iterations become healthy right after a balance is its work: the device may be as slow as before. */
static void a_balance_that_heals_is_not_undone(void **state) {
    (void)state;
    world w;
    open_world(&w, 1);
    become_slow(&w, 200, device(2, 2));
    run(&w, 11);
    ended(&w, SL_OUTCOME_DONE, 0.5);
    run(&w, 1);
    become_healthy(&w);
    run(&w, 120);
    assert_int_equal(w.actions, 1);
    char *log = log_of(&w);
    must_say(log, "with re-balance microbatches: time lost 0.0%");
    free(log);
    close_world(&w);
}

static void a_failure_waits_for_twice_the_loss_and_ends_after_three(void **state) {
    (void)state;
    world w;
    open_world(&w, 1);
    become_slow(&w, 200, device(2, 2));
    double begun[4] = {0};
    for (int n = 0; n < 3; n++) {
        for (int i = 0; i < 3000 && w.actions == n; i++)
            run(&w, 0.1);
        assert_int_equal(w.actions, n + 1);
        begun[n] = w.now;
        ended(&w, SL_OUTCOME_FAILED, 0);
        must_say(last_of(&w, SL_EVENT_HOOK)->decided, "not carried out");
    }
    assert_near(begun[1] - begun[0], 10, 0.5); /* 10 s lost in all where 5 were */
    assert_near(begun[2] - begun[1], 20, 0.5);
    run(&w, 300);
    assert_int_equal(w.actions, 3);
    close_world(&w);
}

static void what_the_hook_does_not_do_is_not_asked_for_again(void **state) {
    (void)state;
    world w;
    open_world(&w, 1);
    become_slow(&w, 200, device(2, 2));
    run(&w, 11);
    assert_int_equal(w.actions, 1);
    ended(&w, SL_OUTCOME_REFUSED, 0.01);
    run(&w, 300);
    assert_int_equal(w.actions, 1);
    become_healthy(&w);
    run(&w, 1);
    become_slow(&w, 200, device(1, 2));
    run(&w, 300);
    assert_int_equal(w.actions, 1);
    must_say(last_of(&w, SL_EVENT_ADVICE)->why, "balance: it cannot be carried out here");
    close_world(&w);
}

static void a_late_or_wrong_end_changes_nothing(void **state) {
    (void)state;
    world w;
    open_world(&w, 1);
    become_slow(&w, 200, device(2, 2));
    run(&w, 11);
    int events = w.events;
    assert_ok(sl_advice_ended(w.advice, at(w.now), at(w.now), -1, SL_OUTCOME_DONE, 0, ""));
    assert_ok(sl_advice_ended(w.advice, at(w.now), at(w.now), 99, SL_OUTCOME_DONE, 0, ""));
    assert_int_equal(w.events, events);
    ended(&w, SL_OUTCOME_DONE, 0.1);
    assert_int_equal(w.events, events + 1);
    close_world(&w);
}

/* A link: with a spare host at 60 s; 0.5 a second: after 120 s. */
static void a_link_is_answered_by_a_spare_host(void **state) {
    (void)state;
    world w = {0};
    sl_advice_config config = {
        .offer = sl_advice_offer_defaults(), .carried = 1, .report = on_report, .act = on_act};
    open_world(&w, 1);
    close_world(&w);
    config.context = &w;
    config.offer.spares = 1;
    assert_ok(sl_advice_open(&config, &w.advice));
    become_slow(&w, 200, link_of(1, 2));
    run(&w, 119);
    assert_int_equal(w.actions, 0);
    run(&w, 3);
    assert_int_equal(w.actions, 1);
    assert_int_equal(w.action[0].strategy, SL_STRATEGY_TOPOLOGY);
    assert_int_equal(last_of(&w, SL_EVENT_ADVICE)->from, 1);
    close_world(&w);
}

static void what_cannot_be_told_is_not_advised_on(void **state) {
    (void)state;
    world w;
    open_world(&w, 1);
    become_slow(&w, 200, (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1});
    run(&w, 100);
    assert_int_equal(w.events, 0);
    assert_int_equal(w.actions, 0);
    char *log;
    assert_ok(sl_advice_text(w.advice, &log));
    assert_null(log);
    close_world(&w);
}

static void wrong_costs_are_refused(void **state) {
    (void)state;
    sl_advice *advice;
    sl_advice_config config = {.offer = sl_advice_offer_defaults()};
    config.offer.cost_s[SL_STRATEGY_BALANCE] = NAN;
    assert_fails(sl_advice_open(&config, &advice), SL_EINVAL, "balance costs");
    config.offer = sl_advice_offer_defaults();
    config.offer.microbatches = 0;
    assert_fails(sl_advice_open(&config, &advice), SL_EINVAL, "microbatches");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_advice_says_gain_cost_and_why_not_the_others),
        cmocka_unit_test(the_same_advice_with_other_numbers_is_said_once),
        cmocka_unit_test(who_is_named_in_turns_is_advised_on_once),
        cmocka_unit_test(without_a_hook_it_stays_advice_and_is_said_once),
        cmocka_unit_test(what_is_carried_out_is_judged_and_its_time_is_learnt),
        cmocka_unit_test(a_balance_that_heals_is_not_undone),
        cmocka_unit_test(a_failure_waits_for_twice_the_loss_and_ends_after_three),
        cmocka_unit_test(what_the_hook_does_not_do_is_not_asked_for_again),
        cmocka_unit_test(a_late_or_wrong_end_changes_nothing),
        cmocka_unit_test(a_link_is_answered_by_a_spare_host),
        cmocka_unit_test(what_cannot_be_told_is_not_advised_on),
        cmocka_unit_test(wrong_costs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
