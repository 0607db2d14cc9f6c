/* Verdicts on tables made by hand. The thresholds that they lie on either side of: 1.1 + 2 cv, 0.1 ms. */
#include "check.h"
#include "notice/validate/verdict.h"

#define DEVICES 16
#define LINKS 64

typedef struct table {
    sl_measured_device device[DEVICES];
    sl_measured_link link[LINKS];
    sl_validation m;
    sl_verdicts v;
} table;

static const char *const host_names[] = {"anna", "bert", "carl", "dora", "emil", "fred"};

static sl_evidence quiet(void) {
    return (sl_evidence){.pressure = -1, .load = 0, .thermal = -1, .cores = 2};
}

static void add_device(table *t, int host, double gflops, double cv) {
    int i = t->m.devices++;
    t->device[i] = (sl_measured_device){
        .rank = i, .host = host, .samples = 3, .gflops = gflops, .cv = cv, .evidence = quiet()};
}

/* Both directions of a link; ranks stand on hosts of their own number unless hosts are named. */
static void add_link(table *t, int a, int b, double there, double back, double latency, double cv) {
    for (int i = 0; i < 2; i++)
        t->link[t->m.links + i] =
            (sl_measured_link){.from = i ? b : a,
                               .to = i ? a : b,
                               .from_host = i ? b : a,
                               .to_host = i ? a : b,
                               .samples = 3,
                               .latency_ms = latency,
                               .gb_per_s = i ? back : there,
                               .latency_cv = cv,
                               .bandwidth_cv = cv,
                               .from_evidence = {.errors = -1, .drops = -1, .resent = -1},
                               .to_evidence = {.errors = -1, .drops = -1, .resent = -1}};
    t->m.links += 2;
}

static void ring(table *t, int n, double rate, double latency, double cv) {
    for (int i = 0; i < n; i++)
        add_link(t, i < (i + 1) % n ? i : (i + 1) % n, i < (i + 1) % n ? (i + 1) % n : i, rate, rate, latency,
                 cv);
}

static table start(void) {
    return (table){0};
}

static void judge(table *t, const sl_reference *reference) {
    t->m.device = t->device;
    t->m.link = t->link;
    t->m.host = host_names;
    t->m.hosts = 6;
    t->m.repeats = 3;
    assert_ok(sl_verdict(&t->m, reference, &t->v));
}

static const sl_suspect *only(const table *t) {
    for (int i = 0; i < t->v.count; i++)
        printf("  %d: component %d rank %d %d->%d: %s; %s\n", i, (int)t->v.suspect[i].component,
               t->v.suspect[i].rank, t->v.suspect[i].from, t->v.suspect[i].to, t->v.suspect[i].cause,
               t->v.suspect[i].why);
    assert_int_equal(t->v.count, 1);
    return &t->v.suspect[0];
}

/* ---- devices ---- */

static void four_devices_alike_are_healthy(void **state) {
    (void)state;
    table t = start();
    add_device(&t, 0, 100, 0.01);
    add_device(&t, 0, 98, 0.01);
    add_device(&t, 0, 103, 0.01);
    add_device(&t, 0, 99, 0.01);
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    assert_near(t.v.kinds.device.expected, 100, 1e-9); /* the better of the two in the middle */
    /* they differ from it by 0, 1, 2 and 3: 1.4826 * 1 / 100, which is more than the 0.01 of each */
    assert_near(t.v.kinds.device.factor, 1.1 + 2 * 0.014826, 1e-9);
    sl_verdicts_free(&t.v);
}

static void ten_percent_beyond_what_it_varies_by_is_slow(void **state) {
    (void)state;
    const struct {
        double gflops, cv;
        int slow;
    } row[] = {{92, 0, 0},    {90, 0, 1},   {90, 0.05, 0}, {84, 0.05, 0},
               {82, 0.05, 1}, {50, 0.2, 1}, {70, 0.2, 0}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        table t = start();
        for (int d = 0; d < 5; d++)
            add_device(&t, 0, d == 3 ? row[i].gflops : 100, row[i].cv);
        judge(&t, NULL);
        assert_int_equal(t.v.count, row[i].slow);
        if (row[i].slow) {
            assert_int_equal(t.v.suspect[0].component, SL_COMPONENT_DEVICE);
            assert_int_equal(t.v.suspect[0].rank, 3);
            assert_near(t.v.suspect[0].measured, row[i].gflops, 1e-9);
            assert_near(t.v.suspect[0].expected, 100, 1e-9);
        }
        sl_verdicts_free(&t.v);
    }
}

