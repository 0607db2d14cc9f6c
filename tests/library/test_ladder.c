/* The ladder through the public interface: 0.2 s lost a second; strategies of 10 s (half of it remains) and
 * 100 s (nothing remains). By hand: the first after 50 s; then 0.1 a second is lost, so the 100 s, of which
 * 10 are, come 900 s later. */
#include "base/memory.h"
#include "library/check_library.h"

#include <math.h>

static const int64_t s = 1000000000;

typedef struct program {
    int applied, undone, last;
    double keeps;
} program;

static double half(void *user, const slackline_incident *incident) {
    (void)user;
    assert_true(incident->id >= 0 && incident->cause == SLACKLINE_CAUSE_DEVICE);
    assert_string_equal(incident->seen, "rank 3 is slow");
    return incident->loss > 0.15 ? incident->loss / 2 : incident->loss;
}

static double none(void *user, const slackline_incident *incident) {
    (void)user;
    (void)incident;
    return 0;
}

static double nonsense(void *user, const slackline_incident *incident) {
    (void)user;
    (void)incident;
    return NAN;
}

static double keeping(void *user, const slackline_incident *incident) {
    (void)incident;
    return ((program *)user)->keeps;
}

static slackline_status apply(void *user, const int *incidents, int count) {
    program *p = user;
    assert_int_equal(count, 1);
    p->applied++;
    p->last = incidents[0];
    return SLACKLINE_OK;
}

static slackline_status undo(void *user, const int *incidents, int count) {
    program *p = user;
    (void)incidents;
    assert_int_equal(count, 1);
    p->undone++;
    return SLACKLINE_SYSTEM;
}

static slackline_ladder *make(program *p) {
    char name[] = "balance";
    slackline_ladder *ladder;
    slackline_ladder_options options;
    slackline_ladder_defaults(&options);
    options.profile_every_ns = 0;
    slackline_strategy strategies[] = {
        {.name = name,
         .causes = SLACKLINE_CAUSE_DEVICE,
         .cost_ns = 10 * s,
         .undo_cost_ns = 10 * s,
         .remaining = half,
         .keeping = keeping,
         .apply = apply,
         .undo = undo,
         .user = p},
        {.name = "restart",
         .causes = SLACKLINE_CAUSES_ANY,
         .cost_ns = 100 * s,
         .replaces = 1,
         .remaining = none},
        {.name = "wish", .causes = SLACKLINE_CAUSES_ANY, .remaining = nonsense}};
    works(slackline_ladder_make(&options, strategies, 3, &ladder));
    memset(name, 'x', sizeof name - 1); /* names are copied */
    return ladder;
}

static const slackline_incident slow = {
    .id = 3, .cause = SLACKLINE_CAUSE_DEVICE, .loss = 0.2, .seen = "rank 3 is slow"};

static void what_costs_less_comes_first_when_as_much_is_lost(void **state) {
    (void)state;
    program p = {0};
    slackline_action action;
    slackline_ladder *ladder = make(&p);
    assert_true(slackline_ladder_due(ladder) == SLACKLINE_NEVER);
    works(slackline_ladder_begins(ladder, 0, &slow));
    assert_true(llabs((long long)(slackline_ladder_due(ladder) - 50 * s)) < 1000);
    works(slackline_ladder_next(ladder, 49 * s, &action));
    assert_int_equal(action.kind, SLACKLINE_DO_NOTHING);
    works(slackline_ladder_next(ladder, 50 * s + 1, &action));
    assert_int_equal(action.kind, SLACKLINE_DO_APPLY);
    assert_int_equal(action.strategy, 0);
    assert_int_equal(action.count, 1);
    assert_int_equal(action.incidents[0], 3);
    works(slackline_ladder_carry_out(ladder, &action));
    assert_int_equal(p.applied, 1);
    assert_int_equal(p.last, 3);
    works(slackline_ladder_ended(ladder, 52 * s, 2 * s, 1));
    assert_true(slackline_ladder_cost(ladder, 0) == 2 * s);
    assert_true(slackline_ladder_in_effect(ladder, 0));
    works(slackline_ladder_changes(ladder, 60 * s, 3, 0.1));
    assert_true(llabs((long long)(slackline_ladder_due(ladder) - 952 * s)) < 1000);
    works(slackline_ladder_next(ladder, 953 * s, &action));
    assert_int_equal(action.strategy, 1);
    works(slackline_ladder_carry_out(ladder, &action)); /* it has no function: the program acts itself */
    works(slackline_ladder_ended(ladder, 1100 * s, 100 * s, 1));
    assert_false(slackline_ladder_in_effect(ladder, 0));
    assert_true(slackline_ladder_in_effect(ladder, 1));
    slackline_ladder_free(ladder);
}

