#include "launch/delegate_launch.h"
#include "base/build.h"
#include "base/memory.h"
#include "launch/directory.h"
#include "launch/environment.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 32
#define FIRST 3 /* the child's first file after the standard ones */

/* *own: the text of SLACKLINE_RUN, if it is set here. Both are the caller's to free. */
static sl_status make_environment(const char *directory, char ***environment, char **own) {
    static const char mark[] = SL_LAUNCH_VARIABLE "=";
    *own = NULL;
    if (directory) {
        size_t size = sizeof mark + strlen(directory);
        SL_TRY(sl_alloc(own, size, 1));
        snprintf(*own, size, "%s%s", mark, directory);
    }
    sl_status status = sl_launch_environment((const char *const *)own, directory ? 1 : 0, environment);
    if (status != SL_OK)
        sl_free(*own);
    return status;
}

/* The files may have any number, including another's target; copies with high numbers conflict with none. */
static sl_status move_up(const int *files, int count, int *moved) {
    for (int i = 0; i < count; i++)
        moved[i] = -1;
    for (int i = 0; i < count; i++) {
        moved[i] = fcntl(files[i], F_DUPFD_CLOEXEC, FIRST + count);
        if (moved[i] < 0)
            return sl_error_errno(SL_ESYS, "file %d for a delegate", files[i]);
    }
    return SL_OK;
}

static int describe(posix_spawn_file_actions_t *actions, const int *moved, int count, int silent) {
    int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    if (!error && silent)
        error = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < count && !error; i++)
        error = posix_spawn_file_actions_adddup2(actions, moved[i], FIRST + i);
    return error ? error : posix_spawn_file_actions_addclosefrom_np(actions, FIRST + count);
}

static int describe_signals(posix_spawnattr_t *attributes) {
    sigset_t mask, all;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM); /* a warning is sent to all of a rank's processes, and the rank handles it */
    sigaddset(&mask, SIGUSR1);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &mask);
    posix_spawnattr_setsigdefault(attributes, &all);
    return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static sl_status spawn(const sl_launch_delegates *delegates, const char *name, const int *moved, int count,
                       char **environment, pid_t *pid) {
    const char *program = delegates->program;
    char build[SL_BUILD_WORDS], option[] = SL_BUILD_OPTION;
    char *arguments[] = {(char *)(uintptr_t) "slackline-delegate", (char *)(uintptr_t)name, option, build,
                         NULL};
    sl_build_words(build);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return sl_error(SL_ENOMEM, "%s cannot be started: %s", program, strerror(error));
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = describe(&actions, moved, count, delegates->silent);
        if (!error)
            error = describe_signals(&attributes);
        if (!error)
            error = posix_spawn(pid, program, &actions, &attributes, arguments, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error ? sl_error(SL_ESYS, "%s cannot be started: %s", program, strerror(error)) : SL_OK;
}

sl_status sl_launch_delegate_start(const sl_launch_delegates *delegates, const char *name, const int *files,
                                   int count, sl_subprocess *started) {
    int moved[FILES_MAX];
    char **environment = NULL, *own = NULL;
    pid_t pid = 0;
    *started = SL_SUBPROCESS_NONE;
    if (count < 0 || count > FILES_MAX)
        return sl_error(SL_EINVAL, "%d files for a delegate", count);
    SL_TRY(make_environment(delegates->directory, &environment, &own));
    sl_status status = move_up(files, count, moved);
    SL_THEN(status, spawn(delegates, name, moved, count, environment, &pid));
    for (int i = 0; i < count; i++)
        if (moved[i] >= 0)
            close(moved[i]);
    SL_FREE(environment, own);
    if (status == SL_OK)
        *started = sl_subprocess_take(pid);
    return status;
}

void sl_launch_delegate_stop(const sl_launch_delegates *delegates, sl_subprocess *started, int count) {
    const sl_subprocess_ending ending = {.what = "slackline-delegate",
                                         .signal = SIGHUP,
                                         .grace = delegates->grace > 0 ? delegates->grace : SL_SECOND,
                                         .patience = delegates->patience};
    if (sl_subprocess_end(started, count, &ending, NULL) != SL_OK && !delegates->silent)
        fprintf(stderr, "slackline: %s\n", sl_error_text());
}

static sl_status start(void *object, const char *name, const int *files, int count, sl_subprocess *started) {
    return sl_launch_delegate_start(object, name, files, count, started);
}

static void stop(void *object, sl_subprocess *started, int count) {
    sl_launch_delegate_stop(object, started, count);
}

sl_transport_starter sl_launch_delegate_starter(sl_launch_delegates *delegates) {
    return (sl_transport_starter){.start = start, .stop = stop, .object = delegates};
}
