/* Makes a call of the C library, of hiredis or of MPI fail on purpose: preloaded into a program that is not
 * changed for it. Only calls that slackline's own programs and libraries make are counted, not those of the
 * libraries that they use.
 *
 *   SL_FAULT      POINT:ERROR:N: the n-th call of POINT (0: the first) fails with ERROR: an errno's name, or
 *                 SHORT: half of the bytes; BACK: the clock goes back an hour; FAIL: the library's own code
 *   SL_FAULT_IN   names of the programs it happens in, separated by blanks; others are left alone
 *   SL_FAULT_LOG  a file that must not exist: made by the process whose call fails, so there is one in all
 *
 * sl_fault_points lists the points and their errors for the tests (faults.py). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Point, a function of it, what a failed call returns, errors. The functions take integers and pointers only.
 */
#define POINTS(X)                                                                                            \
    X(open, open, -1, "EMFILE EIO")                                                                          \
    X(open, open64, -1, "EMFILE EIO")                                                                        \
    X(fopen, fopen, 0, "EMFILE")                                                                             \
    X(fopen, fopen64, 0, "EMFILE")                                                                           \
    X(read, read, -1, "EIO EINTR SHORT")                                                                     \
    X(pread, pread, -1, "EIO EINTR SHORT")                                                                   \
    X(pread, pread64, -1, "EIO EINTR SHORT")                                                                 \
    X(write, write, -1, "ENOSPC EIO EINTR SHORT")                                                            \
    X(pwrite, pwrite, -1, "ENOSPC EIO EINTR SHORT")                                                          \
    X(pwrite, pwrite64, -1, "ENOSPC EIO EINTR SHORT")                                                        \
    X(fsync, fsync, -1, "EIO ENOSPC")                                                                        \
    X(rename, rename, -1, "EIO ENOSPC")                                                                      \
    X(renameat2, renameat2, -1, "EIO")                                                                       \
    X(posix_fallocate, posix_fallocate, ERROR_ITSELF, "ENOSPC EINTR")                                        \
    X(posix_fallocate, posix_fallocate64, ERROR_ITSELF, "ENOSPC EINTR")                                      \
    X(fallocate, fallocate, -1, "ENOSPC")                                                                    \
    X(fallocate, fallocate64, -1, "ENOSPC")                                                                  \
    X(ftruncate, ftruncate, -1, "ENOSPC")                                                                    \
    X(ftruncate, ftruncate64, -1, "ENOSPC")                                                                  \
    X(link, link, -1, "EIO")                                                                                 \
    X(mkdir, mkdir, -1, "ENOSPC")                                                                            \
    X(memfd, memfd_create, -1, "EMFILE")                                                                     \
    X(mmap, mmap, -1, "ENOMEM")                                                                              \
    X(mmap, mmap64, -1, "ENOMEM")                                                                            \
    X(fork, fork, -1, "EAGAIN")                                                                              \
    X(spawn, posix_spawn, ERROR_ITSELF, "EAGAIN ENOMEM")                                                     \
    X(spawnp, posix_spawnp, ERROR_ITSELF, "EAGAIN")                                                          \
    X(thread, pthread_create, ERROR_ITSELF, "EAGAIN")                                                        \
    X(pipe, pipe2, -1, "EMFILE")                                                                             \
    X(eventfd, eventfd, -1, "EMFILE")                                                                        \
    X(signalfd, signalfd, -1, "EMFILE")                                                                      \
    X(timerfd, timerfd_create, -1, "EMFILE")                                                                 \
    X(epoll, epoll_create1, -1, "EMFILE")                                                                    \
    X(epoll_wait, epoll_wait, -1, "EINTR")                                                                   \
    X(poll, poll, -1, "EINTR")                                                                               \
    X(socket, socket, -1, "EMFILE")                                                                          \
    X(socketpair, socketpair, -1, "EMFILE")                                                                  \
    X(bind, bind, -1, "EADDRINUSE")                                                                          \
    X(connect, connect, -1, "ECONNREFUSED EINTR")                                                            \
    X(accept, accept4, -1, "EMFILE ECONNABORTED EINTR")                                                      \
    X(send, send, -1, "ECONNRESET EINTR SHORT")                                                              \
    X(sendmsg, sendmsg, -1, "ECONNRESET EINTR")                                                              \
    X(recv, recv, -1, "ECONNRESET EINTR SHORT")                                                              \
    X(readv, readv, -1, "ECONNRESET EINTR")                                                                  \
    X(clock, clock_gettime, 0, "BACK")                                                                       \
    X(redis_connect, redisConnectUnixWithTimeout, 0, "FAIL")                                                 \
    X(redis_connect_tcp, redisConnectWithTimeout, 0, "FAIL")                                                 \
    X(redis_write, redisBufferWrite, -1, "FAIL")                                                             \
    X(redis_read, redisBufferRead, -1, "FAIL")                                                               \
    X(mpi_init, MPI_Init_thread, 16, "FAIL")                                                                 \
    X(mpi_split, MPI_Comm_split, 16, "FAIL")                                                                 \
    X(mpi_gather, MPI_Iallgather, 16, "FAIL")                                                                \
    X(mpi_send, MPI_Isend, 16, "FAIL")                                                                       \
    X(mpi_receive, MPI_Irecv, 16, "FAIL")                                                                    \
    X(mpi_test, MPI_Testall, 16, "FAIL")