static void one_repeat_does_not_say_what_it_varies_by(void **state) {
    (void)state;
    for (int repeats = 1; repeats <= 2; repeats++) {
        table t = start();
        for (int d = 0; d < 4; d++)
            add_device(&t, 0, d == 1 ? 80 : 100, 0);
        t.m.repeats = repeats;
        t.m.device = t.device;
        assert_ok(sl_verdict(&t.m, NULL, &t.v));
        assert_int_equal(t.v.count, repeats - 1); /* 10 % are taken: slow from 1.3 on */
        sl_verdicts_free(&t.v);
    }
}

static void one_that_was_fast_once_is_not_slow(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 4; d++)
        add_device(&t, d, d == 1 ? 40 : 100, 0.01);
    ring(&t, 4, 1.0, 0.2, 0.03);
    t.device[1].best = 95;
    t.link[3].gb_per_s = 0.3;
    t.link[3].best_gb_per_s = 0.97;
    t.link[4].latency_ms = t.link[5].latency_ms = 3;
    t.link[4].best_ms = t.link[5].best_ms = 0.21;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
    t.device[1].best = 85;
    judge(&t, NULL);
    assert_int_equal(only(&t)->rank, 1);
    sl_verdicts_free(&t.v);
}

static void half_of_the_devices_may_be_slow(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 4; d++)
        add_device(&t, d, d % 2 ? 50 : 100, 0.01);
    judge(&t, NULL);
    assert_int_equal(t.v.count, 2);
    assert_int_equal(t.v.suspect[0].rank, 1);
    assert_int_equal(t.v.suspect[1].rank, 3);
    sl_verdicts_free(&t.v);
}

static void most_devices_slow_cannot_be_told_without_a_reference(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 4; d++)
        add_device(&t, d, d ? 30 : 100, 0.01);
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_UNKNOWN);
    assert_says(only(&t)->why, "reference");
    sl_verdicts_free(&t.v);
    const sl_reference reference = {.gflops = 100};
    judge(&t, &reference);
    assert_int_equal(t.v.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(t.v.suspect[i].rank, i + 1);
    sl_verdicts_free(&t.v);
}

static void two_devices_that_disagree_cannot_be_told(void **state) {
    (void)state;
    table t = start();
    add_device(&t, 0, 100, 0.01);
    add_device(&t, 1, 40, 0.01);
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_UNKNOWN);
    assert_says(only(&t)->why, "at least 3");
    sl_verdicts_free(&t.v);
    t.device[1].gflops = 97;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
    t.device[1].gflops = 40;
    const sl_reference reference = {.gflops = 99};
    judge(&t, &reference);
    assert_int_equal(only(&t)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(only(&t)->rank, 1);
    sl_verdicts_free(&t.v);
}

static void a_group_that_was_stopped_makes_its_device_slow_whatever_the_others_do(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 3; d++) {
        add_device(&t, 0, 25, 0.01); /* all alike */
        t.device[d].evidence.throttled = t.device[d].evidence.waited = 0.75;
        t.device[d].evidence.quota = 0.25;
    }
    judge(&t, NULL);
    assert_int_equal(t.v.count, 3);
    assert_says(t.v.suspect[1].cause, "cgroup quota");
    assert_near(t.v.suspect[1].expected, 100, 1e-6); /* what it does in the quarter that it has */
    sl_verdicts_free(&t.v);
}

static void a_healthy_device_on_processors_that_are_taken_is_contention(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 4; d++)
        add_device(&t, 0, 100, 0.01);
    t.device[2].evidence.pressure = 0.8;
    t.device[2].evidence.load = 1.5; /* of two */
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(only(&t)->rank, 2);
    assert_says(only(&t)->cause, "contention");
    assert_says(only(&t)->why, "healthy");
    sl_verdicts_free(&t.v);
}

