/* Localisation from records made by hand: what is said when, and that nothing healthy is ever named. The
 * campaigns with engines are in tests/run/train/test_localise.c and bench/localisation. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "notice/detect/localise.h"
#include "plan/pipeline/op.h"

enum { REPLICAS = 2, RANKS = 4, MICROBATCHES = 6 };

/* A job at a moment: ops in ms by replica and rank, messages in ms by replica and link. */
typedef struct job {
    double op[REPLICAS][RANKS], message[REPLICAS][RANKS][RANKS];
    double reduce, time; /* of an iteration */
    int changed, trouble;
    double clock_error;
    int iteration;
    uint64_t random;
    sl_localiser *localiser;
    sl_news last; /* that was not nothing */
    int news, at; /* how many, and the iteration of the last */
} job;

static void open_job(job *j) {
    *j = (job){.reduce = 2, .time = 200, .random = 99};
    for (int d = 0; d < REPLICAS; d++)
        for (int r = 0; r < RANKS; r++) {
            j->op[d][r] = 10;
            for (int o = 0; o < RANKS; o++)
                j->message[d][r][o] = 0.5;
        }
    assert_ok(sl_localiser_open(RANKS, RANKS, REPLICAS, &j->localiser));
}

static sl_time noisy(job *j, double ms) {
    return (sl_time)(ms * (0.99 + 0.02 * sl_random_unit(sl_random_mix(j->random += SL_RANDOM_STEP))) * 1e6);
}

static size_t records_of(job *j, int d, sl_record *all) {
    size_t n = 0;
    for (int r = 0; r < RANKS; r++) {
        sl_time now = 1000 * SL_SECOND;
        for (int kind = SL_F; kind <= SL_B; kind += SL_B)
            for (int m = 0; m < MICROBATCHES + d; m++) { /* the second replica has more to do */
                sl_record op = {.kind = SL_RECORD_OP,
                                .op = (uint8_t)kind,
                                .rank = r,
                                .peer = -1,
                                .stage = r,
                                .microbatch = m,
                                .start = now,
                                .end = now + noisy(j, j->op[d][r] * (kind == SL_B ? 2 : 1))};
                all[n++] = op;
                now = op.end;
                int to = kind == SL_F ? r + 1 : r - 1;
                if (to < 0 || to >= RANKS)
                    continue;
                op.kind = SL_RECORD_TRANSFER;
                op.peer = to;
                op.start = op.end = now;
                op.arrive = now + noisy(j, j->message[d][r][to]);
                all[n++] = op;
            }
        all[n++] = (sl_record){.kind = SL_RECORD_REDUCE,
                               .rank = r,
                               .stage = r,
                               .peer = -1,
                               .microbatch = -1,
                               .start = now,
                               .end = now + noisy(j, j->reduce)};
    }
    return n;
}

static void go(job *j, int iterations) {
    for (int i = 0; i < iterations; i++) {
        sl_record all[1024];
        sl_news news;
        for (int d = 0; d < REPLICAS; d++)
            assert_ok(sl_localiser_add(j->localiser, d, all, records_of(j, d, all)));
        assert_ok(sl_localiser_end(j->localiser, j->iteration, noisy(j, j->time),
                                   (sl_time)(j->clock_error * 1e6), j->changed, j->trouble, &news));
        if (news.kind != SL_NEWS_NONE) {
            j->last = news;
            j->at = j->iteration;
            j->news++;
        }
        j->changed = 0;
        j->iteration++;
    }
}

static const sl_suspect *only(const job *j, sl_news_kind kind, int replica) {
    if (j->news == 0 || j->last.kind != kind || j->last.count != 1 || j->last.located[0].replica != replica) {
        char text[512] = "";
        if (j->news)
            sl_suspect_text(&j->last.located[0].suspect, text, sizeof text);
        fail_msg("%d news, the last of kind %d with %d suspects: %s", j->news, (int)j->last.kind,
                 j->last.count, text);
    }
    return &j->last.located[0].suspect;
}

static void assert_unknown(const job *j, const char *part) {
    assert_true(j->news > 0);
    assert_int_equal(j->last.count, 1);
    assert_int_equal(j->last.located[0].suspect.component, SL_COMPONENT_UNKNOWN);
    if (!strstr(j->last.located[0].suspect.why, part))
        fail_msg("'%s' does not say '%s'", j->last.located[0].suspect.why, part);
}

