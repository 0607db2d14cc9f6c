#include "launch/mpirun.h"
#include "base/find.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "base/text.h"
#include "launch/directory.h"
#include "launch/worker_error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int sl_mpirun_is_local(const sl_launch_config *config) {
    static const char *const allocations[] = {"SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE",
                                              "PE_HOSTFILE", NULL};
    if (config->hosts)
        return 0;
    for (int i = 0; allocations[i]; i++)
        if (getenv(allocations[i]))
            return 0;
    return 1;
}

sl_status sl_mpirun_find(char path[PATH_MAX]) {
    return sl_find_program("mpirun", SL_FIND_ABSOLUTE, path)
               ? SL_OK
               : sl_error(SL_ENONE, "mpirun is not installed (Debian: openmpi-bin)");
}

sl_status sl_mpirun_command(const sl_launch_config *config, const char *temporary, char ***argv) {
    int workers = 0;
    while (config->worker[workers])
        workers++;
    enum { OPTIONS = 64, TEXT = 16 };
    char **command;
    SL_TRY(sl_alloc(&command, 1, (OPTIONS + (size_t)workers) * sizeof(char *) + TEXT));
    char *ranks = (char *)(command + OPTIONS + workers);
    snprintf(ranks, TEXT, "%d", config->ranks);
    char *where = (char *)(uintptr_t)temporary;

    /* Binding would make the number of threads depend on the number of ranks; a waiting rank must not spin if
     * ranks outnumber cores. Single copy through ptrace is refused in many containers, with a warning for
     * each message. */
    char *const always[] = {"mpirun",
                            "-n",
                            ranks,
                            "--bind-to",
                            "none",
                            "--oversubscribe",
                            "--mca",
                            "mpi_yield_when_idle",
                            "1",
                            "--mca",
                            "orte_tmpdir_base",
                            where,
                            "--mca",
                            "btl_vader_backing_directory",
                            where,
                            "--mca",
                            "btl_vader_single_copy_mechanism",
                            "none",
                            "-x",
                            SL_LAUNCH_VARIABLE,
                            NULL};
    /* On one host: no network, no ssh, no resource manager; no probing that could print warnings. */
    char *const local[] = {"--mca", "plm", "isolated", "--mca", "ras",        "^slurm,tm", "--mca",
                           "pml",   "ob1", "--mca",    "btl",   "self,vader", NULL};
    int used = 0;
    for (int i = 0; always[i]; i++)
        command[used++] = always[i];
    for (int i = 0; sl_mpirun_is_local(config) && local[i]; i++)
        command[used++] = local[i];
    if (getenv(SL_TERMINAL_VARIABLE)) { /* rank 0 may be on another host */
        command[used++] = "-x";
        command[used++] = SL_TERMINAL_VARIABLE;
    }
    /* A thread that finished its part of a product spins while it waits for the others, which pays while they
     * run; if another process has taken a core it only delays them. libgomp's own limit makes that 8 times
     * slower. */
    command[used++] = "-x";
    command[used++] = getenv("GOMP_SPINCOUNT") ? "GOMP_SPINCOUNT" : "GOMP_SPINCOUNT=5000";
    if (geteuid() == 0)
        command[used++] = "--allow-run-as-root";
    if (config->hosts) {
        command[used++] = "--host";
        command[used++] = (char *)(uintptr_t)config->hosts;
        command[used++] = "--map-by"; /* neighbors of the pipeline side by side */
        command[used++] = "slot";
    }
    for (int i = 0; i < workers; i++)
        command[used++] = config->worker[i];
    *argv = command;
    return SL_OK;
}

void sl_mpirun_report_start(sl_mpirun_report *report, const char *log_path, int pass) {
    memset(report, 0, sizeof *report);
    report->rank = -1;
    report->log_path = log_path;
    report->pass = pass;
}

static int is_ruler(const char *line) {
    size_t dashes = strspn(line, "-");
    return dashes >= 70 && line[dashes] == 0;
}

/* "[host:01234] words" */
static int is_prefixed(const char *line) {
    const char *end = strchr(line, ']');
    if (line[0] != '[' || !end || end[1] != ' ')
        return 0;
    const char *digit = end;
    while (digit > line && isdigit((unsigned char)digit[-1]))
        digit--;
    return digit < end && digit > line + 1 && digit[-1] == ':';
}

/* Parses a line about a rank in the banners of Open MPI 4.1 (help-orterun.txt, help-mpi-api.txt). Nonzero if
 * it is one. */
