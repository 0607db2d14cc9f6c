/* The agent's parts: rings read while they are written, iterations of a rank, what passes through the store,
 * clocks, call logs. */
#include "watched_job.h"

#include "base/memory.h"
#include "base/random.h"
#include "notice/control/clocks.h"
#include "notice/control/messages.h"
#include "notice/control/rings.h"
#include "notice/control/samples.h"
#include "notice/control/track.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/dev/shm/slackline-agent-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return sl_path_remove(folder) == SL_OK ? 0 : -1;
}

static sl_call call_of(int call, uint64_t bytes, int64_t start) {
    return (sl_call){.kind = SL_RECORD_CALL,
                     .call = (uint8_t)call,
                     .peer = SL_PEER_NONE,
                     .tag = SL_TAG_NONE,
                     .communicator = 1,
                     .bytes = bytes,
                     .start = start,
                     .end = start + 1,
                     .device = -1};
}

/* ---- rings ---- */

static void rings_are_found_read_in_order_and_losses_counted(void **state) {
    (void)state;
    sl_rings *rings;
    sl_ring_source source;
    const sl_call *calls;
    uint64_t read, lost;
    assert_ok(sl_rings_open(folder, &rings));
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 0);
    sl_record_ring *ring = job_ring(folder, getpid(), 3, 4, 64);
    for (int i = 0; i < 40; i++) {
        sl_call call = call_of(SL_CALL_MPI_Send, (uint64_t)i, i);
        sl_call_write(ring, &call);
    }
    assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 0); /* not looked yet */
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_read(rings, 30, &source, &calls), 30);
    assert_int_equal(source.rank, 3);
    assert_int_equal(source.size, 4);
    assert_int_equal(source.pid, getpid());
    for (int i = 0; i < 30; i++)
        assert_int_equal(calls[i].bytes, i);
    assert_int_equal(sl_rings_read(rings, 30, &source, &calls), 10);
    assert_int_equal(calls[0].bytes, 30);
    for (int i = 40; i < 240; i++) { /* 200 into a ring of 64: at most 63 can be left */
        sl_call call = call_of(SL_CALL_MPI_Send, (uint64_t)i, i);
        sl_call_write(ring, &call);
    }
    size_t count = sl_rings_read(rings, 1000, &source, &calls);
    assert_int_equal(count, 63);
    assert_int_equal(calls[count - 1].bytes, 239);
    sl_rings_counts(rings, &read, &lost);
    assert_int_equal(read, 103);
    assert_int_equal(lost, 137);
    sl_rings_close(rings);
}

static void what_is_no_ring_is_left_alone(void **state) {
    (void)state;
    static const char *const names[] = {"1.0.ring", "2.0.ring.new", "x.ring", "3.0.ringer", "-4.0.ring"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "w");
        for (int j = 0; j < 2000; j++)
            fputc(j * 31 + (int)i, file);
        fclose(file);
    }
    sl_rings *rings;
    sl_ring_source source;
    const sl_call *calls;
    assert_ok(sl_rings_open(folder, &rings));
    assert_ok(sl_rings_look(rings));
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 0);
    sl_rings_close(rings);
}

/* ---- iterations ---- */

typedef struct tracked {
    sl_track *track;
    int64_t now;
    uint64_t sequence[8]; /* of each thread */
} tracked;

static void does(tracked *t, int call, uint64_t bytes, int64_t takes, int thread) {
    sl_call one = call_of(call, bytes, t->now);
    one.thread = (uint16_t)thread;
    one.sequence = t->sequence[thread]++;
    t->now += takes;
    assert_ok(sl_track_add(t->track, &one));
}

/* Sum of iterations, and whether all blocks took `each` an iteration. */
static int64_t blocks(tracked *t, int period, int64_t each, int64_t shortest) {
    sl_track_block block;
    int64_t count = 0;
    while (sl_track_take(t->track, &block)) {
        assert_int_equal(block.period, period);
        assert_int_equal(block.time, each * block.count);
        assert_true(block.time >= shortest);
        assert_int_equal(block.number, count);
        count += block.count;
    }
    return count;
}

