/* The banners below were written by mpirun 4.1.4 for a rank killed, a rank that exited with 3, one that left
 * without MPI_Finalize, MPI_Abort(comm, 7), and a program that does not exist. */
#include "base/file.h"
#include "base/memory.h"
#include "launch/mpirun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RULER "--------------------------------------------------------------------------\n"
#define PRIMARY                                                                                              \
    RULER "Primary job  terminated normally, but 1 process returned\n"                                       \
          "a non-zero exit code. Per user-direction, the job has been aborted.\n" RULER

typedef struct heard {
    sl_mpirun_report report;
    char passed[4096], log[64];
} heard;

/* Feeds `text` in pieces of `piece` bytes, as a pipe may cut it. */
static void hear(heard *h, const char *text, size_t piece) {
    int files[2];
    assert_int_equal(pipe(files), 0);
    strcpy(h->log, "/tmp/slackline-test-log-XXXXXX");
    close(mkstemp(h->log));
    unlink(h->log);
    sl_mpirun_report_start(&h->report, h->log, files[1]);
    for (size_t at = 0, size = strlen(text); at < size; at += piece)
        sl_mpirun_report_add(&h->report, text + at, size - at < piece ? size - at : piece);
    sl_mpirun_report_end(&h->report);
    close(files[1]);
    ssize_t got = read(files[0], h->passed, sizeof h->passed - 1);
    h->passed[got > 0 ? got : 0] = 0;
    close(files[0]);
}

static void a_killed_rank_is_read_from_the_banner_and_workers_lines_pass(void **state) {
    (void)state;
    const char *text =
        "step 1\nmpirun: Forwarding signal 10 to job\n" PRIMARY "from a worker\n" RULER
        "mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n" RULER;
    for (size_t piece = 1; piece < 200; piece += 33) {
        heard h;
        hear(&h, text, piece);
        assert_int_equal(h.report.rank, 2);
        assert_int_equal(h.report.signal, 9);
        assert_string_equal(h.report.node, "vm");
        assert_string_equal(h.passed, "step 1\nfrom a worker\n");
        char *log;
        size_t size;
        assert_int_equal(sl_file_read(h.log, &log, &size), SL_OK);
        assert_non_null(strstr(log, "mpirun noticed"));
        assert_null(strstr(log, "from a worker"));
        sl_free(log);
        unlink(h.log);
    }
}

static void a_silent_mpirun_leaves_no_log(void **state) {
    (void)state;
    heard h;
    hear(&h, "only a worker\nwithout end", 7);
    assert_int_equal(h.report.rank, -1);
    assert_string_equal(h.passed, "only a worker\nwithout end");
    assert_int_equal(access(h.log, F_OK), -1);
}

static void exit_codes_and_improper_ends_are_read(void **state) {
    (void)state;
    heard h;
    hear(&h,
         PRIMARY RULER
         "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
         "the job to be terminated. The first process to do so was:\n\n  Process name: [[31518,1],1]\n"
         "  Exit code:    3\n" RULER,
         64);
    assert_int_equal(h.report.rank, 1);
    assert_int_equal(h.report.exit_code, 3);
    assert_int_equal(h.report.signal, 0);
    unlink(h.log);
    hear(&h,
         RULER
         "mpirun has exited due to process rank 3 with PID 0 on\nnode vm exiting improperly. There are three "
         "reasons this could occur:\n" RULER,
         64);
    assert_int_equal(h.report.rank, 3);
    assert_int_equal(h.report.exit_code, 0);
    unlink(h.log);
    hear(
        &h,
        RULER
        "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n\nNOTE: invoking "
        "MPI_ABORT causes Open MPI to kill all MPI processes.\n" RULER,
        64);
    assert_int_equal(h.report.rank, 1);
    assert_int_equal(h.report.exit_code, 7);
    unlink(h.log);
}

static void a_banner_about_no_rank_is_kept_in_one_line(void **state) {
    (void)state;
    heard h;
    hear(&h,
         "[vm:06144] ptl_tool: problems getting address for index 0\n" RULER
         "The PMIx server's listener thread failed to start. We cannot\ncontinue.\n" RULER RULER
         "Another.\n" RULER "2 total processes failed to start\n",
         50);
    assert_int_equal(h.report.rank, -1);
    assert_string_equal(h.report.words,
                        "The PMIx server's listener thread failed to start. We cannot continue.");
    assert_string_equal(h.passed, "");
    unlink(h.log);
}

