/* Preloaded behind the probe: every system call that a signal may interrupt fails with EINTR the first time,
 * as it does on a file system of a network, or on a kernel that interrupts posix_fallocate for every signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Every other call of each kind. */
static int interrupts(int kind) {
    static int calls[8];
    return calls[kind]++ % 2 == 0;
}

#define FAIL(kind)                                                                                           \
    if (interrupts(kind)) {                                                                                  \
        errno = EINTR;                                                                                       \
        return -1;                                                                                           \
    }

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    FAIL(0)
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int posix_fallocate(int file, off_t at, off_t bytes) {
    if (interrupts(1))
        return EINTR;
    return syscall(SYS_fallocate, file, 0, at, bytes) == 0 ? 0 : errno;
}

int flock(int file, int how) {
    FAIL(2)
    return (int)syscall(SYS_flock, file, how);
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
    FAIL(3)
    return syscall(SYS_getrandom, bytes, size, flags);
}

ssize_t read(int file, void *bytes, size_t size) {
    FAIL(4)
    return syscall(SYS_read, file, bytes, size);
}

ssize_t write(int file, const void *bytes, size_t size) {
    FAIL(5)
    return syscall(SYS_write, file, bytes, size);
}
