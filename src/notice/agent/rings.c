#include "notice/agent/rings.h"

#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 4096
#define SCANS                                                                                                \
    30 /* of a folder that changed: its time of change is a coarse one, on some file systems 2 s             \
        */
#define STALE_NEW 10 /* s after which an unfinished file counts as abandoned */

typedef struct call_ring {
    char name[SL_FILE_NAME];
    sl_process_id process; /* as in its head when it was mapped */
    int pid, thread;
    const sl_ring_file *file; /* NULL: no ring, or of another version; kept so that it is looked at once */
    size_t bytes;
    uint32_t capacity;
    uint64_t position;
    uint64_t looked; /* head at the last look: a change shows a live writer */
    int gone;        /* its process has ended */
} call_ring;

struct sl_rings {
    char *folder;
    call_ring *ring; /* [count] */
    size_t count, capacity, turn;
    uint32_t *index; /* [indexed] open addressing: 1 + index in ring[], while the folder is scanned */
    size_t indexed, index_room;
    struct timespec changed; /* the folder, at the last look */
    int scans;               /* that are still to be made of it as it is */
    uint64_t space;          /* our pid namespace */
    uint64_t *ended;         /* [ends] processes, not yet taken */
    size_t ends, end_room;
    uint64_t calls, lost;
    double fullest;
    sl_record *records; /* [CHUNK] */
    char trouble[256];
};

sl_status sl_rings_open(const char *folder, sl_rings **rings) {
    sl_rings *r;
    sl_process_id self;
    *rings = NULL;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    sl_process_find(&self);
    r->space = self.space;
    r->scans = SCANS;
    sl_status status;
    SL_TRY_GOTO(err_close, status, sl_copy_text(&r->folder, folder));
    SL_TRY_GOTO(err_close, status, sl_alloc(&r->records, CHUNK, sizeof *r->records));
    *rings = r;
    return SL_OK;
err_close:
    sl_rings_close(r);
    return status;
}

static void unmap(call_ring *one) {
    if (one->file)
        munmap((void *)(uintptr_t)one->file, one->bytes);
    one->file = NULL;
}

void sl_rings_close(sl_rings *rings) {
    if (!rings)
        return;
    for (size_t i = 0; i < rings->count; i++)
        unmap(&rings->ring[i]);
    SL_FREE(rings->ring, rings->index, rings->ended, rings->folder, rings->records, rings);
}

static const sl_record_ring *ring_of(const call_ring *one) {
    return (const sl_record_ring *)(const void *)(one->file + 1);
}

static uint64_t head_of(const call_ring *one) {
    return one->file ? atomic_load_explicit(&ring_of(one)->head, memory_order_acquire) : 0;
}

static int unread(const call_ring *one) {
    return one->file && one->position < head_of(one);
}

/* ---- processes ---- */

/* The process id here of a process of another namespace: the holder of the lock on its ring, which the kernel
 * reports to each process in its own numbers. -1: not visible from here. */
static int pid_by_lock(const sl_rings *rings, const char *name) {
    char path[4200], wanted[64], line[256], at[64];
    struct stat about;
    int pid = -1, found;
    snprintf(path, sizeof path, "%s/%s", rings->folder, name);
    FILE *locks = stat(path, &about) == 0 ? fopen("/proc/locks", "re") : NULL;
    if (!locks)
        return -1;
    snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(about.st_dev), minor(about.st_dev),
             (unsigned long long)about.st_ino);
    while (pid < 0 && fgets(line, sizeof line, locks))
        if (sscanf(line, "%*d: FLOCK ADVISORY WRITE %d %63s", &found, at) == 2 && strcmp(at, wanted) == 0 &&
            found > 0)
            pid = found;
    fclose(locks);
    return pid;
}

/* When a process here was started; 0: there is none of that number. */
static uint64_t start_of(int pid) {
    char path[64], line[1024];
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    const char *rest = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (rest &&
        sscanf(rest, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &start) != 1)
        start = 0;
    if (file)
        fclose(file);
    return start;
}

