#include "base/find.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINKS = 40,
    RECORD = 16384
}; /* links on one path, as in the kernel; bytes of a user's or group's entry */

/* ---- locations ---- */

static void cut_last(char *path) {
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

/* Replaces a file's path by `relative` to its folder. */
static sl_status go_to(const char *relative, char folder[PATH_MAX]) {
    cut_last(folder);
    for (; strncmp(relative, "/..", 3) == 0; relative += 3)
        cut_last(folder);
    if (strlen(folder) + strlen(relative) >= PATH_MAX)
        return sl_error(SL_ENONE, "the path %s%s is too long", folder, relative);
    strcat(folder, relative);
    return SL_OK;
}

sl_status sl_find_folder(const char *relative, char folder[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0)
        return sl_error_errno(SL_ENONE, "the path of the running program is not known");
    folder[length] = 0;
    return go_to(relative, folder);
}

/* 1 with the path of the shared library that holds this code; 0 if it is in the program itself, or was loaded
 * by a relative path. */
static int find_own_library(char path[PATH_MAX]) {
    Dl_info own, program;
    return dladdr(__func__, &own) && dladdr((const void *)getauxval(AT_PHDR), &program) &&
           own.dli_fbase != program.dli_fbase && own.dli_fname[0] == '/' && realpath(own.dli_fname, path);
}

int sl_find_is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static sl_status make_absolute(const char *name, char path[PATH_MAX]) {
    char here[PATH_MAX] = "";
    if (*name != '/' && !getcwd(here, sizeof here))
        return sl_error_errno(SL_ENONE, "the working directory of '%s' is not known", name);
    int length = snprintf(path, PATH_MAX, "%s%s%s", here, *here ? "/" : "", name);
    return length > 0 && length < PATH_MAX ? SL_OK
                                           : sl_error(SL_ENONE, "the path '%.200s...' is too long", name);
}

sl_status sl_find_named(const char *variable, char path[PATH_MAX]) {
    const char *value = secure_getenv(variable);
    path[0] = 0;
    return value && *value ? make_absolute(value, path) : SL_OK;
}

static int is_in(const char *folder, const char *name, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && sl_find_is_file(path);
}

sl_status sl_find_near(const char *const *folders, const char *name, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    for (int i = 0; folders[i]; i++) {
        SL_TRY(sl_find_folder(folders[i], folder));
        if (is_in(folder, name, path))
            return sl_find_trust(path);
    }
    for (int i = 0; folders[i] && find_own_library(folder); i++) {
        SL_TRY(go_to(folders[i], folder));
        if (is_in(folder, name, path))
            return sl_find_trust(path);
    }
    SL_TRY(sl_find_folder("", folder));
    return sl_error(SL_ENONE, "%s is not in %s", name, folder);
}

/* If not, errno has the reason. */
static int can_run(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0)
        return 0;
    if (!S_ISREG(about.st_mode)) {
        errno = S_ISDIR(about.st_mode) ? EISDIR : EACCES;
        return 0;
    }
    return access(path, X_OK) == 0;
}

int sl_find_program(const char *name, sl_find_entries entries, char path[PATH_MAX]) {
    const char *folders = secure_getenv("PATH");
    int why = ENOENT;
    if (strchr(name, '/')) {
        if (snprintf(path, PATH_MAX, "%s", name) < PATH_MAX)
            return can_run(path);
        errno = ENAMETOOLONG;
        return 0;
    }
    for (const char *at = folders ? folders : "/usr/bin:/bin"; at; at = strchr(at, ':')) {
        at += *at == ':';
        int length = (int)strcspn(at, ":");
        int used = snprintf(path, PATH_MAX, "%.*s%s%s", length, at, length ? "/" : "./", name);
        if (used < 0 || used >= PATH_MAX || (*at != '/' && entries == SL_FIND_ABSOLUTE))
            continue;
        if (can_run(path))
            return 1;
        why = errno == ENOENT || errno == ENOTDIR ? why : errno;
    }
    errno = why;
    return 0;
}

/* ---- trust ---- */

typedef struct trusted {
    uid_t user, program; /* the user of this process, and the owner of its program */
    uid_t unmapped;      /* the number for all ids unknown in this user namespace; 0: none is unknown */
} trusted;

static unsigned long long first_number(const char *file, const char *format) {
    unsigned long long number = 0;
    FILE *in = fopen(file, "re");
    if (in && fscanf(in, format, &number) != 1)
        number = 0;
    if (in)
        fclose(in);
    return number;
}

