/* Profiles of programs on a virtual clock: the slow component is named, and nothing else ever. */
#include "call_asked.h"

#include "base/memory.h"

/* ---- transfers count from the latest start ---- */

static void the_transfer_of_a_group_counts_from_its_latest_start(void **state) {
    (void)state;
    sl_call call[12] = {0};
    for (int i = 0; i < 4; i++)
        for (int r = 0; r < 3; r++) /* rank 2 comes 7 ms after the others; all leave 2 ms later */
            call[3 * i + r] = (sl_call){.kind = SL_RECORD_CALL,
                                        .call = SL_CALL_MPI_Allreduce,
                                        .communicator = 5,
                                        .bytes = 4096,
                                        .peer = SL_PEER_NONE,
                                        .tag = SL_TAG_NONE,
                                        .rank = r,
                                        .device = -1,
                                        .start = (20 * i + (r == 2 ? 8 : 1)) * 1000 * US,
                                        .end = (20 * i + 10) * 1000 * US};
    sl_call_profile *p;
    assert_ok(sl_call_profile_make(call, 12, 3, 0, &p));
    assert_int_equal(p->groups, 1);
    assert_int_equal(p->group[0].transfer.count, 4);
    assert_near(sl_spread_mean(&p->group[0].transfer), 2e6, 0);
    assert_int_equal(p->group[0].last[2], 4);
    assert_int_equal(p->group[0].last[0] + p->group[0].last[1], 0);
    sl_call_profile_close(p);
}

static void a_message_that_came_before_the_wait_took_no_time(void **state) {
    (void)state;
    sl_call call[4 * 4];
    size_t n = 0;
    for (int i = 0; i < 4; i++) { /* posted at 0, sent at 1 ms, waited for from 5 to 5.01 ms */
        int64_t t = i * 10000 * US + 1;
        sl_call c = {.kind = SL_RECORD_CALL, .communicator = 5, .bytes = 64, .tag = 1, .device = -1};
        c.call = SL_CALL_MPI_Send, c.rank = 0, c.peer = 1, c.start = t + 1000 * US, c.end = t + 1001 * US;
        call[n++] = c;
        c.call = SL_CALL_MPI_Irecv, c.rank = 1, c.peer = 0, c.start = t, c.end = t + US;
        call[n++] = c;
        c.kind = SL_RECORD_COMPLETION, c.end = t + 5010 * US;
        call[n++] = c;
        c.kind = SL_RECORD_CALL, c.call = SL_CALL_MPI_Wait, c.communicator = 0, c.start = t + 5000 * US;
        call[n++] = c;
    }
    sl_call_profile *p;
    assert_ok(sl_call_profile_make(call, n, 2, 0, &p));
    assert_int_equal(p->groups, 1);
    assert_int_equal(p->group[0].transfer.count, 0); /* none was seen as a whole */
    assert_int_equal(p->group[0].exposed.count, 4);
    assert_near(sl_spread_mean(&p->group[0].exposed), 10e3, 1);
    sl_call_profile_close(p);
}

static void windows_that_begin_anywhere_are_laid_over_each_other(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 40; i++) {
        program p;
        program_pipelines(&p, 4, 2, (int)(i % 2), seed() + i);
        p.skip_most = 30;
        sl_call_profile *made = profile(&p, 10, 0);
        int messages = 0;
        for (size_t g = 0; g < made->groups; g++) {
            const sl_call_group *group = &made->group[g];
            double mean = sl_spread_mean(&group->transfer);
            messages += group->message;
            assert_true(group->transfer.count + group->exposed.count >= 6);
            if (group->message) { /* never longer than the link's 400 us and jitter */
                if (mean > 450e3 || group->transfer.most > 600e3)
                    fail_msg("seed %llu: message %d to %d takes %g us", (unsigned long long)(seed() + i),
                             group->member[0], group->member[1], mean / 1e3);
            } else {
                double expected = group->size == 8 ? 50e3 : 1500e3;
                assert_near(mean, expected, 0.1 * expected);
            }
        }
        assert_int_equal(messages, 12);
        sl_call_profile_close(made);
    }
}

/* ---- devices ---- */