/* If the file system has no locks, a process of our own namespace is looked up by its number and start. One
 * of another namespace cannot be looked up: its files stay until the watch ends. */
static int is_there(const sl_rings *rings, const call_ring *one) {
    const sl_process_id *p = &one->process;
    if (p->locked)
        return sl_folder_held(rings->folder, one->name) != 0;
    if (p->space != rings->space)
        return 1;
    uint64_t start = start_of(p->pid);
    return start ? p->start == 0 || start == p->start : kill(p->pid, 0) == 0 || errno != ESRCH;
}

/* ---- files that come ---- */

/* 0 when the file cannot be opened now: it is tried again. */
static int map(sl_rings *rings, call_ring *one) {
    char versions[160] = "";
    const sl_ring_file *file = sl_folder_map(rings->folder, one->name, 0, 8, &one->bytes);
    if (!file)
        return 0;
    one->file = file;
    sl_probe_file kind = sl_file_head_read(&file->head, one->bytes, SL_RING_FILE_MAGIC, SL_PROBE_LAYOUT,
                                           versions, sizeof versions);
    if (kind == SL_FILE_OTHER && !rings->trouble[0])
        snprintf(rings->trouble, sizeof rings->trouble, "calls of the program are not read: its probe is %s",
                 versions);
    if (kind == SL_FILE_OURS && one->bytes > sizeof *file)
        one->capacity = sl_record_ring_capacity(ring_of(one), one->bytes - sizeof *file);
    if (one->capacity == 0) {
        unmap(one);
        return 1;
    }
    one->process = file->head.process;
    one->looked = head_of(one);
    one->thread = file->thread;
    one->pid = one->process.space == rings->space ? one->process.pid : pid_by_lock(rings, one->name);
    return 1;
}

static size_t slot_of(const sl_rings *rings, const char *name) {
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = name; *c; c++)
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 32) & (rings->indexed - 1);
}

static void enter(sl_rings *rings, size_t which) {
    size_t at = slot_of(rings, rings->ring[which].name);
    while (rings->index[at])
        at = (at + 1) & (rings->indexed - 1);
    rings->index[at] = (uint32_t)which + 1;
}

static sl_status index_all(sl_rings *rings) {
    size_t size = 64;
    while (size < 4 * (rings->count + 1))
        size *= 2;
    SL_TRY(sl_grow(&rings->index, &rings->index_room, size, sizeof *rings->index));
    rings->indexed = size;
    memset(rings->index, 0, size * sizeof *rings->index);
    for (size_t i = 0; i < rings->count; i++)
        enter(rings, i);
    return SL_OK;
}

static int is_known(const sl_rings *rings, const char *name) {
    for (size_t at = slot_of(rings, name); rings->index[at]; at = (at + 1) & (rings->indexed - 1))
        if (strcmp(rings->ring[rings->index[at] - 1].name, name) == 0)
            return 1;
    return 0;
}

static int ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), size = strlen(ending);
    return length > size && strcmp(name + length - size, ending) == 0;
}

static void drop_file(const sl_rings *rings, const char *name) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", rings->folder, name);
    unlink(path);
}

/* Its maker was killed in the middle. */
static void drop_unfinished(const sl_rings *rings, const char *name) {
    char path[4200];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", rings->folder, name);
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) && time(NULL) - about.st_ctime > STALE_NEW &&
        sl_folder_held(rings->folder, name) == 0)
        unlink(path);
}

static sl_status found(sl_rings *rings, const char *name) {
    if (ends_with(name, ".ring.new") || ends_with(name, ".gate.new"))
        drop_unfinished(rings, name);
    if (!ends_with(name, ".ring") || strlen(name) >= sizeof rings->ring->name || is_known(rings, name))
        return SL_OK;
    SL_TRY(sl_grow(&rings->ring, &rings->capacity, rings->count + 1, sizeof *rings->ring));
    call_ring *one = &rings->ring[rings->count];
    *one = (call_ring){.pid = -1};
    memcpy(one->name, name, strlen(name) + 1); /* it fits: see above */
    if (!map(rings, one))
        return SL_OK;
    rings->count++;
    if (2 * rings->count >= rings->indexed)
        return index_all(rings);
    enter(rings, rings->count - 1);
    return SL_OK;
}

