/* Events of a campaign file and of a CSV: network cards, hosts and spells become plain faults, and what makes
 * no sense is refused with file, line and key. */
#include "check.h"

#include "adapt/campaign/campaign.h"

#include <stdio.h>
#include <string.h>

/* 3 ranks, 2 replicas, 2 tensor ranks: 12 devices, 4 a host. Positions are replica + 2 * rank. */
#define JOB "job: {replicas: 2, tensor: 2, host_devices: 4, iterations: 100, ring_gbps: 100}\nevents:\n"

static sl_status read_events(const char *text, sl_campaign *c) {
    sl_problem p;
    sl_document document;
    memset(c, 0, sizeof *c);
    assert_ok(sl_problem_make(3, 3, 4, &p));
    sl_status status = sl_document_parse("trace.yaml", text, &document);
    if (status == SL_OK)
        status = sl_campaign_read(&document, &p, NULL, c);
    sl_document_close(&document);
    sl_problem_free(&p);
    return status;
}

static sl_status read_csv(const char *lines, sl_campaign *c) {
    char text[1024];
    sl_problem p;
    snprintf(text, sizeof text, "%s", lines);
    assert_ok(sl_problem_make(3, 3, 4, &p));
    assert_ok(sl_campaign_make(&p, c));
    sl_problem_free(&p);
    c->replicas = c->tensor = 2;
    c->host_devices = 4;
    c->iterations = 100;
    return sl_campaign_read_csv("trace.csv", text, c);
}

typedef struct expected {
    sl_campaign_fault_kind kind;
    int64_t first, until;
    int a, b;
    double slowdown, latency_ms; /* latency below 0: as when healthy */
} expected;

static void check_faults(const sl_campaign *c, const expected *e, size_t count) {
    assert_int_equal(c->faults, count);
    for (size_t i = 0; i < count; i++) {
        const sl_campaign_fault *f = &c->fault[i];
        assert_true(f->kind == e[i].kind && f->first == e[i].first && f->until == e[i].until);
        assert_true(f->a == e[i].a && f->b == e[i].b && f->slowdown == e[i].slowdown);
        assert_true(f->latency == (e[i].latency_ms < 0 ? -1 : sl_from_ms(e[i].latency_ms)));
    }
}

static void cards_are_named_as_in_a_run_file(void **state) {
    (void)state;
    static const expected e[] = {
        {SL_FAULT_NIC, 1, 50, 3, 3, 1, 5},     /* replica 1, rank 1 */
        {SL_FAULT_NIC, 2, 50, 4, 4, 1, 6},     /* rank 2 of replica 0 */
        {SL_FAULT_NIC, 2, 50, 5, 5, 1, 6},     /* and of replica 1 */
        {SL_FAULT_NIC, 3, 50, 5, 5, 2, -1},    /* rank 2 of replica 1 */
        {SL_FAULT_DEVICE, 4, 50, 2, 2, 3, -1}, /* rank 1 of replica 0 */
        {SL_FAULT_NIC, 5, 50, 2, 3, 1, 7},     /* host 1: devices 4 to 7, positions 2 and 3 */
        {SL_FAULT_NIC, 6, 50, 2, 3, 4, -1},    /* a quarter of 100 Gbit/s */
        {SL_FAULT_NIC, 7, 50, 2, 3, 2, -1},    {SL_FAULT_DEVICE, 8, 50, 2, 3, 2, -1}};
    sl_campaign c;
    assert_ok(read_events(JOB "  - {at: 1, until: 50, nic: [1, 1], latency_ms: 5}\n"
                              "  - {at: 2, until: 50, nic: 2, latency_ms: 6}\n"
                              "  - {at: 3, until: 50, nic: 2, replica: 1, slowdown: 2}\n"
                              "  - {at: 4, until: 50, device: 1, replica: 0, slowdown: 3}\n"
                              "  - {at: 5, until: 50, host: 1, latency_ms: 7}\n"
                              "  - {at: 6, until: 50, host: 1, bandwidth_gbps: 25}\n"
                              "  - {at: 7, until: 50, host: 1, network: true, slowdown: 2}\n"
                              "  - {at: 8, until: 50, host: 1, slowdown: 2}\n",
                          &c));
    check_faults(&c, e, sizeof e / sizeof e[0]);
    sl_campaign_free(&c);
    assert_ok(read_csv("first_iteration,last_iteration,links,nic,host,device,replica,latency_ms,slowdown\n"
                       "1,49,,1,,,1,5,\n"
                       "2,49,,2,,,,6,\n"
                       "3,49,,2,,,1,,2\n"
                       "4,49,,,,1,0,,3\n"
                       "5,49,,,1,,,7,\n"
                       "8,49,,,1,,,,2\n",
                       &c));
    expected some[7];
    memcpy(some, e, 6 * sizeof e[0]);
    some[6] = e[8];
    check_faults(&c, some, 7);
    sl_campaign_free(&c);
}