static void a_slow_rank_is_named_and_those_that_wait_for_it_are_not(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 60; i++) {
        program before, now;
        int victim = (int)(i % 8), waiting = (int)(i / 8 % 2);
        program_pipelines(&before, 4, 2, waiting, seed() + i);
        program_pipelines(&now, 4, 2, waiting, seed() + 1000 + i);
        before.skip_most = now.skip_most = 20;
        now.slowdown[victim] = 1.2 + 0.03 * (double)i;
        answer a = ask(&before, &now);
        assert_device(a, victim);
        assert_near(a.suspect[0].measured / a.suspect[0].expected, now.slowdown[victim],
                    0.06 * now.slowdown[victim]);
    }
}

static void a_rank_that_is_interrupted_now_and_then_is_named(void **state) {
    (void)state;
    for (int victim = 0; victim < 4; victim++) { /* as under a quota: the middle step is as fast as ever */
        program before, now;
        program_data(&before, 4, seed());
        program_data(&now, 4, seed() + 7);
        now.stall[victim] = 0.2;
        sl_call_profile *healthy = profile(&before, 40, 0), *slow = profile(&now, 40, 1);
        answer a = compare(slow, healthy);
        assert_device(a, victim);
        sl_call_profile_close(slow);
        sl_call_profile_close(healthy);
    }
}

static void without_a_healthy_profile_replicas_are_compared_with_each_other(void **state) {
    (void)state;
    program now;
    program_data(&now, 4, seed());
    now.slowdown[2] = 1.5;
    answer a = ask(NULL, &now);
    assert_device(a, 2);
    program_pipelines(&now, 2, 4, 0, seed());
    now.slowdown[5] = 1.5;
    a = ask(NULL, &now);
    assert_device(a, 5);
}

static void without_a_healthy_profile_an_uneven_stage_is_no_slow_device(void **state) {
    (void)state;
    program now;
    program_pipelines(&now, 4, 1, 0, seed());
    now.slowdown[2] = 1.6;
    answer a = ask(NULL, &now);
    assert_unknown(a, "without a healthy profile");
}

/* ---- work that is uneven ---- */

static void uneven_stages_were_as_uneven_before(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        program before, now;
        program_pipelines(&before, 4, 2, 0, seed() + i);
        program_pipelines(&now, 4, 2, 0, seed() + 100 + i);
        before.slowdown[1] = now.slowdown[1] = 2.5;
        before.slowdown[5] = now.slowdown[5] = 2.5;
        answer a = ask(&before, &now);
        assert_nothing(a);
        now.slowdown[7] = 1.5;
        a = ask(&before, &now);
        assert_device(a, 7);
    }
}

static void longer_sequences_are_no_slow_hardware(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        program before, now;
        program_pipelines(&before, 4, 2, 0, seed() + i);
        program_pipelines(&now, 4, 2, 0, seed() + 100 + i);
        before.scale_bytes = now.scale_bytes = 1; /* of 1 to 3 times the length, at random */
        answer a = ask(&before, &now);
        assert_nothing(a);
        before.scale_bytes = now.scale_bytes = 0;
        now.length = 1.7; /* all longer than any before */
        a = ask(&before, &now);
        assert_nothing(a);
        now.length = 1;
        before.uneven = now.uneven = 0.5; /* whose sequences are long differs from step to step */
        a = ask(&before, &now);
        assert_nothing(a);
    }
}

/* ---- links ---- */

static void a_slow_link_is_named_in_its_direction(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 36; i++) {
        program before, now;
        int waiting = (int)(i % 2), d = (int)(i / 2 % 2), s = (int)(i / 4 % 3), back = (int)(i / 12 % 2);
        int from = d * 4 + s + back, to = d * 4 + s + !back;
        program_pipelines(&before, 4, 2, waiting, seed() + i);
        program_pipelines(&now, 4, 2, waiting, seed() + 100 + i);
        before.skip_most = now.skip_most = 20;
        now.link[from][to] = 6000 * US;
        answer a = ask(&before, &now);
        assert_link(a, from, to);
        assert_int_equal(a.suspect[0].both, 0);
        now.link[to][from] = 6000 * US;
        a = ask(&before, &now);
        assert_link(a, from, to);
        assert_int_equal(a.suspect[0].both, 1);
        a = ask(NULL, &now); /* against the other links alone */
        assert_link(a, from, to);
    }
}

