/* What a validation and a profile say together. */
#include "check.h"
#include "notice/control/narrow.h"

static const int nodes[4] = {0, 0, 0, 1};
static const double all_of_it[3] = {1, 1, 1}, nothing[3] = {0.1, 0.1, 0.1}, unknown[3] = {-1, -1, -1};

static const char tested[4] = {3, 3, 3, 3};

static int narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect, const double *taken,
                  int suspects, const double *lost, const int *node_of) {
    const sl_narrow_facts facts = {.taken = taken,
                                   .lost = lost,
                                   .transfers = -1,
                                   .missing = 0.4,
                                   .tested = tested,
                                   .node_of = node_of,
                                   .ranks = 4};
    return sl_verdict_narrow(verdict, count, most, suspect, suspects, &facts);
}

static sl_suspect of(sl_component component, int rank, double measured, double expected, const char *cause) {
    sl_suspect s = {.component = component,
                    .rank = rank,
                    .from = -1,
                    .to = -1,
                    .measured = measured,
                    .expected = expected,
                    .why = "why"};
    snprintf(s.cause, sizeof s.cause, "%s", cause);
    return s;
}

static sl_suspect link_of(sl_component component, int from, int to, int both) {
    sl_suspect s = of(component, -1, 0.0114, 0.0611, "");
    s.from = from;
    s.to = to;
    s.both = both;
    return s;
}

static void contention_of_a_host_is_of_the_rank_that_the_profile_names(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 73.4, 73.4, "CPU contention"),
                             of(SL_COMPONENT_DEVICE, 3, 30, 73.4, "clock")};
    const sl_suspect suspect[2] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 3, 27, 10, "")};
    assert_int_equal(narrow(verdict, 2, 4, suspect, all_of_it, 2, NULL, nodes), 2);
    int named = verdict[0].rank == 1 ? 0 : 1;
    assert_int_equal(verdict[named].component, SL_COMPONENT_DEVICE);
    assert_int_equal(verdict[named].rank, 1);
    assert_string_equal(verdict[named].cause, "CPU contention");
    assert_int_equal(verdict[!named].rank, 3);
    assert_string_equal(verdict[!named].cause, "clock");
}

static void slow_host_stays_one(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 40, 73.4, "clock")};
    const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, "")};
    assert_int_equal(narrow(verdict, 1, 4, suspect, all_of_it, 1, NULL, nodes), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_HOST);
}

static void host_whose_every_rank_is_suspect_stays_one(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention")};
    const sl_suspect suspect[3] = {of(SL_COMPONENT_DEVICE, 0, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 1, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 2, 27, 10, "")};
    assert_int_equal(narrow(verdict, 1, 4, suspect, all_of_it, 3, NULL, nodes), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_HOST);
}

static void pressure_elsewhere_is_not_what_slows_the_program(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention")};
    const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 3, 27, 10, "")};
    assert_int_equal(narrow(verdict, 1, 4, suspect, all_of_it, 1, NULL, nodes), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_DEVICE);
    assert_int_equal(verdict[0].rank, 3);
    assert_string_equal(verdict[0].cause, "");
}

/* Load that comes and goes, or the job's own ranks: whatever it was, the rank has no more work than others.
 */
static void a_rank_that_had_no_processor_is_not_said_to_have_more_work(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++) {
        const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, "")};
        sl_suspect verdict[4];
        assert_int_equal(narrow(verdict, 0, 4, suspect, how ? nothing : all_of_it, 1, NULL, nodes), 1);
        assert_int_equal(verdict[0].component, SL_COMPONENT_DEVICE);
        assert_int_equal(verdict[0].rank, 1);
        assert_string_equal(verdict[0].cause, "");
        assert_int_equal(strstr(verdict[0].why, "share of the work") != NULL, how);
        assert_int_equal(strstr(verdict[0].why, "for 100% of that it waited for a processor") != NULL, !how);
    }
}