static void relief_undoes_when_keeping_has_lost_as_much(void **state) {
    (void)state;
    program p = {.keeps = 0.1};
    slackline_action action;
    slackline_ladder *ladder = make(&p);
    works(slackline_ladder_begins(ladder, 0, &slow));
    works(slackline_ladder_next(ladder, 51 * s, &action));
    works(slackline_ladder_ended(ladder, 51 * s, 10 * s, 1));
    works(slackline_ladder_relieved(ladder, 100 * s, 3));
    assert_true(llabs((long long)(slackline_ladder_due(ladder) - 200 * s)) < 1000); /* 10 s at 0.1 */
    works(slackline_ladder_next(ladder, 201 * s, &action));
    assert_int_equal(action.kind, SLACKLINE_DO_UNDO);
    assert_int_equal(slackline_ladder_carry_out(ladder, &action), SLACKLINE_SYSTEM);
    assert_int_equal(p.undone, 1);
    works(slackline_ladder_ended(ladder, 201 * s, s, 1));
    assert_false(slackline_ladder_in_effect(ladder, 0));
    slackline_ladder_free(ladder);
}

static void the_log_says_why(void **state) {
    (void)state;
    program p = {0};
    slackline_action action;
    char *text;
    size_t size;
    slackline_ladder *ladder = make(&p);
    works(slackline_ladder_begins(ladder, s, &slow));
    works(slackline_ladder_next(ladder, 52 * s, &action));
    works(slackline_ladder_log(ladder, &text, &size));
    assert_int_equal(size, strlen(text));
    static const char *const parts[] = {
        "1.000 s  incident 3 begins: rank 3 is slow; 20.0 % of the time is lost",
        "balance: when 10 s are lost, 20.0 % lost would become 10.0 % for 10 s",
        "restart: when 100 s are lost", "wish: cannot help",
        "balance, for incident 3: 10 s are lost and it costs 10 s"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("no '%s' in\n%s", parts[i], text);
    slackline_free(text);
    slackline_ladder_clear_log(ladder);
    works(slackline_ladder_log(ladder, &text, NULL));
    assert_string_equal(text, "");
    slackline_free(text);
    slackline_ladder_free(ladder);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    program p = {0};
    slackline_ladder *ladder = (slackline_ladder *)&p;
    slackline_ladder_options options;
    slackline_strategy many[SLACKLINE_STRATEGIES_MOST + 1];
    for (int i = 0; i <= SLACKLINE_STRATEGIES_MOST; i++)
        many[i] = (slackline_strategy){.name = "one", .causes = 1, .remaining = none};
    refuses(slackline_ladder_make(NULL, many, SLACKLINE_STRATEGIES_MOST + 1, &ladder), "at most 8");
    assert_null(ladder);
    refuses(slackline_ladder_make(NULL, many, -1, &ladder), "-1 strategies");
    many[1].cost_ns = -1;
    refuses(slackline_ladder_make(NULL, many, 2, &ladder), "negative cost");
    many[1] = (slackline_strategy){.name = "one", .causes = 1};
    refuses(slackline_ladder_make(NULL, many, 2, &ladder), "strategy 1");
    many[0].causes = 16;
    refuses(slackline_ladder_make(NULL, many, 1, &ladder), "a cause that there is not");
    slackline_ladder_defaults(&options);
    options.least_gain = NAN;
    refuses(slackline_ladder_make(&options, NULL, 0, &ladder), "least_gain");
    ladder = make(&p);
    slackline_incident wrong = slow;
    wrong.cause = SLACKLINE_CAUSE_DEVICE | SLACKLINE_CAUSE_LINK;
    refuses(slackline_ladder_begins(ladder, 0, &wrong), "or several");
    wrong.cause = 0;
    refuses(slackline_ladder_begins(ladder, 0, &wrong), "cause 0");
    wrong = slow;
    wrong.loss = -1;
    refuses(slackline_ladder_begins(ladder, 0, &wrong), "loses -1");
    works(slackline_ladder_begins(ladder, s, &slow));
    refuses(slackline_ladder_begins(ladder, s, &slow), "not been relieved");
    refuses(slackline_ladder_changes(ladder, 0, 3, 0.1), "goes back");
    refuses(slackline_ladder_relieved(ladder, s, 4), "has not begun");
    refuses(slackline_ladder_ended(ladder, s, 0, 1), "nothing was under way");
    refuses(slackline_ladder_estimate(ladder, 0, -1000000), "-1.000 ms");
    refuses(slackline_ladder_estimate(ladder, 3, 1), "no strategy 3");
    works(slackline_ladder_estimate(ladder, 0, 7 * s));
    assert_true(slackline_ladder_cost(ladder, 0) == 7 * s);
    assert_true(slackline_ladder_cost(ladder, 3) == -1 && slackline_ladder_cost(ladder, -1) == -1);
    assert_false(slackline_ladder_in_effect(ladder, 3));
    slackline_ladder_free(ladder);
    slackline_ladder_free(NULL);
}

/* A text that is too long for the log is cut. */
static void long_words_are_cut(void **state) {
    (void)state;
    char words[4000], *text;
    program p = {0};
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = 0;
    slackline_ladder *ladder;
    slackline_incident told = {.id = 0, .cause = SLACKLINE_CAUSE_HOST, .loss = 0.5, .seen = words};
    (void)p;
    works(slackline_ladder_make(NULL, NULL, 0, &ladder));
    works(slackline_ladder_begins(ladder, 0, &told));
    works(slackline_ladder_log(ladder, &text, NULL));
    assert_non_null(strstr(text, "50.0 % of the time is lost"));
    slackline_free(text);
    slackline_ladder_free(ladder);
}

static slackline_status whole_session(program *p) {
    slackline_ladder *ladder;
    slackline_action action;
    char *text = NULL;
    slackline_strategy one = {.name = "restart", .causes = 15, .cost_ns = s, .remaining = none, .user = p};
    slackline_status status = slackline_ladder_make(NULL, &one, 1, &ladder);
    for (int id = 0; id < 40 && status == SLACKLINE_OK; id++)
        status = slackline_ladder_begins(
            ladder, 0, &(slackline_incident){.id = id, .cause = SLACKLINE_CAUSE_LINK, .loss = 0.01});
    if (status == SLACKLINE_OK)
        status = slackline_ladder_next(ladder, 100 * s, &action);
    if (status == SLACKLINE_OK)
        status = slackline_ladder_ended(ladder, 101 * s, s, 1);
    if (status == SLACKLINE_OK)
        status = slackline_ladder_log(ladder, &text, NULL);
    slackline_free(text);
    slackline_ladder_free(ladder);
    return status;
}

/* Leaks are the address sanitizer's to find. */
static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    program p = {0};
    long n = 0;
    for (slackline_status status = SLACKLINE_NO_MEMORY; status != SLACKLINE_OK; n++) {
        sl_alloc_fail_at(n);
        status = whole_session(&p);
        sl_alloc_fail_at(-1);
        assert_true(status == SLACKLINE_OK || status == SLACKLINE_NO_MEMORY);
        assert_true(n < 10000);
    }
    assert_true(n > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_costs_less_comes_first_when_as_much_is_lost),
        cmocka_unit_test(relief_undoes_when_keeping_has_lost_as_much),
        cmocka_unit_test(the_log_says_why),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