static void a_link_that_was_always_slow_is_no_suspect(void **state) {
    (void)state;
    program before, now;
    program_pipelines(&before, 4, 2, 0, seed());
    program_pipelines(&now, 4, 2, 0, seed() + 1);
    before.link[1][2] = before.link[2][1] = now.link[1][2] = now.link[2][1] = 9000 * US;
    answer a = ask(&before, &now);
    assert_nothing(a);
}

static void a_rank_all_of_whose_links_are_slow_is_named_as_a_host(void **state) {
    (void)state;
    program before, now;
    program_pipelines(&before, 4, 1, 0, seed());
    program_pipelines(&now, 4, 1, 0, seed() + 1);
    now.link[1][0] = now.link[0][1] = now.link[1][2] = now.link[2][1] = 6000 * US;
    answer a = ask(&before, &now);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.suspect[0].component, SL_COMPONENT_HOST);
    assert_int_equal(a.suspect[0].rank, 1);
}

/* 0.45 of the work next to 1.6 of it: less than a third. */
static void two_ranks_that_compute_longer_are_both_named_unless_one_lost_its_processor(void **state) {
    (void)state;
    for (int starves = 0; starves < 2; starves++) {
        program before, now;
        program_pipelines(&before, 4, 2, 0, seed());
        program_pipelines(&now, 4, 2, 0, seed() + 1);
        now.slowdown[1] = 2.6;
        now.slowdown[6] = 1.45;
        sl_call_profile *healthy = profile(&before, 12, 1000 * US), *slow = profile(&now, 12, 9000000 * US);
        for (int r = 0; r < 8; r++)
            healthy->rank[r].starved = slow->rank[r].starved = 0;
        slow->rank[6].starved = starves ? 0.9 : 0;
        answer a = compare(slow, healthy);
        assert_int_equal(a.count, starves ? 1 : 2);
        assert_int_equal(a.suspect[0].rank, 1);
        if (!starves)
            assert_int_equal(a.suspect[1].rank, 6);
        sl_call_profile_close(healthy);
        sl_call_profile_close(slow);
    }
}

/* Rank 2 computes 4 ms longer than its 4 ms in each step, so half of the time. */
static void a_quota_is_the_cause_of_what_it_took_and_of_nothing_else(void **state) {
    (void)state;
    static const struct {
        double starved, stopped, healthy; /* healthy: it was stopped that much then, too */
        int named;                        /* ms of each second; 0: no cause */
    } cases[] = {
        {0.42, 0.412, 0, 412}, /* it took most of it */
        {0.42, 3.2, 0, 420},   /* the sum over the processors of its group: no more than it starved */
        {-1, 0.412, 0, 412},   /* how long it starved is not known */
        {0.42, 0, 0, 0},       /* nothing was throttled: others took it */
        {0.42, -1, 0, 0},      /* no quota's figures */
        {0.42, 0.1, 0, 0},     /* little of it */
        {0.42, 0.41, 0.4, 0},  /* it was throttled as much when healthy */
        {0, 0.412, 0, 0}, /* it had a processor all the time: its group was stopped for another process */
    };
    program before, now;
    program_data(&before, 4, seed());
    program_data(&now, 4, seed() + 1);
    now.slowdown[2] = 2;
    sl_call_profile *healthy = profile(&before, 12, 1000 * US), *slow = profile(&now, 12, 9000000 * US);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[32];
        for (int r = 0; r < 4; r++)
            healthy->rank[r].starved = healthy->rank[r].stopped = slow->rank[r].starved =
                slow->rank[r].stopped = 0;
        healthy->rank[2].starved = healthy->rank[2].stopped = cases[i].healthy;
        slow->rank[2].starved = cases[i].starved;
        slow->rank[2].stopped = cases[i].stopped;
        answer a = compare(slow, healthy);
        assert_device(a, 2);
        assert_string_equal(a.suspect[0].cause, cases[i].named ? "cgroup quota" : "");
        assert_int_equal(strstr(a.suspect[0].why, "throttled") != NULL, cases[i].named != 0);
        snprintf(words, sizeof words, "%d ms of each second", cases[i].named);
        if (cases[i].named)
            assert_says(a.suspect[0].why, words);
    }
    sl_call_profile_close(healthy);
    sl_call_profile_close(slow);
}