static void all_devices_of_a_host_starving_is_its_host(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 4; d++)
        add_device(&t, d / 2, 100, 0.01);
    for (int d = 0; d < 2; d++) {
        t.device[d].evidence.pressure = 0.8;
        t.device[d].evidence.load = 1.5;
    }
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_HOST);
    assert_int_equal(only(&t)->rank, 0);
    assert_says(only(&t)->cause, "contention");
    char text[512]; /* its products are as fast as expected: no factor says how slow they are */
    sl_suspect_text(only(&t), text, sizeof text);
    if (strstr(text, " x "))
        fail_msg("%s", text);
    sl_verdicts_free(&t.v);
    t.device[1].gflops = 50; /* that is the finding */
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(only(&t)->rank, 1);
    sl_verdicts_free(&t.v);
}

static void where_all_wait_nobody_is_named_for_waiting_longest(void **state) {
    (void)state;
    const double gflops[] = {2.2, 6.5, 2.8, 10.7};
    table t = start();
    for (int d = 0; d < 4; d++) {
        add_device(&t, 0, gflops[d], 0.1);
        t.device[d].evidence.waited = 1 - gflops[d] / 150; /* all do 150 when they have a processor */
        t.device[d].evidence.pressure = 1;
        t.device[d].evidence.load = 1.5;
    }
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_HOST);
    assert_says(only(&t)->cause, "contention");
    sl_verdicts_free(&t.v);
    t.device[1].gflops = 0.3; /* 7 with a processor, where others do 150 */
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(only(&t)->rank, 1);
    sl_verdicts_free(&t.v);
    t.device[1].gflops = 6.5;
    t.device[0].evidence.throttled = 0.8; /* but this one waits for its quota */
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(only(&t)->rank, 0);
    assert_says(only(&t)->cause, "quota");
    sl_verdicts_free(&t.v);
}

static void all_devices_of_a_host_slow_is_a_slow_host(void **state) {
    (void)state;
    table t = start();
    for (int d = 0; d < 8; d++)
        add_device(&t, d / 2, d / 2 == 2 ? 60 : 100, 0.01);
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_HOST);
    assert_int_equal(only(&t)->rank, 4);
    assert_says(only(&t)->why, "carl");
    sl_verdicts_free(&t.v);
    t.device[5].gflops = 100; /* one of the two is well */
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_DEVICE);
    assert_int_equal(only(&t)->rank, 4);
    sl_verdicts_free(&t.v);
}

/* ---- links ---- */

static void a_slow_direction_is_named_with_its_direction(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.05, 0.03);
    t.link[3].gb_per_s = 0.25; /* 2 -> 1 */
    judge(&t, NULL);
    const sl_suspect *s = only(&t);
    assert_int_equal(s->component, SL_COMPONENT_LINK);
    assert_int_equal(s->from, 2);
    assert_int_equal(s->to, 1);
    assert_int_equal(s->both, 0);
    assert_near(s->measured, 0.25, 1e-9);
    assert_near(s->expected, 1.0, 1e-9);
    sl_verdicts_free(&t.v);
}

static void both_directions_slow_are_one_link(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.05, 0.03);
    t.link[2].gb_per_s = t.link[3].gb_per_s = 0.25;
    judge(&t, NULL);
    const sl_suspect *s = only(&t);
    assert_int_equal(s->component, SL_COMPONENT_LINK);
    assert_int_equal(s->both, 1);
    assert_int_equal(s->from + s->to, 3);
    sl_verdicts_free(&t.v);
}

static void latency_alone_names_both_directions(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.2, 0.03);
    t.link[4].latency_ms = t.link[5].latency_ms = 5;
    judge(&t, NULL);
    const sl_suspect *s = only(&t);
    assert_int_equal(s->component, SL_COMPONENT_LINK);
    assert_int_equal(s->both, 1);
    assert_near(s->measured, 5, 1e-9);
    assert_says(s->why, "latency");
    sl_verdicts_free(&t.v);
    /* twice as long, but by less than a late wake-up */
    for (int i = 0; i < t.m.links; i++)
        t.link[i].latency_ms = 0.05;
    t.link[4].latency_ms = t.link[5].latency_ms = 0.12;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
}

static void links_of_a_rank_without_a_processor_are_not_the_finding(void **state) {
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        table t = start();
        for (int d = 0; d < 5; d++)
            add_device(&t, d, d == 2 ? 10 : 100, 0.01);
        t.device[2].evidence.throttled = t.device[2].evidence.waited = 0.9;
        t.device[2].evidence.apart = apart; /* links were tested with processors of their own */
        ring(&t, 5, 1.0, 0.05, 0.03);
        t.link[3].gb_per_s = 0.2; /* 2 -> 1 */
        judge(&t, NULL);
        assert_int_equal(t.v.count, 1 + apart);
        assert_int_equal(t.v.suspect[0].component, SL_COMPONENT_DEVICE);
        assert_int_equal(t.v.suspect[0].rank, 2);
        if (apart)
            assert_int_equal(t.v.suspect[1].from, 2);
        sl_verdicts_free(&t.v);
    }
}