#define ERROR_ITSELF (-2) /* the error is what the call returns */

typedef long word; /* any integer or pointer in a register, or on the stack */
typedef word (*call)(word, word, word, word, word, word, word, word, word, word);

static struct {
    const char *point, *error, *log;
    long nth;
    atomic_long calls;
    _Atomic int is_back; /* the clock went back */
} fault;

enum { OWN_MAX = 8 };
static struct { uintptr_t first, last; } own[OWN_MAX];
static int own_count;

static const struct {
    const char *name;
    int number;
} numbers[] = {{"EMFILE", EMFILE},
               {"EIO", EIO},
               {"EINTR", EINTR},
               {"ENOSPC", ENOSPC},
               {"ENOMEM", ENOMEM},
               {"EAGAIN", EAGAIN},
               {"EADDRINUSE", EADDRINUSE},
               {"ECONNREFUSED", ECONNREFUSED},
               {"ECONNABORTED", ECONNABORTED},
               {"ECONNRESET", ECONNRESET}};

/* The program itself, and libraries of ours. */
static int note_own(struct dl_phdr_info *info, size_t size, void *ignored) {
    (void)size, (void)ignored;
    const char *name = strrchr(info->dlpi_name, '/');
    int ours = !info->dlpi_name[0] ||
               (strstr(info->dlpi_name, "libslackline") && !strstr(name ? name : "", "faults"));
    for (int i = 0; i < info->dlpi_phnum && ours && own_count < OWN_MAX; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            own[own_count].first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            own[own_count].last = own[own_count].first + info->dlpi_phdr[i].p_memsz;
            own_count++;
        }
    return 0;
}

static int is_chosen(const char *names) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t size = strlen(base);
    for (const char *at = names; (at = strstr(at, base)); at += size)
        if ((at == names || at[-1] == ' ') && (!at[size] || at[size] == ' '))
            return 1;
    return 0;
}

__attribute__((constructor)) static void choose(void) {
    static char text[128];
    const char *given = getenv("SL_FAULT"), *in = getenv("SL_FAULT_IN");
    if (!given || strlen(given) >= sizeof text || (in && !is_chosen(in)))
        return;
    strcpy(text, given);
    char *error = strchr(text, ':'), *nth = error ? strchr(error + 1, ':') : NULL;
    if (!nth)
        return;
    *error++ = *nth++ = 0;
    dl_iterate_phdr(note_own, NULL);
    fault.error = error;
    fault.nth = atol(nth);
    fault.log = getenv("SL_FAULT_LOG");
    fault.point = text;
}

static int is_own(uintptr_t caller) {
    for (int i = 0; i < own_count; i++)
        if (caller >= own[i].first && caller < own[i].last)
            return 1;
    return 0;
}

/* By system calls alone: it may be anybody's write that fails. */
static int log_it(uintptr_t caller) {
    char line[256];
    if (!fault.log)
        return 1;
    long file = syscall(SYS_openat, AT_FDCWD, fault.log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return 0;
    int length = snprintf(line, sizeof line, "%s %s %ld process %d at %#lx of %#lx\n", fault.point,
                          fault.error, fault.nth, (int)getpid(), (unsigned long)(caller - own[0].first),
                          (unsigned long)own[0].first);
    syscall(SYS_write, file, line, length);
    syscall(SYS_close, file);
    return 1;
}

/* Whether this call of a point fails. */
static int fails(const char *point, uintptr_t caller) {
    int saved = errno;
    int now = fault.point && strcmp(fault.point, point) == 0 && is_own(caller) &&
              atomic_fetch_add(&fault.calls, 1) == fault.nth && log_it(caller);
    errno = saved;
    return now;
}

static word failed(word result) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, fault.error) == 0) {
            if (result == ERROR_ITSELF)
                return numbers[i].number;
            errno = numbers[i].number;
        }
    return result;
}

static call next_of(const char *function) {
    return (call)dlsym(RTLD_NEXT, function);
}

#define DEFINE(point, function, result, errors)                                                              \
    word fault_##function(word a, word b, word c, word d, word e, word f, word g, word h, word i,            \
                          word j) __asm__(#function);                                                        \
    word fault_##function(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j) {  \
        static _Atomic(call) next;                                                                           \
        if (!next)                                                                                           \
            next = next_of(#function);                                                                       \
        if (fails(#point, (uintptr_t)__builtin_return_address(0))) {                                         \
            if (strcmp(fault.error, "SHORT") == 0)                                                           \
                c = c > 1 ? c / 2 : c;                                                                       \
            else if (strcmp(fault.error, "BACK") == 0)                                                       \
                fault.is_back = 1;                                                                           \
            else                                                                                             \
                return failed(result);                                                                       \
        }                                                                                                    \
        word done = next(a, b, c, d, e, f, g, h, i, j);                                                      \
        if (fault.is_back && strcmp(#point, "clock") == 0 && a == CLOCK_REALTIME)                            \
            ((struct timespec *)b)->tv_sec -= 3600;                                                          \
        return done;                                                                                         \
    }
POINTS(DEFINE)

#define LIST(point, function, result, errors) #point " " #function " " errors "\n"
/** What tests read of the table: a line per point with its function and errors. */
const char sl_fault_points[] = POINTS(LIST);
