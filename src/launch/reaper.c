#include "launch/reaper.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/subprocess.h"
#include "launch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct sl_reaper {
    const sl_reaper_order *order;
    sl_loop *loop;
    sl_subprocess mpirun; /* none: ended */
    sl_reaper_message end;
    int alone;  /* the supervisor is gone */
    int ending; /* processes are being killed */
    int ended;  /* none is left */
    sl_time give_up;
} sl_reaper;

static void point_at_null(int file, int flags) {
    int null = open("/dev/null", flags | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, file);
        close(null);
    }
}

/* In the child that becomes mpirun. */
static _Noreturn void become_mpirun(const sl_reaper_order *order, pid_t reaper) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != reaper)
        _exit(127);
    point_at_null(0, O_RDONLY);
    dup2(order->error, 2);
    setenv(SL_LAUNCH_VARIABLE, order->directory->path, 1);
    setenv("TMPDIR", order->directory->path, 1);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, order->signals, NULL);
    execv(order->program, order->argv);
    dprintf(2, "%s: cannot be started\n", order->program);
    _exit(127);
}

static sl_status finish(sl_reaper *reaper) {
    reaper->ended = 1;
    reaper->end.word = SL_REAPER_ENDED;
    if (reaper->alone)
        sl_loop_stop(reaper->loop);
    else if (send(reaper->order->socket, &reaper->end, sizeof reaper->end, MSG_NOSIGNAL) < 0)
        sl_loop_stop(reaper->loop);
    return SL_OK; /* else the supervisor reads the errors and then closes its end */
}

static void collect(sl_reaper *reaper) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == reaper->mpirun.pid) {
            if (reaper->mpirun.file >= 0)
                sl_loop_unwatch(reaper->loop, reaper->mpirun.file);
            sl_subprocess_forget(&reaper->mpirun);
            reaper->end.value = status;
        }
}

static sl_status kill_all(void *context) {
    sl_reaper *reaper = context;
    if (reaper->ended)
        return SL_OK;
    sl_time now = sl_now();
    if (!reaper->ending) {
        reaper->ending = 1;
        reaper->give_up = now + reaper->order->patience;
    }
    int left = sl_process_signal_descendants(getpid(), 0, SIGKILL);
    collect(reaper);
    int ended = left == 0 && reaper->mpirun.pid == 0;
    reaper->end.left = ended ? 0 : left > 1 ? left : 1;
    if (ended || now >= reaper->give_up)
        return finish(reaper);
    return sl_loop_at(reaper->loop, now + 10 * SL_MS, kill_all, reaper, NULL);
}

static sl_status begin_kill(sl_reaper *reaper) {
    return reaper->ending ? SL_OK : kill_all(reaper);
}

/* Workers first: mpirun ends by itself when they have. */
static sl_status terminate(sl_reaper *reaper) {
    pid_t spared = reaper->order->local ? reaper->mpirun.pid : 0;
    int signaled = spared ? sl_process_signal_descendants(getpid(), spared, SIGTERM) : 0;
    if (signaled <= 0)
        sl_subprocess_signal(&reaper->mpirun, SIGTERM);
    return sl_loop_at(reaper->loop, sl_now() + reaper->order->grace, kill_all, reaper, NULL);
}

/* mpirun forwards SIGUSR1 to its workers on every host; it would end them after a SIGTERM. */
static sl_status notify(sl_reaper *reaper) {
    sl_subprocess_signal(&reaper->mpirun, SIGUSR1);
    return SL_OK;
}

static sl_status warn(sl_reaper *reaper) {
    SL_TRY(notify(reaper));
    return sl_loop_at(reaper->loop, sl_now() + reaper->order->warning, kill_all, reaper, NULL);
}

static sl_status obey(sl_reaper *reaper, int32_t word) {
    return word == SL_REAPER_WARN        ? warn(reaper)
           : word == SL_REAPER_GROW      ? notify(reaper)
           : word == SL_REAPER_TERMINATE ? terminate(reaper)
                                         : begin_kill(reaper);
}

static sl_status hear_supervisor(void *context, int socket) {
    sl_reaper *reaper = context;
    sl_reaper_message message;
    ssize_t got = recv(socket, &message, sizeof message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return SL_OK;
    if (got == (ssize_t)sizeof message)
        return obey(reaper, message.word);
    reaper->alone = 1;
    sl_loop_unwatch(reaper->loop, socket);
    if (reaper->ended)
        sl_loop_stop(reaper->loop);
    return begin_kill(reaper);
}

/* Its end is enough: a debugger may prevent reaping it. */
static sl_status hear_end(void *context, int file) {
    sl_reaper *reaper = context;
    sl_loop_unwatch(reaper->loop, file);
    collect(reaper);
    return begin_kill(reaper);
}

static sl_status hear_signal(void *context, const siginfo_t *signal) {
    sl_reaper *reaper = context;
    if (signal->si_signo != SIGCHLD)
        return begin_kill(reaper); /* a request to end the reaper ends everything */
    collect(reaper);
    return reaper->mpirun.pid == 0 ? begin_kill(reaper) : SL_OK;
}

static sl_status open_loop(sl_reaper *reaper) {
    sigset_t set;
    sigemptyset(&set);
    const int heard[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++)
        sigaddset(&set, heard[i]);
    SL_TRY(sl_loop_open(&reaper->loop));
    SL_TRY(sl_loop_signals(reaper->loop, &set, hear_signal, reaper));
    return sl_loop_watch(reaper->loop, reaper->order->socket, hear_supervisor, reaper);
}

static sl_status start_mpirun(sl_reaper *reaper, pid_t self) {
    pid_t pid = fork();
    if (pid == 0)
        become_mpirun(reaper->order, self);
    if (pid < 0)
        return SL_ESYS;
    reaper->mpirun = sl_subprocess_take(pid);
    reaper->end.pid = pid;
    return reaper->mpirun.file < 0 ? SL_OK /* SIGCHLD has to do */
                                   : sl_loop_watch(reaper->loop, reaper->mpirun.file, hear_end, reaper);
}

/* The loop itself failed. */
static void kill_without_loop(const sl_reaper *reaper, pid_t self) {
    sl_time now = sl_now(), give_up = now + reaper->order->patience;
    for (; sl_process_signal_descendants(self, 0, SIGKILL) > 0 && now < give_up; now = sl_now()) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        sl_clock_sleep_until(sl_clock_real(), now + 10 * SL_MS);
    }
}

_Noreturn void sl_reaper_main(const sl_reaper_order *order) {
    sl_reaper reaper = {.order = order, .end.value = SL_SUBPROCESS_UNKNOWN, .mpirun = SL_SUBPROCESS_NONE};
    pid_t self = getpid();
    prctl(PR_SET_NAME, "slackline-reaper");
    setsid(); /* Ctrl-C at the terminal is the supervisor's to hear */
    signal(SIGPIPE, SIG_IGN);
    sl_status status = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 ? open_loop(&reaper) : SL_ESYS;
    SL_THEN(status, start_mpirun(&reaper, self));
    close(order->error);
    point_at_null(0, O_RDONLY); /* its copies would block a reader of the command's output */
    point_at_null(1, O_WRONLY);
    point_at_null(2, O_WRONLY);
    SL_THEN(status, sl_loop_run(reaper.loop));
    if (status != SL_OK)
        kill_without_loop(&reaper, self);
    sl_launch_directory_remove(order->directory);
    _exit(status == SL_OK ? 0 : 1);
}
