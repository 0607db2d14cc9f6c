/* The agent's parts: rings read while they are written, iterations of a rank, call logs. */
#include "base/build_id.h"
#include "notice/control/watched_job.h"

#include "base/random.h"
#include "notice/agent/holds.h"
#include "notice/agent/rings.h"
#include "notice/agent/track.h"
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>

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
    sl_process_id self;
    sl_process_find(&self);
    sl_record_ring *ring = job_ring(folder, &self, 3, 4, 64);
    for (int i = 0; i < 40; i++) {
        sl_call call = call_of(SL_CALL_MPI_Send, (uint64_t)i, i);
        sl_call_write(ring, 64, &call);
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
        sl_call_write(ring, 64, &call);
    }
    size_t count = sl_rings_read(rings, 1000, &source, &calls);
    assert_int_equal(count, 63);
    assert_int_equal(calls[count - 1].bytes, 239);
    sl_rings_counts(rings, &read, &lost);
    assert_int_equal(read, 103);
    assert_int_equal(lost, 137);
    sl_rings_close(rings);
}

static int entries(void) {
    int count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* A child with a ring of `calls` calls and a gate, which is there when this returns and stays until it is
 * killed. -1: it may have no process namespace of its own. */
static pid_t start_process(int rank, int calls, int space) {
    int told[2];
    char byte = 0;
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    pid_t child = space ? (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0) : fork();
    if (child == 0) {
        sl_process_id self;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sl_process_find(&self);
        sl_record_ring *ring = job_ring(folder, &self, rank, 2, 64);
        job_gate(folder, &self, rank);
        for (int i = 0; i < calls; i++) {
            sl_call call = call_of(SL_CALL_MPI_Send, (uint64_t)i, i);
            sl_call_write(ring, 64, &call);
        }
        if (write(told[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(told[1]);
    if (child > 0)
        assert_int_equal(read(told[0], &byte, 1), 1);
    close(told[0]);
    return child;
}

static void end_process(pid_t child) {
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void processes_that_have_ended_are_read_and_leave_nothing(void **state) {
    (void)state;
    sl_rings *rings;
    sl_ring_source source;
    const sl_call *calls;
    uint64_t read, lost, ended, before = 0;
    assert_ok(sl_rings_open(folder, &rings));
    for (int i = 0; i < 200; i++) {
        end_process(start_process(0, 20, 0));
        assert_ok(sl_rings_look(rings));
        assert_int_equal(sl_rings_ended(rings, &ended), 0); /* not read yet */
        assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 20);
        assert_ok(sl_rings_look(rings));
        assert_int_equal(sl_rings_ended(rings, &ended), 1);
        assert_true(ended == source.process.id && ended != before);
        assert_int_equal(sl_rings_ended(rings, &ended), 0);
        before = source.process.id;
        assert_int_equal(entries(), 0);
    }
    sl_rings_counts(rings, &read, &lost);
    assert_int_equal(read, 4000);
    assert_int_equal(lost, 0);
    sl_rings_close(rings);
}

static void a_process_that_lives_keeps_its_ring_however_long_it_says_nothing(void **state) {
    (void)state;
    sl_rings *rings;
    sl_ring_source source;
    const sl_call *calls;
    uint64_t ended;
    assert_ok(sl_rings_open(folder, &rings));
    pid_t child = start_process(0, 20, 0);
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 20);
    assert_int_equal(source.pid, child);
    for (int i = 0; i < 100; i++)
        assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_ended(rings, &ended), 0);
    assert_int_equal(entries(), 2);
    end_process(child);
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_ended(rings, &ended), 1);
    assert_int_equal(entries(), 0);
    sl_rings_close(rings);
}

/* A folder on a file system without locks: the process is looked for by id and start time. */
static void without_locks_a_process_is_known_by_id_and_start(void **state) {
    (void)state;
    for (int used_again = 0; used_again < 2; used_again++) {
        sl_rings *rings;
        sl_ring_source source;
        const sl_call *calls;
        uint64_t ended;
        size_t bytes;
        pid_t child = start_process(0, 20, 0);
        assert_ok(sl_rings_open(folder, &rings));
        DIR *directory = opendir(folder);
        for (struct dirent *entry; (entry = readdir(directory));)
            if (strstr(entry->d_name, ".ring")) {
                sl_ring_file *file = sl_folder_map(folder, entry->d_name, 1, sizeof *file, &bytes);
                file->head.process.locked = 0;
                file->head.process.start -= (uint64_t)used_again; /* that one was another process */
                munmap(file, bytes);
            }
        closedir(directory);
        for (int i = 0; i < 3; i++)
            assert_ok(sl_rings_look(rings));
        assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 20);
        assert_ok(sl_rings_look(rings));
        assert_int_equal(sl_rings_ended(rings, &ended), used_again);
        end_process(child);
        assert_ok(sl_rings_look(rings));
        assert_int_equal(sl_rings_ended(rings, &ended), !used_again);
        assert_int_equal(entries(), 0);
        sl_rings_close(rings);
    }
}

/* Containers that share the folder: in each the process has number 1. */
static void processes_with_equal_ids_in_two_namespaces_are_told_apart(void **state) {
    (void)state;
    sl_rings *rings;
    sl_ring_source source[2];
    const sl_call *calls;
    uint64_t ended;
    pid_t child[2];
    for (int i = 0; i < 2; i++)
        if ((child[i] = start_process(i, 20 + i, 1)) < 0) {
            printf("not tried: %s\n", strerror(errno));
            return;
        }
    assert_ok(sl_rings_open(folder, &rings));
    assert_ok(sl_rings_look(rings));
    for (int i = 0; i < 2; i++) {
        size_t count = sl_rings_read(rings, 100, &source[i], &calls);
        assert_int_equal(count, 20 + source[i].rank);
        assert_int_equal(source[i].process.pid, 1);
        assert_int_equal(source[i].pid, child[source[i].rank]); /* as it is called here */
    }
    assert_true(source[0].process.id != source[1].process.id);
    assert_true(source[0].process.space != source[1].process.space);
    assert_int_equal(source[0].rank + source[1].rank, 1);
    sl_holds holds = {.folder = folder};
    char trouble[88];
    sl_process_id both[2] = {source[0].process, source[1].process};
    assert_ok(sl_holds_begin(&holds, 1, both, 2, job_now() + SL_SECOND, trouble, sizeof trouble));
    assert_string_equal(trouble, "");
    assert_int_equal(holds.gates, 2);
    assert_int_equal(holds.gate[0].gate->rank, source[0].rank);
    assert_int_equal(holds.gate[1].gate->rank, source[1].rank);
    sl_holds_close(&holds);
    end_process(child[0]);
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_ended(rings, &ended), 1);
    assert_int_equal(entries(), 2); /* the other's */
    assert_int_equal(sl_rings_ended(rings, &ended), 0);
    end_process(child[1]);
    sl_rings_close(rings);
}

