/* The log of a cluster's faults and the section `fleet`: what is read, how the words of a cause become a
 * kind, and what is refused with file, line and key. */
#include "check.h"

#include "adapt/campaign/fleet.h"

#include <stdio.h>
#include <string.h>

#define HEAD "time_days,node,event,level,class,description\n"
#define DAY (86400 * SL_SECOND)

static sl_status read_log(const char *lines, int hosts, sl_fleet *f) {
    char text[2048];
    snprintf(text, sizeof text, "%s", lines);
    *f = (sl_fleet){.hosts = hosts};
    return sl_fleet_read_csv("log.csv", text, f);
}

static sl_status read_file(const char *text, sl_fleet *f) {
    sl_document document;
    sl_status status = sl_document_parse("fleet.yaml", text, &document);
    memset(f, 0, sizeof *f);
    if (status == SL_OK)
        status = sl_fleet_read(&document, NULL, f);
    sl_document_close(&document);
    return status;
}

static void starts_and_ends_become_faults(void **state) {
    (void)state;
    sl_fleet f;
    assert_ok(read_log("# a comment\n" HEAD "1.5,3,start,Hardware Failure,NIC,NIC Link Speed low\r\n"
                       "\n"
                       "2,0,start,Hardware Failure,GPU,GPU Lost\n"
                       "2,3,start,Hardware Failure,NIC,NIC Link Speed low\n" /* one more of the same */
                       "3,3,end,Hardware Failure,NIC,NIC Link Speed low\n"   /* of the older one */
                       "4.25,0,end,Hardware Failure,GPU,GPU Lost\n"
                       "5,7,start,Other Failure,Unknown Error,Unknown Error\n",
                       0, &f));
    static const struct {
        int host;
        sl_fleet_kind kind;
        double first, until;
    } expected[] = {{3, SL_FLEET_NIC, 1.5, 3},
                    {0, SL_FLEET_STOP, 2, 4.25},
                    {3, SL_FLEET_NIC, 2, -1},
                    {7, SL_FLEET_STOP, 5, -1}};
    assert_int_equal(f.faults, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(f.fault[i].host, expected[i].host);
        assert_int_equal(f.fault[i].kind, expected[i].kind);
        assert_int_equal(f.fault[i].first, (sl_time)(expected[i].first * (double)DAY));
        assert_int_equal(f.fault[i].until,
                         expected[i].until < 0 ? SL_TIME_NEVER : (sl_time)(expected[i].until * (double)DAY));
    }
    assert_int_equal(f.log_end, 5 * DAY);
    assert_int_equal(f.causes, 3);
    assert_true(f.cause[0].faults == 2 && f.cause[0].lasted == 3 * DAY / 2 && f.cause[0].known);
    sl_fleet_free(&f);
}

static void words_decide_the_kind(void **state) {
    (void)state;
    static const struct {
        const char *text;
        sl_fleet_kind kind;
        int known;
    } causes[] = {{"GPU, GPU PCI link width low", SL_FLEET_PCIE, 1},
                  {"NIC, NIC Link Speed low", SL_FLEET_NIC, 1},
                  {"GPU, GPU P2P Bandwidth Low", SL_FLEET_PEER, 1},
                  {"GPU, GPU Temperature High", SL_FLEET_HEAT, 1},
                  {"Power Supply, Redundancy Lost", SL_FLEET_WARN, 1},
                  {"Fan, Speed Critical (Sensor)", SL_FLEET_WARN, 1},
                  {"RAID Card, Bus Correctable error", SL_FLEET_WARN, 1},
                  {"CPU, Machine Check Exception ( Uncorrectable )", SL_FLEET_STOP, 1},
                  {"GPU, GPU SBE(Single Bit ECC) > Threshold", SL_FLEET_WARN, 1},
                  {"GPU, GPU DBE(Double Bit ECC) > Threshold", SL_FLEET_STOP, 1},
                  {"Stress Test Failure, Unknown Error", SL_FLEET_AWAY, 1},
                  {"Training Task Troubleshooting, Suspect Machine Offline", SL_FLEET_AWAY, 1},
                  {"Unknown Error, Unknown Error", SL_FLEET_STOP, 1},
                  {"Cosmic Ray, Impact", SL_FLEET_STOP, 0}};
    const sl_fleet f = {0};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        int known;
        if (sl_fleet_kind_of(&f, causes[i].text, &known) != causes[i].kind || known != causes[i].known)
            fail_msg("%s", causes[i].text);
    }
}