static int read_banner_line(sl_mpirun_report *report, const char *line) {
    static const char started[] = "mpirun noticed that process rank ",
                      ended[] = "mpirun has exited due to process rank ";
    int rank, value;
    char node[256];
    if (strncmp(line, started, sizeof started - 1) == 0 &&
        sscanf(line + sizeof started - 1, "%d with PID %*d on node %255s exited on signal %d", &rank, node,
               &value) == 3) {
        report->rank = rank;
        report->signal = value;
        memcpy(report->node, node, sizeof node);
        return 1;
    }
    if (strncmp(line, ended, sizeof ended - 1) == 0 && sscanf(line + sizeof ended - 1, "%d", &rank) == 1) {
        report->rank = rank;
        return 1;
    }
    if (sscanf(line, " Process name: [[%*d,%*d],%d]", &rank) == 1 ||
        sscanf(line, "MPI_ABORT was invoked on rank %d", &rank) == 1) {
        report->rank = rank;
        return 1;
    }
    if (sscanf(line, " Exit code: %d", &value) == 1 || sscanf(line, "with errorcode %d", &value) == 1) {
        report->exit_code = value;
        return 1;
    }
    return 0;
}

/* OpenSSH's error for another host. The line also passes to the user. */
static void read_ssh_line(sl_mpirun_report *report, const char *line) {
    char host[128], why[160];
    if (report->unreached[0])
        return;
    if (sscanf(line, "ssh: Could not resolve hostname %127[^:]: %159[^\r]", host, why) == 2 ||
        sscanf(line, "ssh: connect to host %127s port %*d: %159[^\r]", host, why) == 2 ||
        sscanf(line, "%*[^@: ]@%127[^: ]: %159[P]ermission denied", host, why) == 2)
        snprintf(report->unreached, sizeof report->unreached, "%s: %s", host,
                 strcmp(why, "P") == 0 ? "Permission denied" : why);
}

static void keep_words(sl_mpirun_report *report, const char *line) {
    while (isspace((unsigned char)*line))
        line++;
    sl_text_add(report->words, sizeof report->words, " ", line);
}

static void write_log(sl_mpirun_report *report, const char *line) {
    char text[sizeof report->line + 1];
    sl_writer_how how = report->log ? SL_WRITER_APPEND : SL_WRITER_OVER;
    if (!report->log_path || (!report->log && sl_writer_open(SL_WRITER_MAX, &report->log) != SL_OK))
        return;
    snprintf(text, sizeof text, "%s\n", line);
    sl_writer_put(report->log, report->log_path, how, text, strlen(text), 0);
}

static void pass_line(const sl_mpirun_report *report, const char *line, size_t size) {
    if (report->pass == STDERR_FILENO)
        sl_terminal_clear_line(stderr);
    while (size > 0) {
        ssize_t done = write(report->pass, line, size);
        if (done <= 0)
            return; /* no reader: no reason to end a run */
        line += done;
        size -= (size_t)done;
    }
}

static void take_line(sl_mpirun_report *report, int complete) {
    char *line = report->line;
    size_t size = report->used;
    line[size] = 0;
    report->used = 0;
    if (is_ruler(line)) {
        report->in_banner = !report->in_banner;
        report->has_words |= !report->in_banner && report->words[0];
        write_log(report, line);
    } else if (report->in_banner) {
        write_log(report, line);
        if (!read_banner_line(report, line) && report->rank < 0 && !report->has_words &&
            strncmp(line, "Primary job", 11) != 0 && strncmp(line, "a non-zero exit code. Per user", 30) != 0)
            keep_words(report, line);
    } else if (is_prefixed(line) || strncmp(line, "mpirun: Forwarding signal", 25) == 0 ||
               strstr(line, " total processes failed to start") ||
               strstr(line, " total process failed to start")) {
        write_log(report, line);
    } else if (!report->temporary || !sl_worker_error_take(report->temporary, line)) {
        read_ssh_line(report, line);
        if (complete)
            line[size++] = '\n';
        pass_line(report, line, size);
    }
}

void sl_mpirun_report_add(sl_mpirun_report *report, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n') {
            take_line(report, 1);
            continue;
        }
        report->line[report->used++] = text[i];
        if (report->used + 2 == sizeof report->line)
            take_line(report, 0);
    }
}

void sl_mpirun_report_end(sl_mpirun_report *report) {
    if (report->used > 0)
        take_line(report, 0);
    if (report->log)
        sl_writer_flush(report->log, SL_WRITER_PATIENCE);
    sl_writer_close(report->log);
    report->log = NULL;
}