static void a_ring_of_another_version_is_an_error_that_names_both(void **state) {
    (void)state;
    sl_rings *rings;
    sl_ring_source source;
    const sl_call *calls;
    sl_process_id self;
    sl_process_find(&self);
    sl_call call = call_of(SL_CALL_MPI_Send, 1, 1);
    sl_record_ring *ring = job_ring(folder, &self, 0, 1, 64);
    sl_ring_file *file = (sl_ring_file *)(void *)ring - 1;
    sl_call_write(ring, 64, &call);
    memset(file->head.build, 0, sizeof file->head.build);
    memcpy(file->head.build, "0.0.9-\033[2J", 10);
    assert_ok(sl_rings_open(folder, &rings));
    assert_ok(sl_rings_look(rings));
    assert_int_equal(sl_rings_read(rings, 100, &source, &calls), 0);
    if (!strstr(sl_rings_trouble(rings), "0.0.9-?[2J") || !strstr(sl_rings_trouble(rings), sl_build_id()))
        fail_msg("said: '%s'", sl_rings_trouble(rings));
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
    assert_string_equal(sl_rings_trouble(rings), "");
    assert_int_equal(entries(), 5);
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
        cmocka_unit_test_setup_teardown(processes_that_have_ended_are_read_and_leave_nothing, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_process_that_lives_keeps_its_ring_however_long_it_says_nothing,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(without_locks_a_process_is_known_by_id_and_start, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(processes_with_equal_ids_in_two_namespaces_are_told_apart,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_ring_of_another_version_is_an_error_that_names_both, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_ring_is_left_alone, make_folder, remove_folder),
        cmocka_unit_test(iterations_of_60_ms_are_blocks_of_one),
        cmocka_unit_test(iterations_of_3_ms_are_joined_to_50_ms),
        cmocka_unit_test(sizes_that_change_from_iteration_to_iteration_hide_no_period),
        cmocka_unit_test(thread_with_the_recurring_calls_is_followed),
        cmocka_unit_test(tests_that_complete_by_chance_hide_no_period),
        cmocka_unit_test(lost_records_are_no_long_iteration),
        cmocka_unit_test(record_writes_the_calls_of_each_rank),
    };
    cmocka_set_test_filter(getenv("SL_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
