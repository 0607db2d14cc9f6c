#include "dashboard/lines.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART = 1 << 18 };

sl_status sl_lines_open(const char *path, sl_lines *l) {
    *l = (sl_lines){.file = -1};
    return sl_copy_text(&l->path, path);
}

static void leave(sl_lines *l) {
    if (l->file >= 0)
        close(l->file);
    l->file = -1;
    l->at = l->size = 0;
    l->headed = l->used = 0;
    l->passing = 0;
    l->number = l->damaged = 0;
}

void sl_lines_close(sl_lines *l) {
    if (!l->path)
        return;
    leave(l);
    sl_free(l->path);
    sl_free(l->text);
    *l = (sl_lines){.file = -1};
}

/* Whether the open file begins as it did. */
static int begins_alike(const sl_lines *l) {
    char now[SL_LINES_HEAD];
    return pread(l->file, now, l->headed, 0) == (ssize_t)l->headed && memcmp(now, l->head, l->headed) == 0;
}

/* Opens it, or sees that it is another one. *lost: what was told before no longer counts. */
static void look(sl_lines *l, int *lost) {
    struct stat file;
    const int failed = stat(l->path, &file) != 0, absent = failed || !S_ISREG(file.st_mode);
    *lost = 0;
    l->refused = failed ? errno != ENOENT && errno != ENOTDIR : absent;
    if (l->file >= 0 && (absent || file.st_ino != l->inode || file.st_dev != l->device ||
                         file.st_size < l->at || !begins_alike(l))) {
        *lost = l->number > 0 || l->at > 0;
        leave(l);
    }
    l->there = !absent;
    if (absent)
        return;
    if (l->file < 0) {
        l->file = open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (l->file < 0 || fstat(l->file, &file) != 0 || !S_ISREG(file.st_mode)) {
            leave(l);
            l->there = 0;
            l->refused = 1;
            return;
        }
        l->device = file.st_dev;
        l->inode = file.st_ino;
    }
    l->size = file.st_size;
}

static sl_status take_line(sl_lines *l, const char *line, size_t length, sl_lines_taker take, void *context) {
    l->number++;
    if (length == 0 || strspn(line, " \t\r") == length)
        return SL_OK;
    sl_status status = take(context, line, length);
    l->damaged += status == SL_EINVAL;
    return status == SL_EINVAL ? SL_OK : status;
}

/* The whole lines of text[used]; what is left of the last one moves to its begin. */
static sl_status take_lines(sl_lines *l, sl_lines_taker take, void *context) {
    size_t begin = 0;
    sl_status status = SL_OK;
    while (status == SL_OK) {
        char *end = memchr(l->text + begin, '\n', l->used - begin);
        if (!end)
            break;
        *end = 0;
        if (l->passing)
            l->damaged++, l->number++;
        else
            status = take_line(l, l->text + begin, (size_t)(end - l->text) - begin, take, context);
        l->passing = 0;
        begin = (size_t)(end - l->text) + 1;
    }
    l->used -= begin;
    memmove(l->text, l->text + begin, l->used);
    if (l->used > SL_LINES_LONGEST) {
        l->passing = 1;
        l->used = 0;
    }
    return status;
}

static void keep_head(sl_lines *l) {
    if (l->headed == SL_LINES_HEAD)
        return;
    ssize_t got = pread(l->file, l->head, SL_LINES_HEAD, 0);
    l->headed = got > 0 ? ((off_t)got < l->at ? (size_t)got : (size_t)l->at) : 0;
}

sl_status sl_lines_step(sl_lines *l, size_t most, sl_lines_taker take, sl_lines_anew anew, void *context) {
    int lost;
    look(l, &lost);
    if (lost)
        anew(context);
    for (size_t taken = 0; l->file >= 0 && taken < most;) {
        SL_TRY(sl_grow(&l->text, &l->room, l->used + PART + 1, 1));
        ssize_t got = pread(l->file, l->text + l->used, PART, l->at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        l->at += got;
        l->used += (size_t)got;
        taken += (size_t)got;
        keep_head(l);
        SL_TRY(take_lines(l, take, context));
    }
    return SL_OK;
}