static void iterations_of_60_ms_are_blocks_of_one(void **state) {
    (void)state;
    tracked t = {.now = 1000};
    assert_ok(sl_track_open(&t.track));
    for (int i = 0; i < 100; i++) {
        does(&t, SL_CALL_MPI_Allreduce, 8, 20 * SL_MS, 0);
        does(&t, SL_CALL_MPI_Bcast, 8, 10 * SL_MS, 0);
        does(&t, SL_CALL_MPI_Bcast, 16, 30 * SL_MS, 0);
    }
    assert_int_equal(sl_track_period(t.track), 3);
    sl_track_block last = {0};
    int64_t count = 0;
    for (sl_track_block block; sl_track_take(t.track, &block); last = block) {
        assert_int_equal(block.number, count++);
        assert_int_equal(block.count, 1);
        assert_int_equal(block.time, 60 * SL_MS);
    }
    assert_in_range(count, 90, 100);
    assert_int_equal(last.bytes, 32);
    sl_track_close(t.track);
}

static void iterations_of_3_ms_are_joined_to_50_ms(void **state) {
    (void)state;
    tracked t = {.now = 1000};
    sl_track_block block;
    assert_ok(sl_track_open(&t.track));
    for (int i = 0; i < 1000; i++) {
        does(&t, SL_CALL_MPI_Allreduce, 8, SL_MS, 0);
        does(&t, SL_CALL_MPI_Barrier, 0, 2 * SL_MS, 0);
    }
    assert_true(sl_track_take(t.track, &block));
    assert_int_equal(block.count, 17); /* 16 are 48 ms */
    assert_int_equal(block.time, 51 * SL_MS);
    assert_int_equal(block.end - block.start, 51 * SL_MS);
    sl_track_close(t.track);
}

static void sizes_that_change_from_iteration_to_iteration_hide_no_period(void **state) {
    (void)state;
    tracked t = {.now = 1000};
    assert_ok(sl_track_open(&t.track));
    for (uint64_t i = 0; i < 2000; i++) {
        does(&t, SL_CALL_MPI_Sendrecv, 1000 + sl_random_mix(i) % 100000, 10 * SL_MS, 0);
        does(&t, SL_CALL_MPI_Allreduce, 1000 + sl_random_mix(~i) % 100000, 15 * SL_MS, 0);
        does(&t, SL_CALL_MPI_Allreduce, 8, 5 * SL_MS, 0);
    }
    assert_int_equal(sl_track_period(t.track), 3);
    assert_true(blocks(&t, 3, 30 * SL_MS, 30 * SL_MS) > 1500); /* once a good number of calls has been seen */
    sl_track_close(t.track);
}

static void thread_with_the_recurring_calls_is_followed(void **state) {
    (void)state;
    tracked t = {.now = 1000};
    assert_ok(sl_track_open(&t.track));
    for (uint64_t i = 0; i < 1000; i++) {
        if (i % 3 == 0) /* the other thread's calls are all different */
            does(&t, SL_CALL_MPI_Send, sl_random_mix(i), 0, 0);
        does(&t, SL_CALL_ncclAllReduce, 8, 10 * SL_MS, 5);
        does(&t, SL_CALL_ncclAllGather, 8, 20 * SL_MS, 5);
    }
    assert_int_equal(sl_track_period(t.track), 2);
    assert_true(blocks(&t, 2, 30 * SL_MS, 30 * SL_MS) > 900);
    sl_track_close(t.track);
}

static void tests_that_complete_by_chance_hide_no_period(void **state) {
    (void)state;
    tracked t = {.now = 1000};
    assert_ok(sl_track_open(&t.track));
    for (uint64_t i = 0; i < 500; i++) {
        does(&t, SL_CALL_MPI_Irecv, 8, 10 * SL_MS, 0);
        for (uint64_t k = sl_random_mix(i) % 4; k > 0; k--)
            does(&t, SL_CALL_MPI_Testsome, 0, 0, 0);
        does(&t, SL_CALL_MPI_Isend, 8, 20 * SL_MS, 0);
    }
    assert_int_equal(sl_track_period(t.track), 2);
    assert_true(blocks(&t, 2, 30 * SL_MS, 30 * SL_MS) > 480);
    sl_track_close(t.track);
}

static void lost_records_are_no_long_iteration(void **state) {
    (void)state;
    tracked t = {.now = 1000};
    assert_ok(sl_track_open(&t.track));
    for (int i = 0; i < 200; i++) {
        if (i % 20 == 10) { /* three iterations are missing, so the calls go on as if nothing were */
            t.sequence[0] += 6;
            t.now += 90 * SL_MS;
        }
        does(&t, SL_CALL_MPI_Allreduce, 8, 10 * SL_MS, 0);
        does(&t, SL_CALL_MPI_Barrier, 0, 20 * SL_MS, 0);
    }
    assert_true(blocks(&t, 2, 30 * SL_MS, 30 * SL_MS) > 150); /* none of 120 ms */
    sl_track_close(t.track);
}

/* ---- samples ---- */

