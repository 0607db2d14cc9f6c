/* Calls that belong together, of ranks whose clocks are apart: the shifts of the channels of a circle of
 * ranks add up to none, so no link seems to take an iteration longer. */
#include "call_program.h"

#include "notice/detect/call_profile.h"

enum { RING = 3, ITERATIONS = 20 };

/* A ring: each computes for 3 ms, sends to the next and receives from the one before, 50 us away. */
static void ring(program *p, uint64_t number) {
    program_begin(p, RING, number);
    for (int r = 0; r < RING; r++) {
        for (int other = 0; other < RING; other++)
            p->link[r][other] = 50 * US;
        program_compute(p, r, 3000 * US);
        program_add(p, r, (step){.kind = SEND, .with = (r + 1) % RING, .bytes = 64});
        program_add(p, r, (step){.kind = RECEIVE, .with = (r + RING - 1) % RING});
    }
}

/* The ring's calls, the clock of rank `of` ahead of the others' by `by` ns. */
static program_run ring_apart(uint64_t number, int64_t start, int of, int64_t by) {
    program p;
    ring(&p, number);
    program_run run = program_go(&p, ITERATIONS, start);
    for (size_t i = 0; i < run.calls; i++)
        if (run.call[i].rank == of) {
            run.call[i].start += by;
            run.call[i].end += by;
        }
    return run;
}

/* From the sending of a message to its end, on average, added up around the ring: what one clock adds to the
 * messages of one channel it takes from those of the next. */
static double around(const program_run *run, int64_t error) {
    sl_meetings all;
    double sum[RING] = {0}, total = 0;
    int count[RING] = {0};
    assert_ok(sl_meetings_find(run->call, run->calls, RING, error, &all));
    for (size_t i = 0; i < all.meetings; i++) {
        const sl_meeting_part *part = &all.part[all.meeting[i].part];
        sum[part[0].rank] += (double)(part[1].end - part[0].start);
        count[part[0].rank]++;
    }
    for (int r = 0; r < RING; r++) {
        assert_in_range(count[r], ITERATIONS - 1, ITERATIONS);
        total += sum[r] / count[r];
    }
    sl_meetings_close(&all);
    return total;
}

static void shifts_around_a_circle_add_up_to_none(void **state) {
    (void)state;
    for (int of = 0; of < RING; of++)
        for (int64_t by = -450 * US; by <= 450 * US; by += 150 * US) {
            program_run straight = ring_apart(seed(), 1000 * US, of, 0),
                        apart = ring_apart(seed(), 1000 * US, of, by);
            assert_near(around(&apart, 500 * US), around(&straight, 0), 20e3);
            free(straight.call);
            free(apart.call);
        }
}

/* Clocks drift apart between two profiles, by less than the bound. */
static void no_link_is_slow_because_clocks_are_apart(void **state) {
    (void)state;
    for (int of = 0; of < RING; of++)
        for (int64_t by = -450 * US; by <= 450 * US; by += 150 * US) {
            program_run before = ring_apart(seed(), 1000 * US, of, 0),
                        now = ring_apart(seed() + 1, 9000000 * US, of, by);
            sl_call_profile *healthy, *apart;
            sl_suspect suspect[8];
            size_t count;
            char reason[256];
            assert_ok(sl_call_profile_make(before.call, before.calls, RING, 500 * US, &healthy));
            assert_ok(sl_call_profile_make(now.call, now.calls, RING, 500 * US, &apart));
            assert_ok(
                sl_call_profile_compare(apart, healthy, 500 * US, suspect, 8, &count, reason, sizeof reason));
            if (count != 0)
                fail_msg("clock of rank %d ahead by %g us: %s", of, (double)by / 1e3, reason);
            sl_call_profile_close(healthy);
            sl_call_profile_close(apart);
            free(before.call);
            free(now.call);
        }
}

/* A root that broadcasts every 10 ms and runs ahead of the others by 7 ms, or receives what the others
 * reduced 7 ms before: nearer in time is the next iteration's, which cannot be. */
static void rooted_calls_meet_as_data_goes(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        sl_call call[3 * ITERATIONS];
        sl_meetings all;
        size_t n = 0;
        for (int i = 0; i < ITERATIONS; i++)
            for (int r = 0; r < 3; r++) {
                const int late = way ? r == 0 : r != 0;
                const int64_t start = (10000 * i + (late ? 7000 : 0)) * US + 1000 * US;
                call[n++] = (sl_call){.kind = SL_RECORD_CALL,
                                      .call = way ? SL_CALL_MPI_Reduce : SL_CALL_MPI_Bcast,
                                      .communicator = 5,
                                      .bytes = 4096,
                                      .peer = 0,
                                      .tag = SL_TAG_NONE,
                                      .rank = r,
                                      .device = -1,
                                      .start = start,
                                      .end = start + 50 * US};
            }
        assert_ok(sl_meetings_find(call, n, 3, 0, &all));
        assert_int_equal(all.meetings, ITERATIONS);
        for (size_t i = 0; i < all.meetings; i++)
            for (int m = 0; m < 3; m++)
                assert_int_equal((all.part[all.meeting[i].part + (size_t)m].start - 1000 * US) / (10000 * US),
                                 i);
        sl_meetings_close(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooted_calls_meet_as_data_goes),
        cmocka_unit_test(shifts_around_a_circle_add_up_to_none),
        cmocka_unit_test(no_link_is_slow_because_clocks_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
