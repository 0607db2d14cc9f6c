#include "launch/hook_run.h"
#include "base/clock.h"
#include "base/find.h"
#include "base/memory.h"
#include "launch/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

sl_status sl_hook_find(const char *program, char path[PATH_MAX]) {
    if (sl_find_program(program, SL_FIND_ABSOLUTE, path))
        return SL_OK;
    return sl_error_errno(SL_ENONE, "%.200s cannot be run%s", program,
                          strchr(program, '/') ? "" : ": it is not in PATH");
}

/* The event as a file in memory, at its beginning. */
static int open_input(const char *input) {
    int file = memfd_create("slackline-event", MFD_CLOEXEC);
    size_t size = strlen(input), done = 0;
    while (file >= 0 && done < size) {
        ssize_t wrote = write(file, input + done, size - done);
        if (wrote < 0 && errno != EINTR) {
            close(file);
            return -1;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (file >= 0)
        lseek(file, 0, SEEK_SET);
    return file;
}

typedef struct hook_child {
    const char *path;
    char *const *argv, *const *environment;
    int input, output, failure;
    pid_t parent;
} hook_child;

/* In the child: only calls that are safe after fork of a process with threads. */
_Noreturn static void become(const hook_child *c) {
    sigset_t none;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() == c->parent && dup2(c->input, 0) == 0 && dup2(c->output, 1) == 1 &&
        dup2(c->output, 2) == 2)
        execve(c->path, c->argv, c->environment);
    int error = errno;
    (void)!write(c->failure, &error, sizeof error);
    _exit(127);
}

/* Forks; the child reports over a pipe why it could not become the program. */
static sl_status launch(hook_child *c, pid_t *pid) {
    int failure[2], error = 0;
    ssize_t got = 0;
    if (pipe2(failure, O_CLOEXEC) != 0)
        return sl_error_errno(SL_ESYS, "%s cannot be run", c->path);
    c->failure = failure[1];
    c->parent = getpid();
    *pid = fork();
    if (*pid == 0)
        become(c);
    int failed = errno;
    close(failure[1]);
    while (*pid > 0 && (got = read(failure[0], &error, sizeof error)) < 0 && errno == EINTR)
        ;
    close(failure[0]);
    if (*pid > 0 && got != (ssize_t)sizeof error) {
        setpgid(*pid, *pid); /* the child does so too; the first one counts */
        return SL_OK;
    }
    if (*pid > 0) {
        sl_subprocess process = sl_subprocess_take(*pid);
        SL_TRY(sl_subprocess_end(&process, 1, &(sl_subprocess_ending){.what = c->path}, NULL));
    }
    errno = *pid > 0 ? error : failed;
    return sl_error_errno(SL_ENONE, "%s cannot be run", c->path);
}

static sl_status start(hook_child *c, sl_hook_run *run) {
    int output[2];
    if (pipe2(output, O_CLOEXEC) != 0)
        return sl_error_errno(SL_ESYS, "%s cannot be run", c->path);
    fcntl(output[0], F_SETFL, O_NONBLOCK);
    c->output = output[1];
    pid_t pid = 0;
    sl_status status = launch(c, &pid);
    close(output[1]);
    if (status != SL_OK) {
        close(output[0]);
        return status;
    }
    run->output = output[0];
    run->process = sl_subprocess_take(pid);
    return SL_OK;
}

sl_status sl_hook_run_start(const char *program, const char *input, const char *const *variables, int count,
                            unsigned number, sl_hook_run *run) {
    char path[PATH_MAX], **environment = NULL;
    const char **lines = NULL;
    *run = (sl_hook_run)SL_HOOK_RUN_NONE;
    SL_TRY(sl_hook_find(program, path));
    snprintf(run->mark, sizeof run->mark, "SLACKLINE_HOOK=%d.%lld.%u", (int)getpid(), (long long)sl_now(),
             number);
    SL_TRY(sl_alloc(&lines, (size_t)count + 1, sizeof *lines));
    lines[0] = run->mark;
    for (int i = 0; i < count; i++)
        lines[i + 1] = variables[i];
    sl_status status = sl_launch_environment(lines, count + 1, &environment);
    char *argv[] = {path, NULL};
    hook_child c = {.path = path, .argv = argv, .environment = environment, .input = -1};
    if (status == SL_OK && (c.input = open_input(input)) < 0)
        status = sl_error_errno(SL_ESYS, "no file for the input of %s", path);
    SL_THEN(status, start(&c, run));
    if (c.input >= 0)
        close(c.input);
    SL_FREE(environment, lines);
    return status;
}

void sl_hook_run_close(sl_hook_run *run) {
    if (run->output >= 0)
        close(run->output);
    sl_subprocess_forget(&run->process);
    *run = (sl_hook_run)SL_HOOK_RUN_NONE;
}