static void add(sl_samples *samples, int rank, int64_t start, int64_t time, sl_time now) {
    sl_message_block block = {.rank = rank,
                              .pid = 100 + rank,
                              .count = 1,
                              .period = 4,
                              .start = start,
                              .end = start + time,
                              .time = time};
    assert_ok(sl_samples_add(samples, &block, now));
}

static void sample_is_the_median_over_ranks_that_are_there(void **state) {
    (void)state;
    sl_samples *samples;
    sl_sample sample;
    int64_t at = 1000 * SL_SECOND;
    assert_ok(sl_samples_open(&samples));
    for (int i = 0; i < 10; i++, at += 100 * SL_MS) {
        add(samples, 0, at, 100 * SL_MS, at);
        add(samples, 1, at + 30 * SL_MS, 102 * SL_MS, at); /* begins elsewhere in the loop */
        add(samples, 2, at - 20 * SL_MS, 104 * SL_MS, at);
    }
    int count = 0;
    while (sl_samples_take(samples, at + SL_SECOND, &sample)) {
        assert_int_equal(sample.ranks, 3);
        assert_int_equal(sample.iteration, count++);
        assert_near(sample.time_ms, 102, 1e-9);
        assert_near(sample.slowest_ms, 104, 1e-9);
    }
    assert_true(count >= 9);
    /* rank 1 is gone: waited for, but not for ever */
    sl_samples_lost(samples, 2);
    add(samples, 0, at, 100 * SL_MS, at);
    add(samples, 0, at + 100 * SL_MS, 100 * SL_MS, at);
    while (sl_samples_take(samples, at + SL_SECOND / 2, &sample))
        count++;
    int before = count;
    assert_true(sl_samples_next(samples) > at);
    while (sl_samples_take(samples, at + 3 * SL_SECOND, &sample))
        count++;
    assert_true(count > before);
    assert_int_equal(sample.ranks, 1);
    sl_samples_close(samples);
}

static void rank_that_follows_an_inner_loop_does_not_count(void **state) {
    (void)state;
    sl_samples *samples;
    sl_sample sample;
    int64_t at = 1000 * SL_SECOND;
    assert_ok(sl_samples_open(&samples));
    for (int i = 0; i < 20; i++, at += 100 * SL_MS) {
        for (int k = 0; k < 4; k++)
            add(samples, 0, at + k * 25 * SL_MS, 25 * SL_MS, at); /* four rounds an iteration */
        add(samples, 1, at, 100 * SL_MS, at);
    }
    while (sl_samples_take(samples, at + SL_SECOND, &sample))
        assert_near(sample.time_ms, 100, 1e-9);
    sl_samples_close(samples);
}

static void add_loop(sl_samples *samples, int rank, int period, int64_t start, int64_t time, sl_time now) {
    sl_message_block block = {.rank = rank,
                              .pid = 100 + rank,
                              .count = 1,
                              .period = period,
                              .start = start,
                              .end = start + time,
                              .time = time};
    assert_ok(sl_samples_add(samples, &block, now));
}

/* Rank 0 has iterations of 16 calls and 100 ms, rank 1 follows a loop inside of 4 calls and 50 ms. Gives the
 * time after `iterations`; *period of the last sample. */
static int64_t run_two(sl_samples *samples, int64_t at, int iterations, int *period) {
    sl_sample sample;
    for (int i = 0; i < iterations; i++, at += 100 * SL_MS) {
        add_loop(samples, 1, 4, at, 50 * SL_MS, at + 50 * SL_MS);
        while (sl_samples_take(samples, at + 50 * SL_MS, &sample))
            *period = sample.period;
        add_loop(samples, 1, 4, at + 50 * SL_MS, 50 * SL_MS, at + 99 * SL_MS);
        while (sl_samples_take(samples, at + 99 * SL_MS, &sample))
            *period = sample.period;
        add_loop(samples, 0, 16, at, 100 * SL_MS, at + 100 * SL_MS);
        while (sl_samples_take(samples, at + 100 * SL_MS, &sample))
            *period = sample.period;
    }
    return at;
}

static void whoever_is_heard_first_after_a_standstill_is_not_the_reference(void **state) {
    (void)state;
    sl_samples *samples;
    int period = 0;
    assert_ok(sl_samples_open(&samples));
    int64_t at = run_two(samples, 1000 * SL_SECOND, 20, &period);
    assert_int_equal(period, 16);
    for (int hold = 0; hold < 3; hold++) {
        sl_sample sample;
        add_loop(samples, 1, 4, at, 50 * SL_MS, at + 50 * SL_MS); /* it comes to stand a little later */
        for (int64_t now = at; now < at + (2 + hold) * SL_SECOND; now += 10 * SL_MS)
            while (sl_samples_take(samples, now, &sample))
                assert_int_equal(sample.period, 16);
        at = run_two(samples, at + (2 + hold) * SL_SECOND, 20, &period);
        assert_int_equal(period, 16);
    }
    sl_samples_close(samples);
}

