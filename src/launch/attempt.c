#include "launch/attempt.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/subprocess.h"
#include "base/terminal.h"
#include "launch/cause.h"
#include "launch/directory.h"
#include "launch/mpirun.h"
#include "launch/process.h"
#include "launch/reaper.h"
#include "launch/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* For an idle reaper: more than it needs to remove the temporary part. */
#define REAPER_MAX (30 * SL_SECOND)

typedef struct sl_supervisor {
    const sl_launch_config *config;
    sl_attempt_result *attempt;
    sl_launch_directory directory;
    char mpirun[PATH_MAX];
    char **argv;
    sl_loop *loop;
    int socket[2]; /* supervisor's end, reaper's end */
    int error[2];  /* mpirun's stderr: read, write */
    sl_subprocess reaper;
    sl_mpirun_report report;
    sl_reaper_message end; /* word is SL_REAPER_ENDED once the reaper has said so */
    int late;              /* the limit is over */
} sl_supervisor;

void sl_launch_signals_block(sl_launch_signals *signals) {
    const int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigemptyset(&signals->heard);
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++)
        sigaddset(&signals->heard, heard[i]);
    if (sl_signals_were_ignored(SIGHUP)) /* nohup: the run outlives its terminal */
        sigdelset(&signals->heard, SIGHUP);
    sigset_t blocked = signals->heard;
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, &signals->before);
}

void sl_launch_signals_restore(const sl_launch_signals *signals) {
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

int sl_launch_is_warning(const sl_launch_config *config, int signal) {
    return config->warning > 0 && (signal == SIGTERM || signal == SIGUSR1);
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

/* A dead reaper is heard by hear_reaper. */
static void order_reaper(const sl_supervisor *supervisor, sl_reaper_word word) {
    sl_reaper_message message = {.word = (int32_t)word};
    send(supervisor->socket[0], &message, sizeof message, MSG_NOSIGNAL);
}

static sl_status hear_signal(void *context, const siginfo_t *signal) {
    sl_supervisor *supervisor = context;
    sl_attempt_result *attempt = supervisor->attempt;
    if (sl_launch_is_warning(supervisor->config, signal->si_signo) && !attempt->warned &&
        !attempt->interrupted) {
        attempt->warned = 1;
        order_reaper(supervisor, SL_REAPER_WARN);
        return SL_OK;
    }
    attempt->interrupted++;
    order_reaper(supervisor, attempt->interrupted == 1 ? SL_REAPER_TERMINATE : SL_REAPER_KILL);
    return SL_OK;
}

/* The ranks find out why they are warned (run/arrange/departure.h). */
static void grow(void *context) {
    sl_supervisor *supervisor = context;
    supervisor->attempt->growing = 1;
    order_reaper(supervisor, SL_REAPER_GROW);
}

static sl_status end_late(void *context) {
    sl_supervisor *supervisor = context;
    supervisor->late = 1;
    order_reaper(supervisor, SL_REAPER_KILL);
    return SL_OK;
}

static void close_file(int *file) {
    if (*file >= 0)
        close(*file);
    *file = -1;
}

static sl_status start_reaper(sl_supervisor *supervisor) {
    const sl_launch_config *config = supervisor->config;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supervisor->socket) != 0 ||
        pipe2(supervisor->error, O_CLOEXEC) != 0)
        return sl_error_errno(SL_ESYS, "the run cannot be started");
    pid_t reaper = fork();
    if (reaper < 0)
        return sl_error_errno(SL_ESYS, "the run cannot be started");
    if (reaper == 0) {
        close_file(&supervisor->socket[0]);
        close_file(&supervisor->error[0]);
        sl_reaper_order order = {.program = supervisor->mpirun,
                                 .argv = supervisor->argv,
                                 .socket = supervisor->socket[1],
                                 .error = supervisor->error[1],
                                 .local = sl_mpirun_is_local(config),
                                 .grace = config->grace > 0 ? config->grace : 5 * SL_SECOND,
                                 .warning = config->warning,
                                 .patience = config->patience > 0 ? config->patience : 10 * SL_SECOND,
                                 .signals = &supervisor->attempt->signals->before,
                                 .directory = &supervisor->directory};
        sl_reaper_main(&order);
    }
    supervisor->reaper = sl_subprocess_take(reaper);
    close_file(&supervisor->socket[1]);
    close_file(&supervisor->error[1]);
    fcntl(supervisor->error[0], F_SETFL, O_NONBLOCK);
    return SL_OK;
}

static sl_status supervise(sl_supervisor *supervisor) {
    SL_TRY(start_reaper(supervisor));
    SL_TRY(sl_loop_open(&supervisor->loop));
    SL_TRY(sl_loop_signals(supervisor->loop, &supervisor->attempt->signals->heard, hear_signal, supervisor));
    SL_TRY(sl_loop_watch(supervisor->loop, supervisor->error[0], hear_error, supervisor));
    SL_TRY(sl_loop_watch(supervisor->loop, supervisor->socket[0], hear_reaper, supervisor));
    if (supervisor->attempt->limit > 0)
        SL_TRY(
            sl_loop_at(supervisor->loop, sl_now() + supervisor->attempt->limit, end_late, supervisor, NULL));
    const sl_attempt_side *side = supervisor->attempt->side;
    sl_status status = SL_OK;
    if (side)
        status = side->open(side->context, supervisor->loop, grow, supervisor);
    SL_THEN(status, sl_loop_run(supervisor->loop));
    if (side)
        side->close(side->context);
    SL_TRY(status);
    char text[4096]; /* what was said last is still in the pipe */
    for (ssize_t got; (got = read(supervisor->error[0], text, sizeof text)) > 0;)
        sl_mpirun_report_add(&supervisor->report, text, (size_t)got);
    return SL_OK;
}

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...) {
    va_list words;
    sl_terminal_clear_line(stderr); /* of a progress line */
    fputs("slackline: ", stderr);
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
}

