#include "cli/trace_file.h"
#include "pack/unpack.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_file(const char *path) {
    return strcmp(path, "-") == 0 ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
}

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
    SL_TRY(sl_unpack(path, file, UINT64_MAX, &(sl_unpack_sink){reader->feed, reader->object}));
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