static void spells_are_faults_of_their_own_until_the_event_or_the_job_ends(void **state) {
    (void)state;
    static const expected e[] = {{SL_FAULT_DEVICE, 10, 14, 0, 0, 2, -1},
                                 {SL_FAULT_DEVICE, 20, 24, 0, 0, 2, -1},
                                 {SL_FAULT_DEVICE, 30, 33, 0, 0, 2, -1},
                                 {SL_FAULT_NIC, 60, 65, 1, 1, 1, 3},
                                 {SL_FAULT_NIC, 90, 95, 1, 1, 1, 3}};
    sl_campaign c;
    assert_ok(read_events(JOB "  - {at: 10, until: 33, every: 10, for: 4, device: [0, 0], slowdown: 2}\n"
                              "  - {at: 60, every: 30, for: 5, nic: [1, 0], latency_ms: 3}\n",
                          &c));
    check_faults(&c, e, sizeof e / sizeof e[0]);
    sl_campaign_free(&c);
    assert_ok(read_csv("first_iteration,last_iteration,device,nic,replica,latency_ms,slowdown,every,for\n"
                       "10,32,0,,0,,2,10,4\n"
                       "60,,,0,1,3,,30,5\n",
                       &c));
    check_faults(&c, e, sizeof e / sizeof e[0]);
    sl_campaign_free(&c);
    /* in seconds; a job of 10 s, which may take four times as long */
    static const expected s[] = {{SL_FAULT_DEVICE, SL_SECOND, 3 * SL_SECOND / 2, 0, 0, 2, -1},
                                 {SL_FAULT_DEVICE, 16 * SL_SECOND, 33 * SL_SECOND / 2, 0, 0, 2, -1},
                                 {SL_FAULT_DEVICE, 31 * SL_SECOND, 63 * SL_SECOND / 2, 0, 0, 2, -1}};
    assert_ok(read_events("job: {duration_s: 10}\nevents:\n"
                          "  - {at_s: 1, every_s: 15, for_s: 0.5, device: 0, slowdown: 2}\n",
                          &c));
    check_faults(&c, s, 3);
    sl_campaign_free(&c);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {JOB "  - {at: 1, nic: 3, latency_ms: 5}\n", "trace.yaml:3: 'nic' must be from 0 to 2"},
        {JOB "  - {at: 1, nic: [2, 0], latency_ms: 5}\n", "trace.yaml:3: 'nic' must be from 0 to 1"},
        {JOB "  - {at: 1, nic: [1, 0], replica: 0, latency_ms: 5}\n",
         "trace.yaml:3: 'nic' must be a rank with 'replica'"},
        {JOB "  - {at: 1, nic: 1, replica: 2, latency_ms: 5}\n",
         "trace.yaml:3: 'replica' must be from 0 to 1"},
        {JOB "  - {at: 1, nic: 1, link: [0, 1], latency_ms: 5}\n",
         "trace.yaml:3: an event needs one of link"},
        {JOB "  - {at: 1, host: 3, latency_ms: 5}\n", "trace.yaml:3: 'host' must be from 0 to 2"},
        {JOB "  - {at: 1, host: 1, network: false, latency_ms: 5}\n",
         "trace.yaml:3: 'latency_ms' is of links"},
        {JOB "  - {at: 1, device: 1, slowdown: 2, every: 5}\n", "trace.yaml:3: needs 'every' and 'for'"},
        {JOB "  - {at: 1, device: 1, slowdown: 2, every_s: 5, for_s: 1}\n",
         "trace.yaml:3: needs 'every' and 'for' with 'at'"},
        {JOB "  - {at: 1, device: 1, slowdown: 2, every: 5, for: 5}\n",
         "trace.yaml:3: spells need 'for' above 0 and 'every' longer"},
        {JOB "  - {at: 1, stop: true, every: 5, for: 1}\n", "trace.yaml:3: a stop does not come in spells"},
        {"events:\n  - {at: 1, device: 1, slowdown: 2, every: 5, for: 1}\n",
         "trace.yaml:2: spells need an end"},
        {"job: {duration_s: 10}\nevents:\n  - {at: 1, device: 1, slowdown: 2, every: 5, for: 1}\n",
         "trace.yaml:3: spells need an end"},
        {"job: {iterations: 1000000}\nevents:\n  - {at: 1, device: 1, slowdown: 2, every: 5, for: 1}\n",
         "trace.yaml:3: makes 200000 spells; with the others at most 20000 events"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_campaign c;
        assert_fails(read_events(cases[i].text, &c), SL_EINVAL, cases[i].says);
        sl_campaign_free(&c);
    }
    static const struct {
        const char *text, *says;
    } lines[] = {
        {"first_iteration,last_iteration,latency_ms\n", "trace.csv:1: the columns"},
        {"first_iteration,last_iteration,nic,host,latency_ms\n1,5,1,1,5\n", "trace.csv:2: must name one of"},
        {"first_iteration,last_iteration,nic,latency_ms\n1,5,,5\n", "trace.csv:2: must name one of"},
        {"first_iteration,last_iteration,nic,latency_ms\n1,5,3,5\n", "trace.csv:2: 'nic' must be one of"},
        {"first_iteration,last_iteration,host,latency_ms\n1,5,3,5\n", "trace.csv:2: 'host' must be one of"},
        {"first_iteration,last_iteration,device,latency_ms\n1,5,1,5\n",
         "trace.csv:2: 'latency_ms' is of links"},
        {"first_iteration,last_iteration,device,slowdown,every,for\n1,5,1,2,3,\n",
         "trace.csv:2: spells need 'for' above 0"},
        {"first_iteration,last_iteration,device,slowdown,every\n1,5,1,2,3\n",
         "trace.csv:2: spells need 'for' above 0"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        sl_campaign c;
        assert_fails(read_csv(lines[i].text, &c), SL_EINVAL, lines[i].says);
        sl_campaign_free(&c);
    }
}

/* By hand: one rank, one replica, 4 microbatches of 30 ms: 120 ms, and 240 ms in 2 of each 10 iterations from
 * 10 to 30. */
static void spells_cost_what_they_last(void **state) {
    (void)state;
    sl_campaign c;
    sl_campaign_result r;
    sl_problem p;
    sl_document document;
    assert_ok(sl_problem_make(1, 1, 4, &p));
    for (int kind = SL_F; kind <= SL_W; kind++)
        p.time[kind][0] = 10 * SL_MS;
    p.time[SL_B][0] = 20 * SL_MS;
    assert_ok(sl_document_parse("trace.yaml",
                                "job: {iterations: 40}\nevents:\n"
                                "  - {at: 10, until: 30, every: 10, for: 2, device: 0, slowdown: 2}\n",
                                &document));
    assert_ok(sl_campaign_read(&document, &p, NULL, &c));
    assert_ok(sl_campaign_run(&c, 0, &r));
    assert_int_equal(r.row[0].total, (36 * 120 + 4 * 240) * SL_MS);
    sl_campaign_result_free(&r);
    sl_campaign_free(&c);
    sl_document_close(&document);
    sl_problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cards_are_named_as_in_a_run_file),
        cmocka_unit_test(spells_are_faults_of_their_own_until_the_event_or_the_job_ends),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(spells_cost_what_they_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