static void one_link_of_its_kind_cannot_be_told(void **state) {
    (void)state;
    table t = start();
    add_link(&t, 0, 1, 1.0, 0.2, 0.05, 0.03);
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_UNKNOWN);
    assert_says(only(&t)->why, "at least 3 of a kind");
    sl_verdicts_free(&t.v);
    const sl_reference reference = {.gb_per_s = {0, 1.0}, .latency_ms = {0, 0.05}};
    judge(&t, &reference);
    assert_int_equal(only(&t)->component, SL_COMPONENT_LINK);
    assert_int_equal(only(&t)->from, 1);
    assert_int_equal(only(&t)->to, 0);
    sl_verdicts_free(&t.v);
}

static void kinds_are_not_compared_with_each_other(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 0.1, 0.3, 0.03); /* between hosts */
    for (int i = 0; i < 4; i++) {
        add_link(&t, 2 * i + 10, 2 * i + 11, 8, 8, 0.01, 0.03);
        for (int k = 0; k < 2; k++)
            t.link[t.m.links - 1 - k].from_host = t.link[t.m.links - 1 - k].to_host = i;
    }
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    assert_near(t.v.kinds.bandwidth[SL_LINKS_FAR].expected, 0.1, 1e-9);
    assert_near(t.v.kinds.bandwidth[SL_LINKS_NEAR].expected, 8, 1e-9);
    sl_verdicts_free(&t.v);
}

static void all_links_of_a_host_slow_is_a_slow_host(void **state) {
    (void)state;
    table t = start();
    ring(&t, 5, 1.0, 0.05, 0.03);
    t.link[2].gb_per_s = 0.3; /* 1 -> 2 */
    t.link[1].gb_per_s = 0.3; /* 1 -> 0: what host 1 sends */
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_HOST);
    assert_int_equal(only(&t)->rank, -1); /* no device was measured there */
    assert_says(only(&t)->why, "bert");
    sl_verdicts_free(&t.v);
}

static void two_slow_links_apart_are_two_links(void **state) {
    (void)state;
    table t = start();
    ring(&t, 6, 1.0, 0.05, 0.03);
    t.link[0].gb_per_s = 0.3; /* 0 -> 1 */
    t.link[6].gb_per_s = 0.3; /* 3 -> 4 */
    judge(&t, NULL);
    assert_int_equal(t.v.count, 2);
    assert_int_equal(t.v.suspect[0].component, SL_COMPONENT_LINK);
    assert_int_equal(t.v.suspect[0].from, 0);
    assert_int_equal(t.v.suspect[1].from, 3);
    sl_verdicts_free(&t.v);
}

static void a_direction_that_carries_nothing_is_slow(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.05, 0.03);
    t.link[0].state = SL_WIRE_LOST;
    t.link[0].samples = 0;
    t.link[0].gb_per_s = 0;
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_LINK);
    assert_int_equal(only(&t)->from, 0);
    assert_int_equal(only(&t)->to, 1);
    assert_int_equal(only(&t)->both, 0);
    sl_verdicts_free(&t.v);
}

static void a_link_without_a_connection_cannot_be_told(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.05, 0.03);
    for (int i = 0; i < 2; i++) {
        t.link[i].state = SL_WIRE_REFUSED;
        t.link[i].samples = 0;
        t.link[i].latency_ms = -1;
        snprintf(t.link[i].why, sizeof t.link[i].why, "10.0.0.2: Connection timed out");
    }
    judge(&t, NULL);
    assert_int_equal(only(&t)->component, SL_COMPONENT_UNKNOWN);
    assert_says(only(&t)->why, "0-1");
    assert_says(only(&t)->why, "timed out");
    sl_verdicts_free(&t.v);
}

static void links_that_vary_much_must_be_slower_to_be_named(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.05, 0.3); /* slow from 1.7 on */
    t.link[3].gb_per_s = 0.65;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
    t.link[3].gb_per_s = 0.5;
    judge(&t, NULL);
    assert_int_equal(only(&t)->from, 2);
    sl_verdicts_free(&t.v);
}

