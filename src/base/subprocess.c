#include "base/subprocess.h"
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK (5 * SL_MS) /* interval of checks without a pidfd */

sl_subprocess sl_subprocess_take(pid_t pid) {
    return (sl_subprocess){.pid = pid, .file = (int)syscall(SYS_pidfd_open, pid, 0)};
}

/* waitid by pidfd (Linux 5.4), else by process id. */
static int look(const sl_subprocess *child, siginfo_t *end, int options) {
    *end = (siginfo_t){0};
    int failed = -1;
    if (child->file >= 0)
        failed = waitid(P_PIDFD, (id_t)child->file, end, options | WEXITED | WNOHANG);
    if (failed && (child->file < 0 || errno == EINVAL))
        failed = waitid(P_PID, (id_t)child->pid, end, options | WEXITED | WNOHANG);
    return failed;
}

/* Also if it was reaped elsewhere, or by the kernel because this process ignores SIGCHLD. */
static int has_ended(const sl_subprocess *child) {
    siginfo_t end;
    int failed = look(child, &end, WNOWAIT);
    return failed || end.si_pid != 0;
}

static int milliseconds(sl_time time) {
    return time > INT_MAX / 2 * SL_MS ? INT_MAX / 2 : (int)((time + SL_MS - 1) / SL_MS);
}

int sl_subprocess_await(const sl_subprocess *child, sl_time deadline) {
    struct pollfd ended = {.fd = child->file, .events = POLLIN};
    for (;;) {
        if (child->pid <= 0 || has_ended(child))
            return 1;
        sl_time now = sl_now();
        if (now >= deadline)
            return 0;
        if (child->file < 0 || ended.revents) /* dead, but held by a debugger: no file signals its release */
            sl_clock_sleep_until(sl_clock_real(), deadline - now > LOOK ? now + LOOK : deadline);
        else if (poll(&ended, 1, milliseconds(deadline - now)) < 0)
            ended.revents = 0;
    }
}

static int status_of(const siginfo_t *end) {
    if (end->si_code == CLD_EXITED)
        return (end->si_status & 0xff) << 8;
    return end->si_status | (end->si_code == CLD_DUMPED ? 0x80 : 0);
}

void sl_subprocess_forget(sl_subprocess *child) {
    if (child->pid > 0 && child->file >= 0)
        close(child->file);
    *child = SL_SUBPROCESS_NONE;
}

int sl_subprocess_wait(sl_subprocess *child, sl_time deadline, int *status) {
    siginfo_t end;
    if (!sl_subprocess_await(child, deadline))
        return 0;
    int known = child->pid > 0 && look(child, &end, 0) == 0 && end.si_pid != 0;
    if (status)
        *status = known ? status_of(&end) : SL_SUBPROCESS_UNKNOWN;
    sl_subprocess_forget(child);
    return 1;
}

void sl_subprocess_signal(const sl_subprocess *child, int signal) {
    if (child->pid > 0 && child->file >= 0)
        syscall(SYS_pidfd_send_signal, child->file, signal, NULL, 0);
    else if (child->pid > 0)
        kill(child->pid, signal);
}

/* Until `deadline` for all of them together. */
static int wait_for_all(sl_subprocess *child, int count, sl_time deadline, int *status) {
    int left = 0;
    for (int i = 0; i < count; i++)
        left += child[i].pid > 0 && !sl_subprocess_wait(&child[i], deadline, status ? &status[i] : NULL);
    return left;
}

static sl_status give_up(sl_subprocess *child, int count, int left, const sl_subprocess_ending *ending,
                         sl_time patience) {
    pid_t first = 0;
    for (int i = 0; i < count; i++) {
        first = first ? first : child[i].pid;
        sl_subprocess_forget(&child[i]);
    }
    if (left == 1)
        return sl_error(SL_ESYS, "%s (pid %d) remains: it has not ended %g s after SIGKILL", ending->what,
                        (int)first, (double)patience / 1e9);
    return sl_error(SL_ESYS, "%s (pid %d) and %d more remain: they have not ended %g s after SIGKILL",
                    ending->what, (int)first, left - 1, (double)patience / 1e9);
}

sl_status sl_subprocess_end(sl_subprocess *child, int count, const sl_subprocess_ending *ending,
                            int *status) {
    sl_time patience = ending->patience > 0 ? ending->patience : SL_SUBPROCESS_PATIENCE;
    for (int i = 0; i < count; i++) {
        if (status)
            status[i] = SL_SUBPROCESS_UNKNOWN;
        if (ending->signal)
            sl_subprocess_signal(&child[i], ending->signal);
    }
    sl_time deadline = sl_now() + ending->grace;
    for (int i = 0; i < count; i++) {
        int ended = ending->signal && sl_subprocess_await(&child[i], deadline);
        if (ending->group && child[i].pid > 0)
            kill(-child[i].pid, SIGKILL); /* not reaped yet: the number is still its group's */
        if (!ended)
            sl_subprocess_signal(&child[i], SIGKILL);
    }
    int left = wait_for_all(child, count, sl_now() + patience, status);
    return left ? give_up(child, count, left, ending, patience) : SL_OK;
}