static void reference_that_falls_silent_while_others_go_on_is_replaced(void **state) {
    (void)state;
    sl_samples *samples;
    sl_sample sample;
    int period = 0, taken = 0;
    int64_t last = -1;
    assert_ok(sl_samples_open(&samples));
    int64_t at = run_two(samples, 1000 * SL_SECOND, 20, &period);
    for (int i = 0; i < 100; i++, at += 50 * SL_MS) {
        add_loop(samples, 1, 4, at, 50 * SL_MS, at + 50 * SL_MS);
        for (; sl_samples_take(samples, at + 50 * SL_MS, &sample); taken++) {
            assert_true(sample.iteration > last && sample.iteration >= 19); /* the count goes on */
            last = sample.iteration;
            period = sample.period;
        }
    }
    assert_int_equal(period, 4);
    assert_true(taken > 50); /* of 5 s, some 1.5 s are waited */
    sl_samples_close(samples);
}

/* ---- messages ---- */

static void views_are_the_same_on_the_other_side(void **state) {
    (void)state;
    sl_gate *gate = calloc(1, sizeof *gate);
    sl_gate_view *view = calloc(1, sizeof *view), *again = calloc(1, sizeof *again);
    sl_gate_caller caller;
    char *bytes = NULL;
    size_t capacity = 0, size;
    sl_gate_init(gate, 7);
    for (int i = 0; i < 20; i++) {
        sl_channel_key key = {.communicator = UINT64_MAX - (uint64_t)i,
                              .source = i,
                              .destination = 7,
                              .tag = -1,
                              .kind = SL_CHANNEL_POINT};
        assert_non_null(sl_gate_channel_of(gate, &key));
    }
    sl_gate_join(&caller, gate, NULL);
    sl_gate_announce(&caller, &gate->channel[3]);
    sl_gate_need(&caller, &gate->channel[5], 9);
    sl_gate_pass(&caller, SL_GATE_BLOCK); /* inside, with two entries */
    sl_gate_look(gate, view);
    assert_int_equal(view->thread[0].entries, 2);
    assert_ok(sl_view_pack(view, &bytes, &capacity, &size));
    assert_int_equal(sl_view_unpack(bytes, size, again), 0);
    assert_int_equal(again->rank, 7);
    assert_int_equal(again->channels, 20);
    assert_int_equal(again->channel[19].key.communicator, UINT64_MAX - 19);
    assert_int_equal(again->channel[3].announced, 1);
    assert_int_equal(again->thread[0].state, SL_GATE_INSIDE);
    assert_memory_equal(again->thread[0].entry, view->thread[0].entry, 2 * sizeof view->thread[0].entry[0]);
    for (size_t less = 0; less < size; less++) /* cut off anywhere it is no view */
        assert_int_equal(sl_view_unpack(bytes, less, again), -1);
    sl_free(bytes);
    free(gate);
    free(view);
    free(again);
}

static void bytes_from_elsewhere_are_no_message(void **state) {
    (void)state;
    char bytes[sizeof(sl_message_head) + 2 * sizeof(sl_message_block)] = {0};
    sl_message_head *head = (sl_message_head *)(void *)bytes;
    sl_store_entry entry = {.bytes = bytes, .size = sizeof bytes};
    const void *body;
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    *head = (sl_message_head){
        .magic = SL_MESSAGE_MAGIC, .version = SL_MESSAGE_VERSION, .kind = SL_MESSAGE_ITERATIONS, .count = 2};
    assert_non_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    assert_ptr_equal(body, head + 1);
    assert_null(sl_message_read(&entry, SL_MESSAGE_CALLS, &body));
    head->count = 3;
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    head->count = 2;
    memset(head->node, 'x', sizeof head->node); /* no end */
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
    entry.size = sizeof(sl_message_head) - 1;
    assert_null(sl_message_read(&entry, SL_MESSAGE_ITERATIONS, &body));
}

/* ---- clocks ---- */

static void *answer(void *store) {
    return sl_clock_answer(store, "node", 5) == SL_OK ? store : NULL;
}

