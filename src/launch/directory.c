#include "launch/directory.h"
#include "base/clock.h"
#include "base/file.h"
#include "launch/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char memory_file_system[] = "/dev/shm";

/* Containers often get 64 MiB of /dev/shm; below half of that Open MPI's and the transport's segments would
 * not fit, and a full memory file system shows up as SIGBUS in the middle of a run. */
static const unsigned long long least_free = 32ull << 20;

enum { TRIES = 500 };

static int has_memory_file_system(void) {
    struct statvfs found;
    return access(memory_file_system, W_OK | X_OK) == 0 && statvfs(memory_file_system, &found) == 0 &&
           (unsigned long long)found.f_bavail * found.f_frsize >= least_free;
}

/* An open file on `path`/owner, or -1. */
static int open_owner(const char *path) {
    char owner[sizeof((sl_launch_directory *)0)->path + 8];
    snprintf(owner, sizeof owner, "%s/owner", path);
    return open(owner, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Takes the lock, and checks that the file was not removed between opening and locking: one who clears up
 * also takes the lock first. */
static int lock_owner(const char *path, int how) {
    int file = open_owner(path);
    if (file < 0)
        return -1;
    struct stat mine, there;
    char owner[sizeof((sl_launch_directory *)0)->path + 8];
    snprintf(owner, sizeof owner, "%s/owner", path);
    if (flock(file, how | LOCK_NB) == 0 && fstat(file, &mine) == 0 && lstat(owner, &there) == 0 &&
        mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
        return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}

/* Not relied upon: it tells a person who finds the directory whose it is. */
static void describe_owner(int file, const char *durable) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    dprintf(file, "pid: %d\nhost: %s\nrun: %s\n", (int)getpid(), host, durable);
}

static sl_status make_below(const char *base, const char *durable, sl_launch_directory *directory) {
    for (int i = 0; i < TRIES; i++) {
        int length = snprintf(directory->path, sizeof directory->path, "%s/slackline-%u-XXXXXX", base,
                              (unsigned)getuid());
        if (length < 0 || (size_t)length >= sizeof directory->path)
            return sl_error(SL_EINVAL, "%s: the path is too long", base);
        if (!mkdtemp(directory->path))
            return sl_error_errno(SL_ESYS, "%s: no temporary directory can be made", base);
        directory->lock = lock_owner(directory->path, LOCK_EX);
        if (directory->lock >= 0) {
            describe_owner(directory->lock, durable);
            return SL_OK;
        }
        sl_path_remove(directory->path); /* another start took it for a dead one */
    }
    return sl_error(SL_ESYS, "%s: no temporary directory can be locked", base);
}

sl_status sl_launch_directory_make(const char *durable, sl_launch_directory *directory) {
    directory->lock = -1;
    if (has_memory_file_system() && make_below(memory_file_system, durable, directory) == SL_OK)
        return SL_OK;
    char base[4096];
    int length = snprintf(base, sizeof base, "%s/tmp", durable);
    if (length < 0 || (size_t)length >= sizeof base)
        return sl_error(SL_EINVAL, "%s: the path is too long", durable);
    SL_TRY(sl_directory_make(base));
    return make_below(base, durable, directory);
}

sl_status sl_launch_directory_join(const char *name, sl_launch_directory *directory) {
    const char *base = has_memory_file_system() ? memory_file_system : "/tmp";
    int length = snprintf(directory->path, sizeof directory->path, "%s/slackline-%u-%s", base,
                          (unsigned)getuid(), name);
    if (length < 0 || (size_t)length >= sizeof directory->path || strchr(name, '/'))
        return sl_error(SL_EINVAL, "'%s' cannot name a directory", name);
    for (int i = 0; i < TRIES; i++) {
        struct stat found;
        if (mkdir(directory->path, 0700) != 0 && errno != EEXIST)
            return sl_error_errno(SL_ESYS, "%s: cannot be made", directory->path);
        if (lstat(directory->path, &found) == 0 && (!S_ISDIR(found.st_mode) || found.st_uid != getuid()))
            return sl_error(SL_ESYS, "%s: belongs to somebody else", directory->path);
        directory->lock = lock_owner(directory->path, LOCK_SH);
        if (directory->lock >= 0)
            return SL_OK;
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 10 * SL_MS);
    }
    return sl_error(SL_ESYS, "%s: cannot be locked", directory->path);
}

sl_status sl_launch_directory_enter(const char *path, sl_launch_directory *directory) {
    directory->lock = -1;
    if (strlen(path) >= sizeof directory->path)
        return sl_error(SL_EINVAL, "%s: the path is too long", path);
    snprintf(directory->path, sizeof directory->path, "%s", path);
    for (int i = 0; i < TRIES; i++) {
        SL_TRY(sl_directory_make(path));
        errno = 0;
        directory->lock = lock_owner(path, LOCK_SH);
        if (directory->lock >= 0 || errno == EWOULDBLOCK)
            return SL_OK;
        sl_clock_sleep_until(sl_clock_real(), sl_clock_now(sl_clock_real()) + 10 * SL_MS);
    }
    return sl_error(SL_ESYS, "%s: cannot be locked", path);
}

void sl_launch_directory_remove(sl_launch_directory *directory) {
    if (directory->lock < 0)
        return;
    sl_path_remove(directory->path);
    char *slash = strrchr(directory->path, '/');
    if (strncmp(directory->path, "/dev/shm/", 9) != 0 && slash) { /* DIR/tmp, when this was the last in it */
        *slash = 0;
        if (strcmp(directory->path, "/tmp") != 0)
            rmdir(directory->path);
        *slash = '/';
    }
    close(directory->lock);
    directory->lock = -1;
}

void sl_launch_directory_leave(sl_launch_directory *directory) {
    if (directory->lock < 0)
        return;
    if (flock(directory->lock, LOCK_EX | LOCK_NB) == 0) {
        sl_launch_directory_remove(directory);
        return;
    }
    close(directory->lock);
    directory->lock = -1;
}

static void clear_below(const char *base) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, "slackline-%u-", (unsigned)getuid());
    DIR *all = opendir(base);
    if (!all)
        return;
    for (struct dirent *entry; (entry = readdir(all));) {
        sl_launch_directory directory;
        struct stat found;
        int length = snprintf(directory.path, sizeof directory.path, "%s/%s", base, entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 || length < 0 ||
            (size_t)length >= sizeof directory.path || lstat(directory.path, &found) != 0 ||
            !S_ISDIR(found.st_mode) || found.st_uid != getuid())
            continue;
        directory.lock = lock_owner(directory.path, LOCK_EX);
        if (directory.lock < 0)
            continue;
        sl_process_end_run(directory.path);
        sl_launch_directory_remove(&directory);
    }
    closedir(all);
}

void sl_launch_directory_clear(const char *durable) {
    clear_below(memory_file_system);
    if (!durable)
        return;
    char base[4096];
    int length = snprintf(base, sizeof base, "%s/tmp", durable);
    if (length > 0 && (size_t)length < sizeof base)
        clear_below(base);
}