static void wrong_logs_are_refused_with_their_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } logs[] = {
        {"", "log.csv | empty"},
        {"time_days,node\n1,2\n", "log.csv:1 | time_days, node and event"},
        {"time_days,node,event,host\n", "log.csv:1 | 'host' | unknown"},
        {"time_days,node,event,node\n", "log.csv:1 | 'node' | twice"},
        {HEAD "1,2,start\n", "log.csv:2 | 3 cells | 6"},
        {HEAD "1,2,start,a,b,c,d\n", "log.csv:2 | more cells"},
        {HEAD "x,2,start,a,b,c\n", "log.csv:2 | 'time_days' | 'x'"},
        {HEAD "-1,2,start,a,b,c\n", "log.csv:2 | 'time_days'"},
        {HEAD "nan,2,start,a,b,c\n", "log.csv:2 | 'time_days'"},
        {HEAD "1e9,2,start,a,b,c\n", "log.csv:2 | 'time_days'"},
        {HEAD "1,-2,start,a,b,c\n", "log.csv:2 | 'node'"},
        {HEAD "1,2.5,start,a,b,c\n", "log.csv:2 | 'node'"},
        {HEAD "1,9,start,a,b,c\n", "log.csv:2 | 'node' | 'fleet.hosts'"},
        {HEAD "1,2,begin,a,b,c\n", "log.csv:2 | 'event' | start or end | 'begin'"},
        {HEAD "2,2,start,a,b,c\n1,2,end,a,b,c\n", "log.csv:3 | 'time_days' | before"},
        {HEAD "1,2,end,a,b,c\n", "log.csv:2 | node 2 | not started"},
        {HEAD "1,2,start,a,b,c\n2,2,end,a,b,d\n", "log.csv:3 | 'a, b, d' | not started"},
        {HEAD "1,2,start,a,b,c\n2,2,end,a,b,c\n3,2,end,a,b,c\n", "log.csv:4 | not started"},
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        sl_fleet f;
        assert_fails(read_log(logs[i].text, 9, &f), SL_EINVAL, logs[i].says);
        sl_fleet_free(&f);
    }
}

static void the_section_has_units_and_defaults(void **state) {
    (void)state;
    sl_fleet f;
    assert_ok(read_file("fleet: {hosts: 100, failure_days: 50, repair_hours: 12, duration_days: 30,\n"
                        "  slow: {nic: 3}, words: [{word: Cosmic, kind: warn}], try_spares: [0, 5],\n"
                        "  try_checkpoint_every_s: [600, 1200.5]}\nseed: 9\n",
                        &f));
    int known;
    assert_true(f.hosts == 100 && f.spares == 4 && f.runs == 20 && f.seed == 9 && !f.in_order);
    assert_int_equal(f.duration, 30 * DAY);
    assert_true(f.work == 0 && f.every == 0 && f.crews == 0);
    assert_true(f.restart == 600 * SL_SECOND && f.check == 120 * SL_SECOND && f.save == 60 * SL_SECOND);
    assert_true(f.slow[SL_FLEET_STOP] == 1 && f.slow[SL_FLEET_NIC] == 3 && f.slow[SL_FLEET_PCIE] == 1.3);
    assert_int_equal(sl_fleet_kind_of(&f, "a cosmic ray", &known), SL_FLEET_WARN);
    assert_true(f.spare_points == 2 && f.try_spares[1] == 5);
    assert_true(f.every_points == 2 && f.try_every[1] == 1200500 * SL_MS);
    sl_fleet_free(&f);
}

