#include "cli/trace_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef SL_ZLIB
#include <zlib.h>
#endif

enum { PIECE = 1 << 17 };

static int open_file(const char *path) {
    return strcmp(path, "-") == 0 ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
}

#ifdef SL_ZLIB
/* zlib passes uncompressed data through. */
static sl_status read_pieces(const char *path, int file, const sl_trace_reader *reader) {
    char piece[PIECE];
    gzFile packed = gzdopen(file, "rb");
    if (!packed) {
        close(file);
        return sl_error(SL_ENOMEM, "out of memory for %s", path);
    }
    sl_status status = SL_OK;
    int got = 1, code;
    while (status == SL_OK && (got = gzread(packed, piece, PIECE)) > 0)
        status = reader->feed(reader->object, piece, (size_t)got);
    const char *why = gzerror(packed, &code);
    if (status == SL_OK && (got < 0 || code == Z_BUF_ERROR)) /* the latter: the packed file ends too early */
        status = code == Z_ERRNO ? sl_error_errno(SL_EINVAL, "%s: cannot be read", path)
                                 : sl_error(SL_EINVAL, "%s: cannot be unpacked: %s", path,
                                            strncmp(why, "<fd:", 4) == 0 && strstr(why, ": ")
                                                ? strstr(why, ": ") + 2 /* zlib's name for the file */
                                                : why);
    gzclose(packed);
    return status;
}
#else
static sl_status read_pieces(const char *path, int file, const sl_trace_reader *reader) {
    char piece[PIECE];
    sl_status status = SL_OK;
    ssize_t got = 1;
    for (int first = 1; status == SL_OK && (got = read(file, piece, PIECE)) > 0; first = 0) {
        if (first && got > 1 && (unsigned char)piece[0] == 0x1f && (unsigned char)piece[1] == 0x8b)
            status =
                sl_error(SL_EINVAL,
                         "%s: packed by gzip, which this build (without zlib) cannot read; use gunzip", path);
        else
            status = reader->feed(reader->object, piece, (size_t)got);
    }
    if (status == SL_OK && got < 0)
        status = sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    close(file);
    return status;
}
#endif

sl_status sl_trace_file_give(const char *path, const sl_trace_reader *reader) {
    struct stat about;
    int file = open_file(path);
    if (file < 0)
        return sl_error_errno(SL_EINVAL, "%s: cannot be read", path);
    if (fstat(file, &about) == 0 && S_ISDIR(about.st_mode)) {
        int of_run = faccessat(file, "timeline.json", R_OK, 0) == 0;
        close(file);
        return sl_error(SL_EINVAL, "%s: is a folder; give the traces in it%s%s%s", path, of_run ? ": " : "",
                        of_run ? path : "", of_run ? "/timeline.json" : "");
    }
    sl_status status = reader->begin(reader->object, strcmp(path, "-") == 0 ? "standard input" : path);
    if (status != SL_OK) {
        close(file);
        return status;
    }
    SL_TRY(read_pieces(path, file, reader));
    return reader->end(reader->object);
}

static sl_status begin(void *traced, const char *name) {
    return sl_traced_begin(traced, name);
}
static sl_status feed(void *traced, const char *bytes, size_t size) {
    return sl_traced_feed(traced, bytes, size);
}
static sl_status end(void *traced) {
    return sl_traced_end(traced);
}

sl_status sl_trace_file_read(const char *path, sl_traced *traced) {
    return sl_trace_file_give(path, &(sl_trace_reader){begin, feed, end, traced});
}