/* Ranks are stopped while they poll inside their calls: none computes longer, and what is slow between them
 * is a link of rank 2 at most. Iterations take twice as long. */
static void a_quota_that_stops_a_rank_in_its_calls_is_found_by_what_the_system_shows(void **state) {
    (void)state;
    static const struct {
        double stopped[4];
        int link;  /* 1 -> 2 looks slow */
        int named; /* -1: none; -2: all share it */
    } cases[] = {
        {{0, 0, 0.6, 0}, 0, 2}, {{0, 0, 0.6, 0}, 1, 2},        {{0, 0, 0.2, 0}, 0, -1},
        {{0, 0, 0, 0}, 0, -1},  {{0.5, 0.6, 0.5, 0.5}, 0, -2}, {{-1, -1, -1, -1}, 0, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program before, now;
        program_pipelines(&before, 4, 1, 0, seed());
        program_pipelines(&now, 4, 1, 0, seed() + 1);
        if (cases[i].link)
            now.link[1][2] = 1500 * US;
        sl_call_profile *healthy = profile(&before, 12, 1000 * US), *slow = profile(&now, 12, 9000000 * US);
        slow->missing = 0.5;
        for (int r = 0; r < 4; r++) {
            healthy->rank[r].starved = healthy->rank[r].stopped = 0;
            slow->rank[r].starved = slow->rank[r].stopped = cases[i].stopped[r];
        }
        answer a = compare(slow, healthy);
        if (cases[i].named >= 0) {
            assert_device(a, cases[i].named);
            assert_string_equal(a.suspect[0].cause, "cgroup quota");
            assert_says(a.suspect[0].why, "600 ms of each second");
        } else if (cases[i].named == -2)
            assert_unknown(a, "4 of 4 ranks 600 ms");
        else
            assert_nothing(a);
        sl_call_profile_close(healthy);
        sl_call_profile_close(slow);
    }
}

/* Another link of rank 1 became slower, too, by a quarter of that. */
static void a_link_is_named_though_its_rank_s_other_link_is_a_little_slower(void **state) {
    (void)state;
    program before, now;
    program_pipelines(&before, 4, 1, 0, seed());
    program_pipelines(&now, 4, 1, 0, seed() + 1);
    now.link[1][2] = 6000 * US;
    now.link[1][0] = before.link[1][0] + 1500 * US;
    answer a = ask(&before, &now);
    assert_int_equal(a.count, 1);
    assert_link(a, 1, 2);
}

static void the_last_of_a_pipeline_and_its_group_point_at_its_host(void **state) {
    (void)state;
    program before, now;
    program_pipelines(&before, 2, 4, 0, seed());
    program_pipelines(&now, 2, 4, 0, seed() + 1);
    now.link[2][3] = now.link[3][2] = 6000 * US;
    now.group_time[1] = 12000 * US; /* ranks 1, 3, 5, 7 */
    answer a = ask(&before, &now);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.suspect[0].component, SL_COMPONENT_HOST);
    assert_int_equal(a.suspect[0].rank, 3);
}

static void a_slow_group_is_named_and_one_that_only_waits_is_not(void **state) {
    (void)state;
    program before, now;
    program_pipelines(&before, 2, 4, 0, seed());
    program_pipelines(&now, 2, 4, 0, seed() + 1);
    now.group_time[1] = 12000 * US; /* stage 1 of all replicas; all wait for it when they meet */
    answer a = ask(&before, &now);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.suspect[0].component, SL_COMPONENT_GROUP);
    assert_int_equal(a.suspect[0].group, 1001);
    program_pipelines(&before, 4, 2, 0, seed());
    program_pipelines(&now, 4, 2, 0, seed() + 1);
    now.group_time[2] = 12000 * US; /* of two: the link between them */
    a = ask(&before, &now);
    assert_link(a, 2, 6);
}

