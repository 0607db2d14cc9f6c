#include "run/checkpoint/checksum.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The state inline: no allocation of the library's own. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define PIECE ((size_t)1 << 20)

struct sl_checksum_stream {
    XXH64_state_t state;
};

uint64_t sl_checksum(const void *bytes, size_t size) {
    return XXH64(bytes, size, 0);
}

sl_status sl_checksum_open(sl_checksum_stream **stream) {
    SL_TRY(sl_alloc(stream, 1, sizeof **stream));
    XXH64_reset(&(*stream)->state, 0);
    return SL_OK;
}

void sl_checksum_add(sl_checksum_stream *stream, const void *bytes, size_t size) {
    if (size > 0)
        XXH64_update(&stream->state, bytes, size);
}

uint64_t sl_checksum_value(const sl_checksum_stream *stream) {
    return XXH64_digest(&stream->state);
}

void sl_checksum_close(sl_checksum_stream *stream) {
    sl_free(stream);
}

static sl_status read_all(int file, const char *path, char *piece, sl_checksum_stream *stream,
                          uint64_t *size) {
    *size = 0;
    for (;;) {
        ssize_t got = read(file, piece, PIECE);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
        if (got == 0)
            return SL_OK;
        sl_checksum_add(stream, piece, (size_t)got);
        *size += (uint64_t)got;
    }
}

sl_status sl_checksum_file(const char *path, uint64_t *size, uint64_t *checksum) {
    sl_checksum_stream *stream = NULL;
    char *piece = NULL;
    struct stat found;
    sl_status status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode))
        SL_TRY_GOTO(out, status, sl_error(SL_EINVAL, "%s: is not a regular file", path));
    SL_TRY_GOTO(out, status, sl_checksum_open(&stream));
    SL_TRY_GOTO(out, status, sl_alloc(&piece, PIECE, 1));
    SL_TRY_GOTO(out, status, read_all(file, path, piece, stream, size));
    *checksum = sl_checksum_value(stream);
out:
    sl_free(piece);
    sl_checksum_close(stream);
    close(file);
    return status;
}
