/* Profiles of programs whose calls wait for several things, or by tests alone: the slow component is named,
 * and nothing that waits with it. */
#include "call_asked.h"

enum { SHAPES = 9 };

/* Shape `i` of programs in which ranks exchange with neighbors. */
static void neighbors(program *p, int i, uint64_t seed) {
    shape = i % SHAPES;
    switch (shape) {
    case 0:
        program_ring(p, 4, 0, 0, seed);
        return;
    case 1:
        program_ring(p, 4, 1, 0, seed);
        return;
    case 2:
        program_ring(p, 4, 0, 1, seed);
        return;
    case 3:
        program_ring(p, 5, 1, 1, seed);
        return;
    case 4:
        program_shifts(p, 4, 0, seed);
        return;
    case 5:
        program_shifts(p, 4, 1, seed);
        return;
    case 6:
        program_shifts(p, 7, 1, seed);
        return;
    case 7:
        program_grid(p, 3, 0, seed);
        return;
    default:
        program_grid(p, 4, 1, seed);
        return;
    }
}

static void a_neighbor_of_a_slow_rank_and_its_links_are_not_blamed(void **state) {
    (void)state;
    for (int i = 0; i < 20 * SHAPES; i++) {
        program before, now;
        neighbors(&before, i, seed() + (uint64_t)i);
        neighbors(&now, i, seed() + 1000 + (uint64_t)i);
        before.skip_most = now.skip_most = 6;
        before.jitter = now.jitter = 0.01 + 0.01 * (i % 5);
        int victim = i / SHAPES % now.ranks;
        now.slowdown[victim] = 1.25 + 0.07 * (double)(i / SHAPES);
        answer a = ask(&before, &now);
        assert_device(a, victim);
        const char *last = strstr(a.suspect[0].why, "last to arrive at ");
        assert_true(!last || atoi(last + strlen("last to arrive at ")) >= 50); /* less is no evidence */
    }
}

static void nothing_is_slow_among_neighbors(void **state) {
    (void)state;
    for (int i = 0; i < 10 * SHAPES; i++) {
        program before, now;
        neighbors(&before, i, seed() + (uint64_t)i);
        neighbors(&now, i, seed() + 1000 + (uint64_t)i);
        before.uneven = now.uneven = 0.1 * (i % 3);
        answer a = ask(&before, &now);
        assert_nothing(a);
    }
}

static void of_the_messages_that_a_call_waits_for_the_slow_one_is_named(void **state) {
    (void)state;
    for (int i = 0; i < 10 * SHAPES; i++) {
        program before, now;
        neighbors(&before, i, seed() + (uint64_t)i);
        neighbors(&now, i, seed() + 1000 + (uint64_t)i);
        int from = i / SHAPES % (now.ranks - 1), to = from % 4 == 3 && i % SHAPES >= 7 ? from - 1 : from + 1;
        now.link[from][to] = now.link[to][from] = 20000 * US;
        answer a = ask(&before, &now);
        assert_link(a, from, to);
        assert_true(a.suspect[0].measured > 2 * a.suspect[0].expected);
    }
}

static void of_a_link_that_is_slow_one_way_no_other_is_blamed_alone(void **state) {
    (void)state;
    for (int i = 0; i < 10 * SHAPES; i++) {
        program before, now;
        neighbors(&before, i, seed() + (uint64_t)i);
        neighbors(&now, i, seed() + 1000 + (uint64_t)i);
        int from = i / SHAPES % (now.ranks - 1), to = from % 4 == 3 && i % SHAPES >= 7 ? from - 1 : from + 1;
        now.link[from][to] = 20000 * US;
        answer a = ask(&before, &now);
        char pair[32];
        snprintf(pair, sizeof pair, "%d-%d", from < to ? from : to, from < to ? to : from);
        if (a.count == 1 && a.suspect[0].component == SL_COMPONENT_UNKNOWN && strstr(a.reason, pair))
            continue;
        assert_link(a, from, to);
    }
}

/* From the first call to the last. */
static double lasts(const program_run *run) {
    int64_t first = INT64_MAX, last = 0;
    for (size_t i = 0; i < run->calls; i++) {
        first = run->call[i].start < first ? run->call[i].start : first;
        last = run->call[i].end > last ? run->call[i].end : last;
    }
    return (double)(last - first);
}

/* As a watch asks, which knows by how much iterations take longer. */
static answer ask_knowing(program *before, program *now) {
    program_run a = program_go(before, 12, 1000 * US), b = program_go(now, 12, 9000000 * US);
    sl_call_profile *healthy, *slow;
    assert_ok(sl_call_profile_make(a.call, a.calls, now->ranks, 0, &healthy));
    assert_ok(sl_call_profile_make(b.call, b.calls, now->ranks, 0, &slow));
    slow->missing = 1 - lasts(&a) / lasts(&b);
    answer found = compare(slow, healthy);
    sl_call_profile_close(healthy);
    sl_call_profile_close(slow);
    free(a.call);
    free(b.call);
    return found;
}

