#include "pack/pack.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#ifdef SL_ZLIB
#include <zlib.h>
#endif

int sl_packs(const char *path) {
    const size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".gz") == 0;
}

#ifdef SL_ZLIB
enum { BUFFER = 1 << 18, PIECE_MAX = 1 << 30 };
#define HOW "wb3" /* of a plan's JSON a ninth remains */

struct sl_packer {
    gzFile file;
};

sl_status sl_packer_open(const char *path, int descriptor, sl_packer **packer) {
    sl_packer *p;
    SL_TRY(sl_alloc(&p, 1, sizeof *p));
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    p->file = copy >= 0 ? gzdopen(copy, HOW) : NULL;
    if (!p->file || gzbuffer(p->file, BUFFER) != 0) {
        sl_status status = sl_error_errno(copy >= 0 ? SL_ENOMEM : SL_ESYS, "%s: cannot be packed", path);
        if (p->file)
            gzclose(p->file);
        else if (copy >= 0)
            close(copy);
        sl_free(p);
        return status;
    }
    *packer = p;
    return SL_OK;
}

/* zlib's errors are those of write, or of memory. */
static int error_of(int code) {
    return code == Z_OK ? 0 : code == Z_ERRNO && errno ? errno : code == Z_MEM_ERROR ? ENOMEM : EIO;
}

int sl_packer_put(sl_packer *p, const char *bytes, size_t size) {
    while (size > 0) {
        const unsigned now = size < PIECE_MAX ? (unsigned)size : PIECE_MAX;
        if (gzwrite(p->file, bytes, now) != (int)now) {
            int code;
            const int error = errno;
            gzerror(p->file, &code);
            errno = error;
            return error_of(code == Z_OK ? Z_STREAM_ERROR : code);
        }
        bytes += now;
        size -= now;
    }
    return 0;
}

int sl_packer_close(sl_packer *p) {
    if (!p)
        return 0;
    errno = 0;
    const int error = error_of(gzclose(p->file));
    sl_free(p);
    return error;
}
#else
sl_status sl_packer_open(const char *path, int descriptor, sl_packer **packer) {
    (void)descriptor;
    *packer = NULL;
    return sl_error(SL_EINVAL, "%s: this build (without zlib) cannot pack; leave out .gz, and use gzip",
                    path);
}

int sl_packer_put(sl_packer *p, const char *bytes, size_t size) {
    (void)p, (void)bytes, (void)size;
    return ENOSYS;
}

int sl_packer_close(sl_packer *p) {
    (void)p;
    return 0;
}
#endif
