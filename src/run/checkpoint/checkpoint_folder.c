#include "run/checkpoint/checkpoint_folder.h"
#include "base/file.h"
#include "base/memory.h"
#include "run/checkpoint/checksum.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH 4096
#define PART ".part"

void sl_checkpoint_name(int iteration, char name[SL_CHECKPOINT_NAME]) {
    snprintf(name, SL_CHECKPOINT_NAME, "step-%06d", iteration);
}

/* ---- what is in the folder ---- */

typedef struct step_entry {
    int iteration, part;
    char name[SL_CHECKPOINT_NAME];
} step_entry;

typedef struct entries {
    step_entry *entry;
    size_t capacity;
    int count;
} entries;

/* step-N or step-N.part with N as written by sl_checkpoint_name; any other name is not ours. */
static int parse_name(const char *name, step_entry *e) {
    char expected[SL_CHECKPOINT_NAME], *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9' || strlen(name) >= sizeof e->name)
        return 0;
    errno = 0;
    long iteration = strtol(name + 5, &end, 10);
    if (errno != 0 || iteration > INT_MAX)
        return 0;
    sl_checkpoint_name((int)iteration, expected);
    if (strncmp(name, expected, (size_t)(end - name)) != 0 || (size_t)(end - name) != strlen(expected))
        return 0;
    *e = (step_entry){.iteration = (int)iteration, .part = strcmp(end, PART) == 0};
    memcpy(e->name, name, strlen(name) + 1);
    return *end == 0 || e->part;
}

static int newest_first(const void *a, const void *b) {
    const step_entry *x = a, *y = b;
    if (x->iteration != y->iteration)
        return x->iteration > y->iteration ? -1 : 1;
    return x->part - y->part;
}

/* Newest first. No folder: none. */
static sl_status list(const char *folder, entries *all) {
    DIR *directory = opendir(folder);
    sl_status status = SL_OK;
    *all = (entries){0};
    if (!directory)
        return errno == ENOENT ? SL_OK : sl_error_errno(SL_ESYS, "%s: cannot be read", folder);
    for (const struct dirent *at; (at = readdir(directory)) != NULL;) {
        step_entry one;
        if (!parse_name(at->d_name, &one))
            continue;
        SL_TRY_GOTO(out, status,
                    sl_grow(&all->entry, &all->capacity, (size_t)all->count + 1, sizeof *all->entry));
        all->entry[all->count++] = one;
    }
    if (all->count > 1)
        qsort(all->entry, (size_t)all->count, sizeof *all->entry, newest_first);
out:
    if (status != SL_OK)
        sl_free(all->entry);
    closedir(directory);
    return status;
}

static sl_status join(char path[PATH], const char *folder, const char *name, const char *ending) {
    if (snprintf(path, PATH, "%s/%s%s", folder, name, ending) >= PATH)
        return sl_error(SL_ESYS, "%s: the path is too long", folder);
    return SL_OK;
}

/* ---- making and removing ---- */

static sl_status sync_folder(const char *path) {
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be used", path);
    int failed = fsync(file) != 0 && errno != EINVAL; /* file systems that need none return EINVAL */
    sl_status status = failed ? sl_error_errno(SL_ESYS, "%s: cannot be synced", path) : SL_OK;
    close(file);
    return status;
}

sl_status sl_checkpoint_begin(const char *folder, int iteration, char *path) {
    char name[SL_CHECKPOINT_NAME];
    sl_checkpoint_name(iteration, name);
    SL_TRY(join(path, folder, name, PART));
    return sl_directory_make(path);
}

/* Replaces a folder of that name in one step, if the file system supports it; the old one then has the name
 * that the new one had. */
static sl_status publish(const char *part, const char *whole) {
    if (rename(part, whole) == 0)
        return SL_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return sl_error_errno(SL_ESYS, "%s: cannot be renamed", part);
    if (renameat2(AT_FDCWD, part, AT_FDCWD, whole, RENAME_EXCHANGE) == 0)
        return sl_path_remove(part);
    SL_TRY(sl_path_remove(whole));
    return rename(part, whole) == 0 ? SL_OK : sl_error_errno(SL_ESYS, "%s: cannot be renamed", part);
}

sl_status sl_checkpoint_publish(const char *folder, int iteration) {
    char name[SL_CHECKPOINT_NAME], part[PATH], whole[PATH];
    sl_checkpoint_name(iteration, name);
    SL_TRY(join(part, folder, name, PART));
    SL_TRY(join(whole, folder, name, ""));
    SL_TRY(sync_folder(part));
    SL_TRY(publish(part, whole));
    return sync_folder(folder);
}