static void offset_of_a_clock_is_zero_to_itself_within_its_error(void **state) {
    (void)state;
    job *j = job_open(1);
    sl_store *ours, *theirs;
    sl_offset offset = {0};
    pthread_t thread;
    void *fine;
    assert_ok(sl_store_open(j->url, "job", 0, &ours));
    assert_ok(sl_store_open(j->url, "job", 0, &theirs));
    assert_int_equal(pthread_create(&thread, NULL, answer, theirs), 0);
    assert_ok(sl_clock_ask(ours, "node", 5, &offset));
    pthread_join(thread, &fine);
    assert_non_null(fine);
    assert_int_equal(offset.trips, SL_CLOCK_TRIPS);
    assert_true(offset.error > 0);
    if (llabs(offset.offset) > offset.error)
        fail_msg("offset %lld, error %lld", (long long)offset.offset, (long long)offset.error);
    char identity[160];
    sl_clock_identity(identity, sizeof identity);
    assert_true(strlen(identity) > 30);
    /* nobody answers: no estimate, and no error */
    offset = (sl_offset){0};
    assert_ok(sl_clock_ask(ours, "nobody", 6, &offset));
    assert_int_equal(offset.trips, 0);
    sl_store_close(ours);
    sl_store_close(theirs);
    job_close(j);
}

/* ---- call logs ---- */

/* What the command `slackline detect` says about a log, where it is built beside this test. */
static void detect_reads(const char *path) {
    char self[4096] = "", command[8300], said[4096] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    *strrchr(self, '/') = 0;
    snprintf(command, sizeof command, "%s/../slackline", self);
    if (access(command, X_OK) != 0) {
        printf("not tried: slackline is not built\n");
        return;
    }
    snprintf(command, sizeof command, "%s/../slackline detect --format json %s", self, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    said[fread(said, 1, sizeof said - 1, pipe)] = 0;
    assert_int_equal(pclose(pipe), 0);
    if (!strstr(said, "\"period\":2"))
        fail_msg("slackline detect says %s", said);
}

static void record_writes_the_calls_of_each_rank(void **state) {
    (void)state;
    job *j = job_open(1);
    char record[128], path[200], line[256], expected[64];
    snprintf(record, sizeof record, "%s/calls", j->scratch);
    job_start(j, 0);
    job_add_agent(j, 0, record);
    job_run(j, SL_SECOND);
    job_drop_agent(j, 0);
    for (int rank = 0; rank < JOB_RANKS; rank++) {
        snprintf(path, sizeof path, "%s/rank-%d.csv", record, rank);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof line, file));
        assert_string_equal(line, "sequence,call,communicator,peer,tag,bytes,start_ns,end_ns,rank\n");
        int rows = 0;
        for (; fgets(line, sizeof line, file); rows++) {
            long long start, end;
            int of = -1;
            snprintf(expected, sizeof expected, "%d,%s,x0000000000000077,-1,-1,%d,", rows,
                     rows % 2 ? "MPI_Barrier" : "MPI_Allreduce", rows % 2 ? 0 : 1024);
            assert_int_equal(strncmp(line, expected, strlen(expected)), 0);
            assert_int_equal(sscanf(line + strlen(expected), "%lld,%lld,%d", &start, &end, &of), 3);
            assert_int_equal(of, rank);
            assert_true(end >= start);
        }
        fclose(file);
        assert_true(rows > 10);
        detect_reads(path);
    }
    job_close(j);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rings_are_found_read_in_order_and_losses_counted, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_ring_is_left_alone, make_folder, remove_folder),
        cmocka_unit_test(iterations_of_60_ms_are_blocks_of_one),
        cmocka_unit_test(iterations_of_3_ms_are_joined_to_50_ms),
        cmocka_unit_test(sizes_that_change_from_iteration_to_iteration_hide_no_period),
        cmocka_unit_test(thread_with_the_recurring_calls_is_followed),
        cmocka_unit_test(tests_that_complete_by_chance_hide_no_period),
        cmocka_unit_test(lost_records_are_no_long_iteration),
        cmocka_unit_test(sample_is_the_median_over_ranks_that_are_there),
        cmocka_unit_test(rank_that_follows_an_inner_loop_does_not_count),
        cmocka_unit_test(whoever_is_heard_first_after_a_standstill_is_not_the_reference),
        cmocka_unit_test(reference_that_falls_silent_while_others_go_on_is_replaced),
        cmocka_unit_test(views_are_the_same_on_the_other_side),
        cmocka_unit_test(bytes_from_elsewhere_are_no_message),
        cmocka_unit_test(offset_of_a_clock_is_zero_to_itself_within_its_error),
        cmocka_unit_test(record_writes_the_calls_of_each_rank),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