static void a_process_that_did_not_come_is_named(void **state) {
    (void)state;
    table t = start();
    const sl_absent absent[] = {{2, 7}, {3, -1}};
    for (int d = 0; d < 4; d++)
        add_device(&t, 0, 100, 0.01);
    t.m.missing = absent;
    t.m.missings = 2;
    judge(&t, NULL);
    assert_int_equal(t.v.count, 2);
    assert_int_equal(t.v.suspect[0].component, SL_COMPONENT_UNKNOWN);
    assert_says(t.v.suspect[0].why, "rank 7");
    assert_says(t.v.suspect[1].why, "process 3");
    sl_verdicts_free(&t.v);
}

static void errors_of_an_interface_are_the_cause_of_its_slow_link(void **state) {
    (void)state;
    table t = start();
    ring(&t, 4, 1.0, 0.05, 0.03);
    t.link[3].gb_per_s = 0.25;
    snprintf(t.link[3].to_evidence.interface, 16, "eth3");
    t.link[3].to_evidence.errors = 12;
    judge(&t, NULL);
    assert_says(only(&t)->cause, "NIC errors: 12 on eth3");
    sl_verdicts_free(&t.v);
}

static void nothing_measured_is_nothing_said(void **state) {
    (void)state;
    table t = start();
    judge(&t, NULL);
    assert_int_equal(t.v.count, 0);
    sl_verdicts_free(&t.v);
}

static void spread_is_the_textbooks(void **state) {
    (void)state;
    double odd[] = {9, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {5}, median, cv;
    sl_spread(odd, 3, &median, &cv);
    assert_near(median, 2, 0);
    assert_near(cv, 1.0897247358851685, 1e-12); /* sqrt(19) / 4 */
    sl_spread(even, 4, &median, &cv);
    assert_near(median, 2.5, 0);
    assert_near(cv, 0.5163977794943222, 1e-12); /* sqrt(5 / 3) / 2.5 */
    sl_spread(one, 1, &median, &cv);
    assert_near(median, 5, 0);
    assert_near(cv, 0, 0);
    sl_spread(one, 0, &median, &cv);
    assert_near(median, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_devices_alike_are_healthy),
        cmocka_unit_test(ten_percent_beyond_what_it_varies_by_is_slow),
        cmocka_unit_test(one_repeat_does_not_say_what_it_varies_by),
        cmocka_unit_test(one_that_was_fast_once_is_not_slow),
        cmocka_unit_test(half_of_the_devices_may_be_slow),
        cmocka_unit_test(most_devices_slow_cannot_be_told_without_a_reference),
        cmocka_unit_test(two_devices_that_disagree_cannot_be_told),
        cmocka_unit_test(a_group_that_was_stopped_makes_its_device_slow_whatever_the_others_do),
        cmocka_unit_test(a_healthy_device_on_processors_that_are_taken_is_contention),
        cmocka_unit_test(all_devices_of_a_host_starving_is_its_host),
        cmocka_unit_test(where_all_wait_nobody_is_named_for_waiting_longest),
        cmocka_unit_test(all_devices_of_a_host_slow_is_a_slow_host),
        cmocka_unit_test(a_slow_direction_is_named_with_its_direction),
        cmocka_unit_test(both_directions_slow_are_one_link),
        cmocka_unit_test(latency_alone_names_both_directions),
        cmocka_unit_test(links_of_a_rank_without_a_processor_are_not_the_finding),
        cmocka_unit_test(one_link_of_its_kind_cannot_be_told),
        cmocka_unit_test(kinds_are_not_compared_with_each_other),
        cmocka_unit_test(all_links_of_a_host_slow_is_a_slow_host),
        cmocka_unit_test(two_slow_links_apart_are_two_links),
        cmocka_unit_test(a_direction_that_carries_nothing_is_slow),
        cmocka_unit_test(a_link_without_a_connection_cannot_be_told),
        cmocka_unit_test(links_that_vary_much_must_be_slower_to_be_named),
        cmocka_unit_test(a_process_that_did_not_come_is_named),
        cmocka_unit_test(errors_of_an_interface_are_the_cause_of_its_slow_link),
        cmocka_unit_test(nothing_measured_is_nothing_said),
        cmocka_unit_test(spread_is_the_textbooks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
