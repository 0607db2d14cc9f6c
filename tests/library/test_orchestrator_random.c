/* Whatever a program does, in whatever order: every call gives a status, plans that are asked for are
 * schedules, layouts are permutations that keep all microbatches. SL_SEED=n plays one job again. */
#include "base/random.h"
#include "library/simulated_job.h"

#include <math.h>

static uint64_t state;
static int asked[SLACKLINE_DO_NETWORK + 1], observed; /* in all jobs */

static uint64_t any(uint64_t below) {
    return sl_random_mix(state += SL_RANDOM_STEP) % below;
}

/* Mostly what makes sense. */
static int64_t odd_time(int64_t usual) {
    static const int64_t odd[] = {0, 1, -1, INT64_MAX, INT64_MIN, 1000000000000, -5};
    return any(40) ? usual : odd[any(sizeof odd / sizeof odd[0])];
}

static double odd_number(double usual) {
    static const double odd[] = {0, -1, 1e300, -1e300, 1e-300};
    switch (any(40)) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return odd[any(sizeof odd / sizeof odd[0])];
    default:
        return usual;
    }
}

/* What a call may give. */
static int may(slackline_status status) {
    assert_true(status == SLACKLINE_OK || status == SLACKLINE_INVALID || status == SLACKLINE_NO_ANSWER);
    assert_true(status == SLACKLINE_OK || slackline_error()[0]);
    return status == SLACKLINE_OK;
}

/* Some of it is lost, some is longer, and some is nonsense. */
static void distort(measured_replica *m, double *work) {
    size_t spans = 0, transfers = 0;
    int keep = (int)any(4);
    for (size_t i = 0; i < m->given.spans; i++) {
        if (keep == 0 && any(2))
            continue;
        slackline_span span = m->span[i];
        span.end_ns += any(5) ? 0 : (int64_t)any(20 * (uint64_t)ms);
        if (!any(2000))
            span.start_ns = odd_time(span.start_ns);
        if (!any(2000))
            span.op.kind = (int32_t)any(10) - 1;
        m->span[spans++] = span;
    }
    for (size_t i = 0; i < m->given.transfers && keep != 1; i++) {
        slackline_transfer transfer = m->transfer[i];
        transfer.arrive_ns += any(5) ? 0 : (int64_t)any(20 * (uint64_t)ms);
        if (!any(2000))
            transfer.to = (int32_t)any(6) - 1;
        m->transfer[transfers++] = transfer;
    }
    for (size_t i = 0; i < MAX_SPANS; i++)
        work[i] = (double)any(3000);
    if (!any(100))
        work[any(MAX_SPANS)] = odd_number(1);
    m->given.spans = spans;
    m->given.transfers = transfers;
    m->given.span_work = any(3) ? NULL : work;
    m->given.transfer_work = any(3) ? NULL : work;
}

static void observe_any(simulated_job *j, int *iteration) {
    static double work[MAX_REPLICAS][MAX_SPANS];
    slackline_measurements given[MAX_REPLICAS];
    slackline_iteration i;
    play_all(j, *iteration, given, &i);
    for (int r = 0; r < j->replicas; r++) {
        distort(&j->measured[r], work[r]);
        given[r] = any(10) ? j->measured[r].given : (slackline_measurements){0};
    }
    i.time_ns = any(10) ? i.time_ns : odd_time(i.time_ns);
    i.now_ns = any(20) ? i.now_ns : odd_time(i.now_ns);
    i.work = any(3) ? 0 : odd_number(36000);
    i.clock_error_ns = odd_time((int64_t)any(100000));
    i.replica = any(10) ? given : NULL;
    int taken = may(slackline_orchestrator_observe(j->orchestrator, &i));
    j->now = taken && i.now_ns > j->now ? i.now_ns : j->now;
    observed += taken;
    *iteration += taken || any(2);
}

static void check_layout(const simulated_job *j, const slackline_layout *layout) {
    int seen[16] = {0}, microbatches = 0, processes = j->replicas * j->shape.ranks * j->shape.tensor;
    assert_true(layout->delegates >= 0);
    for (int p = 0; p < processes; p++) {
        assert_in_range(layout->process[p], 0, processes - 1);
        assert_int_equal(seen[layout->process[p]]++, 0);
    }
    for (int r = 0; r < j->replicas; r++) {
        assert_true(layout->split[r] > 0);
        microbatches += layout->split[r];
    }
    assert_int_equal(microbatches, 12 * j->replicas);
}