static void load_that_took_little_of_a_rank_is_not_the_cause(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++) {
        sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention: co-located load")};
        const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, "")};
        assert_int_equal(narrow(verdict, 1, 4, suspect, how ? unknown : nothing, 1, NULL, nodes), 1);
        assert_int_equal(verdict[0].component, SL_COMPONENT_DEVICE);
        assert_int_equal(verdict[0].rank, 1);
        assert_string_equal(verdict[0].cause, "");
        assert_true(*verdict[0].why);
    }
}

static void pressure_on_a_host_is_blamed_only_for_time_that_its_ranks_lost_to_others(void **state) {
    (void)state;
    const sl_suspect nobody[1] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
    /* an iteration takes 1 / (1 - 0.4) times as long: half of the missing 40% is 20% */
    const double little[4] = {0.01, 0.12, 0, 0.5}, much[4] = {0.01, 0.3, 0, 0},
                 in_turns[4] = {0.08, 0.09, 0.07, 0}, silent[4] = {-1, -1, -1, 0.5};
    const sl_suspect pressed = of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention: co-located load");
    sl_suspect verdict[1] = {pressed};
    narrow(verdict, 1, 1, nobody, unknown, 1, much, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_HOST);
    narrow(verdict, 1, 1, nobody, unknown, 1, in_turns, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_HOST);
    narrow(verdict, 1, 1, nobody, unknown, 1, little, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_UNKNOWN);
    assert_non_null(strstr(verdict[0].why, "13.0%"));
    assert_non_null(strstr(verdict[0].why, "why;")); /* what the profile says is kept */
    verdict[0] = pressed;
    narrow(verdict, 1, 1, nobody, unknown, 1, silent, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_UNKNOWN);
    assert_null(strchr(verdict[0].why, '%')); /* nothing was measured */
}

/* Every rank is a host of its own, and others press on all of them; what the program lost, it lost on a link.
 */
static void pressure_on_a_device_is_blamed_only_for_time_that_its_rank_lost_to_others(void **state) {
    (void)state;
    const int alone[4] = {0, 1, 2, 3};
    const sl_suspect nobody[1] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
    const double lost[4] = {0.01, 0.3, 0.19, 0};
    sl_suspect verdict[4];
    for (int r = 0; r < 3; r++)
        verdict[r] = of(SL_COMPONENT_DEVICE, r, 73, 73.4, "CPU contention: co-located load");
    verdict[3] = link_of(SL_COMPONENT_LINK, 1, 2, 0);
    assert_int_equal(narrow(verdict, 4, 4, nobody, unknown, 1, lost, alone), 2);
    assert_int_equal(verdict[0].component, SL_COMPONENT_DEVICE);
    assert_int_equal(verdict[0].rank, 1);
    assert_int_equal(verdict[1].component, SL_COMPONENT_LINK);
    for (int r = 0; r < 2; r++)
        verdict[r] = of(SL_COMPONENT_DEVICE, 2 * r, 73, 73.4, "CPU contention: co-located load");
    assert_int_equal(narrow(verdict, 2, 4, nobody, unknown, 1, lost, alone), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_UNKNOWN);
    assert_non_null(strstr(verdict[0].why, "1.0%"));
}

/* Rank 1 is not scheduled while it is in its calls, so it computes no longer; nothing else is slow. */
static void a_rank_that_starves_in_its_calls_lost_time_unless_something_else_is_slow(void **state) {
    (void)state;
    const int alone[4] = {0, 1, 2, 3};
    const sl_suspect nobody[1] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")},
                     pressed = of(SL_COMPONENT_DEVICE, 1, 73, 73.4, "CPU contention: co-located load");
    const double lost[4] = {0}, much[4] = {0, 0.87, 0, 0}, little[4] = {0, 0.15, 0, 0};
    const struct {
        const double *starved;
        int link; /* a test found one, too */
        sl_component named;
    } cases[] = {{much, 0, SL_COMPONENT_DEVICE},
                 {little, 0, SL_COMPONENT_UNKNOWN},
                 {NULL, 0, SL_COMPONENT_UNKNOWN},
                 {much, 1, SL_COMPONENT_LINK}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_suspect verdict[2] = {pressed, link_of(SL_COMPONENT_LINK, 2, 3, 0)};
        const sl_narrow_facts facts = {.taken = unknown,
                                       .lost = lost,
                                       .starved = cases[i].starved,
                                       .transfers = -1,
                                       .missing = 0.4,
                                       .tested = tested,
                                       .node_of = alone,
                                       .ranks = 4};
        assert_int_equal(sl_verdict_narrow(verdict, 1 + cases[i].link, 2, nobody, 1, &facts), 1);
        assert_int_equal(verdict[0].component, cases[i].named);
    }
}

