#include "doctor/child.h"

#include "base/clock.h"
#include "base/find.h"
#include "base/memory.h"
#include "base/subprocess.h"
#include "launch/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void read_until(int file, sl_time deadline, sl_child *child) {
    size_t used = 0;
    for (;;) {
        sl_time left = deadline - sl_now();
        struct pollfd line = {.fd = file, .events = POLLIN};
        if (left <= 0) {
            child->late = 1;
            break;
        }
        int ready = poll(&line, 1, (int)(left / SL_MS) + 1);
        if (ready < 0 && errno != EINTR)
            break;
        if (ready <= 0)
            continue;
        char text[512];
        ssize_t got = read(file, text, sizeof text);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) /* it has ended, or closed its output */
            break;
        size_t space = sizeof child->text - 1 - used, taken = (size_t)got < space ? (size_t)got : space;
        memcpy(child->text + used, text, taken);
        used += taken;
    }
    child->text[used] = 0;
}

/* A child that has closed its output may run until the deadline. Its group is killed in any case. */
static sl_status bury(sl_subprocess process, sl_time deadline, sl_child *child) {
    int status;
    child->late = child->late || !sl_subprocess_await(&process, deadline);
    SL_TRY(sl_subprocess_end(&process, 1, &(sl_subprocess_ending){.what = "what was tried", .group = 1},
                             &status));
    int known = status != SL_SUBPROCESS_UNKNOWN;
    child->exit_code = known && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child->signal = known && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return SL_OK;
}

static _Noreturn void become(int (*work)(void *), void *argument, int output) {
    int input = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the parent dies */
    setpgid(0, 0);
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
        _exit(126);
    int code = work(argument);
    fflush(NULL);
    _exit(code);
}

sl_status sl_child_call(int (*work)(void *argument), void *argument, sl_time limit, sl_child *child) {
    int line[2];
    *child = (sl_child){.exit_code = -1};
    fflush(NULL);
    if (pipe2(line, O_CLOEXEC) != 0)
        return sl_error_errno(SL_ESYS, "nothing can be tried: no pipe");
    sl_time deadline = sl_now() + limit;
    pid_t pid = fork();
    if (pid == 0)
        become(work, argument, line[1]);
    sl_status status = pid > 0 ? SL_OK : sl_error_errno(SL_ESYS, "nothing can be tried: no process");
    close(line[1]);
    if (status == SL_OK) {
        setpgid(pid, pid); /* in parent and child, whichever is first */
        read_until(line[0], deadline, child);
        status = bury(sl_subprocess_take(pid), deadline, child);
    }
    close(line[0]);
    return status;
}

typedef struct started {
    const char *const *argv;
    char **environment;
} started;

static int start(void *argument) {
    const started *s = argument;
    char path[PATH_MAX];
    if (sl_find_program(s->argv[0], SL_FIND_ABSOLUTE, path))
        execve(path, (char *const *)(uintptr_t)s->argv, s->environment);
    fprintf(stderr, "%s: %s\n", s->argv[0], strerror(errno));
    return 127;
}

sl_status sl_child_run(const char *const *argv, const char *variable, sl_time limit, sl_child *child) {
    started s = {.argv = argv};
    SL_TRY(sl_launch_environment(&variable, variable != NULL, &s.environment));
    sl_status status = sl_child_call(start, &s, limit, child);
    sl_free(s.environment);
    return status;
}

/* The last line that has a letter. */
static void last_line(const char *text, char *line, size_t size) {
    line[0] = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (strspn(text, " \t-") < length)
            snprintf(line, size, "%.*s", (int)(length < size ? length : size - 1), text);
        text += length + (text[length] != 0);
    }
}

void sl_child_reason(const sl_child *child, char *text, size_t size) {
    char said[256];
    last_line(child->text, said, sizeof said);
    const char *colon = *said ? ": " : "";
    if (child->late)
        snprintf(text, size, "does not end in time%s%s", colon, said);
    else if (child->signal)
        snprintf(text, size, "ended by signal %d (%s)%s%s", child->signal, strsignal(child->signal), colon,
                 said);
    else
        snprintf(text, size, "exit code %d%s%s", child->exit_code, colon, said);
}

int sl_child_line(const sl_child *child, const char *title, char *text, size_t size) {
    for (const char *line = child->text; *line;) {
        size_t length = strcspn(line, "\n"), head = strlen(title);
        if (length > head && strncmp(line, title, head) == 0) {
            snprintf(text, size, "%.*s", (int)(length - head), line + head);
            return 1;
        }
        line += length + (line[length] != 0);
    }
    return 0;
}
