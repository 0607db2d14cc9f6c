/* labels: calm */
/* A controller whose tests name a link that no call shows: it orders a second test, and its verdict is what
 * both say. The job, its agent and the server are real (watched_job.h); started with the word `healthcheck`
 * this program stands for slackline and reports what the environment says. */
#include "at_once.h"
#include "watched_job.h"

#define SECOND "SL_SECOND_FINDS" /* GB/s of link 1 -> 2 in a second test; "": it reports nothing */
#define FIRST_MEMBERS JOB_RANKS
#define WELL 1.97

static const char *option(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return "";
}

static void add_row(json_t *report, int from, int to, double rate) {
    json_array_append_new(json_object_get(report, "links"),
                          json_pack("{s:i,s:i,s:s,s:s,s:f,s:f,s:f,s:f,s:b}", "from", from, "to", to, "kind",
                                    "within a host", "state", "tested", "latency_ms", 0.02,
                                    "expected_latency_ms", 0.02, "gb_per_s", rate, "expected_gb_per_s", WELL,
                                    "slow", rate < WELL / 1.2));
}

/* The links that were asked for, or a ring, as the command would report them. */
static char *report(const char *links, double rate, int with_verdict) {
    int from, to, used;
    json_t *all = json_pack("{s:[],s:[],s:[],s:{s:{s:f}}}", "devices", "links", "verdicts", "kinds",
                            "within a host", "bandwidth_factor", 1.2);
    for (const char *at = *links ? links : "0-1,1-2,2-3,3-0"; sscanf(at, "%d-%d%n", &from, &to, &used) == 2;
         at += used + (at[used] == ',')) {
        add_row(all, from, to, from == 1 && to == 2 ? rate : WELL);
        add_row(all, to, from, to == 1 && from == 2 ? rate : WELL);
    }
    sl_suspect link = {.component = SL_COMPONENT_LINK,
                       .rank = -1,
                       .from = 1,
                       .to = 2,
                       .measured = rate,
                       .expected = WELL,
                       .why = "1.13 of 1.97 GB/s expected"};
    if (with_verdict)
        json_array_append_new(json_object_get(all, "verdicts"), sl_suspect_to_json(&link));
    return json_dumps(all, 0);
}

static int be_member(int argc, char **argv) {
    char key[80], url[512] = "", secret[300] = "";
    const int first = atoi(option(argc, argv, "--members")) == FIRST_MEMBERS;
    const char *second = getenv(SECOND);
    sl_store *store;
    if (strcmp(option(argc, argv, "--member"), "0") != 0 || (!first && !*second))
        return 0;
    FILE *files[2] = {fopen("/dev/fd/3", "re"), fopen("/dev/fd/4", "re")};
    if (!files[0] || !files[1] || !fgets(url, sizeof url, files[0]) ||
        !fgets(secret, sizeof secret, files[1]))
        return 1;
    char *text = report(option(argc, argv, "--links"), first ? 1.13 : atof(second), first);
    snprintf(key, sizeof key, "validation:%s", option(argc, argv, "--round"));
    return sl_store_open(url, option(argc, argv, "--job"), 0, &store) != SL_OK ||
           sl_store_seal(store, secret) != SL_OK ||
           sl_store_set(store, key, text, strlen(text), 60 * SL_SECOND) != SL_OK;
}

/* All ranks become slower before there is a reference: the calls name nobody, and all links are tested. */
static sl_event verdict_if_the_second_test_finds(const char *finds, int *validations, sl_suspect *named) {
    setenv(SECOND, finds, 1);
    job *j = job_open(1);
    j->validate = 1;
    job_start(j, 1);
    job_add_agent(j, 0, NULL);
    job_add_controller(j, 0, 1, 20 * SL_SECOND);
    job_await(j, SL_EVENT_TRACKED, 0);
    job_run(
        j,
        400 * SL_MS); /* too short for a reference, of which the calls would show that no transfer is slow */
    int from = j->events;
    for (int rank = 0; rank < JOB_RANKS; rank++)
        atomic_store(&j->shared->extra[rank], 10 * SL_MS);
    const sl_event event = *job_await(j, SL_EVENT_VERDICT, from);
    *validations = 0;
    for (int i = from; i < j->events; i++)
        *validations += j->event[i].kind == SL_EVENT_VALIDATED;
    *named = sl_controller_status(j->controller[0])->verdict[0];
    assert_int_equal(sl_controller_status(j->controller[0])->verdicts, 1);
    if (*validations != (*finds ? 2 : 1))
        for (int i = from; i < j->events; i++)
            print_event(&j->event[i]);
    job_goes_on(j, 20 * SL_SECOND);
    job_close(j);
    return event;
}

static void a_link_that_a_second_test_finds_slow_too_is_named(void **state) {
    (void)state;
    int validations;
    sl_suspect named;
    const sl_event event = verdict_if_the_second_test_finds("1.2", &validations, &named);
    assert_int_equal(validations, 2);
    assert_int_equal(event.from, 1);
    assert_int_equal(event.to, 2);
    assert_int_equal(named.component, SL_COMPONENT_LINK);
    assert_says(named.why, "1.13 of 1.97 GB/s 1.2 of 1.97 GB/s");
}

static void a_link_that_a_second_test_finds_healthy_is_not_named(void **state) {
    (void)state;
    int validations;
    sl_suspect named;
    const sl_event event = verdict_if_the_second_test_finds("1.9", &validations, &named);
    assert_int_equal(validations, 2);
    assert_int_equal(event.from, -1);
    assert_int_equal(named.component, SL_COMPONENT_UNKNOWN);
    assert_non_null(strstr(named.why, "a second test did not"));
    assert_says(named.why, "1 -> 2 1.9 of 1.97 GB/s");
}

static void a_link_that_cannot_be_tested_again_is_not_named(void **state) {
    (void)state;
    int validations;
    sl_suspect named;
    verdict_if_the_second_test_finds("", &validations, &named);
    assert_int_equal(validations, 1);
    assert_int_equal(named.component, SL_COMPONENT_UNKNOWN);
    assert_non_null(strstr(named.why, "could not be tested a second time"));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "healthcheck") == 0)
        return be_member(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_a_second_test_finds_slow_too_is_named),
        cmocka_unit_test(a_link_that_a_second_test_finds_healthy_is_not_named),
        cmocka_unit_test(a_link_that_cannot_be_tested_again_is_not_named),
    };
    return run_at_once("second", tests, sizeof tests / sizeof *tests, 3);
}