/* Products need the processor all the time, so a quota stops them even if it never stops the program. */
static void a_quota_that_only_a_test_meets_is_not_what_slows_the_program(void **state) {
    (void)state;
    const sl_suspect nobody[1] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")},
                     quota = of(SL_COMPONENT_DEVICE, 1, 29, 73.4, "cgroup quota: 0.4 processors");
    const double none[4] = {0}, much[4] = {0, 0.3, 0, 0}, not_known[4] = {-1, -1, -1, -1};
    const struct {
        const double *stopped; /* an iteration takes 1 / (1 - 0.4) times as long */
        sl_component named;
        int on_tests;
    } cases[] = {{much, SL_COMPONENT_DEVICE, 0},
                 {none, SL_COMPONENT_UNKNOWN, 0},
                 {not_known, SL_COMPONENT_DEVICE, 1},
                 {NULL, SL_COMPONENT_DEVICE, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_suspect verdict[1] = {quota};
        const sl_narrow_facts facts = {.taken = unknown,
                                       .stopped = cases[i].stopped,
                                       .transfers = -1,
                                       .missing = 0.4,
                                       .tested = tested,
                                       .node_of = nodes,
                                       .ranks = 4};
        assert_int_equal(sl_verdict_narrow(verdict, 1, 1, nobody, 1, &facts), 1);
        assert_int_equal(verdict[0].component, cases[i].named);
        assert_int_equal(sl_verdict_rests_on_tests(verdict, nobody, 1, &facts), cases[i].on_tests);
        if (cases[i].stopped == none)
            assert_says(verdict[0].why, "rank 1 0 ms");
    }
}

/* What the profile knows of a quota is in the verdict, whatever a test has met. */
static void a_quota_that_stopped_the_program_is_the_cause(void **state) {
    (void)state;
    const struct {
        sl_component tested;
        const char *cause;
    } cases[] = {{SL_COMPONENT_UNKNOWN, ""},
                 {SL_COMPONENT_DEVICE, "cgroup quota: 0.4 processors"},
                 {SL_COMPONENT_DEVICE, "CPU contention: co-located load"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_suspect verdict[4] = {of(cases[i].tested, cases[i].tested ? 1 : -1, 29, 73.4, cases[i].cause)};
        sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, "cgroup quota")};
        snprintf(suspect[0].why, sizeof suspect[0].why, "throttled it for 412 ms of each second");
        assert_int_equal(narrow(verdict, 1, 4, suspect, all_of_it, 1, NULL, nodes), 1);
        assert_int_equal(verdict[0].rank, 1);
        assert_true(strncmp(verdict[0].cause, "cgroup quota", strlen("cgroup quota")) == 0);
        assert_int_equal(strstr(verdict[0].cause, "0.4") != NULL, i == 1);
        assert_says(verdict[0].why, "412 ms");
        assert_null(strstr(verdict[0].why, "share of the work"));
    }
}

/* Both ranks of a host sleep longer, and something else computes there. */
static void load_that_took_little_of_a_host_is_not_the_cause(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention")};
    const sl_suspect suspect[3] = {of(SL_COMPONENT_DEVICE, 0, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 1, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 2, 27, 10, "")};
    assert_int_equal(narrow(verdict, 1, 4, suspect, nothing, 3, NULL, nodes), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(verdict[i].component, SL_COMPONENT_DEVICE);
        assert_string_equal(verdict[i].cause, "");
    }
}

