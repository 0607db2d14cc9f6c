#include "base/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

sl_status sl_shared_reserve(int file, size_t bytes, const char *what) {
    int error;
    if (ftruncate(file, (off_t)bytes) != 0)
        return sl_error_errno(SL_ESYS, "%s: no %zu bytes of shared memory", what, bytes);
    do
        error = posix_fallocate(file, 0, (off_t)bytes);
    while (error == EINTR);
    errno = error;
    return error ? sl_error_errno(SL_ESYS, "%s: no %zu bytes of shared memory", what, bytes) : SL_OK;
}

static int populate(void *memory, size_t bytes) {
    int failed;
    do
        failed = madvise(memory, bytes, MADV_POPULATE_WRITE);
    while (failed != 0 && (errno == EINTR || errno == EAGAIN));
    return failed != 0 && errno != EINVAL ? -1 : 0;
}

sl_status sl_shared_map(int file, size_t bytes, const char *what, void *memory) {
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        return sl_error_errno(SL_ESYS, "%s: %zu bytes of shared memory cannot be mapped", what, bytes);
    if (populate(mapped, bytes) != 0) {
        sl_status status = sl_error_errno(SL_ESYS, "%s: no %zu bytes of shared memory", what, bytes);
        munmap(mapped, bytes);
        return status;
    }
    memcpy(memory, &mapped, sizeof mapped);
    return SL_OK;
}