/* Messages of a wave can be laid over their receives in two ways, of which one makes links seem slow. */
static void what_a_slow_rank_explains_by_itself_makes_no_link_suspect(void **state) {
    (void)state;
    for (int i = 0; i < 120; i++) {
        program before, now;
        const int ranks = 5 + i % 4, hops = 1 + i / 4 % 3;
        program_hops(&before, ranks, hops, 12, seed() + (uint64_t)i);
        program_hops(&now, ranks, hops, 12, seed() + 1000 + (uint64_t)i);
        now.slowdown[i / 12 % ranks] = 1.5 + 0.1 * (i % 10);
        answer a = ask_knowing(&before, &now);
        assert_device(a, i / 12 % ranks);
    }
}

static void of_links_that_seem_slow_one_is_named_only_if_it_alone_explains_all(void **state) {
    (void)state;
    int named = 0;
    for (int i = 0; i < 240; i++) {
        program before, now;
        const int ranks = 5 + i % 4, from = i / 12 % ranks, to = (from + 1) % ranks;
        program_hops(&before, ranks, 1 + i / 4 % 3, 4 + i % 7, seed() + (uint64_t)i);
        program_hops(&now, ranks, 1 + i / 4 % 3, 4 + i % 7, seed() + 1000 + (uint64_t)i);
        before.jitter = now.jitter = 0.01 + 0.01 * (i % 5);
        now.link[from][to] = (10 + 5 * (i % 3)) * 1000 * US;
        answer a = ask_knowing(&before, &now);
        if (a.count == 1 && a.suspect[0].component == SL_COMPONENT_UNKNOWN)
            continue;
        assert_link(a, from, to);
        named++;
    }
    assert_true(named >= 160);
}

/* Three of four times, the rank before the slow link waits for both of its links at once. */
static void
in_a_pipeline_that_waits_for_sends_late_the_link_and_not_the_host_before_it_is_named(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        program before, now;
        const int ranks = 3 + i % 4, from = 1 + i / 4 % (ranks - 2);
        program_stream(&before, ranks, seed() + (uint64_t)i);
        program_stream(&now, ranks, seed() + 1000 + (uint64_t)i);
        now.link[from][from + 1] = 20000 * US;
        answer a = ask(&before, &now);
        assert_link(a, from, from + 1);
    }
}

static void a_host_whose_links_are_all_slow_is_named_although_others_wait_beside_it(void **state) {
    (void)state;
    for (int i = 0; i < 4 * SHAPES; i++) {
        program before, now;
        neighbors(&before, i, seed() + (uint64_t)i);
        neighbors(&now, i, seed() + 1000 + (uint64_t)i);
        int victim = i / SHAPES;
        for (int r = 0; r < now.ranks; r++)
            now.link[victim][r] = now.link[r][victim] = 20000 * US;
        answer a = ask(&before, &now);
        if (a.count != 1 || a.suspect[0].component != SL_COMPONENT_HOST || a.suspect[0].rank != victim)
            fail_msg("shape %d: %zu suspects, not the host of rank %d: %s", i % SHAPES, a.count, victim,
                     a.reason);
    }
}

/* As if the program waited by Testall: tests are one after the other, but in every `sparse`-th call (0:
 * none), there is time to compute in between, and it takes none. */
static void wait_by_tests(program_run *run, size_t sparse) {
    for (size_t i = 0, n = 0; i < run->calls; i++)
        if (run->call[i].kind == SL_RECORD_CALL && run->call[i].call == SL_CALL_MPI_Waitall) {
            run->call[i].call = SL_CALL_MPI_Testall;
            run->call[i].start = sparse && ++n % sparse == 0 ? run->call[i].end : run->call[i].start;
        }
}

static answer ask_by_tests(program *before, program *now, size_t sparse) {
    sl_call_profile *made[2];
    program *each[2] = {before, now};
    for (int i = 0; i < 2; i++) {
        program_run run = program_go(each[i], 12, (i ? 9000000 : 1000) * US);
        wait_by_tests(&run, sparse);
        assert_ok(sl_call_profile_make(run.call, run.calls, now->ranks, 0, &made[i]));
        free(run.call);
    }
    answer a = compare(made[1], made[0]);
    sl_call_profile_close(made[0]);
    sl_call_profile_close(made[1]);
    return a;
}

static void a_rank_is_named_among_those_that_wait_by_tests_alone(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) {
        program before, now;
        program_ring(&before, 4, 0, i % 2, seed() + (uint64_t)i);
        program_ring(&now, 4, 0, i % 2, seed() + 100 + (uint64_t)i);
        now.slowdown[i % 4] = 1.4 + 0.1 * (i / 4);
        answer a = ask_by_tests(&before, &now, 0);
        assert_device(a, i % 4);
        a = ask_by_tests(&before, &now, 1);
        if (i % 2) /* it computes before it sends: what is between its tests was nothing to begin with */
            assert_device(a, i % 4);
        else
            assert_unknown(a, "cannot be distinguished");
    }
}

