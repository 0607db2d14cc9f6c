#include "launch/cause.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/subprocess.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct sl_left_error {
    int found, rank, status;
    sl_time time;
    char text[1024];
} sl_left_error;

/* Between hosts the message comes as a line on standard error, which mpirun forwards to the supervisor. */
static const char carried[] = "slackline-cause: ";

void sl_launch_cause_send(int rank, sl_status status, const char *text) {
    fprintf(stderr, "%s%d %d %s\n", carried, rank, (int)status, text);
}

int sl_launch_cause_take(const char *temporary, const char *line) {
    int rank, status, start = 0;
    if (strncmp(line, carried, sizeof carried - 1) != 0)
        return 0;
    line += sizeof carried - 1;
    return sscanf(line, "%d %d %n", &rank, &status, &start) >= 2 && start > 0 &&
           sl_launch_cause_leave(temporary, rank, (sl_status)status, line + start) == SL_OK;
}

sl_status sl_launch_cause_leave(const char *temporary, int rank, sl_status status, const char *text) {
    char path[512], content[1200];
    snprintf(path, sizeof path, "%s/error.%d.%d", temporary, rank, (int)getpid());
    int size =
        snprintf(content, sizeof content, "%" PRId64 " %d %d\n%.1000s", sl_now(), rank, (int)status, text);
    return sl_file_write(path, content, (size_t)size);
}

void sl_launch_cause_exit(const char *temporary, int rank, int exit_code) {
    char path[512], content[32];
    snprintf(path, sizeof path, "%s/exit.%d.%d", temporary, rank, exit_code);
    int size = snprintf(content, sizeof content, "%d\n", (int)getpid());
    sl_file_write(path, content, (size_t)size); /* the process ends: a failure could not be reported */
}

/* A rank that noted exit code `exit_code`; -1: none did. mpirun is known to end with a rank's code and
 * without naming it if the ranks end at the same time. */
static int find_exit(const char *temporary, int exit_code) {
    int found = -1;
    DIR *all = opendir(temporary);
    if (!all)
        return found;
    for (struct dirent *entry; (entry = readdir(all));) {
        int rank, code, end = 0;
        if (sscanf(entry->d_name, "exit.%d.%d%n", &rank, &code, &end) == 2 && entry->d_name[end] == 0 &&
            code == exit_code && (found < 0 || rank < found))
            found = rank;
    }
    closedir(all);
    return found;
}

static int read_error(const char *path, sl_left_error *error) {
    char *content;
    size_t size;
    if (sl_file_read(path, &content, &size) != SL_OK)
        return 0;
    int start = 0;
    error->found =
        sscanf(content, "%" SCNd64 " %d %d%n", &error->time, &error->rank, &error->status, &start) == 3 &&
        content[start] == '\n';
    if (error->found)
        snprintf(error->text, sizeof error->text, "%s", content + start + 1);
    sl_free(content);
    return error->found;
}

/* A consequence of another rank's end ranks last. */
static int comes_before(const sl_left_error *a, const sl_left_error *b) {
    int a_follows = a->status == SL_EPEER, b_follows = b->status == SL_EPEER;
    return !b->found || (a_follows != b_follows ? b_follows : a->time < b->time);
}

/* The first error that a rank left; `rank` -1: any rank. */
static sl_left_error find_error(const char *temporary, int rank) {
    sl_left_error first = {0};
    DIR *all = opendir(temporary);
    if (!all)
        return first;
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[1024];
        int of, process, end = 0;
        sl_left_error error = {0};
        if (sscanf(entry->d_name, "error.%d.%d%n", &of, &process, &end) != 2 || entry->d_name[end] != 0 ||
            (rank >= 0 && of != rank))
            continue;
        snprintf(path, sizeof path, "%s/%s", temporary, entry->d_name);
        if (read_error(path, &error) && comes_before(&error, &first))
            first = error;
    }
    closedir(all);
    return first;
}

static sl_status report_error(const sl_left_error *error, int *exit_code) {
    sl_status status =
        error->status > SL_OK && error->status <= SL_EPEER ? (sl_status)error->status : SL_ESYS;
    *exit_code = sl_exit_code(status);
    if (error->rank < 0)
        return sl_error(status, "%s", error->text);
    return sl_error(status, "rank %d: %s", error->rank, error->text);
}

static const char *signal_name(int signal) {
    const char *name = sigabbrev_np(signal);
    return name ? name : "?";
}

/* The process that worker.c noted for this rank; 0: none. */
static int process_of_rank(const char *temporary, int rank) {
    char path[512], *content;
    size_t size;
    snprintf(path, sizeof path, "%s/rank.%d", temporary, rank);
    if (sl_file_read(path, &content, &size) != SL_OK)
        return 0;
    int process = atoi(content);
    sl_free(content);
    return process;
}

static sl_status report_signal(const char *temporary, const sl_mpirun_report *report) {
    char host[256] = "", place[300] = "", process[32] = "";
    gethostname(host, sizeof host - 1);
    if (report->node[0] && strcmp(report->node, host) != 0)
        snprintf(place, sizeof place, " on %s", report->node);
    int pid = process_of_rank(temporary, report->rank);
    if (pid > 0)
        snprintf(process, sizeof process, " (pid %d)", pid);
    return sl_error(SL_EPEER, "rank %d%s%s was killed by signal %d (SIG%s)", report->rank, process, place,
                    report->signal, signal_name(report->signal));
}

sl_status sl_launch_cause(const char *temporary, const char *log, const sl_mpirun_report *report, int pid,
                          int wait_status, int *exit_code) {
    *exit_code = 0;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return SL_OK;
    *exit_code = 1;
    sl_left_error named = {0};
    if (report->rank >= 0)
        named = find_error(temporary, report->rank);
    if (named.found && named.status != SL_EPEER)
        return report_error(&named, exit_code);
    if (report->signal > 0)
        return report_signal(temporary, report);
    sl_left_error first = find_error(temporary, -1);
    if (first.found && first.status != SL_EPEER)
        return report_error(&first, exit_code);
    if (wait_status == SL_SUBPROCESS_UNKNOWN)
        return sl_error(SL_ESYS, "mpirun (pid %d) did not end", pid);
    if (WIFSIGNALED(wait_status))
        return sl_error(SL_EPEER, "mpirun (pid %d) was killed by signal %d (SIG%s)", pid,
                        WTERMSIG(wait_status), signal_name(WTERMSIG(wait_status)));
    if (first.found)
        return report_error(&first, exit_code);
    if (report->rank >= 0 && report->exit_code != 0)
        return sl_error(SL_EPEER, "rank %d ended with exit code %d", report->rank, report->exit_code);
    if (report->rank >= 0)
        return sl_error(SL_EPEER, "rank %d ended before the run was complete", report->rank);
    if (report->unreached[0])
        return sl_error(SL_EPEER, "cannot reach %s", report->unreached);
    if (report->words[0]) /* a host that is lost, mostly */
        return sl_error(SL_EPEER, "mpirun failed: %s (all of it: %s)", report->words, log);
    int exited = find_exit(temporary, WEXITSTATUS(wait_status));
    if (exited >= 0)
        return sl_error(SL_EPEER, "rank %d ended with exit code %d", exited, WEXITSTATUS(wait_status));
    return sl_error(SL_ESYS, "mpirun ended with exit code %d", WEXITSTATUS(wait_status));
}