/* All transfers became slow, as they do under load; ranks 0 to 2 share a host, rank 3 has another. */
static void a_link_within_a_host_under_load_is_not_named_by_its_test_alone(void **state) {
    (void)state;
    const sl_suspect nobody[1] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
    const double little[4] = {0.01, 0.02, 0, 0};
    for (int to = 1; to <= 3; to += 2) {
        sl_suspect verdict[2] = {of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention"),
                                 link_of(SL_COMPONENT_LINK, 0, to, 0)};
        assert_int_equal(narrow(verdict, 2, 2, nobody, unknown, 1, little, nodes), 1);
        assert_int_equal(verdict[0].component, to == 1 ? SL_COMPONENT_UNKNOWN : SL_COMPONENT_LINK);
    }
}

static void a_link_that_the_calls_do_not_show_is_not_what_slows_the_program(void **state) {
    (void)state;
    for (int transfers = -1; transfers < 2; transfers++) {
        sl_suspect verdict[1] = {link_of(SL_COMPONENT_LINK, 2, 3, 0)};
        const sl_suspect suspect[1] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
        const sl_narrow_facts facts = {
            .taken = nothing, .transfers = transfers, .tested = tested, .node_of = nodes, .ranks = 4};
        assert_int_equal(sl_verdict_narrow(verdict, 1, 1, suspect, 1, &facts), 1);
        assert_int_equal(verdict[0].component, transfers == 0 ? SL_COMPONENT_UNKNOWN : SL_COMPONENT_LINK);
        assert_true(transfers != 0 || strstr(verdict[0].why, "2 -> 3"));
    }
}

static void a_gpu_has_not_passed_the_tests_of_processors(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
    const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 2, 32, 20, "")};
    const sl_narrow_facts facts = {
        .taken = nothing, .tested = tested, .gpu = 1, .node_of = nodes, .ranks = 4};
    assert_int_equal(sl_verdict_narrow(verdict, 1, 4, suspect, 1, &facts), 1);
    assert_int_equal(verdict[0].rank, 2);
    assert_says(verdict[0].why, "GPU");
    const char held[4] = {3, 3, 3 | SL_HOLDS_GPU, 3}; /* rank 2 alone holds one */
    const sl_narrow_facts one = {.taken = nothing, .tested = held, .node_of = nodes, .ranks = 4};
    for (int rank = 1; rank <= 2; rank++) {
        const sl_suspect device[1] = {of(SL_COMPONENT_DEVICE, rank, 32, 20, "")};
        verdict[0] = of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "");
        assert_int_equal(sl_verdict_narrow(verdict, 1, 4, device, 1, &one), 1);
        assert_int_equal(strstr(verdict[0].why, "GPU") != NULL, rank == 2);
    }
}

/* Nothing, its processor, its links, both: each has words of its own. */
static void only_what_was_tested_has_passed(void **state) {
    (void)state;
    char said[4][sizeof((sl_suspect *)0)->why];
    for (int what = 0; what < 4; what++) {
        const char some[4] = {3, 3, (char)what, 3};
        sl_suspect verdict[4] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
        const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 2, 32, 20, "")};
        const sl_narrow_facts facts = {.taken = nothing, .tested = some, .node_of = nodes, .ranks = 4};
        assert_int_equal(sl_verdict_narrow(verdict, 1, 4, suspect, 1, &facts), 1);
        memcpy(said[what], verdict[0].why, sizeof said[what]);
        for (int other = 0; other < what; other++)
            assert_string_not_equal(said[other], said[what]);
    }
    assert_true(strstr(said[0], "processor") == NULL && strstr(said[0], "links") == NULL);
    assert_true(strstr(said[3], "processor") && strstr(said[3], "links"));
}

static void pressure_on_two_hosts_is_each_the_cause_of_its_own_ranks(void **state) {
    (void)state;
    static const int two[4] = {0, 0, 1, 1};
    sl_suspect verdict[4] = {of(SL_COMPONENT_HOST, 0, 73, 73.4, "CPU contention: co-located load, make"),
                             of(SL_COMPONENT_HOST, 2, 73, 73.4, "CPU contention: co-located load, tar")};
    const sl_suspect suspect[2] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 3, 25, 10, "")};
    assert_int_equal(narrow(verdict, 2, 4, suspect, all_of_it, 2, NULL, two), 2);
    assert_int_equal(verdict[0].rank, 1);
    assert_non_null(strstr(verdict[0].cause, "make"));
    assert_int_equal(verdict[1].rank, 3);
    assert_non_null(strstr(verdict[1].cause, "tar"));
}