/* As after a hold that only some agents saw: without a healthy profile, shares of windows are compared. */
static void a_call_from_long_before_the_window_is_no_time_of_it(void **state) {
    (void)state;
    program p;
    sl_call_profile *made;
    program_data(&p, 6, seed());
    program_run run = program_go(&p, 12, 9000000 * US);
    for (int r = 0; r < 4; r++) {
        sl_call *first = NULL;
        for (size_t i = 0; i < run.calls; i++)
            if (run.call[i].rank == r && (!first || run.call[i].start < first->start))
                first = &run.call[i];
        first->start -= 4000000 * US;
    }
    assert_ok(sl_call_profile_make(run.call, run.calls, p.ranks, 0, &made));
    free(run.call);
    assert_nothing(compare(made, NULL));
    sl_call_profile_close(made);
}

/* Half of the members of a slow collective would be a link. */
static void ranks_without_records_blame_no_link(void **state) {
    (void)state;
    program before, now;
    sl_call_profile *part;
    program_pipelines(&before, 2, 4, 0, seed());
    program_pipelines(&now, 2, 4, 0, seed() + 1);
    now.group_time[1] = 12000 * US;
    sl_call_profile *healthy = profile(&before, 12, 1000 * US);
    program_run run = program_go(&now, 12, 9000000 * US);
    size_t kept = 0;
    for (size_t i = 0; i < run.calls; i++)
        if (run.call[i].rank >= 4)
            run.call[kept++] = run.call[i];
    assert_ok(sl_call_profile_make(run.call, kept, now.ranks, 0, &part));
    free(run.call);
    answer with = compare(part, healthy), without = compare(part, NULL);
    for (size_t i = 0; i < with.count + without.count; i++) {
        const sl_suspect *s = i < with.count ? &with.suspect[i] : &without.suspect[i - with.count];
        if (s->component != SL_COMPONENT_UNKNOWN)
            fail_msg("named: %s", s->why);
    }
    sl_call_profile_close(healthy);
    sl_call_profile_close(part);
}

static void clocks_that_may_be_that_far_apart_blame_no_link(void **state) {
    (void)state;
    program before, now;
    sl_suspect suspect[MAX];
    size_t count;
    char reason[256];
    program_pipelines(&before, 4, 2, 0, seed());
    program_pipelines(&now, 4, 2, 0, seed() + 1);
    now.group_time[1] = 4000 * US; /* ranks 1 and 5, 1.5 ms when healthy */
    sl_call_profile *healthy = profile(&before, 12, 0), *slow = profile(&now, 12, 0);
    assert_ok(sl_call_profile_compare(slow, healthy, 1500 * US, suspect, MAX, &count, reason, sizeof reason));
    assert_int_equal(count, 0);
    assert_ok(sl_call_profile_compare(slow, healthy, 1000 * US, suspect, MAX, &count, reason, sizeof reason));
    assert_int_equal(count, 1);
    sl_call_profile_close(healthy);
    sl_call_profile_close(slow);
}

/* ---- what cannot be told ---- */

static void two_faults_are_both_named(void **state) {
    (void)state;
    program before, now;
    program_pipelines(&before, 4, 2, 0, seed());
    program_pipelines(&now, 4, 2, 0, seed() + 1);
    now.slowdown[6] = 1.5;
    now.link[0][1] = now.link[1][0] = 5000 * US;
    answer a = ask(&before, &now);
    assert_int_equal(a.count, 2);
    for (int i = 0; i < 2; i++)
        assert_true((a.suspect[i].component == SL_COMPONENT_DEVICE && a.suspect[i].rank == 6) ||
                    (a.suspect[i].component == SL_COMPONENT_LINK && a.suspect[i].both));
    assert_int_not_equal(a.suspect[0].component, a.suspect[1].component);
}

static void when_all_ranks_compute_longer_nobody_is_blamed(void **state) {
    (void)state;
    program before, now;
    program_data(&before, 4, seed());
    program_data(&now, 4, seed() + 1);
    for (int r = 0; r < 4; r++)
        now.slowdown[r] = 1.4;
    answer a = ask(&before, &now);
    assert_unknown(a, "4 of 4 ranks");
}

static void less_than_10_percent_is_nothing(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        program before, now;
        program_pipelines(&before, 4, 2, 0, seed() + i);
        program_pipelines(&now, 4, 2, 0, seed() + 100 + i);
        answer a = ask(&before, &now);
        assert_nothing(a);
        now.slowdown[i % 8] = 1.05;
        a = ask(&before, &now);
        assert_nothing(a);
        a = ask(NULL, &now);
        assert_nothing(a);
    }
}

