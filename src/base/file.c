#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static sl_status read_all(int file, const char *path, size_t most, char **content, size_t *size) {
    size_t capacity = 0, used = 0;
    for (;;) {
        SL_TRY(sl_grow(content, &capacity, used + 65536 + 1, 1));
        ssize_t got = read(file, *content + used, 65536);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > most)
            return sl_error(SL_EINVAL, "%s: larger than %zu bytes", path, most);
    }
    (*content)[used] = 0;
    *size = used;
    return SL_OK;
}

sl_status sl_file_read(const char *path, char **content, size_t *size) {
    return sl_file_read_max(path, SIZE_MAX, content, size);
}

sl_status sl_file_read_max(const char *path, size_t most, char **content, size_t *size) {
    int standard = strcmp(path, "-") == 0;
    int file = standard ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    *content = NULL;
    sl_status status = read_all(file, path, most, content, size);
    if (!standard)
        close(file);
    if (status != SL_OK) {
        sl_free(*content);
        *content = NULL;
    }
    return status;
}

static sl_status sync_file(int file, const char *path) {
    if (fsync(file) != 0 && errno != EINVAL && errno != EROFS)
        return sl_error_errno(SL_ESYS, "%s: cannot be written", path);
    return SL_OK;
}

static sl_status write_all(int file, const char *path, const char *content, size_t size, int durable) {
    while (size > 0) {
        ssize_t done = write(file, content, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sl_error_errno(SL_ESYS, "%s: cannot be written", path);
        content += done;
        size -= (size_t)done;
    }
    return durable ? sync_file(file, path) : SL_OK;
}

/* A new file next to `path` under an unpredictable name, *temporary. The mode is passed to open, so that the
 * kernel applies the umask: reading the umask would change it for all threads. -1: errno. */
static int open_temporary(const char *path, mode_t mode, char *temporary, size_t size) {
    for (int tries = 0; tries < 100; tries++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        int length = snprintf(temporary, size, "%s.%016llx", path, (unsigned long long)random);
        if (length < 0 || (size_t)length >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file >= 0 || (errno != EEXIST && errno != EINTR))
            return file;
    }
    return -1;
}

static sl_status begin(const char *path, mode_t mode, sl_new_file *new) {
    new->path = path;
    new->descriptor = open_temporary(path, mode, new->temporary, sizeof new->temporary);
    if (new->descriptor >= 0)
        return SL_OK;
    return errno == ENAMETOOLONG ? sl_error(SL_EINVAL, "%s: the path is too long", path)
                                 : sl_error_errno(SL_ESYS, "%s: cannot be written", path);
}

static sl_status finish(sl_new_file *new, sl_status status) {
    if (close(new->descriptor) != 0 && status == SL_OK)
        status = sl_error_errno(SL_ESYS, "%s: cannot be written", new->path);
    if (status == SL_OK && rename(new->temporary, new->path) != 0)
        status = sl_error_errno(SL_ESYS, "%s: cannot be written", new->path);
    if (status != SL_OK)
        unlink(new->temporary);
    return status;
}

sl_status sl_file_begin(const char *path, sl_new_file *file) {
    return begin(path, 0666, file);
}

sl_status sl_file_end(sl_new_file *file, sl_status status) {
    SL_THEN(status, sync_file(file->descriptor, file->path));
    return finish(file, status);
}

static sl_status replace(const char *path, const void *content, size_t size, mode_t mode, int durable) {
    sl_new_file new;
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) { /* /dev/stdout and the like cannot be replaced */
        int direct = open(path, O_WRONLY | O_CLOEXEC);
        if (direct < 0)
            return sl_error_errno(SL_ESYS, "%s: cannot be written", path);
        sl_status status = write_all(direct, path, content, size, durable);
        close(direct);
        return status;
    }
    SL_TRY(begin(path, mode, &new));
    return finish(&new, write_all(new.descriptor, path, content, size, durable));
}

sl_status sl_file_write(const char *path, const void *content, size_t size) {
    return replace(path, content, size, 0666, 1);
}

sl_status sl_file_write_private(const char *path, const void *content, size_t size) {
    return replace(path, content, size, 0600, 1);
}

sl_status sl_file_renew(const char *path, const void *content, size_t size) {
    return replace(path, content, size, 0666, 0);
}

static sl_status cut_line(int file, const char *path, off_t size) {
    char piece[4096];
    off_t end = size;
    while (end > 0) {
        const off_t begin = end > (off_t)sizeof piece ? end - (off_t)sizeof piece : 0;
        const ssize_t got = pread(file, piece, (size_t)(end - begin), begin);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != (ssize_t)(end - begin))
            return sl_error_errno(SL_ESYS, "%s: cannot be read", path);
        const char *line = memrchr(piece, '\n', (size_t)got);
        end = line ? begin + (line - piece) + 1 : begin;
        if (line)
            break;
    }
    return end == size || ftruncate(file, end) == 0 ? SL_OK
                                                    : sl_error_errno(SL_ESYS, "%s: cannot be written", path);
}

sl_status sl_file_cut_line(const char *path) {
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode))
        return SL_OK;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be written", path);
    sl_status status = cut_line(file, path, found.st_size);
    close(file);
    return status;
}

sl_status sl_directory_make(const char *path) {
    char part[4096];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return sl_error(SL_EINVAL, "'%s' is not the path of a directory", path);
    for (size_t i = 0; i <= length; i++) {
        part[i] = path[i];
        if ((path[i] == '/' || path[i] == 0) && i > 0) {
            part[i] = 0;
            if (mkdir(part, 0777) != 0 && errno != EEXIST)
                return sl_error_errno(SL_ESYS, "%s: cannot be made", part);
            part[i] = path[i];
        }
    }
    struct stat found;
    if (stat(path, &found) != 0 || !S_ISDIR(found.st_mode))
        return sl_error(SL_ESYS, "%s: is not a directory", path);
    return SL_OK;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info, (void)kind, (void)walk;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

sl_status sl_path_remove(const char *path) {
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return sl_error_errno(SL_ESYS, "%s: cannot be removed", path);
    return SL_OK;
}

int sl_file_differs(const struct stat *a, const struct stat *b) {
    return a->st_ino != b->st_ino || a->st_size != b->st_size || a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
           a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}
