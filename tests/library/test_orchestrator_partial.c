/* Any part of a measurement may be missing: what there is tells as much as it can. */
#include "library/simulated_job.h"

/* What a program measures of an op or message of an iteration. */
typedef int (*measures)(int iteration, const slackline_op *op);

typedef struct heard {
    int onsets, reliefs, verdicts, unknown; /* unknown: verdicts that nobody can tell */
    int rank;                               /* that the last verdict names */
} heard;

static void hear(simulated_job *j, heard *h) {
    slackline_event e;
    while (slackline_orchestrator_event(j->orchestrator, &e)) {
        h->onsets += strcmp(e.kind, "onset") == 0;
        h->reliefs += strcmp(e.kind, "relief") == 0;
        if (strcmp(e.kind, "verdict") != 0)
            continue;
        h->verdicts++;
        h->unknown += e.rank < 0 && e.from < 0;
        h->rank = e.rank;
    }
}

typedef struct part {
    const char *what;
    measures of;
    int untimed; /* times of iterations are not reported, either */
} part;

static slackline_iteration of_part(simulated_job *j, const part *p, int iteration,
                                   slackline_measurements *given) {
    slackline_iteration i;
    size_t kept = 0;
    play_all(j, iteration, given, &i);
    slackline_span *span = j->measured[0].span;
    for (size_t k = 0; k < given[0].spans; k++)
        if (p->of && p->of(iteration, &span[k].op))
            span[kept++] = span[k];
    given[0].spans = kept;
    given[0].transfers = 0;
    i.replica = kept ? given : NULL;
    i.time_ns = p->untimed ? 0 : i.time_ns;
    return i;
}

static int all_ops(int iteration, const slackline_op *op) {
    (void)iteration, (void)op;
    return 1;
}

static int forwards_of_stage_2(int iteration, const slackline_op *op) {
    (void)iteration;
    return op->kind == SLACKLINE_F && op->stage == 2;
}

static int stage_2(int iteration, const slackline_op *op) {
    (void)iteration;
    return op->stage == 2;
}

static int forwards_of_two_stages(int iteration, const slackline_op *op) {
    (void)iteration;
    return op->kind == SLACKLINE_F && (op->stage == 1 || op->stage == 2);
}

static int one_microbatch(int iteration, const slackline_op *op) {
    (void)iteration;
    return op->microbatch == 5;
}

static int weights(int iteration, const slackline_op *op) {
    (void)iteration;
    return op->kind == SLACKLINE_W;
}

static int another_stage_in_each_iteration(int iteration, const slackline_op *op) {
    return op->stage == iteration % 4;
}

static int every_tenth_iteration(int iteration, const slackline_op *op) {
    (void)op;
    return iteration % 10 == 0;
}

/* Rank 2 takes half as long again from iteration 40 to 99, by each of these parts of its ops. */
static void a_slow_device_is_named_by_any_part_of_its_ops(void **state) {
    (void)state;
    static const part parts[] = {{"the forwards of stage 2", forwards_of_stage_2, 0},
                                 {"stage 2", stage_2, 0},
                                 {"the forwards of two stages", forwards_of_two_stages, 0},
                                 {"one microbatch", one_microbatch, 0},
                                 {"the weights' gradients", weights, 0},
                                 {"another stage in each iteration", another_stage_in_each_iteration, 0},
                                 {"every tenth iteration", every_tenth_iteration, 0},
                                 {"all ops, but no iteration time", all_ops, 1},
                                 {"the forwards of stage 2, but no iteration time", forwards_of_stage_2, 1}};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        simulated_job j;
        slackline_incident incident;
        heard h = {.rank = -1};
        print_message("%s\n", parts[p].what);
        open_job(&j, 1, 0, NULL);
        for (int i = 0; i < 160; i++) {
            slackline_measurements given[MAX_REPLICAS];
            if (i == 40 || i == 100)
                set_speed(&j, 0, 2, i == 40 ? 150 : 100);
            slackline_iteration iteration = of_part(&j, &parts[p], i, given);
            works(slackline_orchestrator_observe(j.orchestrator, &iteration));
            hear(&j, &h);
            assert_true(i >= 40 || (!h.onsets && !h.verdicts));
            if (i != 99)
                continue;
            assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, &incident, 1), 1);
            assert_true(incident.slow.part == SLACKLINE_DEVICE && incident.slow.a == 2 && incident.verdict);
            assert_near(incident.slow.slowdown, 1.5, 0.01);
            assert_true(incident.loss > 0.1);
            assert_int_equal(h.rank, 2);
        }
        assert_true(h.onsets == 1 && h.reliefs == 1);
        assert_false(slackline_orchestrator_troubled(j.orchestrator));
        close_job(&j);
    }
}

/* Nobody can tell what is slow; that something is, and that it is over, is told. */
static void iteration_times_alone_tell_of_trouble_and_relief(void **state) {
    (void)state;
    simulated_job j;
    heard h = {.rank = -1};
    const part none = {"nothing", NULL, 0};
    open_job(&j, 1, 0, NULL);
    for (int i = 0; i < 80; i++) {
        slackline_measurements given[MAX_REPLICAS];
        set_delay(&j, 0, i >= 30 && i < 60 ? 60 * ms : 0);
        slackline_iteration iteration = of_part(&j, &none, i, given);
        works(slackline_orchestrator_observe(j.orchestrator, &iteration));
        hear(&j, &h);
        if (i == 29 || i == 79)
            assert_false(slackline_orchestrator_troubled(j.orchestrator));
        if (i == 45) {
            assert_true(slackline_orchestrator_troubled(j.orchestrator));
            assert_true(h.onsets == 1 && h.verdicts == 1 && h.unknown == 1 && h.reliefs == 0);
        }
    }
    assert_true(h.onsets == 1 && h.verdicts == 1 && h.reliefs == 1);
    assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, NULL, 0), 0);
    close_job(&j);
}

/* All ops of one device take half as long again for half as much work again: known of iterations alone, or of
 * its ops, that is load. */
static void load_of_a_device_that_is_measured_alone_is_no_fault(void **state) {
    (void)state;
    const part alone = {"stage 2", stage_2, 0};
    for (int of_ops = 0; of_ops < 2; of_ops++) {
        simulated_job j;
        heard h = {.rank = -1};
        double work[MAX_SPANS];
        open_job(&j, 1, 0, NULL);
        for (int i = 0; i < 60; i++) {
            slackline_measurements given[MAX_REPLICAS];
            for (int rank = 0; rank < 4 && i == 30; rank++)
                set_speed(&j, 0, rank, 150);
            slackline_iteration iteration = of_part(&j, &alone, i, given);
            for (size_t op = 0; op < MAX_SPANS; op++)
                work[op] = i < 30 ? 1000 : 1500;
            given[0].span_work = of_ops ? work : NULL;
            iteration.work = i < 30 ? 12000 : 18000;
            works(slackline_orchestrator_observe(j.orchestrator, &iteration));
            hear(&j, &h);
        }
        assert_int_equal(h.onsets, 0);
        assert_int_equal(slackline_orchestrator_incidents(j.orchestrator, NULL, 0), 0);
        close_job(&j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_device_is_named_by_any_part_of_its_ops),
        cmocka_unit_test(iteration_times_alone_tell_of_trouble_and_relief),
        cmocka_unit_test(load_of_a_device_that_is_measured_alone_is_no_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