static void nothing_at_all_is_no_error(void **state) {
    (void)state;
    sl_call_profile *p, *other;
    sl_suspect suspect[1];
    size_t count;
    char reason[64];
    assert_ok(sl_call_profile_make(NULL, 0, 4, 0, &p));
    assert_ok(sl_call_profile_make(NULL, 0, 5, 0, &other));
    assert_ok(sl_call_profile_compare(p, NULL, 0, suspect, 1, &count, reason, sizeof reason));
    assert_int_equal(count, 0);
    assert_ok(sl_call_profile_compare(p, p, 0, suspect, 1, &count, reason, sizeof reason));
    assert_int_equal(count, 0);
    assert_fails(sl_call_profile_compare(p, other, 0, suspect, 1, &count, reason, sizeof reason), SL_EINVAL,
                 "4 ranks");
    sl_call_profile_close(p);
    sl_call_profile_close(other);
    sl_call_profile_close(NULL);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    program p;
    program_pipelines(&p, 2, 2, 1, seed());
    program_run run = program_go(&p, 4, 0);
    int failed = 0, done = 0;
    for (long n = 0; !done; n++) {
        sl_call_profile *made = NULL;
        sl_suspect suspect[4];
        size_t count;
        char reason[128];
        sl_alloc_fail_at(n);
        sl_status status = sl_call_profile_make(run.call, run.calls, 4, 0, &made);
        if (status == SL_OK) {
            status = sl_call_profile_compare(made, made, 0, suspect, 4, &count, reason, sizeof reason);
            done = status == SL_OK;
        }
        sl_alloc_fail_at(-1);
        assert_true(status == SL_OK || status == SL_ENOMEM);
        failed += status != SL_OK;
        sl_call_profile_close(made);
    }
    assert_true(failed > 10);
    free(run.call);
}

int main(void) {
    printf("seed %llu (SL_SEED)\n", (unsigned long long)seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_transfer_of_a_group_counts_from_its_latest_start),
        cmocka_unit_test(a_message_that_came_before_the_wait_took_no_time),
        cmocka_unit_test(windows_that_begin_anywhere_are_laid_over_each_other),
        cmocka_unit_test(a_slow_rank_is_named_and_those_that_wait_for_it_are_not),
        cmocka_unit_test(a_rank_that_is_interrupted_now_and_then_is_named),
        cmocka_unit_test(without_a_healthy_profile_replicas_are_compared_with_each_other),
        cmocka_unit_test(without_a_healthy_profile_an_uneven_stage_is_no_slow_device),
        cmocka_unit_test(uneven_stages_were_as_uneven_before),
        cmocka_unit_test(longer_sequences_are_no_slow_hardware),
        cmocka_unit_test(a_slow_link_is_named_in_its_direction),
        cmocka_unit_test(a_link_that_was_always_slow_is_no_suspect),
        cmocka_unit_test(a_rank_all_of_whose_links_are_slow_is_named_as_a_host),
        cmocka_unit_test(two_ranks_that_compute_longer_are_both_named_unless_one_lost_its_processor),
        cmocka_unit_test(a_quota_is_the_cause_of_what_it_took_and_of_nothing_else),
        cmocka_unit_test(a_quota_that_stops_a_rank_in_its_calls_is_found_by_what_the_system_shows),
        cmocka_unit_test(a_link_is_named_though_its_rank_s_other_link_is_a_little_slower),
        cmocka_unit_test(the_last_of_a_pipeline_and_its_group_point_at_its_host),
        cmocka_unit_test(a_slow_group_is_named_and_one_that_only_waits_is_not),
        cmocka_unit_test(ranks_without_records_blame_no_link),
        cmocka_unit_test(a_call_from_long_before_the_window_is_no_time_of_it),
        cmocka_unit_test(clocks_that_may_be_that_far_apart_blame_no_link),
        cmocka_unit_test(two_faults_are_both_named),
        cmocka_unit_test(when_all_ranks_compute_longer_nobody_is_blamed),
        cmocka_unit_test(less_than_10_percent_is_nothing),
        cmocka_unit_test(nothing_at_all_is_no_error),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