static void take_plan(simulated_job *j, int replica) {
    slackline_plan_free(j->running[replica]);
    j->running[replica] = NULL;
    works(slackline_orchestrator_plan(j->orchestrator, replica, &j->running[replica]));
}

/* Answers as a program would, or not at all, or wrongly. Whether a layout waits for its answer, which does
 * not come any more: the program stays as it is. */
static int act_somehow(simulated_job *j) {
    slackline_event event;
    slackline_action action;
    slackline_layout layout;
    while (slackline_orchestrator_event(j->orchestrator, &event))
        assert_true(event.kind && strlen(event.seen) < sizeof event.seen);
    for (int n = 0; any(8) && slackline_orchestrator_action(j->orchestrator, &action); n++) {
        assert_true(n < 100);
        assert_in_range(action.what, SLACKLINE_DO_PLAN, SLACKLINE_DO_NETWORK);
        asked[action.what]++;
        if (action.what == SLACKLINE_DO_LAYOUT)
            check_layout(j, &action.layout);
        if (action.what == SLACKLINE_DO_LEAVE)
            assert_non_null(action.host);
        for (int r = 0; r < j->replicas && action.what == SLACKLINE_DO_PLAN; r++)
            if (action.replica < 0 || action.replica == r)
                take_plan(j, r);
        slackline_outcome outcome = any(4) ? SLACKLINE_DONE : (slackline_outcome)any(4);
        j->now += ms;
        if (may(slackline_orchestrator_carried_out(j->orchestrator, any(50) ? action.id : 7, j->now, outcome,
                                                   odd_time(ms))))
            works(slackline_orchestrator_layout(j->orchestrator, &layout));
        else if (action.what == SLACKLINE_DO_LAYOUT)
            return 1;
    }
    works(slackline_orchestrator_layout(j->orchestrator, &layout));
    check_layout(j, &layout);
    for (int r = 0; r < j->replicas; r++) { /* what it wants now, in worlds of that many microbatches */
        take_plan(j, r);
        if (layout.split[r] == slackline_problem_microbatches(j->world[r]))
            continue;
        slackline_problem_free(j->world[r]);
        works(slackline_problem_make(SLACKLINE_LINEAR, 4, 0, layout.split[r], &j->world[r]));
        for (int rank = 0; rank < 4; rank++)
            set_speed(j, r, rank, 100);
    }
    return 0;
}

