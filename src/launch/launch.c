#include "launch/launch.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/memory.h"
#include "launch/cause.h"
#include "launch/directory.h"
#include "launch/mpirun.h"
#include "launch/process.h"
#include "launch/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct sl_supervisor {
    char durable[PATH_MAX];
    char log[PATH_MAX + 16];
    int durable_lock, durable_made;
    sl_launch_directory directory;
    char **argv;
    sl_loop *loop;
    int socket[2]; /* supervisor's end, reaper's end */
    int error[2];  /* mpirun's stderr: read, write */
    pid_t reaper;
    sigset_t before;
    sl_mpirun_report report;
    sl_reaper_message end; /* word is SL_REAPER_ENDED once the reaper has said so */
    int interrupted;       /* times */
} sl_supervisor;

static sl_status find_mpirun(void) {
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        if (length > 0 && snprintf(candidate, sizeof candidate, "%.*s/mpirun", (int)length, at) > 0 &&
            access(candidate, X_OK) == 0)
            return SL_OK;
        at += length + (at[length] == ':');
    }
    return sl_error(SL_ENONE, "mpirun is not installed (Debian: openmpi-bin)");
}

/* The durable part, locked against a second run that would write the same files. File systems without such
 * locks go unguarded. */
static sl_status open_durable(sl_supervisor *supervisor, const char *directory) {
    supervisor->durable_made = access(directory, F_OK) != 0;
    SL_TRY(sl_directory_make(directory));
    if (!realpath(directory, supervisor->durable))
        return sl_error_errno(SL_ESYS, "%s: cannot be used", directory);
    snprintf(supervisor->log, sizeof supervisor->log, "%s/mpirun.log", supervisor->durable);
    supervisor->durable_lock = open(supervisor->durable, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (supervisor->durable_lock < 0 || access(supervisor->durable, W_OK | X_OK) != 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be used", directory);
    if (flock(supervisor->durable_lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return sl_error(SL_ENONE, "%s: another run is using this directory", directory);
    unlink(supervisor->log);
    return SL_OK;
}

static sl_status hear_error(void *context, int file) {
    sl_supervisor *supervisor = context;
    char text[4096];
    ssize_t got = read(file, text, sizeof text);
    if (got > 0)
        sl_mpirun_report_add(&supervisor->report, text, (size_t)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        sl_loop_unwatch(supervisor->loop, file);
    return SL_OK;
}

static sl_status hear_reaper(void *context, int socket) {
    sl_supervisor *supervisor = context;
    sl_reaper_message message;
    ssize_t got = recv(socket, &message, sizeof message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SL_OK;
    if (got == (ssize_t)sizeof message)
        supervisor->end = message;
    sl_loop_stop(supervisor->loop); /* all has ended, or the reaper is gone */
    return SL_OK;
}

static sl_status hear_signal(void *context, const siginfo_t *signal) {
    sl_supervisor *supervisor = context;
    (void)signal;
    supervisor->interrupted++;
    sl_reaper_message message = {.word = supervisor->interrupted == 1 ? SL_REAPER_TERMINATE : SL_REAPER_KILL};
    send(supervisor->socket[0], &message, sizeof message,
         MSG_NOSIGNAL); /* a dead reaper is heard by hear_reaper */
    return SL_OK;
}

/* Signals are blocked before the fork, so that none is lost between the start and the loop. */
static void block_signals(sigset_t *heard, sigset_t *before) {
    sigset_t blocked;
    const int interrupting[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(heard);
    for (size_t i = 0; i < sizeof interrupting / sizeof *interrupting; i++)
        sigaddset(heard, interrupting[i]);
    blocked = *heard;
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, before);
}

static void close_file(int *file) {
    if (*file >= 0)
        close(*file);
    *file = -1;
}

static sl_status start_reaper(sl_supervisor *supervisor, const sl_launch_config *config) {
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supervisor->socket) != 0 ||
        pipe2(supervisor->error, O_CLOEXEC) != 0)
        return sl_error_errno(SL_ESYS, "the run cannot be started");
    pid_t reaper = fork();
    if (reaper < 0)
        return sl_error_errno(SL_ESYS, "the run cannot be started");
    if (reaper == 0) {
        close_file(&supervisor->socket[0]);
        close_file(&supervisor->error[0]);
        sl_reaper_order order = {.argv = supervisor->argv,
                                 .socket = supervisor->socket[1],
                                 .error = supervisor->error[1],
                                 .local = sl_mpirun_is_local(config),
                                 .grace = config->grace > 0 ? config->grace : 5 * SL_SECOND,
                                 .signals = &supervisor->before,
                                 .directory = &supervisor->directory};
        sl_reaper_main(&order);
    }
    supervisor->reaper = reaper;
    close_file(&supervisor->socket[1]);
    close_file(&supervisor->error[1]);
    fcntl(supervisor->error[0], F_SETFL, O_NONBLOCK);
    return SL_OK;
}

static sl_status supervise(sl_supervisor *supervisor, const sl_launch_config *config, const sigset_t *heard) {
    SL_TRY(start_reaper(supervisor, config));
    SL_TRY(sl_loop_open(&supervisor->loop));
    SL_TRY(sl_loop_signals(supervisor->loop, heard, hear_signal, supervisor));
    SL_TRY(sl_loop_watch(supervisor->loop, supervisor->error[0], hear_error, supervisor));
    SL_TRY(sl_loop_watch(supervisor->loop, supervisor->socket[0], hear_reaper, supervisor));
    SL_TRY(sl_loop_run(supervisor->loop));
    char text[4096]; /* what was said last is still in the pipe */
    for (ssize_t got; (got = read(supervisor->error[0], text, sizeof text)) > 0;)
        sl_mpirun_report_add(&supervisor->report, text, (size_t)got);
    return SL_OK;
}

/* Lets the reaper go. If it was killed, does its work: the processes of the run die of its death
 * (PR_SET_PDEATHSIG, worker.c), but that takes a moment, and the files are still there. */
static int dismiss_reaper(sl_supervisor *supervisor) {
    int status = 0;
    close_file(&supervisor->socket[0]);
    if (supervisor->reaper > 0)
        while (waitpid(supervisor->reaper, &status, 0) < 0 && errno == EINTR)
            ;
    if (supervisor->reaper <= 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        sl_process_end_run(supervisor->directory.path);
    sl_launch_directory_remove(&supervisor->directory); /* gone already, when the reaper ended well */
    return status;
}

static sl_status conclude(sl_supervisor *supervisor, int *exit_code) {
    sl_status status = SL_OK;
    *exit_code = 1;
    sl_mpirun_report_end(&supervisor->report);
    int said = supervisor->end.word == SL_REAPER_ENDED;
    if (supervisor->interrupted)
        status = sl_error(SL_ENONE, "interrupted");
    else if (said)
        status = sl_launch_cause(supervisor->directory.path, supervisor->durable, &supervisor->report,
                                 supervisor->end.pid, supervisor->end.value, exit_code);
    int reaper = dismiss_reaper(supervisor);
    if (status == SL_OK && !said) {
        *exit_code = 1;
        if (WIFSIGNALED(reaper))
            return sl_error(SL_EPEER, "the reaper (pid %d) was killed by signal %d (SIG%s)",
                            (int)supervisor->reaper, WTERMSIG(reaper), sigabbrev_np(WTERMSIG(reaper)));
        return sl_error(SL_ESYS, "the reaper could not start the run");
    }
    return status;
}

static sl_status run_locked(sl_supervisor *supervisor, const sl_launch_config *config, int *exit_code) {
    SL_TRY(find_mpirun());
    SL_TRY(open_durable(supervisor, config->directory));
    sl_launch_directory_clear(supervisor->durable);
    SL_TRY(sl_launch_directory_make(supervisor->durable, &supervisor->directory));
    sl_status status = sl_mpirun_command(config, supervisor->directory.path, &supervisor->argv);
    if (status != SL_OK) {
        sl_launch_directory_remove(&supervisor->directory);
        return status;
    }
    sl_mpirun_report_start(&supervisor->report, supervisor->log, STDERR_FILENO);
    fflush(NULL); /* the reaper must not write it a second time */
    sigset_t heard;
    block_signals(&heard, &supervisor->before);
    status = supervise(supervisor, config, &heard);
    if (status == SL_OK)
        status = conclude(supervisor, exit_code);
    else
        dismiss_reaper(supervisor); /* it kills what runs when the socket closes */
    if (*exit_code ==
        2) { /* a wrong request writes nothing, also when only a worker could see that it was wrong */
        unlink(supervisor->log);
        if (supervisor->durable_made)
            rmdir(supervisor->durable); /* not when a worker wrote into it */
    }
    sl_loop_close(supervisor->loop);
    sigprocmask(SIG_SETMASK, &supervisor->before, NULL);
    return status;
}

sl_status sl_launch_run(const sl_launch_config *config, int *exit_code) {
    sl_supervisor *supervisor;
    *exit_code = 1;
    SL_TRY(sl_alloc(&supervisor, 1, sizeof *supervisor));
    supervisor->durable_lock = supervisor->directory.lock = -1;
    supervisor->end.word = -1;
    for (int i = 0; i < 2; i++)
        supervisor->socket[i] = supervisor->error[i] = -1;
    sl_status status = run_locked(supervisor, config, exit_code);
    for (int i = 0; i < 2; i++) {
        close_file(&supervisor->socket[i]);
        close_file(&supervisor->error[i]);
    }
    close_file(&supervisor->durable_lock);
    sl_free(supervisor->argv);
    sl_free(supervisor);
    return status;
}

int sl_launch_inside(void) {
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
    for (int i = 0; rank[i]; i++)
        if (getenv(rank[i]))
            return 1;
    /* A batch script has SLURM_PROCID too; more than one task in the step means that srun started this one.
     */
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    return getenv("SLURM_PROCID") && tasks && atoi(tasks) > 1;
}

sl_status sl_launch_program(const char *name, char **path) {
    char place[PATH_MAX], candidate[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", place, sizeof place - 1);
    if (length <= 0)
        return sl_error_errno(SL_ESYS, "this program's place cannot be found");
    place[length] = 0;
    *strrchr(place, '/') = 0;
    int size = snprintf(candidate, sizeof candidate, "%s/%s", place, name);
    if (size < 0 || (size_t)size >= sizeof candidate || access(candidate, X_OK) != 0)
        return sl_error(SL_ENONE,
                        "%s is not in %s: it is built where Open MPI, oneDNN and xxHash are installed", name,
                        place);
    return sl_copy_text(path, candidate);
}
