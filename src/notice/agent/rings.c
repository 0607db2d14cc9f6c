#include "notice/agent/rings.h"

#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 4096

typedef struct ring {
    char name[64];
    int pid, thread;
    const sl_ring_file *file; /* NULL: read to its end, or no ring */
    size_t bytes;
    uint64_t position;
    int gone; /* its process has ended */
} ring;

struct sl_rings {
    char *folder;
    ring *ring; /* [count] */
    size_t count, capacity, turn;
    uint64_t calls, lost;
    double fullest;
    sl_record *records; /* [CHUNK] */
};

sl_status sl_rings_open(const char *folder, sl_rings **rings) {
    sl_rings *r;
    *rings = NULL;
    SL_TRY(sl_alloc(&r, 1, sizeof *r));
    sl_status status = sl_copy_text(&r->folder, folder);
    if (status == SL_OK)
        status = sl_alloc(&r->records, CHUNK, sizeof *r->records);
    if (status != SL_OK) {
        sl_rings_close(r);
        return status;
    }
    *rings = r;
    return SL_OK;
}

static void unmap(ring *one) {
    if (one->file)
        munmap((void *)(uintptr_t)one->file, one->bytes);
    one->file = NULL;
}

void sl_rings_close(sl_rings *rings) {
    if (!rings)
        return;
    for (size_t i = 0; i < rings->count; i++)
        unmap(&rings->ring[i]);
    sl_free(rings->ring);
    sl_free(rings->folder);
    sl_free(rings->records);
    sl_free(rings);
}

static const sl_record_ring *ring_of(const ring *one) {
    return (const sl_record_ring *)(const void *)(one->file + 1);
}

static void map(const sl_rings *rings, ring *one) {
    char path[4200];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", rings->folder, one->name);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > (off_t)sizeof(sl_ring_file)) {
        void *memory = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) {
            one->file = memory;
            one->bytes = (size_t)about.st_size;
        }
    }
    close(file);
    if (one->file && (one->file->magic != SL_RING_FILE_MAGIC || one->file->version != SL_PROBE_VERSION ||
                      sl_record_ring_valid(ring_of(one), one->bytes - sizeof(sl_ring_file)) != 0))
        unmap(one);
}

static sl_status found(sl_rings *rings, const char *name) {
    int pid, thread, end = 0;
    if (strlen(name) >= sizeof rings->ring->name || sscanf(name, "%d.%d.ring%n", &pid, &thread, &end) != 2 ||
        end == 0 || name[end] || pid <= 0)
        return SL_OK;
    for (size_t i = 0; i < rings->count; i++)
        if (strcmp(rings->ring[i].name, name) == 0)
            return SL_OK;
    SL_TRY(sl_grow(&rings->ring, &rings->capacity, rings->count + 1, sizeof *rings->ring));
    ring *one = &rings->ring[rings->count++];
    *one = (ring){.pid = pid, .thread = thread};
    memcpy(one->name, name, strlen(name) + 1); /* it fits: see above */
    map(rings, one);
    return SL_OK;
}

static int unread(const ring *one) {
    return one->file && one->position < atomic_load_explicit(&ring_of(one)->head, memory_order_acquire);
}

sl_status sl_rings_look(sl_rings *rings) {
    for (size_t i = 0; i < rings->count; i++) {
        ring *one = &rings->ring[i];
        if (one->gone && !unread(one))
            unmap(one);
        else if (!one->gone)
            one->gone = kill(one->pid, 0) != 0 && errno == ESRCH;
    }
    DIR *directory = opendir(rings->folder);
    if (!directory)
        return SL_OK; /* not there yet, or not any more */
    sl_status status = SL_OK;
    for (struct dirent *entry; status == SL_OK && (entry = readdir(directory));)
        status = found(rings, entry->d_name);
    closedir(directory);
    return status;
}

size_t sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls) {
    for (size_t tried = 0; tried < rings->count; tried++) {
        ring *one = &rings->ring[rings->turn++ % rings->count];
        if (!unread(one))
            continue;
        const sl_record_ring *memory = ring_of(one);
        uint64_t waiting = atomic_load(&memory->head) - one->position;
        double full = (double)waiting / (double)memory->capacity;
        if (full > rings->fullest)
            rings->fullest = full;
        size_t count =
            sl_record_read(memory, &one->position, rings->records, most < CHUNK ? most : CHUNK, &rings->lost);
        if (count == 0)
            continue;
        rings->calls += count;
        *source = (sl_ring_source){.pid = one->pid,
                                   .thread = one->thread,
                                   .rank = atomic_load_explicit(&one->file->rank, memory_order_relaxed),
                                   .size = atomic_load_explicit(&one->file->size, memory_order_relaxed)};
        *calls = (const sl_call *)(const void *)rings->records; /* the same 64 bytes; see call.h */
        return count;
    }
    return 0;
}

int sl_rings_ended(const sl_rings *rings, int pid) {
    for (size_t i = 0; i < rings->count; i++)
        if (rings->ring[i].pid == pid && (!rings->ring[i].gone || unread(&rings->ring[i])))
            return 0;
    return 1;
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