static void say_anything(simulated_job *j, char **saved) {
    const int processes = j->replicas * j->shape.ranks * j->shape.tensor;
    int64_t now = odd_time(j->now), time;
    slackline_problem *question;
    slackline_incident incident[4];
    slackline_report report = {.id = (int)any(5) - (any(20) == 0),
                               .over = any(3) == 0,
                               .slow = {.part = (slackline_part)any(3),
                                        .a = (int)any((uint64_t)processes + !any(20)),
                                        .b = (int)any((uint64_t)processes),
                                        .host = any(4) == 0,
                                        .slowdown = odd_number(1 + (double)any(3)),
                                        .latency_ns = {odd_number(1e7), odd_number(0)},
                                        .ns_per_byte = {odd_number(0.1), 0}},
                               .loss = odd_number((double)any(3) / 4 - 0.25),
                               .seen = any(2) ? "seen" : NULL};
    slackline_network pair = {.from = (int)any((uint64_t)processes),
                              .to = (int)any((uint64_t)processes),
                              .latency_ns = odd_number(1e6 * (double)any(50)),
                              .ns_per_byte = odd_number(0.1)};
    switch (any(12)) {
    case 0:
        if (may(slackline_orchestrator_report(j->orchestrator, now, &report)) && now > j->now)
            j->now = now;
        break;
    case 1:
        if (may(slackline_orchestrator_network(j->orchestrator, now, &pair, 1)) && now > j->now)
            j->now = now;
        break;
    case 2:
        may(slackline_orchestrator_estimate(j->orchestrator, (slackline_strategy)any(5),
                                            odd_time(1000 * ms)));
        break;
    case 3:
        may(any(2) ? slackline_orchestrator_improve(j->orchestrator, odd_time(1)) == SLACKLINE_OK
                         ? SLACKLINE_OK
                         : SLACKLINE_INVALID
                   : slackline_orchestrator_keep_sums(j->orchestrator, (int)any(2)));
        may(slackline_orchestrator_may_leave(j->orchestrator, any(2) ? "node1" : "nowhere", (int)any(2)));
        may(slackline_orchestrator_improve(j->orchestrator, any(40) ? 100 : -1));
        may(slackline_orchestrator_keep_sums(j->orchestrator, (int)any(2)));
        break;
    case 4:
        may(slackline_orchestrator_offer(j->orchestrator, (int)any((uint64_t)j->replicas), j->first));
        break;
    case 5:
        if (may(slackline_orchestrator_question(j->orchestrator, (int)any((uint64_t)j->replicas), &question)))
            slackline_plan_free(plan_of(question, "adaptra"));
        slackline_problem_free(question);
        break;
    case 6:
        if (may(slackline_orchestrator_skip(j->orchestrator, (int)any(3), now)) && now > j->now)
            j->now = now;
        break;
    case 7:
        works(slackline_orchestrator_forecast(j->orchestrator, 0, &time));
        assert_true(time > 0);
        break;
    case 8:
        if (*saved)
            may(slackline_orchestrator_load(j->orchestrator, *saved));
        slackline_free(*saved);
        works(slackline_orchestrator_save(j->orchestrator, saved, NULL));
        break;
    default:
        slackline_orchestrator_decisions(j->orchestrator);
        int count = slackline_orchestrator_incidents(j->orchestrator, incident, 4);
        for (int i = 0; i < count && i < 4; i++)
            assert_true(incident[i].loss >= 0 && incident[i].loss <= 1 && incident[i].slow.a < processes);
    }
}

static void play_job(uint64_t seed) {
    static const char *const hosts[] = {"node0", "node0", "node1", "node1",
                                        "node2", "node2", "node3", "node3"};
    static const double sums[] = {1e6, 1e6, 1e6, 1e6};
    simulated_job j;
    slackline_orchestrator_options options;
    char *saved = NULL;
    state = seed;
    make_job(&j, 1 + (int)any(2), (unsigned)any(32));
    j.shape.host = any(2) ? hosts : NULL;
    j.shape.looks = (int)any(2);
    j.shape.message_bytes = (double)any(2) * 1e6;
    j.shape.sum_bytes = any(2) ? sums : NULL;
    slackline_orchestrator_defaults(&options);
    options.hold = 1 + (int)any(6);
    options.dwell = 1 + (int)any(20);
    options.work = any(2) ? 0 : 20000;
    options.profile_every_ns = (int64_t)any(2) * 5000 * ms;
    options.effort = 0.05;
    for (int s = 0; s < SLACKLINE_STRATEGIES; s++)
        options.cost_ns[s] = options.undo_cost_ns[s] = (int64_t)any(2000) * ms;
    works(slackline_orchestrator_open(&j.shape, &options, &j.orchestrator));
    for (int round = 0, iteration = 0, stays = 0; round < 70; round++) {
        int replica = (int)any((uint64_t)j.replicas);
        if (!any(15))
            set_delay(&j, replica, (int64_t)any(3) * 40 * ms);
        if (!any(15))
            set_speed(&j, replica, (int)any(4), any(2) ? 100 : 100 + (int)any(200));
        observe_any(&j, &iteration);
        say_anything(&j, &saved);
        stays = stays || act_somehow(&j);
    }
    slackline_free(saved);
    close_job(&j);
}

static void anything_may_be_said_in_any_order(void **unused) {
    (void)unused;
    const char *given = getenv("SL_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1, jobs = given ? 1 : 60;
    for (uint64_t seed = first; seed < first + jobs; seed++) {
        print_message("SL_SEED=%llu\n", (unsigned long long)seed);
        play_job(seed);
    }
    for (int what = SLACKLINE_DO_PLAN; what <= SLACKLINE_DO_NETWORK; what++)
        print_message("action %d: asked %d times\n", what, asked[what]);
    assert_true(given || observed > 2000);
    for (int what = SLACKLINE_DO_PLAN; what <= SLACKLINE_DO_NETWORK && !given; what++)
        assert_true(asked[what] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(anything_may_be_said_in_any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