static void a_slow_device_is_suspected_and_then_the_verdict(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 30);
    assert_int_equal(j.news, 0);
    j.op[1][2] = 15;
    j.time = 260;
    go(&j, 7);
    const sl_suspect *s = only(&j, SL_NEWS_ONSET, 1);
    assert_int_equal(s->component, SL_COMPONENT_DEVICE);
    assert_int_equal(s->rank, 2);
    assert_near(s->measured / s->expected, 1.5, 0.03);
    assert_int_equal(j.last.first, 30);
    assert_near(j.last.before, 200, 3);
    assert_near(j.last.after, 260, 4);
    go(&j, 10);
    s = only(&j, SL_NEWS_VERDICT, 1);
    assert_int_equal(s->rank, 2);
    assert_int_equal(j.news, 2);
    assert_int_equal(j.at, 37); /* after 8 slow ones */
    j.op[1][2] = 10;
    j.time = 200;
    go(&j, 30);
    assert_int_equal(j.news, 2);
    j.op[0][0] = 20; /* another one, after the first is over */
    j.time = 300;
    go(&j, 12);
    assert_int_equal(j.news, 4);
    assert_int_equal(only(&j, SL_NEWS_VERDICT, 0)->rank, 0);
    sl_localiser_close(j.localiser);
}

static void a_slow_link_is_named_with_its_direction(void **state) {
    (void)state;
    for (int both = 0; both < 2; both++) {
        job j;
        open_job(&j);
        go(&j, 20);
        j.message[0][2][1] = 9;
        if (both)
            j.message[0][1][2] = 9;
        j.time = 240;
        go(&j, 12);
        const sl_suspect *s = only(&j, SL_NEWS_VERDICT, 0);
        assert_int_equal(s->component, SL_COMPONENT_LINK);
        assert_int_equal(s->both, both);
        assert_int_equal(s->from, both ? 1 : 2);
        assert_int_equal(s->to, both ? 2 : 1);
        sl_localiser_close(j.localiser);
    }
}

static void two_faults_are_both_named(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.message[0][2][1] = 9;
    j.op[1][3] = 14;
    j.time = 240;
    go(&j, 12);
    assert_int_equal(j.last.count, 2);
    assert_int_equal(j.last.located[0].suspect.component, SL_COMPONENT_DEVICE);
    assert_int_equal(j.last.located[0].replica, 1);
    assert_int_equal(j.last.located[1].suspect.component, SL_COMPONENT_LINK);
    assert_int_equal(j.last.located[1].replica, 0);
    sl_localiser_close(j.localiser);
}

static void what_comes_later_is_told_as_well(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.op[0][1] = 14;
    j.time = 250;
    go(&j, 20);
    assert_int_equal(j.news, 2);
    j.op[1][3] = 22;
    j.time = 350;
    go(&j, 20);
    assert_int_equal(j.news, 4);
    assert_int_equal(j.last.count, 2);
    sl_localiser_close(j.localiser);
}

static void an_adaptation_that_hides_the_trouble_does_not_end_it(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.message[1][0][1] = j.message[1][1][0] = 20;
    j.time = 300;
    j.trouble = 1;
    go(&j, 2);
    assert_int_equal(only(&j, SL_NEWS_ONSET, 1)->component, SL_COMPONENT_LINK);
    assert_int_equal(j.last.first, 20);
    j.time = 205; /* the schedule absorbs it */
    j.changed = 1;
    go(&j, 30);
    assert_int_equal(j.news, 2);
    const sl_suspect *s = only(&j, SL_NEWS_VERDICT, 1);
    assert_int_equal(s->from, 0);
    assert_int_equal(s->to, 1);
    sl_localiser_close(j.localiser);
}

static void a_spike_is_no_onset_even_when_others_see_trouble(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.message[1][0][1] = 20;
    j.time = 300;
    j.trouble = 1;
    go(&j, 1);
    j.message[1][0][1] = 0.5;
    j.time = 200;
    go(&j, 20);
    assert_int_equal(j.news, 0);
    sl_localiser_close(j.localiser);
}

static void a_slower_schedule_alone_blames_nobody(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.changed = 1;
    j.time = 260;
    go(&j, 30);
    assert_int_equal(j.news, 0);
    sl_localiser_close(j.localiser);
    open_job(&j); /* and without a change, it is said that nothing is to be seen */
    go(&j, 20);
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "no op and no message");
    sl_localiser_close(j.localiser);
}

static void what_explains_too_little_is_not_blamed(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.op[0][1] = 11.5; /* 6 x 1.5 and 6 x 3 ms: 27 of 100 */
    j.time = 300;
    go(&j, 9);
    assert_unknown(&j, "of the");
    sl_localiser_close(j.localiser);
}

