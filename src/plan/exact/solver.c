/* One solve in a child process, from its start to its end. */
#include "plan/exact/solver.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/subprocess.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define LOOK (50 * SL_MS) /* interval of checking the stop flag */

typedef struct solver_child {
    sl_subprocess process;
    int line; /* our end of the socket */
    sl_limit until;
} solver_child;

/* ---- start and end ---- */

/* Default signal handlers and an empty mask, independent of the caller's; no open files but the socket. */
static int spawn(const sl_solver *solver, int line, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char parent[16];
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char option[] = SL_BUILD_OPTION, build[SL_BUILD_WORDS];
    sl_build_words(build);
    char *arguments[] = {solver->program, solver->library, parent, option, build, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return error;
    if ((error = posix_spawnattr_init(&attributes)) == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        error = posix_spawn_file_actions_adddup2(&files, line, STDIN_FILENO);
        if (!error)
            error = posix_spawn_file_actions_adddup2(&files, line, STDOUT_FILENO);
        if (!error)
            error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", 1, 0);
        if (!error)
            error = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
        if (!error)
            error = posix_spawn(pid, solver->program, &files, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static sl_status start(const sl_solver *solver, double limit_s, const atomic_int *stop, solver_child *c) {
    int line[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0)
        return sl_error_errno(SL_ESYS, "cannot make a socket for the solver");
    *c = (solver_child){.line = line[0], .until = {sl_now() + (sl_time)(limit_s * (double)SL_SECOND), stop}};
    pid_t pid = 0;
    int error = spawn(solver, line[1], &pid);
    close(line[1]);
    if (error) {
        close(line[0]);
        return sl_error(SL_ESYS, "cannot start '%s': %s", solver->program, strerror(error));
    }
    c->process = sl_subprocess_take(pid);
    return SL_OK;
}

/* Ends the child by force; a child that has already ended keeps its own status. */
static sl_status end(const sl_solver *solver, solver_child *c, int *status) {
    const sl_subprocess_ending ending = {.what = "slackline-solver", .patience = solver->patience};
    close(c->line);
    return sl_subprocess_end(&c->process, 1, &ending, status);
}

static sl_status say_end(int status) {
    if (status != SL_SUBPROCESS_UNKNOWN && WIFSIGNALED(status))
        return sl_error(SL_ESYS, "the solver was ended by signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    if (status != SL_SUBPROCESS_UNKNOWN && WIFEXITED(status))
        return sl_error(SL_ESYS, "the solver ended with exit status %d and no answer", WEXITSTATUS(status));
    return sl_error(SL_ESYS, "the solver ended without an answer");
}

/* ---- conversation: only poll blocks, at most until the deadline ---- */

typedef enum solver_talk { TALK_DONE, TALK_CLOSED, TALK_LATE, TALK_GARBAGE, TALK_MEMORY } solver_talk;

static solver_talk wait_for(const solver_child *c, short events) {
    struct pollfd line = {.fd = c->line, .events = events};
    for (;;) {
        sl_time left = c->until.deadline - sl_now();
        if (sl_limit_is_over(&c->until))
            return TALK_LATE;
        left = c->until.stop && left > LOOK ? LOOK : left;
        int milliseconds = left > 1000 * SL_SECOND ? 1000000 : (int)(left / SL_MS) + 1;
        int ready = poll(&line, 1, milliseconds);
        if (ready > 0)
            return TALK_DONE;
        if (ready < 0 && errno != EINTR)
            return TALK_CLOSED;
    }
}

static solver_talk put(const solver_child *c, const void *bytes, size_t size) {
    for (const unsigned char *next = bytes; size > 0;) {
        ssize_t sent = send(c->line, next, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            next += sent;
            size -= (size_t)sent;
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return TALK_CLOSED;
        solver_talk ready = wait_for(c, POLLOUT);
        if (ready != TALK_DONE)
            return ready;
    }
    return TALK_DONE;
}

static solver_talk get(const solver_child *c, void *bytes, size_t size) {
    for (unsigned char *next = bytes; size > 0;) {
        ssize_t got = recv(c->line, next, size, MSG_DONTWAIT);
        if (got > 0) {
            next += got;
            size -= (size_t)got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return TALK_CLOSED;
        solver_talk ready = wait_for(c, POLLIN);
        if (ready != TALK_DONE)
            return ready;
    }
    return TALK_DONE;
}

static solver_talk put_blob(const solver_child *c, unsigned char letter, const sl_blob *blob) {
    unsigned char header[SL_SOLVER_HEADER] = {letter};
    for (int i = 0; i < 8; i++)
        header[1 + i] = (unsigned char)((uint64_t)blob->size >> 8 * i);
    solver_talk done = put(c, header, sizeof header);
    return done == TALK_DONE ? put(c, blob->bytes, blob->size) : done;
}

/* A response or, with *letter SL_SOLVER_REASON, the reason why there is none; a 0 follows its bytes. */
static solver_talk get_blob(const solver_child *c, unsigned char *letter, sl_blob *blob) {
    unsigned char header[SL_SOLVER_HEADER];
    uint64_t size = 0;
    solver_talk done = get(c, header, sizeof header);
    if (done != TALK_DONE)
        return done;
    for (int i = 0; i < 8; i++)
        size |= (uint64_t)header[1 + i] << 8 * i;
    *letter = header[0];
    if ((*letter != SL_SOLVER_RESPONSE && *letter != SL_SOLVER_REASON && *letter != SL_SOLVER_OTHER) ||
        size > SL_SOLVER_MAX)
        return TALK_GARBAGE;
    if (sl_alloc(&blob->bytes, (size_t)size + 1, 1) != SL_OK)
        return TALK_MEMORY;
    blob->size = (size_t)size;
    return get(c, blob->bytes, blob->size);
}

static solver_talk converse(const solver_child *c, const sl_blob *model, const sl_blob *parameters,
                            unsigned char *letter, sl_blob *answer) {
    solver_talk done = put_blob(c, SL_SOLVER_MODEL, model);
    if (done == TALK_DONE)
        done = put_blob(c, SL_SOLVER_PARAMETERS, parameters);
    /* A child that gave up before it had read everything has sent the reason. */
    return done == TALK_DONE || done == TALK_CLOSED ? get_blob(c, letter, answer) : done;
}

sl_status sl_solver_run(const sl_solver *solver, const sl_blob *model, const sl_blob *parameters,
                        double limit_s, const atomic_int *stop, sl_blob *response) {
    solver_child c;
    unsigned char letter = 0;
    *response = (sl_blob){0};
    if (model->size > SL_SOLVER_MAX || parameters->size > SL_SOLVER_MAX)
        return sl_error(SL_ENONE, "the model for the solver has %zu bytes; at most %zu", model->size,
                        SL_SOLVER_MAX);
    SL_TRY(start(solver, limit_s, stop, &c));
    solver_talk done = converse(&c, model, parameters, &letter, response);
    int ended;
    sl_status status = end(solver, &c, &ended);
    if (status != SL_OK)
        ; /* the process is left running, which is worse than its own error */
    else if (done == TALK_CLOSED)
        status = say_end(ended);
    else if (done == TALK_LATE)
        status = stop && atomic_load(stop)
                     ? sl_error(SL_ESYS, "the solver was ended before it answered")
                     : sl_error(SL_ESYS, "the solver did not answer within %g s", limit_s);
    else if (done == TALK_GARBAGE)
        status = sl_error(SL_ESYS, "'%s' did not answer with a solver's response", solver->program);
    else if (done == TALK_MEMORY)
        status = sl_error(SL_ENOMEM, "out of memory: the solver's response");
    else if (letter != SL_SOLVER_RESPONSE)
        status = sl_error(letter == SL_SOLVER_OTHER ? SL_EPEER : SL_ESYS, "%.*s",
                          (int)strnlen((char *)response->bytes, 1000), response->bytes);
    if (status != SL_OK) {
        sl_free(response->bytes);
        *response = (sl_blob){0};
    }
    return status;
}
