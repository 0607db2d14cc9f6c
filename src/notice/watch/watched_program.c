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

#define PLUGIN_VARIABLE "NCCL_PROFILER_PLUGIN"

sl_status sl_program_plugin(char **path, char *text, size_t size) {
    const char *named = getenv(PLUGIN_VARIABLE);
    char found[PATH_MAX];
    *path = NULL;
    text[0] = 0;
    sl_status status = sl_find_near(folders, "libnccl-profiler-slackline.so", found);
    if (status == SL_ENONE)
        return SL_OK;
    SL_TRY(status);
    if (named && strcmp(named, "slackline") != 0 && strcmp(named, found) != 0) {
        snprintf(text, size,
                 PLUGIN_VARIABLE " is '%s' and stays so: of NCCL's calls only the enqueuing is recorded",
                 named);
        return SL_OK;
    }
    if (access("/dev/nvidiactl", F_OK) == 0) /* elsewhere there is no NCCL */
        snprintf(text, size, "NCCL's events are recorded by its profiler plug-in (" PLUGIN_VARIABLE ")");
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

/* "NAME=VALUE", or "NAME=VALUE:REST". Free with sl_free. */
static sl_status make_line(char **line, const char *name, const char *value, const char *rest) {
    const size_t room = strlen(name) + strlen(value) + strlen(rest) + 3;
    SL_TRY(sl_alloc(line, room, 1));
    snprintf(*line, room, "%s=%s%s%s", name, value, *rest ? ":" : "", rest);
    return SL_OK;
}

/* The environment with the probe; free each of lines[3], and the result, also on error. */
static sl_status environment_with(const char *probe, const char *plugin, const char *folder, char ***result,
                                  char **lines) {
    extern char **environ;
    size_t count = 0;
    const char *before = getenv("LD_PRELOAD");
    while (environ[count])
        count++;
    SL_TRY(make_line(&lines[0], "LD_PRELOAD", probe, before ? before : ""));
    SL_TRY(make_line(&lines[1], "SLACKLINE_PROBE", folder, ""));
    if (plugin)
        SL_TRY(make_line(&lines[2], PLUGIN_VARIABLE, plugin, ""));
    SL_TRY(sl_alloc(result, count + 4, sizeof **result));
    memcpy(*result, environ, count * sizeof **result);
    for (int i = 0; i < 3 && lines[i]; i++)
        put(*result, &count, lines[i]);
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

sl_status sl_program_start(char *const *command, const char *probe, const char *plugin, const char *folder,
                           pid_t *pid, int *exit_code) {
    char **environment = NULL, *lines[3] = {NULL}, *path;
    *exit_code = 1;
    SL_TRY(sl_program_preload(probe, folder, &path));
    sl_status status = environment_with(path, plugin, folder, &environment, lines);
    SL_THEN(status, start(command, environment, pid, exit_code));
    SL_FREE(environment, lines[0], lines[1], lines[2], path);
    return status;
}

int sl_program_exit_code(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
