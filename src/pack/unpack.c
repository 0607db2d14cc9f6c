#include "pack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#ifdef SL_ZLIB
#include <zlib.h>
#endif

enum { PIECE = 1 << 17 };

static sl_status refuse_size(const char *path, uint64_t most) {
    return sl_error(SL_EINVAL, "%s: more than %llu bytes when unpacked", path, (unsigned long long)most);
}

#ifdef SL_ZLIB
/* zlib's reason, which begins with its own name for the file. */
static const char *reason(const char *why) {
    const char *after = strncmp(why, "<fd:", 4) == 0 ? strstr(why, ": ") : NULL;
    return after ? after + 2 : why;
}

/* zlib passes uncompressed data through. */
sl_status sl_unpack(const char *path, int descriptor, uint64_t most, const sl_unpack_sink *sink) {
    char piece[PIECE];
    gzFile packed = gzdopen(descriptor, "rb");
    if (!packed) {
        close(descriptor);
        return sl_error(SL_ENOMEM, "out of memory for %s", path);
    }
    sl_status status = SL_OK;
    uint64_t given = 0;
    int got = 1, code;
    while (status == SL_OK && (got = gzread(packed, piece, PIECE)) > 0) {
        given += (uint64_t)got;
        status = given > most ? refuse_size(path, most) : sink->feed(sink->object, piece, (size_t)got);
    }
    const char *why = gzerror(packed, &code);
    if (status == SL_OK && (got < 0 || code == Z_BUF_ERROR)) /* the latter: the packed file ends too early */
        status = code == Z_ERRNO ? sl_error_errno(SL_EINVAL, "%s: cannot be read", path)
                                 : sl_error(SL_EINVAL, "%s: cannot be unpacked: %s", path, reason(why));
    gzclose(packed);
    return status;
}
#else
sl_status sl_unpack(const char *path, int descriptor, uint64_t most, const sl_unpack_sink *sink) {
    char piece[PIECE];
    sl_status status = SL_OK;
    uint64_t given = 0;
    ssize_t got = 1;
    for (int first = 1; status == SL_OK && (got = read(descriptor, piece, PIECE)) > 0; first = 0) {
        given += (uint64_t)got;
        if (first && got > 1 && (unsigned char)piece[0] == 0x1f && (unsigned char)piece[1] == 0x8b)
            status =
                sl_error(SL_EINVAL,
                         "%s: packed by gzip, which this build (without zlib) cannot read; use gunzip", path);
        else
            status = given > most ? refuse_size(path, most) : sink->feed(sink->object, piece, (size_t)got);
    }
    if (status == SL_OK && got < 0)
        status = sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    close(descriptor);
    return status;
}
#endif

static sl_status open_file(const char *path, int *descriptor) {
    *descriptor = strcmp(path, "-") == 0 ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
    return *descriptor >= 0 ? SL_OK : sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
}

sl_status sl_unpack_file(const char *path, uint64_t most, const sl_unpack_sink *sink) {
    int descriptor;
    SL_TRY(open_file(path, &descriptor));
    return sl_unpack(path, descriptor, most, sink);
}

/* Of a regular file; a pipe can be read only once. */
static ssize_t read_start(int descriptor, char *head, size_t room) {
    size_t used = 0;
    ssize_t got = 1;
    while (used < room && (got = read(descriptor, head + used, room - used)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

sl_status sl_unpack_head(const char *path, char *head, size_t room, size_t *size) {
    int descriptor;
    SL_TRY(open_file(path, &descriptor));
    ssize_t got = read_start(descriptor, head, room);
    if (got < 0) {
        close(descriptor);
        return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    }
    *size = (size_t)got;
#ifdef SL_ZLIB
    if (got > 1 && (unsigned char)head[0] == 0x1f && (unsigned char)head[1] == 0x8b &&
        lseek(descriptor, 0, SEEK_SET) == 0) {
        gzFile packed = gzdopen(descriptor, "rb");
        int unpacked = packed ? gzread(packed, head, (unsigned)room) : -1;
        if (packed)
            gzclose(packed);
        else
            close(descriptor);
        if (unpacked < 0) /* the reader reports it */
            memcpy(head, "\x1f\x8b", 2);
        else
            *size = (size_t)unpacked;
        return SL_OK;
    }
#endif
    close(descriptor);
    return SL_OK;
}
