#include "base/lines.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
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
    l->known = l->used = 0;
    l->passing = l->is_cut = 0;
    l->number = l->good = l->damaged = l->first = 0;
}

void sl_lines_close(sl_lines *l) {
    if (!l->path)
        return;
    leave(l);
    SL_FREE(l->path, l->text);
    *l = (sl_lines){.file = -1};
}

static int holds(const sl_lines *l, off_t where, const char *known) {
    char now[SL_LINES_KNOWN];
    return pread(l->file, now, l->known, where) == (ssize_t)l->known && memcmp(now, known, l->known) == 0;
}

/* Whether the open file still has the bytes that were read. */
static int is_same(const sl_lines *l) {
    return holds(l, 0, l->head) && holds(l, l->at - (off_t)l->known, l->last);
}

/* Remembers the file's first bytes and the last of those read; text[size] was read after the known ones. */
static void know(sl_lines *l, const char *text, size_t size) {
    const size_t most = SL_LINES_KNOWN, first = most - l->known < size ? most - l->known : size;
    const size_t more = size < most ? size : most, kept = l->known < most - more ? l->known : most - more;
    memcpy(l->head + l->known, text, first);
    memmove(l->last, l->last + l->known - kept, kept);
    memcpy(l->last + kept, text + size - more, more);
    l->known = kept + more;
}

/* Opens the file, or detects that it is another one. *lost: lines delivered before are obsolete. */
static void look(sl_lines *l, int *lost) {
    struct stat file;
    const int failed = stat(l->path, &file) != 0, absent = failed || !S_ISREG(file.st_mode);
    *lost = 0;
    l->refused = !failed ? -absent : errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    if (l->file >= 0 && (absent || file.st_ino != l->inode || file.st_dev != l->device ||
                         file.st_size < l->at || !is_same(l))) {
        *lost = l->number > 0 || l->at > 0;
        leave(l);
    }
    l->there = !absent;
    if (absent)
        return;
    if (l->file < 0) {
        l->file = open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (l->file < 0 || fstat(l->file, &file) != 0 || !S_ISREG(file.st_mode)) {
            l->refused = l->file < 0 ? errno : -1;
            l->there = 0;
            leave(l);
            return;
        }
        l->device = file.st_dev;
        l->inode = file.st_ino;
    }
    l->size = file.st_size;
}

static sl_status take_line(sl_lines *l, const char *line, size_t length, sl_lines_taker take, void *context) {
    const int is_blank = !l->passing && strspn(line, " \t\r") == length;
    sl_status status = l->passing ? SL_EINVAL : is_blank ? SL_OK : take(context, line, length);
    if (status != SL_OK && status != SL_EINVAL)
        return status;
    l->number++;
    l->passing = 0;
    l->good += status == SL_OK && !is_blank;
    if (status == SL_EINVAL)
        l->first = l->damaged++ == 0 ? l->number : l->first;
    return SL_OK;
}

/* Delivers the whole lines of text[used]; the rest moves to its begin, including a line for which a taker
 * failed. */
static sl_status take_lines(sl_lines *l, sl_lines_taker take, void *context) {
    char *line = l->text, *end;
    sl_status status = SL_OK;
    while (status == SL_OK && (end = memchr(line, '\n', l->used - (size_t)(line - l->text)))) {
        *end = 0;
        status = take_line(l, line, (size_t)(end - line), take, context);
        *end = '\n';
        line = status == SL_OK ? end + 1 : line;
    }
    l->used -= (size_t)(line - l->text);
    memmove(l->text, line, l->used);
    if (l->used > SL_LINES_LONGEST && status == SL_OK) {
        l->passing = 1;
        l->used = 0;
    }
    return status;
}

sl_status sl_lines_step(sl_lines *l, size_t most, sl_lines_taker take, sl_lines_restarted restarted,
                        void *context) {
    int lost;
    look(l, &lost);
    if (lost)
        restarted(context);
    if (l->used > 0) /* a taker failed */
        SL_TRY(take_lines(l, take, context));
    for (size_t taken = 0; l->file >= 0 && taken < most;) {
        SL_TRY(sl_grow(&l->text, &l->room, l->used + PART + 1, 1));
        ssize_t got = pread(l->file, l->text + l->used, PART, l->at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        know(l, l->text + l->used, (size_t)got);
        l->at += got;
        l->used += (size_t)got;
        taken += (size_t)got;
        SL_TRY(take_lines(l, take, context));
    }
    return SL_OK;
}

sl_status sl_lines_end(sl_lines *l, sl_lines_taker take, void *context) {
    if (l->used == 0 && !l->passing)
        return SL_OK;
    const size_t length = l->used;
    const int64_t damaged = l->damaged;
    l->text[length] = 0;
    l->used = 0;
    sl_status status = take_line(l, l->text, length, take, context);
    l->is_cut = l->damaged > damaged;
    return status;
}

void sl_lines_trouble(const sl_lines *l, char *text, size_t size) {
    const char *slash = strrchr(l->path, '/'), *name = slash ? slash + 1 : l->path;
    text[0] = 0;
    if (l->refused > 0)
        snprintf(text, size, "%s cannot be read: %s.", name, strerror(l->refused));
    else if (!l->there)
        snprintf(text, size, "%s is %s.", name, l->refused ? "no regular file" : "missing");
    else if (l->is_cut && l->damaged == 1)
        snprintf(text, size, "%s ends within a line: the run is writing it, or was killed.", name);
    else if (l->damaged > 0)
        snprintf(text, size,
                 "%s: %" PRId64 " of %" PRId64 " lines %s damaged and left out, the first is line %" PRId64
                 ".",
                 name, l->damaged, l->number, l->damaged == 1 ? "is" : "are", l->first);
    else if (l->number == 0)
        snprintf(text, size, "%s is empty.", name);
}