static void a_rank_that_computes_longer_is_named_when_its_hardware_tests_healthy(void **state) {
    (void)state;
    sl_suspect verdict[4] = {of(SL_COMPONENT_UNKNOWN, -1, 0, 0, "")};
    const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 2, 32, 20, "")};
    assert_int_equal(narrow(verdict, 1, 4, suspect, nothing, 1, NULL, nodes), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_DEVICE);
    assert_int_equal(verdict[0].rank, 2);
    assert_null(strstr(verdict[0].why, "GPU"));
}

static void a_direction_that_tests_doubt_and_the_profile_names_is_named(void **state) {
    (void)state;
    sl_suspect verdict[1] = {link_of(SL_COMPONENT_UNKNOWN, 1, 2, 0)};
    const sl_suspect suspect[1] = {link_of(SL_COMPONENT_LINK, 1, 2, 0)};
    assert_int_equal(narrow(verdict, 1, 1, suspect, all_of_it, 1, NULL, nodes), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_LINK);
    assert_int_equal(verdict[0].from, 1);
    assert_says(verdict[0].why, "0.0114 GB/s");
    const sl_suspect both[1] = {link_of(SL_COMPONENT_LINK, 2, 1, 1)};
    verdict[0] = link_of(SL_COMPONENT_UNKNOWN, 1, 2, 0);
    narrow(verdict, 1, 1, both, all_of_it, 1, NULL, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_LINK);
    const sl_suspect other[1] = {link_of(SL_COMPONENT_LINK, 2, 1, 0)};
    verdict[0] = link_of(SL_COMPONENT_UNKNOWN, 1, 2, 0);
    narrow(verdict, 1, 1, other, all_of_it, 1, NULL, nodes); /* the other direction is another matter */
    assert_int_equal(verdict[0].component, SL_COMPONENT_UNKNOWN);
    const sl_suspect beside[1] = {link_of(SL_COMPONENT_LINK, 2, 3, 0)}; /* between the same nodes */
    verdict[0] = link_of(SL_COMPONENT_UNKNOWN, 1, 3, 0);
    narrow(verdict, 1, 1, beside, all_of_it, 1, NULL, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_LINK);
    assert_int_equal(verdict[0].from, 2);
    verdict[0] = link_of(SL_COMPONENT_UNKNOWN, 1, 2, 0);
    const sl_suspect end[1] = {of(SL_COMPONENT_HOST, 3, 22.6, 3.4, "")}; /* all links of the node of an end */
    narrow(verdict, 1, 1, end, all_of_it, 1, NULL, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_UNKNOWN); /* a link within the other node */
    verdict[0] = link_of(SL_COMPONENT_UNKNOWN, 1, 3, 0);
    narrow(verdict, 1, 1, end, all_of_it, 1, NULL, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_LINK);
    assert_int_equal(verdict[0].from, 1);
    assert_int_equal(verdict[0].to, 3);
    verdict[0] = of(SL_COMPONENT_UNKNOWN, -1, 0, 0, ""); /* of no link at all */
    narrow(verdict, 1, 1, suspect, all_of_it, 1, NULL, nodes);
    assert_int_equal(verdict[0].component, SL_COMPONENT_UNKNOWN);
}