static void wrong_sections_are_refused_with_line_and_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } files[] = {
        {"fleet: {hosts: 10}\n", "fleet.yaml:1 | faults"},
        {"fleet: {failure_days: 1, repair_hours: 1, duration_days: 1}\n", "fleet.yaml:1 | hosts"},
        {"fleet:\n  hosts: 4\n  failure_days: 1\n", "fleet.yaml:3 | 'failure_days' | 'repair_hours'"},
        {"fleet:\n  hosts: 4\n  slow_days: 1\n  crews: 2\n", "fleet.yaml:4 | 'crews' | 'repair_hours'"},
        {"fleet:\n  hosts: 4\n  slow_days: 1\n", "fleet.yaml | duration_days"},
        {"fleet:\n  hosts: 4\n  spares: 4\n  slow_days: 1\n", "fleet.yaml:3 | 'spares' | 4"},
        {"fleet:\n  hosts: 4\n  spare: 1\n", "fleet.yaml:3 | 'spare'"},
        {"fleet:\n  hosts: 4\n  slow: {nic: 0.5}\n", "fleet.yaml:3 | 'nic'"},
        {"fleet:\n  hosts: 4\n  words: [{word: a, kind: b}]\n", "fleet.yaml:3 | 'kind'"},
        {"fleet:\n  hosts: 4\n  words: [{kind: stop}]\n", "fleet.yaml:3 | 'word'"},
        {"fleet:\n  hosts: 4\n  words: no\n", "fleet.yaml:3 | 'words' | list"},
        {"fleet:\n  hosts: 4\n  slow_days: 9\n  duration_days: 9\n  try_spares: [4]\n", "fleet.yaml:5 | 3"},
        {"fleet:\n  hosts: 4\n  slow_days: 9\n  duration_days: 9\n  try_spares: []\n",
         "fleet.yaml:5 | 'try_spares' | list"},
        {"fleet: {hosts: 4, slow_days: 1, duration_days: 1}\nevents: []\n", "fleet.yaml:2 | 'events'"},
        {"fleet:\n  hosts: 4\n  faults: no-such.csv\n", "no-such.csv"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        sl_fleet f;
        assert_fails(read_file(files[i].text, &f), SL_EINVAL, files[i].says);
        sl_fleet_free(&f);
    }
}

static void too_many_draws_are_refused(void **state) {
    (void)state;
    sl_fleet f;
    static sl_fleet_result result;
    assert_ok(read_file(
        "fleet: {hosts: 1000, failure_days: 0.001, repair_hours: 0.001, duration_days: 100}\n", &f));
    assert_fails(sl_fleet_run(&f, &result), SL_EINVAL, "fleet | 'failure_days'");
    sl_fleet_free(&f);
}

static void a_log_is_recognized_by_its_header(void **state) {
    (void)state;
    assert_true(sl_fleet_csv_is(HEAD));
    assert_true(sl_fleet_csv_is("# a source\n\n# its license\nnode, time_days,event\n"));
    assert_false(sl_fleet_csv_is("first_iteration,last_iteration,links,latency_ms\n1,2,0-1,time_days\n"));
    assert_false(sl_fleet_csv_is(""));
    assert_false(sl_fleet_csv_is("#"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_and_ends_become_faults),
        cmocka_unit_test(words_decide_the_kind),
        cmocka_unit_test(wrong_logs_are_refused_with_their_line),
        cmocka_unit_test(the_section_has_units_and_defaults),
        cmocka_unit_test(wrong_sections_are_refused_with_line_and_key),
        cmocka_unit_test(too_many_draws_are_refused),
        cmocka_unit_test(a_log_is_recognized_by_its_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