/* The words of OpenSSH 9.2; the first and the last end lines with a carriage return. */
static void a_host_that_ssh_cannot_reach_is_named(void **state) {
    (void)state;
    static const char banner[] =
        RULER "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n" RULER;
    const struct {
        const char *line, *unreached;
    } cases[] = {
        {"ssh: Could not resolve hostname nohost1: Name or service not known\r\n",
         "nohost1: Name or service not known"},
        {"ssh: connect to host b port 22: Connection refused\n", "b: Connection refused"},
        {"me@c.example.org: Permission denied (publickey,password).\r\n", "c.example.org: Permission denied"},
        {"ssh: words of some other kind\n", ""},
        {"loss 3.14: Permission denied\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        heard h;
        char text[1024];
        snprintf(text, sizeof text, "%s%s", cases[i].line, banner);
        hear(&h, text, 64);
        assert_string_equal(h.report.unreached, cases[i].unreached);
        assert_string_equal(h.passed, cases[i].line); /* the user reads it as it is, too */
        unlink(h.log);
    }
}

static void a_line_longer_than_the_buffer_passes_whole(void **state) {
    (void)state;
    enum { LENGTH = 12000 };
    char *text;
    assert_int_equal(sl_alloc(&text, LENGTH + 2, 1), SL_OK);
    memset(text, 'x', LENGTH);
    text[LENGTH] = '\n';
    int files[2];
    assert_int_equal(pipe(files), 0);
    sl_mpirun_report report;
    sl_mpirun_report_start(&report, NULL, files[1]);
    sl_mpirun_report_add(&report, text, LENGTH + 1);
    sl_mpirun_report_end(&report);
    close(files[1]);
    size_t total = 0;
    char piece[4096];
    for (ssize_t got; (got = read(files[0], piece, sizeof piece)) > 0;)
        total += (size_t)got;
    assert_int_equal(total, LENGTH + 1);
    close(files[0]);
    sl_free(text);
}

static int has_pair(char **argv, const char *name, const char *value) {
    for (int i = 0; argv[i] && argv[i + 1]; i++)
        if (strcmp(argv[i], name) == 0 && strcmp(argv[i + 1], value) == 0)
            return 1;
    return 0;
}

static void the_command_keeps_every_temporary_file_in_the_run(void **state) {
    (void)state;
    char *worker[] = {"/bin/worker", "-n", "run.yaml", NULL};
    sl_launch_config config = {.directory = ".", .ranks = 12, .worker = worker};
    char **argv;
    assert_int_equal(sl_mpirun_command(&config, "/dev/shm/here", &argv), SL_OK);
    assert_string_equal(argv[0], "mpirun");
    assert_true(has_pair(argv, "-n", "12"));
    assert_true(has_pair(argv, "--bind-to", "none"));
    assert_true(has_pair(argv, "orte_tmpdir_base", "/dev/shm/here"));
    assert_true(has_pair(argv, "btl_vader_backing_directory", "/dev/shm/here"));
    assert_true(has_pair(argv, "mpi_yield_when_idle", "1"));
    int count = 0;
    while (argv[count])
        count++;
    assert_string_equal(argv[count - 3], "/bin/worker");
    assert_string_equal(argv[count - 1], "run.yaml");
    sl_free(argv);
    config.hosts = "a:2,b:2";
    assert_int_equal(sl_mpirun_command(&config, "/dev/shm/here", &argv), SL_OK);
    assert_true(has_pair(argv, "--host", "a:2,b:2"));
    assert_false(has_pair(argv, "btl", "self,vader")); /* between hosts Open MPI chooses its network */
    sl_free(argv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_read_from_the_banner_and_workers_lines_pass),
        cmocka_unit_test(a_silent_mpirun_leaves_no_log),
        cmocka_unit_test(exit_codes_and_improper_ends_are_read),
        cmocka_unit_test(a_banner_about_no_rank_is_kept_in_one_line),
        cmocka_unit_test(a_host_that_ssh_cannot_reach_is_named),
        cmocka_unit_test(a_line_longer_than_the_buffer_passes_whole),
        cmocka_unit_test(the_command_keeps_every_temporary_file_in_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
