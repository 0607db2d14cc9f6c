/* What the launcher reads: lists of hosts and host files, mpirun's output, the words of failed workers. */
#include "fuzz.h"

#include "base/memory.h"
#include "launch/cause.h"
#include "launch/hosts.h"
#include "launch/mpirun.h"
#include "launch/worker_error.h"
#include "run/transport/listen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *place(void) {
    static char folder[64];
    return fuzz_place(folder);
}

/* ---- hosts */

/* What is accepted is a list that reads as the same. */
static int try_hosts(const char *text) {
    sl_launch_hosts hosts, again;
    char *list;
    sl_status status = sl_launch_hosts_read(text, &hosts);
    if (status == SL_OK) {
        fuzz_must(hosts.count > 0 && sl_launch_hosts_text(&hosts, &list) == SL_OK);
        if (access(list, F_OK) != 0) { /* else it is the name of a file */
            fuzz_must(sl_launch_hosts_read(list, &again) == SL_OK);
            fuzz_must(again.count == hosts.count && sl_roster_slots(&again) == sl_roster_slots(&hosts));
            sl_launch_hosts_free(&again);
        }
        sl_free(list);
    }
    sl_launch_hosts_free(&hosts);
    return status == SL_OK;
}

static int read_hosts(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    int accepted = !strchr(text, '/') && access(text, F_OK) != 0 && try_hosts(text);
    free(text);
    return accepted;
}

static int write_hosts(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "b:2,a,user@c.d-1.example:16,a");
}

static int read_hostfile(const uint8_t *data, size_t size) {
    char path[64];
    int file = fuzz_file(data, size, path), accepted = try_hosts(path);
    close(file);
    return accepted;
}

static int write_hostfile(int number, FILE *out) {
    return number == 0 && fuzz_say(out, "# mine\na slots=2\nb slots=3 max_slots=4\nuser@c\n\n");
}

/* ---- mpirun */

#define RULER "--------------------------------------------------------------------------\n"

/* In pieces, as a pipe cuts it: the first byte is their size. */
static int read_mpirun(const uint8_t *data, size_t size) {
    sl_mpirun_report report = {0};
    char log[128];
    size_t piece = 1 + (size_t)fuzz_take(&data, &size, 1);
    int exit_code, pass = open("/dev/null", O_WRONLY | O_CLOEXEC);
    snprintf(log, sizeof log, "%s/mpirun.log", place());
    sl_mpirun_report_start(&report, log, pass);
    report.temporary = place();
    for (size_t at = 0; at < size; at += piece)
        sl_mpirun_report_add(&report, (const char *)data + at, size - at < piece ? size - at : piece);
    sl_mpirun_report_end(&report);
    (void)sl_launch_cause(place(), log, &report, 1, 9 << 8, &exit_code);
    fuzz_must(sl_error_text()[0]);
    close(pass);
    unlink(log);
    return report.rank >= 0 || report.words[0] || report.unreached[0];
}

static int write_mpirun(int number, FILE *out) {
    const char *const all[] = {
        RULER "Primary job  terminated normally, but 1 process returned\na non-zero exit code.\n" RULER RULER
              "mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n" RULER,
        RULER "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job "
              "to be terminated. The first process to "
              "do so was:\n\n  Process name: [[1,1],3]\n  Exit code:    3\n" RULER,
        RULER "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n" RULER,
        "ssh: Could not resolve hostname nohost1: Name or service not known\n" RULER
        "ORTE was unable to reliably start one or more daemons.\n" RULER,
        "slackline-cause: 3 1 data.txt:3: 'x' is wrong\n" RULER "Some words.\n" RULER};
    if (number > 4)
        return 0;
    fputc(60, out);
    return fuzz_say(out, all[number]);
}

/* The lines of workers on other hosts, and the files of those on this one. */
static int read_worker_error(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size), path[128];
    int taken = sl_worker_error_take(place(), text);
    snprintf(path, sizeof path, "%s/error.1.%d", place(), (int)getpid() + 1);
    FILE *file = fopen(path, "we");
    fuzz_must(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    for (int rank = -1; rank < 2; rank++) {
        sl_worker_error error = sl_worker_error_find(place(), rank);
        fuzz_must(!error.found || memchr(error.text, 0, sizeof error.text));
        taken |= error.found;
    }
    unlink(path);
    free(text);
    return taken;
}

static int write_worker_error(int number, FILE *out) {
    return number < 2 &&
           fuzz_say(out, number ? "1234 1 2\nwords" : "slackline-cause: 3 1 data.txt:3: 'x' is wrong");
}

/* ---- names of rails */

static int read_rail(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    sl_rail_kind kind;
    const char *name = sl_rail_parse(text, &kind);
    fuzz_must(name >= text && name <= text + size && kind != SL_RAIL_UNIX);
    free(text);
    return 1;
}

static int write_rail(int number, FILE *out) {
    return number < 2 && fuzz_say(out, number ? "ucx:eth1" : "eth0");
}

const fuzz_reader fuzz_launch[] = {
    {"hosts", "sl_launch_hosts_read", NULL, write_hosts, NULL, read_hosts},
    {"hostfile", "sl_launch_hosts_read", NULL, write_hostfile, "slots max_slots slots=", read_hostfile},
    {"mpirun", "sl_mpirun_report_add sl_launch_cause", NULL, write_mpirun,
     "slackline-cause: ssh: mpirun MPI_ABORT rank signal ORTE", read_mpirun},
    {"worker_error", "sl_worker_error_take sl_worker_error_find", NULL, write_worker_error,
     "slackline-cause:", read_worker_error},
    {"rail_name", "sl_rail_parse", NULL, write_rail, "ucx:", read_rail},
    {0}};
