#include "notice/watch/watched_program.h"
#include "base/find.h"
#include "base/memory.h"
#include "base/signals.h"
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The folder of the command (a build folder), or where an installation puts libraries. */
static const char *const folders[] = {"", "/../lib", "/../lib64", ("/../lib/" SL_LIBRARY_FOLDER), NULL};

sl_status sl_program_probe(char **path) {
    char found[PATH_MAX], folder[PATH_MAX];
    sl_status status = sl_find_near(folders, "libslackline_probe.so", found);
    if (status == SL_ENONE && sl_find_folder("", folder) == SL_OK)
        return sl_error(SL_ENONE, "libslackline_probe.so is neither in %s nor in its ../lib", folder);
    SL_TRY(status);
    return sl_copy_text(path, found);
}

sl_status sl_program_preload(const char *probe, const char *folder, char **path) {
    static const char name[] = "/libslackline_probe.so", parting[] = " :";
    *path = NULL;
    if (!strpbrk(probe, parting))
        return sl_copy_text(path, probe);
    if (strpbrk(folder, parting))
        return sl_error(SL_ENONE, "%s cannot be preloaded: the loader ends a path at a blank or colon",
                        probe);
    const size_t room = strlen(folder) + sizeof name;
    SL_TRY(sl_alloc(path, room, 1));
    snprintf(*path, room, "%s%s", folder, name);
    if (symlink(probe, *path) == 0 || errno == EEXIST) /* another watch of this node was first */
        return SL_OK;
    sl_status status = sl_error_errno(SL_ESYS, "%s cannot be created", *path);
    sl_free(*path);
    *path = NULL;
    return status;
}

/* `name=value` replaces the variable in the environment; else it is appended. */
static void put(char **environment, size_t *count, char *line) {
    size_t name = strcspn(line, "=") + 1;
    for (size_t i = 0; i < *count; i++)
        if (strncmp(environment[i], line, name) == 0) {
            environment[i] = line;
            return;
        }
    environment[(*count)++] = line;
}

/* The environment with the probe; *lines holds the new texts, free both. */
static sl_status environment_with(const char *probe, const char *folder, char ***result, char **lines) {
    extern char **environ;
    size_t count = 0;
    const char *before = getenv("LD_PRELOAD");
    size_t first = sizeof "LD_PRELOAD=:" + strlen(probe) + (before ? strlen(before) : 0);
    size_t second = sizeof "SLACKLINE_PROBE=" + strlen(folder);
    while (environ[count])
        count++;
    char **all = NULL;
    SL_TRY(sl_alloc(lines, first + second, 1));
    sl_status status = sl_alloc(&all, count + 3, sizeof *all);
    if (status != SL_OK) {
        sl_free(*lines);
        return status;
    }
    memcpy(all, environ, count * sizeof *all);
    snprintf(*lines, first, "LD_PRELOAD=%s%s%s", probe, before && *before ? ":" : "", before ? before : "");
    snprintf(*lines + first, second, "SLACKLINE_PROBE=%s", folder);
    put(all, &count, *lines);
    put(all, &count, *lines + first);
    *result = all;
    return SL_OK;
}

/* In the child. */
_Noreturn static void become(char *const *command, char *const *environment, int pipe_end) {
    sl_signals_give_back();
    execvpe(command[0], command, environment);
    int error = errno;
    (void)!write(pipe_end, &error, sizeof error);
    _exit(127);
}

/* The child reports over a pipe why it could not become the program; the pipe closes when it has. */
static sl_status start(char *const *command, char *const *environment, pid_t *pid, int *exit_code) {
    int pipe_end[2], error = 0;
    if (pipe2(pipe_end, O_CLOEXEC) != 0 || (*pid = fork()) < 0)
        return sl_error_errno(SL_ESYS, "%s cannot be started", command[0]);
    if (*pid == 0)
        become(command, environment, pipe_end[1]);
    close(pipe_end[1]);
    ssize_t got;
    while ((got = read(pipe_end[0], &error, sizeof error)) < 0 && errno == EINTR)
        ;
    close(pipe_end[0]);
    if (got != (ssize_t)sizeof error)
        return SL_OK;
    sl_subprocess child = sl_subprocess_take(*pid);
    SL_TRY(sl_subprocess_end(&child, 1, &(sl_subprocess_ending){.what = command[0]}, NULL));
    *exit_code = error == ENOENT || error == ENOTDIR ? 127 : 126;
    errno = error;
    return sl_error_errno(SL_ESYS, "%s cannot be started", command[0]);
}

sl_status sl_program_start(char *const *command, const char *probe, const char *folder, pid_t *pid,
                           int *exit_code) {
    char **environment, *lines, *path;
    *exit_code = 1;
    SL_TRY(sl_program_preload(probe, folder, &path));
    sl_status status = environment_with(path, folder, &environment, &lines);
    sl_free(path);
    SL_TRY(status);
    status = start(command, environment, pid, exit_code);
    SL_FREE(environment, lines);
    return status;
}

int sl_program_exit_code(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