/* Where a rank is interrupted between two tests, they look as if it computed. */
static void some_interrupted_tests_do_not_hide_who_computes_longer(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) {
        program before, now;
        program_ring(&before, 4, 0, i % 2, seed() + (uint64_t)i);
        program_ring(&now, 4, 0, i % 2, seed() + 100 + (uint64_t)i);
        answer a = ask_by_tests(&before, &now, 5);
        assert_nothing(a);
        now.slowdown[i % 4] = 1.4 + 0.1 * (i / 4);
        a = ask_by_tests(&before, &now, 3 + (size_t)i % 4);
        assert_device(a, i % 4);
    }
}

static void what_costs_little_is_not_named_beside_what_costs_much(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        program before, now;
        program_data(&before, 4, seed() + (uint64_t)i);
        program_data(&now, 4, seed() + 100 + (uint64_t)i);
        int far = (i + 2) % 4, next = (i + 3) % 4;
        for (program *p = &before; p; p = p == &before ? &now : NULL) {
            program_add(p, far, (step){.kind = SEND, .with = next, .bytes = 64});
            program_add(p, next, (step){.kind = RECEIVE, .with = far, .bytes = 64});
            p->link[far][next] = 100 * US;
        }
        now.slowdown[i % 4] = 2.5;
        now.link[far][next] = 2000 * US; /* 20 times as long, and hardly any of the time */
        answer a = ask(&before, &now);
        assert_device(a, i % 4);
    }
}

static void what_explains_little_of_the_missing_time_is_not_named(void **state) {
    (void)state;
    program before, now;
    program_data(&before, 4, seed());
    program_data(&now, 4, seed() + 1);
    now.slowdown[2] = 1.25; /* 20% of the time */
    sl_call_profile *healthy = profile(&before, 12, 1000 * US), *slow = profile(&now, 12, 9000000 * US);
    slow->missing = 0.25; /* about what it explains */
    answer a = compare(slow, healthy);
    assert_device(a, 2);
    slow->missing = 0.9; /* iterations take ten times as long, for another reason */
    a = compare(slow, healthy);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.suspect[0].component, SL_COMPONENT_UNKNOWN);
    assert_true(*a.reason);
    sl_call_profile_close(healthy);
    sl_call_profile_close(slow);
}

/* ---- iterations that have changed ---- */

static int repeats(program *before, program *now, int iterations) {
    int found;
    sl_call_profile *x = profile(before, 12, 1000 * US), *y = profile(now, iterations, 9000000 * US);
    assert_ok(sl_call_profile_repeats(y, x, &found));
    sl_call_profile_close(x);
    sl_call_profile_close(y);
    return found;
}

static void calls_repeat_while_some_ranks_compute_longer(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20; i++) {
        program before, now;
        program_data(&before, 4, seed() + i);
        program_data(&now, 4, seed() + 100 + i);
        assert_true(repeats(&before, &now, 20));
        now.slowdown[i % 4] = 1.4 + 0.05 * (double)i;
        assert_true(repeats(&before, &now, 20));
        now.slowdown[(i + 1) % 4] = 1.8;
        assert_true(repeats(&before, &now, 7));
    }
}

static void calls_do_not_repeat_if_the_work_is_another(void **state) {
    (void)state;
    program before, now;
    program_data(&before, 4, seed());
    program_data(&now, 4, seed() + 1);
    before.slowdown[1] = now.slowdown[2] = 1.8; /* it has moved */
    assert_false(repeats(&before, &now, 20));
    before.slowdown[1] = 1; /* it grew */
    now.slowdown[0] = now.slowdown[1] = 1.8;
    assert_false(repeats(&before, &now, 20));
    program_pipelines(&now, 4, 1, 0, seed());
    assert_false(repeats(&before, &now, 20));
    program_data(&now, 6, seed());
    assert_false(repeats(&before, &now, 20));
}

int main(void) {
    printf("seed %llu (SL_SEED)\n", (unsigned long long)seed());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_neighbor_of_a_slow_rank_and_its_links_are_not_blamed),
        cmocka_unit_test(nothing_is_slow_among_neighbors),
        cmocka_unit_test(of_the_messages_that_a_call_waits_for_the_slow_one_is_named),
        cmocka_unit_test(of_a_link_that_is_slow_one_way_no_other_is_blamed_alone),
        cmocka_unit_test(what_a_slow_rank_explains_by_itself_makes_no_link_suspect),
        cmocka_unit_test(of_links_that_seem_slow_one_is_named_only_if_it_alone_explains_all),
        cmocka_unit_test(
            in_a_pipeline_that_waits_for_sends_late_the_link_and_not_the_host_before_it_is_named),
        cmocka_unit_test(a_host_whose_links_are_all_slow_is_named_although_others_wait_beside_it),
        cmocka_unit_test(a_rank_is_named_among_those_that_wait_by_tests_alone),
        cmocka_unit_test(some_interrupted_tests_do_not_hide_who_computes_longer),
        cmocka_unit_test(what_explains_little_of_the_missing_time_is_not_named),
        cmocka_unit_test(what_costs_little_is_not_named_beside_what_costs_much),
        cmocka_unit_test(calls_repeat_while_some_ranks_compute_longer),
        cmocka_unit_test(calls_do_not_repeat_if_the_work_is_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
