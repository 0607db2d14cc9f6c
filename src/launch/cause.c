#include "launch/cause.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/subprocess.h"
#include "launch/worker_error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sl_status report_error(const sl_worker_error *error, int *exit_code) {
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
    char host[256] = "", on_host[300] = "", process[32] = "";
    gethostname(host, sizeof host - 1);
    if (report->node[0] && strcmp(report->node, host) != 0)
        snprintf(on_host, sizeof on_host, " on %s", report->node);
    int pid = process_of_rank(temporary, report->rank);
    if (pid > 0)
        snprintf(process, sizeof process, " (pid %d)", pid);
    return sl_error(SL_EPEER, "rank %d%s%s was killed by signal %d (SIG%s)", report->rank, process, on_host,
                    report->signal, signal_name(report->signal));
}

sl_status sl_launch_cause(const char *temporary, const char *log, const sl_mpirun_report *report, int pid,
                          int wait_status, int *exit_code) {
    *exit_code = 0;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return SL_OK;
    *exit_code = 1;
    sl_worker_error named = {0};
    if (report->rank >= 0)
        named = sl_worker_error_find(temporary, report->rank);
    if (named.found && named.status != SL_EPEER)
        return report_error(&named, exit_code);
    if (report->signal > 0)
        return report_signal(temporary, report);
    sl_worker_error first = sl_worker_error_find(temporary, -1);
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
    int exited = sl_worker_exit_find(temporary, WEXITSTATUS(wait_status));
    if (exited >= 0)
        return sl_error(SL_EPEER, "rank %d ended with exit code %d", exited, WEXITSTATUS(wait_status));
    return sl_error(SL_ESYS, "mpirun ended with exit code %d", WEXITSTATUS(wait_status));
}