/* Dismisses the reaper. If it was killed, does its work: the processes of the run die with it
 * (PR_SET_PDEATHSIG, worker.c), but that takes a moment, and the files are still there. */
static int dismiss_reaper(sl_supervisor *supervisor) {
    int status = 0, started = supervisor->reaper.pid > 0;
    close_file(&supervisor->socket[0]);
    if (!sl_subprocess_wait(&supervisor->reaper, sl_now() + REAPER_MAX, &status) &&
        sl_subprocess_end(&supervisor->reaper, 1, &(sl_subprocess_ending){.what = "the reaper"}, &status) !=
            SL_OK)
        complain("%s", sl_error_text());
    if (!started || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        sl_process_end_run(supervisor->directory.path);
    sl_launch_directory_remove(&supervisor->directory); /* gone already, when the reaper ended well */
    return status;
}

/* The first rank to end with that code is enough: they all decide alike, and mpirun ends the others. */
static int ended_by_themselves(const sl_supervisor *supervisor) {
    int status = supervisor->end.value;
    return supervisor->report.exit_code == SL_LAUNCH_LEFT ||
           (WIFEXITED(status) && WEXITSTATUS(status) == SL_LAUNCH_LEFT);
}

static sl_status conclude(sl_supervisor *supervisor) {
    sl_attempt_result *attempt = supervisor->attempt;
    sl_status status = SL_OK;
    attempt->exit_code = 1;
    sl_mpirun_report_end(&supervisor->report);
    int said = supervisor->end.word == SL_REAPER_ENDED;
    if (attempt->interrupted)
        status = sl_error(SL_ENONE, "interrupted");
    else if (supervisor->late)
        status = sl_error(SL_ENONE, "no end within %g s", (double)attempt->limit / 1e9);
    else if (said && (attempt->warned || attempt->growing) && ended_by_themselves(supervisor)) {
        attempt->left = 1;
        unlink(attempt->log); /* contains only mpirun's complaint about that exit code */
    } else if (said)
        status = sl_launch_cause(supervisor->directory.path, attempt->log, &supervisor->report,
                                 supervisor->end.pid, supervisor->end.value, &attempt->exit_code);
    if (supervisor->end.left > 0)
        complain("%d process%s of the run %s left behind: SIGKILL did not end %s", supervisor->end.left,
                 supervisor->end.left == 1 ? "" : "es", supervisor->end.left == 1 ? "is" : "are",
                 supervisor->end.left == 1 ? "it" : "them");
    const int pid = (int)supervisor->reaper.pid;
    int reaper = dismiss_reaper(supervisor);
    if (status == SL_OK && !said) {
        attempt->exit_code = 1;
        if (WIFSIGNALED(reaper))
            return sl_error(SL_EPEER, "the reaper (pid %d) was killed by signal %d (SIG%s)", pid,
                            WTERMSIG(reaper), sigabbrev_np(WTERMSIG(reaper)));
        return sl_error(SL_ESYS, "the reaper could not start the run");
    }
    return status;
}

static sl_status run(sl_supervisor *supervisor, const sl_launch_folder *folder) {
    SL_TRY(sl_mpirun_find(supervisor->mpirun));
    sl_launch_directory_clear(folder->path);
    SL_TRY(sl_launch_directory_make(folder->path, &supervisor->directory));
    sl_status status = sl_mpirun_command(supervisor->config, supervisor->directory.path, &supervisor->argv);
    if (status != SL_OK) {
        sl_launch_directory_remove(&supervisor->directory);
        return status;
    }
    unlink(supervisor->attempt->log);
    sl_mpirun_report_start(&supervisor->report, supervisor->attempt->log, STDERR_FILENO);
    supervisor->report.temporary = supervisor->directory.path;
    fflush(NULL); /* the reaper must not write it a second time */
    status = supervise(supervisor);
    if (status == SL_OK)
        return conclude(supervisor);
    dismiss_reaper(supervisor); /* it kills what runs when the socket closes */
    return status;
}

sl_status sl_launch_attempt(const sl_launch_config *config, const sl_launch_folder *folder,
                            sl_attempt_result *attempt) {
    sl_supervisor *supervisor;
    attempt->exit_code = 1;
    attempt->interrupted = attempt->warned = attempt->left = attempt->growing = 0;
    SL_TRY(sl_alloc(&supervisor, 1, sizeof *supervisor));
    supervisor->config = config;
    supervisor->attempt = attempt;
    supervisor->directory.lock = -1;
    supervisor->end.word = -1;
    for (int i = 0; i < 2; i++)
        supervisor->socket[i] = supervisor->error[i] = -1;
    sl_status status = run(supervisor, folder);
    for (int i = 0; i < 2; i++) {
        close_file(&supervisor->socket[i]);
        close_file(&supervisor->error[i]);
    }
    sl_loop_close(supervisor->loop);
    SL_FREE(supervisor->argv, supervisor);
    return status;
}