/* Renames it to an unfinished one first, so that half a checkpoint never has the name of a complete one. */
static sl_status remove_whole(const char *folder, const char *name) {
    char whole[PATH], part[PATH];
    SL_TRY(join(whole, folder, name, ""));
    SL_TRY(join(part, folder, name, PART));
    SL_TRY(sl_path_remove(part));
    if (rename(whole, part) != 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be renamed", whole);
    return sl_path_remove(part);
}

sl_status sl_checkpoint_prune(const char *folder, int keep) {
    entries all;
    int kept = 0;
    SL_TRY(list(folder, &all));
    sl_status status = SL_OK;
    for (int i = 0; i < all.count && status == SL_OK; i++)
        if (!all.entry[i].part && kept++ >= keep)
            status = remove_whole(folder, all.entry[i].name);
    sl_free(all.entry);
    return status;
}

sl_status sl_checkpoint_clear(const char *folder) {
    entries all;
    char path[PATH];
    SL_TRY(list(folder, &all));
    sl_status status = SL_OK;
    for (int i = 0; i < all.count && status == SL_OK; i++) {
        if (!all.entry[i].part)
            continue;
        status = join(path, folder, all.entry[i].name, "");
        SL_THEN(status, sl_path_remove(path));
    }
    sl_free(all.entry);
    return status;
}

sl_status sl_checkpoint_set_aside(const char *folder, char *moved) {
    entries all;
    int whole = 0;
    moved[0] = 0;
    SL_TRY(list(folder, &all));
    for (int i = 0; i < all.count; i++)
        whole += !all.entry[i].part;
    sl_free(all.entry);
    if (whole == 0)
        return sl_checkpoint_clear(folder);
    for (int number = 1;; number++) {
        if (snprintf(moved, PATH, "%s.before-%d", folder, number) >= PATH)
            return sl_error(SL_ESYS, "%s: the path is too long", folder);
        if (access(moved, F_OK) != 0)
            break;
    }
    return rename(folder, moved) == 0 ? SL_OK : sl_error_errno(SL_ESYS, "%s: cannot be renamed", folder);
}

/* ---- checking and finding ---- */

static sl_status verify_file(const char *folder, const sl_checkpoint_file *file) {
    char path[PATH];
    struct stat found;
    uint64_t size, checksum;
    SL_TRY(join(path, folder, file->name, ""));
    if (stat(path, &found) != 0)
        return sl_error(SL_EINVAL, "%s %s", file->name, errno == ENOENT ? "is missing" : "cannot be read");
    if ((uint64_t)found.st_size != file->size)
        return sl_error(SL_EINVAL, "%s has %llu bytes, not %llu", file->name,
                        (unsigned long long)found.st_size, (unsigned long long)file->size);
    if (sl_checksum_file(path, &size, &checksum) != SL_OK)
        return sl_error(SL_EINVAL, "%s cannot be read", file->name);
    return size == file->size && checksum == file->checksum
               ? SL_OK
               : sl_error(SL_EINVAL, "%s was changed: its checksum is %016llx, not %016llx", file->name,
                          (unsigned long long)checksum, (unsigned long long)file->checksum);
}

sl_status sl_checkpoint_verify(const char *folder, sl_checkpoint_state *state) {
    char path[PATH];
    struct stat found;
    *state = (sl_checkpoint_state){0};
    SL_TRY(join(path, folder, "state.json", ""));
    if (stat(path, &found) != 0)
        return sl_error(SL_EINVAL, "state.json %s", errno == ENOENT ? "is missing" : "cannot be read");
    SL_TRY(sl_checkpoint_state_read(path, state));
    sl_status status = SL_OK;
    for (int i = 0; i < state->files && status == SL_OK; i++)
        status = verify_file(folder, &state->file[i]);
    if (status != SL_OK)
        sl_checkpoint_state_free(state);
    return status;
}

static sl_status refuse(sl_checkpoint_found *found, const char *name, const char *why) {
    SL_TRY(sl_grow(&found->refused, &found->capacity, (size_t)found->refusals + 1, sizeof *found->refused));
    sl_checkpoint_refusal *refusal = &found->refused[found->refusals++];
    snprintf(refusal->name, sizeof refusal->name, "%s", name);
    snprintf(refusal->why, sizeof refusal->why, "%s", why);
    return SL_OK;
}

static sl_status try_entry(const char *folder, const step_entry *e, sl_checkpoint_found *found) {
    if (e->part)
        return refuse(found, e->name, "is incomplete: the run ended while it was written");
    SL_TRY(join(found->path, folder, e->name, ""));
    sl_status status = sl_checkpoint_verify(found->path, &found->state);
    if (status == SL_OK && found->state.iteration != e->iteration) {
        sl_checkpoint_state_free(&found->state);
        status = sl_error(SL_EINVAL, "state.json is of another checkpoint");
    }
    if (status == SL_ENOMEM)
        return status;
    if (status != SL_OK) {
        found->damaged++;
        return refuse(found, e->name, sl_error_text());
    }
    snprintf(found->name, sizeof found->name, "%s", e->name);
    found->found = 1;
    return SL_OK;
}

sl_status sl_checkpoint_find(const char *folder, sl_checkpoint_found *found) {
    entries all;
    *found = (sl_checkpoint_found){0};
    SL_TRY(list(folder, &all));
    sl_status status = SL_OK;
    for (int i = 0; i < all.count && status == SL_OK && !found->found; i++)
        status = try_entry(folder, &all.entry[i], found);
    sl_free(all.entry);
    if (status != SL_OK || found->found || found->damaged == 0)
        return status;
    const sl_checkpoint_refusal *first = found->refused;
    while (strstr(first->name, PART)) /* damaged > 0: there is one */
        first++;
    return sl_error(SL_ENONE, "%s: none of %d checkpoints can be used, the newest (%s) because %s", folder,
                    found->damaged, first->name, first->why);
}

void sl_checkpoint_found_free(sl_checkpoint_found *found) {
    sl_checkpoint_state_free(&found->state);
    sl_free(found->refused);
    *found = (sl_checkpoint_found){0};
}