/* A folder in which nothing has changed is not read again. */
static int is_due(sl_rings *rings) {
    struct stat about;
    if (stat(rings->folder, &about) != 0)
        return 0; /* not there yet, or not any more */
    if (about.st_mtim.tv_sec != rings->changed.tv_sec || about.st_mtim.tv_nsec != rings->changed.tv_nsec)
        rings->scans = SCANS;
    rings->changed = about.st_mtim;
    return rings->scans > 0 && rings->scans--;
}

static sl_status scan(sl_rings *rings) {
    DIR *directory = is_due(rings) ? opendir(rings->folder) : NULL;
    if (!directory)
        return SL_OK;
    sl_status status = index_all(rings);
    for (struct dirent *entry; status == SL_OK && (entry = readdir(directory));)
        status = found(rings, entry->d_name);
    closedir(directory);
    return status;
}

/* ---- processes that end ---- */

/* Read to its end, and without a writer. The last ring of a process takes its gate along. */
static sl_status forget(sl_rings *rings, size_t which) {
    call_ring gone = rings->ring[which];
    char gate[SL_FILE_NAME];
    drop_file(rings, gone.name);
    unmap(&gone);
    rings->ring[which] = rings->ring[--rings->count];
    for (size_t i = 0; i < rings->count; i++)
        if (rings->ring[i].process.id == gone.process.id)
            return SL_OK;
    sl_gate_name(&gone.process, gate);
    drop_file(rings, gate);
    SL_TRY(sl_grow(&rings->ended, &rings->end_room, rings->ends + 1, sizeof *rings->ended));
    rings->ended[rings->ends++] = gone.process.id;
    return SL_OK;
}

sl_status sl_rings_look(sl_rings *rings) {
    for (size_t i = rings->count; i-- > 0;) {
        call_ring *one = &rings->ring[i];
        uint64_t head = head_of(one);
        if (one->file && !one->gone && head == one->looked)
            one->gone = !is_there(rings, one);
        one->looked = head;
        if (one->gone && !unread(one))
            SL_TRY(forget(rings, i));
    }
    return scan(rings);
}

int sl_rings_ended(sl_rings *rings, uint64_t *process) {
    if (rings->ends == 0)
        return 0;
    *process = rings->ended[--rings->ends];
    return 1;
}

/* ---- reading ---- */

size_t sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls) {
    for (size_t tried = 0; tried < rings->count; tried++) {
        call_ring *one = &rings->ring[rings->turn++ % rings->count];
        if (!unread(one))
            continue;
        uint64_t waiting = head_of(one) - one->position;
        double full = (double)waiting / (double)one->capacity;
        if (full > rings->fullest)
            rings->fullest = full;
        size_t count = sl_record_read(ring_of(one), one->capacity, &one->position, rings->records,
                                      most < CHUNK ? most : CHUNK, &rings->lost);
        if (count == 0)
            continue;
        rings->calls += count;
        *source = (sl_ring_source){.process = one->process,
                                   .pid = one->pid,
                                   .thread = one->thread,
                                   .rank = atomic_load_explicit(&one->file->rank, memory_order_relaxed),
                                   .size = atomic_load_explicit(&one->file->size, memory_order_relaxed)};
        *calls = (const sl_call *)(const void *)rings->records; /* the same 64 bytes; see call.h */
        return count;
    }
    return 0;
}

void sl_rings_counts(const sl_rings *rings, uint64_t *calls, uint64_t *lost) {
    *calls = rings->calls;
    *lost = rings->lost;
}

double sl_rings_fullest(sl_rings *rings) {
    double fullest = rings->fullest;
    rings->fullest = 0;
    return fullest;
}

const char *sl_rings_trouble(const sl_rings *rings) {
    return rings->trouble;
}
