#include "launch/run_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LOCK_TRIES = 60, LOCK_PAUSE_MS = 50, TAIL = 1 << 16 };

static sl_status lock(sl_launch_folder *folder, const char *directory) {
    for (int i = 0; flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
        if (i == LOCK_TRIES)
            return sl_error(SL_ENONE, "%s: another run is using this directory", directory);
        sl_clock_sleep_until(sl_clock_real(), sl_now() + LOCK_PAUSE_MS * SL_MS);
    }
    return SL_OK;
}

sl_status sl_launch_folder_open(const char *directory, sl_launch_folder *folder) {
    folder->lock = -1;
    folder->made = access(directory, F_OK) != 0;
    SL_TRY(sl_directory_make(directory));
    if (!realpath(directory, folder->path))
        return sl_error_errno(SL_ESYS, "%s: cannot be used", directory);
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock < 0 || access(folder->path, W_OK | X_OK) != 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be used", directory);
    return lock(folder, directory);
}

void sl_launch_folder_close(sl_launch_folder *folder) {
    if (folder->lock >= 0)
        close(folder->lock);
    folder->lock = -1;
}

/* Shared and released at once: a start that meets it tries again. */
int sl_launch_folder_is_held(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int held = -1;
    if (folder >= 0)
        held = flock(folder, LOCK_SH | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? 1 : -1;
    if (folder >= 0)
        close(folder);
    return held;
}

static int holds(const char *path, const char *name) {
    char file[PATH_MAX + 32];
    return snprintf(file, sizeof file, "%s/%s", path, name) < (int)sizeof file && access(file, F_OK) == 0;
}

int sl_launch_folder_is_finished(const char *path) {
    return holds(path, "summary.json") || holds(path, "report.json");
}

sl_status sl_launch_folder_number(char *path, size_t size, int there) {
    char last[PATH_MAX], next[PATH_MAX];
    int length = snprintf(last, sizeof last, "%s", path);
    snprintf(next, sizeof next, "%s", path);
    for (int number = 2; length < (int)sizeof next && access(next, F_OK) == 0; number++) {
        memcpy(last, next, sizeof last);
        length = snprintf(next, sizeof next, "%s-%d", path, number);
    }
    if (length >= (int)sizeof next || strlen(next) >= size)
        return sl_error(SL_EINVAL, "%s: the path is too long", path);
    snprintf(path, size, "%s", there ? last : next);
    return SL_OK;
}

/* The end of a file as text; *first: its offset in the file. Empty if it cannot be read. */
static size_t read_tail(int file, char text[TAIL + 1], off_t *first) {
    struct stat status;
    size_t used = 0;
    *first = 0;
    if (fstat(file, &status) == 0 && status.st_size > TAIL)
        *first = status.st_size - TAIL;
    for (ssize_t got; used < TAIL && (got = pread(file, text + used, TAIL - used, *first + (off_t)used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    return used;
}

static int iteration_of(const char *line, size_t size) {
    json_t *object = sl_json_object(line, size);
    const int value = sl_json_count(object, "iteration", -1);
    json_decref(object);
    return value;
}

sl_launch_reached sl_launch_folder_reached(const sl_launch_folder *folder) {
    sl_launch_reached reached = {.iteration = -1};
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder->path);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return reached;
    fstat(file, &reached.file);
    char *text = malloc(TAIL + 1);
    off_t first;
    size_t size = text ? read_tail(file, text, &first) : 0;
    close(file);
    while (size > 0 && text[size - 1] != '\n') /* a writer was killed within a line */
        size--;
    if (size > 0) {
        size_t begin = size - 1;
        while (begin > 0 && text[begin - 1] != '\n')
            begin--;
        reached.iteration = iteration_of(text + begin, size - 1 - begin);
    }
    free(text);
    return reached;
}

sl_status sl_launch_folder_event(const sl_launch_folder *folder, const sl_event *event) {
    char path[PATH_MAX + 32], *line, why[512];
    sl_writer *writer;
    snprintf(path, sizeof path, "%s/events.jsonl", folder->path);
    SL_TRY(sl_event_line(event, &line));
    sl_status status = sl_writer_open(SL_WRITER_MAX, &writer);
    if (status == SL_OK) {
        sl_writer_put(writer, path, SL_WRITER_APPEND, line, strlen(line), 0);
        sl_writer_flush(writer, SL_WRITER_PATIENCE);
        if (sl_writer_trouble(writer, why, sizeof why))
            status = sl_error(SL_ESYS, "%s", why);
        sl_writer_close(writer);
    }
    free(line);
    return status;
}
