#include "cli/picture.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/find.h"
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SECONDS = 60 }; /* that a program may take */

/* Programs that read an SVG from standard input and write the form to standard output, the best first. "*" in
 * an argument is the form. */
static const char *const programs[][6] = {
    {"rsvg-convert", "-f", "*", NULL},
    {"inkscape", "--pipe", "--export-type=*", "--export-filename=-", NULL},
    {"magick", "svg:-", "*:-", NULL},
    {"convert", "svg:-", "*:-", NULL}};
enum { PROGRAMS = sizeof programs / sizeof programs[0], WORDS = sizeof programs[0] / sizeof programs[0][0] };

const char *sl_picture_form(const char *file) {
    const char *dot = file ? strrchr(file, '.') : NULL;
    if (!dot)
        return NULL;
    return strcasecmp(dot, ".png") == 0 ? "png" : strcasecmp(dot, ".pdf") == 0 ? "pdf" : NULL;
}

/* The number of the first that is installed. */
static sl_status find(const char *file, int *program, char path[PATH_MAX]) {
    for (*program = 0; *program < PROGRAMS; ++*program)
        if (sl_find_program(programs[*program][0], SL_FIND_ABSOLUTE, path))
            return SL_OK;
    return sl_error(SL_ESYS,
                    "%s: no program that makes %s of SVG is installed: rsvg-convert (Debian's "
                    "librsvg2-bin), inkscape or ImageMagick; or write a .svg",
                    file, sl_picture_form(file));
}

sl_status sl_picture_check(const char *file) {
    char path[PATH_MAX];
    int program;
    return find(file, &program, path);
}

/* The argument with the form in place of its "*". */
static void fill_in(const char *argument, const char *form, char *word, size_t size) {
    const char *star = strchr(argument, '*');
    if (star)
        snprintf(word, size, "%.*s%s%s", (int)(star - argument), argument, form, star + 1);
    else
        snprintf(word, size, "%s", argument);
}

static sl_status start(const char *file, int program, const char *path, int in, int out, pid_t *pid) {
    char word[WORDS][64], *argv[WORDS + 1] = {NULL};
    posix_spawn_file_actions_t files;
    for (int i = 0; programs[program][i]; i++) {
        fill_in(programs[program][i], sl_picture_form(file), word[i], sizeof word[i]);
        argv[i] = word[i];
    }
    int error = posix_spawn_file_actions_init(&files);
    if (error == 0) {
        if ((error = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO)) == 0 &&
            (error = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO)) == 0 &&
            (error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0)) == 0)
            error = posix_spawn(pid, path, &files, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&files);
    }
    errno = error;
    return error == 0 ? SL_OK : sl_error_errno(SL_ESYS, "%s: %s cannot be started", file, path);
}

static sl_status convert(const char *file, int program, const char *path, int in, int out) {
    pid_t pid;
    int status = 0;
    SL_TRY(start(file, program, path, in, out, &pid));
    sl_subprocess child = sl_subprocess_take(pid);
    if (!sl_subprocess_wait(&child, sl_now() + SECONDS * SL_SECOND, &status)) {
        const sl_subprocess_ending ending = {.what = programs[program][0]};
        SL_TRY(sl_subprocess_end(&child, 1, &ending, &status));
        return sl_error(SL_ESYS, "%s: %s did not end within %d s", file, path, SECONDS);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? SL_OK
               : sl_error(SL_ESYS, "%s: %s could not make it; a .svg can be written without it", file, path);
}

/* What the program has left in the file of memory `out`. */
static sl_status keep(const char *file, const char *path, int out) {
    struct stat about;
    void *picture = MAP_FAILED;
    if (fstat(out, &about) == 0 && about.st_size > 0)
        picture = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, out, 0);
    if (picture == MAP_FAILED)
        return sl_error(SL_ESYS, "%s: %s has written nothing; a .svg can be written without it", file, path);
    sl_status status = sl_file_write(file, picture, (size_t)about.st_size);
    munmap(picture, (size_t)about.st_size);
    return status;
}

sl_status sl_picture_write(const char *file, const char *svg, size_t size) {
    char path[PATH_MAX];
    int program, in = -1, out = -1;
    SL_TRY(find(file, &program, path));
    sl_status status = SL_OK;
    in = memfd_create("slackline-svg", MFD_CLOEXEC);
    out = memfd_create("slackline-picture", MFD_CLOEXEC);
    if (in < 0 || out < 0 || write(in, svg, size) != (ssize_t)size || lseek(in, 0, SEEK_SET) != 0)
        status = sl_error_errno(SL_ESYS, "%s: no memory for the picture", file);
    SL_THEN(status, convert(file, program, path, in, out));
    SL_THEN(status, keep(file, path, out));
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return status;
}
