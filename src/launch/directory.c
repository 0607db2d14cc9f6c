#include "launch/directory.h"
#include "base/clock.h"
#include "base/file.h"

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

/* Containers often get 64 MiB of /dev/shm. Below half of that Open MPI's and the transport's segments would
 * not fit, and a full memory file system is a SIGBUS in the middle of a run. */
static const unsigned long long FREE_MIN = 32ull << 20;

enum { TRIES = 500 };

static int has_memory_file_system(void) {
    struct statvfs found;
    return access(memory_file_system, W_OK | X_OK) == 0 && statvfs(memory_file_system, &found) == 0 &&
           (unsigned long long)found.f_bavail * found.f_frsize >= FREE_MIN;
}

/* An open file on `path`/owner, or -1. */
static int open_owner(const char *path) {
    char owner[sizeof((sl_launch_directory *)0)->path + 8];
    snprintf(owner, sizeof owner, "%s/owner", path);
    return open(owner, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Takes the lock, and checks that the file was not removed between opening and locking: a process that cleans
 * up also takes the lock first. */
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

/* Informative only: the owner, for a person who finds the directory. */
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

/* ---- ranks without a supervisor ---- */

/* Removes a directory of this user that no process holds; returns whether it was one. */
static int clear_dead(const char *path) {
    sl_launch_directory directory;
    struct stat found;
    if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != getuid())
        return 0;
    int length = snprintf(directory.path, sizeof directory.path, "%s", path);
    directory.lock = length < (int)sizeof directory.path ? lock_owner(path, LOCK_EX) : -1;
    if (directory.lock < 0)
        return 0;
    sl_process_end_run(directory.path);
    sl_launch_directory_remove(&directory);
    return 1;
}

/* Other directories of a name besides our own: a settled one, or the number of candidates. */
typedef struct others {
    char settled[sizeof((sl_launch_directory *)0)->path];
    int candidates, earlier; /* `earlier`: with a name before ours */
} others;

/* Ignores directories of other users, whatever their names. */
static sl_status look(const char *base, const char *prefix, const char *own, others *o) {
    char path[sizeof o->settled], marker[sizeof o->settled + 16];
    *o = (others){.candidates = 0};
    DIR *all = opendir(base);
    if (!all)
        return sl_error_errno(SL_ESYS, "%s: cannot be read", base);
    for (struct dirent *entry; (entry = readdir(all));) {
        struct stat found;
        size_t length = strlen(prefix);
        if (strncmp(entry->d_name, prefix, length) != 0 || strlen(entry->d_name + length) != 6)
            continue;
        if (snprintf(path, sizeof path, "%s/%s", base, entry->d_name) >= (int)sizeof path ||
            strcmp(path, own) == 0 || lstat(path, &found) != 0 || !S_ISDIR(found.st_mode) ||
            found.st_uid != getuid() || clear_dead(path))
            continue;
        snprintf(marker, sizeof marker, "%s/settled", path);
        if (access(marker, F_OK) == 0)
            snprintf(o->settled, sizeof o->settled, "%s", path);
        o->candidates++;
        o->earlier += strcmp(path, own) < 0;
    }
    closedir(all);
    return SL_OK;
}

static sl_status settle(const char *path) {
    char marker[sizeof((sl_launch_directory *)0)->path + 16];
    snprintf(marker, sizeof marker, "%s/settled", path);
    int file = open(marker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be made", marker);
    close(file);
    return SL_OK;
}

static void forget(sl_launch_directory *directory) {
    sl_launch_directory_remove(directory);
    directory->path[0] = 0;
}

/* One round of the election (directory.h); *joined: it is finished. */
static sl_status elect(const char *base, const char *prefix, sl_launch_directory *directory, int *joined) {
    others o;
    *joined = 0;
    SL_TRY(look(base, prefix, directory->path, &o));
    if (o.settled[0]) {
        forget(directory);
        snprintf(directory->path, sizeof directory->path, "%s", o.settled);
        directory->lock = lock_owner(directory->path, LOCK_SH);
        *joined = directory->lock >= 0; /* else it is just being removed */
        if (!*joined)
            directory->path[0] = 0;
    } else if (!directory->path[0] && o.candidates == 0) {
        int length = snprintf(directory->path, sizeof directory->path, "%s/%sXXXXXX", base, prefix);
        if (length >= (int)sizeof directory->path || !mkdtemp(directory->path))
            return sl_error_errno(SL_ESYS, "%s: no temporary directory can be made", base);
        directory->lock = lock_owner(directory->path, LOCK_SH);
        if (directory->lock < 0) { /* another took it for a dead one, and removes it */
            rmdir(directory->path);
            directory->path[0] = 0;
        }
    } else if (directory->path[0] && o.candidates == 0) {
        SL_TRY(settle(directory->path));
        *joined = 1;
    } else if (o.earlier > 0)
        forget(directory);
    return SL_OK;
}

sl_status sl_launch_directory_join(const char *name, sl_launch_directory *directory) {
    const char *base = has_memory_file_system() ? memory_file_system : "/tmp";
    char prefix[sizeof directory->path];
    int length = snprintf(prefix, sizeof prefix, "slackline-%u-%s.", (unsigned)getuid(), name), joined = 0;
    *directory = (sl_launch_directory){.lock = -1};
    if (length < 0 || (size_t)length + strlen(base) + 8 > sizeof directory->path || strchr(name, '/'))
        return sl_error(SL_EINVAL, "'%s' cannot name a directory", name);
    for (int i = 0; i < TRIES; i++) {
        const int had = directory->path[0] != 0;
        sl_status status = elect(base, prefix, directory, &joined);
        if (status != SL_OK)
            forget(directory);
        if (status != SL_OK || joined)
            return status;
        if (had || !directory->path[0]) /* a candidate of our own is looked at again at once */
            sl_clock_sleep_until(sl_clock_real(), sl_now() + 10 * SL_MS);
    }
    forget(directory);
    return sl_error(SL_ESYS, "%s/%s...: cannot be locked", base, prefix);
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
        sl_clock_sleep_until(sl_clock_real(), sl_now() + 10 * SL_MS);
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
    char prefix[64], path[sizeof((sl_launch_directory *)0)->path];
    snprintf(prefix, sizeof prefix, "slackline-%u-", (unsigned)getuid());
    DIR *all = opendir(base);
    if (!all)
        return;
    for (struct dirent *entry; (entry = readdir(all));) {
        int length = snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && length > 0 && (size_t)length < sizeof path)
            clear_dead(path);
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
