/* Sequences of events as NCCL makes them, through the tables of every version: what the plug-in writes leads
 * the analysis of `watch` to the slow link or rank. Then everything that NCCL may do and should not. */
#include "nccl_job.h"

#include <pthread.h>

enum { MAX = 8, ITERATIONS = 12 };

typedef struct answer {
    sl_suspect suspect[MAX];
    size_t count;
    char reason[256];
} answer;

typedef struct change {
    int late, slow, from, to; /* -1: none */
} change;

static answer ask(int version, int ranks, void (*iterate)(nccl_job *), change what, int shuffle,
                  uint64_t seed) {
    nccl_job before, now;
    answer a = {0};
    job_begin(&before, version, ranks, seed);
    sl_call_profile *healthy = job_profile(&before, iterate, ITERATIONS);
    job_end(&before);
    job_begin(&now, version, ranks, seed + 1000);
    now.shuffle = shuffle;
    if (what.late >= 0)
        now.late[what.late] = 6 * MS;
    if (what.slow >= 0)
        now.slow[what.slow] = 1.8;
    if (what.from >= 0)
        now.link[what.from][what.to] = 4;
    sl_call_profile *slow = job_profile(&now, iterate, ITERATIONS);
    job_end(&now);
    assert_ok(
        sl_call_profile_compare(slow, healthy, 20000, a.suspect, MAX, &a.count, a.reason, sizeof a.reason));
    sl_call_profile_close(slow);
    sl_call_profile_close(healthy);
    return a;
}

static void expect_rank(const answer *a, int version, int rank) {
    if (a->count != 1 || a->suspect[0].component != SL_COMPONENT_DEVICE || a->suspect[0].rank != rank)
        fail_msg("version %d: %zu suspects, not the device of rank %d: %s", version, a->count, rank,
                 a->reason);
}

static void expect_link(const answer *a, int version, int from, int to) {
    if (a->count != 1 || a->suspect[0].component != SL_COMPONENT_LINK || a->suspect[0].from != from ||
        a->suspect[0].to != to || a->suspect[0].both)
        fail_msg("version %d: %zu suspects, not link %d to %d: %s", version, a->count, from, to, a->reason);
}

static void a_slow_link_of_a_ring_is_named(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++)
        for (int ranks = 3; ranks <= 8; ranks += 5)
            for (int from = 0; from < ranks; from += 2) {
                answer a = ask(version, ranks, job_reduce, (change){-1, -1, from, (from + 1) % ranks}, 0, 7);
                expect_link(&a, version, from, (from + 1) % ranks);
            }
}

enum { WITH_KERNELS = 3 }; /* the first version that shows when a rank's GPU came */

static void a_late_rank_is_named_and_no_link_to_it(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++)
        for (int late = 0; late < 4; late++) {
            answer a = ask(version, 4, job_reduce, (change){late, -1, -1, 0}, 0, 8);
            expect_rank(&a, version, late);
        }
}

static void a_rank_with_a_slow_gpu_is_named(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++) {
        answer a = ask(version, 4, job_reduce, (change){-1, 2, -1, 0}, 0, 9);
        expect_rank(&a, version, 2);
    }
}

static void without_kernels_a_late_rank_is_not_named_and_neither_is_anything_else(void **state) {
    (void)state;
    for (int version = 1; version < WITH_KERNELS; version++)
        for (int late = 0; late < 4; late++) {
            answer a =
                ask(version, 4, late % 2 ? job_reduce : job_pipeline, (change){late, -1, -1, 0}, 0, 12);
            if (a.count != 0 && a.suspect[0].component != SL_COMPONENT_UNKNOWN)
                fail_msg("version %d: %s", version, a.reason);
        }
}

static void nothing_is_named_when_nothing_is_slow(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++)
        for (uint64_t seed = 1; seed < 20; seed++) {
            answer a =
                ask(version, 4, seed % 2 ? job_reduce : job_pipeline, (change){-1, -1, -1, 0}, 0, seed);
            if (a.count != 0)
                fail_msg("version %d, seed %d: %s", version, (int)seed, a.reason);
        }
}

static void a_slow_link_of_a_pipeline_is_named(void **state) {
    (void)state;
    for (int version = 1; version <= PLAYED_VERSIONS; version++) {
        answer a = ask(version, 4, job_pipeline, (change){-1, -1, 1, 2}, 0, 10);
        expect_link(&a, version, 1, 2);
        a = ask(version, 4, job_pipeline, (change){-1, -1, 3, 2}, 0, 10);
        expect_link(&a, version, 3, 2);
    }
}

static void a_slow_stage_of_a_pipeline_is_named(void **state) {
    (void)state;
    for (int version = WITH_KERNELS; version <= PLAYED_VERSIONS; version++) {
        answer a = ask(version, 4, job_pipeline, (change){-1, 1, -1, 0}, 0, 11);
        expect_rank(&a, version, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_of_a_ring_is_named),
        cmocka_unit_test(a_late_rank_is_named_and_no_link_to_it),
        cmocka_unit_test(a_rank_with_a_slow_gpu_is_named),
        cmocka_unit_test(without_kernels_a_late_rank_is_not_named_and_neither_is_anything_else),
        cmocka_unit_test(nothing_is_named_when_nothing_is_slow),
        cmocka_unit_test(a_slow_link_of_a_pipeline_is_named),
        cmocka_unit_test(a_slow_stage_of_a_pipeline_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
