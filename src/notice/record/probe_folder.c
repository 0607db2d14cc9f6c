#include "notice/record/probe_folder.h"
#include "base/build_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (1 << 16) /* bytes that are given room at a time: a signal undoes no more than that */

/* ---- processes ---- */

static uint64_t started(void) {
    char text[1024];
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t count;
    while ((count = read(file, text, sizeof text - 1)) < 0 && errno == EINTR)
        ;
    close(file);
    text[count > 0 ? count : 0] = 0;
    unsigned long long start = 0;
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    if (rest &&
        sscanf(rest, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &start) != 1)
        start = 0;
    return start;
}

static uint64_t random_id(const sl_process_id *process) {
    uint64_t id;
    ssize_t got;
    while ((got = getrandom(&id, sizeof id, 0)) < 0 && errno == EINTR)
        ;
    if (got != (ssize_t)sizeof id) { /* refused by a filter of system calls */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        id = ((uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec) ^ process->space << 32 ^
             process->start << 16 ^ (uint64_t)process->pid;
        id *= UINT64_C(0x9e3779b97f4a7c15);
    }
    return id ? id : 1;
}

void sl_process_find(sl_process_id *process) {
    struct stat space;
    memset(process, 0, sizeof *process);
    process->pid = (int32_t)getpid();
    process->space = stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino : 0;
    process->start = started();
    process->id = random_id(process);
}

/* ---- heads ---- */

void sl_file_head_write(sl_file_head *head, uint32_t magic, uint32_t layout, const sl_process_id *process) {
    uint32_t locked = head->process.locked; /* sl_folder_make's */
    snprintf(memset(head->build, 0, SL_BUILD_SIZE), SL_BUILD_SIZE, "%s", sl_build_id());
    head->process = process ? *process : (sl_process_id){0};
    head->process.locked = locked;
    head->layout = layout;
    __atomic_store_n(&head->magic, magic, __ATOMIC_RELEASE);
}

sl_probe_file sl_file_head_read(const sl_file_head *head, size_t bytes, uint32_t magic, uint32_t layout,
                                char *text, size_t size) {
    char theirs[SL_BUILD_SIZE + 1];
    if (bytes < offsetof(sl_file_head, build) || __atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != magic)
        return SL_FILE_FOREIGN;
    uint32_t their_layout = head->layout;
    if (their_layout < 2 || bytes < sizeof *head) {
        snprintf(text, size, "of an earlier slackline, and this is slackline %s", sl_build_id());
        return SL_FILE_OTHER;
    }
    memcpy(theirs, head->build, SL_BUILD_SIZE);
    theirs[SL_BUILD_SIZE] = 0;
    if (strcmp(theirs, sl_build_id()) == 0 && their_layout == layout)
        return SL_FILE_OURS;
    for (char *c = theirs; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    if (strcmp(theirs, sl_build_id()) == 0)
        snprintf(text, size, "of slackline %s with files of layout %u, and this is one with layout %u",
                 theirs, their_layout, layout);
    else
        snprintf(text, size, "of slackline %s, and this is slackline %s", theirs, sl_build_id());
    return SL_FILE_OTHER;
}

/* ---- files ---- */

/* folder/name followed by `ending`; 0, or -1 with errno. */
static int path_of(char *path, size_t size, const char *folder, const char *name, const char *ending) {
    int length = snprintf(path, size, "%s/%s%s", folder, name, ending);
    if (length > 0 && (size_t)length < size)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

static int open_again(const char *path, int flags) {
    int file;
    while ((file = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0 && errno == EINTR)
        ;
    return file;
}

static int lock_again(int file, int how) {
    int result;
    while ((result = flock(file, how | LOCK_NB)) != 0 && errno == EINTR)
        ;
    return result;
}

/* In pieces: an interrupted call is undone, and a program with a fast timer would never get all of it at
 * once. 0 or the error. */
static int give_room(int file, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
        int error = posix_fallocate(file, (off_t)at, (off_t)part);
        if (error && error != EINTR)
            return error;
        at += error ? 0 : part;
    }
    return 0;
}

void *sl_folder_make(const char *folder, const char *name, size_t bytes) {
    char path[4096];
    if (path_of(path, sizeof path, folder, name, ".new") != 0)
        return NULL;
    int file = open_again(path, O_RDWR | O_CREAT | O_EXCL);
    if (file < 0)
        return NULL;
    int locked = lock_again(file, LOCK_EX) == 0, error = give_room(file, bytes);
    void *memory = MAP_FAILED;
    if (error == 0 && (memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) == MAP_FAILED)
        error = errno;
    close(file);
    if (error) {
        unlink(path);
        errno = error;
        return NULL;
    }
    /* a file system that forgets the lock when the file is closed is as good as one without locks */
    sl_file_head *head = memory;
    head->process.locked = locked && sl_folder_held(folder, path + strlen(folder) + 1) == 1;
    return memory;
}

int sl_folder_publish(const char *folder, const char *made, const char *name) {
    char from[4096], to[4096];
    if (path_of(from, sizeof from, folder, made, ".new") != 0 ||
        path_of(to, sizeof to, folder, name, "") != 0)
        return -1;
    int result = link(from, to), error = errno;
    if (result != 0 && (error == EPERM || error == EOPNOTSUPP || error == ENOSYS)) { /* no hard links here */
        result = rename(from, to);
        error = errno;
    }
    unlink(from);
    errno = error;
    return result;
}

void *sl_folder_map(const char *folder, const char *name, int writable, size_t least, size_t *bytes) {
    char path[4096];
    struct stat about;
    void *memory = MAP_FAILED;
    if (path_of(path, sizeof path, folder, name, "") != 0)
        return NULL;
    int file = open_again(path, (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK);
    if (file < 0)
        return NULL;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size < (off_t)least)
        errno = EINVAL;
    else
        memory = mmap(NULL, (size_t)about.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                      file, 0);
    int error = errno;
    close(file);
    errno = error;
    if (memory == MAP_FAILED)
        return NULL;
    *bytes = (size_t)about.st_size;
    return memory;
}

int sl_folder_held(const char *folder, const char *name) {
    char path[4096];
    if (path_of(path, sizeof path, folder, name, "") != 0)
        return -1;
    int file = open_again(path, O_RDONLY | O_NONBLOCK);
    if (file < 0)
        return errno == ENOENT ? 0 : -1;
    int held = lock_again(file, LOCK_SH) == 0 ? 0 : errno == EWOULDBLOCK ? 1 : -1;
    close(file);
    return held;
}