static trusted who_is_trusted(void) {
    enum { ALL = 4294967295 };
    struct stat program;
    trusted who = {.user = geteuid()};
    who.program = stat("/proc/self/exe", &program) == 0 ? program.st_uid : who.user;
    if (first_number("/proc/self/uid_map", "%*u %*u %llu") < ALL)
        who.unmapped = (uid_t)first_number("/proc/sys/kernel/overflowuid", "%llu");
    return who;
}

/* A group with the user's name and no other members. */
static int is_private_group(gid_t group, uid_t user) {
    char *text;
    struct passwd person, *known = NULL;
    struct group entry, *found = NULL;
    if (sl_alloc(&text, 2, RECORD) != SL_OK)
        return 0;
    int is_private = getpwuid_r(user, &person, text, RECORD, &known) == 0 && known &&
                     known->pw_gid == group &&
                     getgrgid_r(group, &entry, text + RECORD, RECORD, &found) == 0 && found &&
                     strcmp(found->gr_name, known->pw_name) == 0;
    for (char **member = is_private ? found->gr_mem : NULL; is_private && *member; member++)
        is_private = strcmp(*member, known->pw_name) == 0;
    sl_free(text);
    return is_private;
}

/* Writes why untrusted users may write `part` of the path; 0: they may not. */
static int find_objection(const trusted *who, const char *part, const struct stat *about, char *why,
                          size_t size) {
    const uid_t owner = about->st_uid;
    const unsigned mode = about->st_mode & 07777;
    if (owner != 0 && owner != who->user && owner != who->program &&
        (!who->unmapped || owner != who->unmapped))
        return snprintf(why, size, "%s belongs to user %u", part, owner);
    if (S_ISLNK(about->st_mode) || (S_ISDIR(about->st_mode) && (mode & S_ISVTX)))
        return 0;
    if (mode & S_IWOTH)
        return snprintf(why, size, "everybody may write to %s (mode %o)", part, mode);
    if ((mode & S_IWGRP) && !is_private_group(about->st_gid, owner) &&
        !is_private_group(about->st_gid, who->user))
        return snprintf(why, size, "group %u may write to %s (mode %o)", about->st_gid, part, mode);
    return 0;
}

/* Puts the target of a link at the end of `done` before `rest`. */
static sl_status follow(char done[PATH_MAX], char rest[PATH_MAX]) {
    char target[PATH_MAX], joined[2 * PATH_MAX + 1];
    ssize_t length = readlink(done, target, sizeof target - 1);
    if (length <= 0)
        return sl_error_errno(SL_ENONE, "the link %s cannot be read", done);
    target[length] = 0;
    snprintf(joined, sizeof joined, "%s/%s", target, rest);
    if (strlen(joined) >= PATH_MAX)
        return sl_error(SL_ENONE, "the link %s leads to too long a path", done);
    strcpy(rest, joined);
    cut_last(done);
    if (*target == '/')
        done[0] = 0;
    return SL_OK;
}

/* `done` is the path so far, without links and without a slash at its end; the root is "". */
sl_status sl_find_trust(const char *path) {
    char done[PATH_MAX] = "", rest[PATH_MAX], why[PATH_MAX + 64];
    const trusted who = who_is_trusted();
    struct stat about;
    int links = 0;
    if (*path != '/' || strlen(path) >= sizeof rest)
        return sl_error(SL_ENONE, "'%.200s' is not an absolute path", path);
    strcpy(rest, path);
    for (;;) {
        if (lstat(*done ? done : "/", &about) != 0)
            return sl_error_errno(SL_ENONE, "%s", done);
        if (find_objection(&who, *done ? done : "/", &about, why, sizeof why))
            return sl_error(SL_ESYS, "%s is not used, because others could replace it: %s", path, why);
        if (S_ISLNK(about.st_mode)) {
            if (++links > LINKS)
                return sl_error(SL_ENONE, "%s: too many links", path);
            SL_TRY(follow(done, rest));
            continue;
        }
        size_t skipped = strspn(rest, "/"), length = strcspn(rest + skipped, "/");
        if (length == 0)
            return SL_OK;
        const char *part = rest + skipped;
        if (length == 2 && strncmp(part, "..", 2) == 0)
            cut_last(done);
        else if (length != 1 || *part != '.') {
            if (strlen(done) + 1 + length >= sizeof done)
                return sl_error(SL_ENONE, "%s: the path is too long", path);
            sprintf(done + strlen(done), "/%.*s", (int)length, part);
        }
        memmove(rest, part + length, strlen(part + length) + 1);
    }
}