static void what_all_have_is_nobodys_fault(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    for (int d = 0; d < REPLICAS; d++)
        for (int r = 0; r < RANKS; r++)
            j.op[d][r] = 13;
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "8 of 8 devices");
    sl_localiser_close(j.localiser);
}

static void both_links_of_a_rank_may_be_its_host(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.message[1][0][1] = j.message[1][1][0] = j.message[1][1][2] = j.message[1][2][1] = 15;
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "both links of rank 1");
    sl_localiser_close(j.localiser);
    open_job(&j); /* not when one is far worse: that is two causes */
    go(&j, 20);
    j.message[1][0][1] = 15;
    j.message[1][1][2] = 40;
    j.time = 260;
    go(&j, 9);
    assert_int_equal(j.last.count, 2);
    sl_localiser_close(j.localiser);
}

static void clocks_may_be_that_far_apart(void **state) {
    (void)state;
    job j;
    open_job(&j);
    j.clock_error = 5;
    go(&j, 20);
    j.message[0][0][1] = 9;
    j.time = 260;
    go(&j, 9);
    assert_unknown(&j, "no op and no message");
    sl_localiser_close(j.localiser);
}

static void a_reduction_is_named_when_it_is_what_was_lost(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 20);
    j.reduce = 60;
    j.time = 258;
    go(&j, 9);
    assert_int_equal(j.last.count, RANKS);
    assert_int_equal(j.last.located[0].suspect.component, SL_COMPONENT_GROUP);
    sl_localiser_close(j.localiser);
}

static void without_healthy_iterations_nothing_can_be_told(void **state) {
    (void)state;
    job j;
    open_job(&j);
    go(&j, 3);
    j.op[0][1] = 30;
    j.time = 400;
    j.trouble = 1;
    go(&j, 4);
    assert_unknown(&j, "healthy iterations");
    sl_localiser_close(j.localiser);
}

static void records_of_nobody_are_skipped(void **state) {
    (void)state;
    sl_localiser *l;
    sl_news news;
    sl_record wrong[] = {{.kind = SL_RECORD_OP, .rank = 9},
                         {.kind = SL_RECORD_OP, .rank = -1},
                         {.kind = SL_RECORD_OP, .stage = 77},
                         {.kind = SL_RECORD_OP, .op = 200},
                         {.kind = SL_RECORD_OP, .start = 5, .end = 1},
                         {.kind = SL_RECORD_TRANSFER, .peer = 400},
                         {.kind = SL_RECORD_MOVE},
                         {.kind = 250}};
    assert_ok(sl_localiser_open(2, 2, 1, &l));
    assert_ok(sl_localiser_add(l, 0, wrong, sizeof wrong / sizeof *wrong));
    assert_ok(sl_localiser_add(l, 5, wrong, 1));
    assert_ok(sl_localiser_end(l, 0, 1, 0, 0, 0, &news));
    assert_int_equal(news.kind, SL_NEWS_NONE);
    sl_localiser_close(l);
    sl_localiser_close(NULL);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    int failed = 0;
    for (long n = 0;; n++) {
        sl_localiser *l;
        sl_alloc_fail_at(n);
        sl_status status = sl_localiser_open(2, 2, 1, &l);
        sl_alloc_fail_at(-1);
        if (status == SL_OK) {
            sl_localiser_close(l);
            break;
        }
        assert_int_equal(status, SL_ENOMEM);
        failed++;
    }
    assert_true(failed > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_device_is_suspected_and_then_the_verdict),
        cmocka_unit_test(a_slow_link_is_named_with_its_direction),
        cmocka_unit_test(two_faults_are_both_named),
        cmocka_unit_test(what_comes_later_is_told_as_well),
        cmocka_unit_test(an_adaptation_that_hides_the_trouble_does_not_end_it),
        cmocka_unit_test(a_spike_is_no_onset_even_when_others_see_trouble),
        cmocka_unit_test(a_slower_schedule_alone_blames_nobody),
        cmocka_unit_test(what_explains_too_little_is_not_blamed),
        cmocka_unit_test(what_all_have_is_nobodys_fault),
        cmocka_unit_test(both_links_of_a_rank_may_be_its_host),
        cmocka_unit_test(clocks_may_be_that_far_apart),
        cmocka_unit_test(a_reduction_is_named_when_it_is_what_was_lost),
        cmocka_unit_test(without_healthy_iterations_nothing_can_be_told),
        cmocka_unit_test(records_of_nobody_are_skipped),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