static void a_link_that_only_tests_find_slow_is_not_named_beside_a_rank_that_computes_longer(void **state) {
    (void)state;
    sl_suspect verdict[4] = {link_of(SL_COMPONENT_LINK, 2, 3, 0),
                             of(SL_COMPONENT_DEVICE, 1, 30, 73.4, "clock")};
    const sl_suspect suspect[1] = {of(SL_COMPONENT_DEVICE, 2, 32, 20, "")};
    assert_int_equal(narrow(verdict, 2, 4, suspect, nothing, 1, NULL, nodes), 1);
    assert_int_equal(verdict[0].component, SL_COMPONENT_DEVICE);
    assert_int_equal(verdict[0].rank, 2);
    assert_null(strstr(verdict[0].why, "2 -> 3"));
    sl_suspect again[4] = {link_of(SL_COMPONENT_LINK, 2, 3, 0)}; /* that the calls name too */
    const sl_suspect both[2] = {of(SL_COMPONENT_DEVICE, 2, 32, 20, ""), link_of(SL_COMPONENT_LINK, 2, 3, 0)};
    assert_int_equal(narrow(again, 1, 4, both, nothing, 2, NULL, nodes), 2);
    assert_int_equal(again[0].component, SL_COMPONENT_LINK);
    assert_int_equal(again[1].rank, 2);
}

static void a_doubted_link_goes_through_json(void **state) {
    (void)state;
    sl_suspect there = link_of(SL_COMPONENT_UNKNOWN, 1, 2, 0), back;
    json_t *json = sl_suspect_to_json(&there);
    assert_int_equal(sl_suspect_from_json(json, &back), SL_OK);
    assert_int_equal(back.from, 1);
    assert_int_equal(back.to, 2);
    json_object_set_new(json, "about", json_string("1-2"));
    assert_int_equal(sl_suspect_from_json(json, &back), SL_EINVAL);
    json_decref(json);
}

static void two_suspects_of_a_host_are_both_named(void **state) {
    (void)state;
    sl_suspect verdict[2] = {of(SL_COMPONENT_HOST, 2, 0, 0, "CPU contention"),
                             of(SL_COMPONENT_LINK, -1, 2, 1, "")};
    const sl_suspect suspect[2] = {of(SL_COMPONENT_DEVICE, 1, 27, 10, ""),
                                   of(SL_COMPONENT_DEVICE, 2, 27, 10, "")};
    assert_int_equal(narrow(verdict, 2, 2, suspect, all_of_it, 2, NULL, nodes), 2);
    assert_int_equal(verdict[0].rank, 1);
    assert_int_equal(verdict[1].rank, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_direction_that_tests_doubt_and_the_profile_names_is_named),
        cmocka_unit_test(a_doubted_link_goes_through_json),
        cmocka_unit_test(contention_of_a_host_is_of_the_rank_that_the_profile_names),
        cmocka_unit_test(slow_host_stays_one),
        cmocka_unit_test(host_whose_every_rank_is_suspect_stays_one),
        cmocka_unit_test(pressure_elsewhere_is_not_what_slows_the_program),
        cmocka_unit_test(a_rank_that_starves_in_its_calls_lost_time_unless_something_else_is_slow),
        cmocka_unit_test(a_rank_that_had_no_processor_is_not_said_to_have_more_work),
        cmocka_unit_test(load_that_took_little_of_a_rank_is_not_the_cause),
        cmocka_unit_test(pressure_on_a_host_is_blamed_only_for_time_that_its_ranks_lost_to_others),
        cmocka_unit_test(pressure_on_a_device_is_blamed_only_for_time_that_its_rank_lost_to_others),
        cmocka_unit_test(load_that_took_little_of_a_host_is_not_the_cause),
        cmocka_unit_test(a_quota_that_only_a_test_meets_is_not_what_slows_the_program),
        cmocka_unit_test(a_quota_that_stopped_the_program_is_the_cause),
        cmocka_unit_test(a_link_within_a_host_under_load_is_not_named_by_its_test_alone),
        cmocka_unit_test(a_gpu_has_not_passed_the_tests_of_processors),
        cmocka_unit_test(only_what_was_tested_has_passed),
        cmocka_unit_test(a_link_that_the_calls_do_not_show_is_not_what_slows_the_program),
        cmocka_unit_test(pressure_on_two_hosts_is_each_the_cause_of_its_own_ranks),
        cmocka_unit_test(a_rank_that_computes_longer_is_named_when_its_hardware_tests_healthy),
        cmocka_unit_test(a_link_that_only_tests_find_slow_is_not_named_beside_a_rank_that_computes_longer),
        cmocka_unit_test(two_suspects_of_a_host_are_both_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
