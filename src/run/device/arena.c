#include "run/device/arena.h"
#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20) /* if the system has none of them, alignment to it does no harm */

typedef struct arena_block {
    size_t start, size;
} arena_block;

struct sl_arena {
    sl_device *device;     /* NULL: the host's memory */
    sl_device *pinned;     /* the device it is pinned for, or NULL */
    pthread_mutex_t mutex; /* guards all below but memory, base, room and limit */
    char *memory;          /* as allocated */
    char *base;            /* aligned */
    size_t addresses;      /* the arena's bytes from base on; those after the room are not touched */
    size_t room;           /* bytes at base */
    size_t limit, in_use, peak;
    arena_block *taken; /* ascending by start */
    size_t count, capacity;
};

size_t sl_arena_round(size_t bytes) {
    if (bytes > SIZE_MAX - SL_ARENA_ALIGN)
        return SIZE_MAX / SL_ARENA_ALIGN * SL_ARENA_ALIGN;
    size_t rounded = (bytes + SL_ARENA_ALIGN - 1) / SL_ARENA_ALIGN * SL_ARENA_ALIGN;
    return rounded ? rounded : SL_ARENA_ALIGN;
}

static int on_host(const sl_arena *arena) {
    return !arena->device || arena->device->host_memory;
}

/* Zero pages are mapped lazily: write to each, through volatile so that it is not optimised away. */
static void touch(sl_arena *arena, size_t from) {
    if (!on_host(arena))
        return;
    for (size_t at = from; at < arena->room; at += PAGE)
        *(volatile char *)(arena->base + at) = 0;
}

sl_status sl_arena_open(sl_device *device, size_t limit, sl_arena **out) {
    return sl_arena_open_room(device, limit, limit, out);
}

static sl_status allocate(sl_arena *arena, size_t bytes) {
    return arena->device ? arena->device->memory_open(arena->device, bytes, &arena->memory)
                         : sl_alloc(&arena->memory, bytes, 1);
}

sl_status sl_arena_open_room(sl_device *device, size_t limit, size_t room, sl_arena **out) {
    sl_arena *arena;
    if (limit > SIZE_MAX / 4 || room > SIZE_MAX / 4)
        return sl_error(SL_ENOMEM, "out of memory: a device arena of %zu bytes", limit);
    SL_TRY(sl_alloc(&arena, 1, sizeof *arena));
    arena->device = device;
    arena->limit = sl_arena_round(limit);
    arena->room = sl_arena_round(room > limit ? room : limit);
    /* one region of large pages: otherwise a walk over gigabytes would miss the TLB at every step */
    const size_t align = !on_host(arena) ? SL_ARENA_ALIGN : arena->room >= HUGE_PAGE ? HUGE_PAGE : PAGE;
    arena->addresses = align == HUGE_PAGE ? sl_arena_round(arena->room + arena->room / 4) : arena->room;
    if (allocate(arena, arena->addresses + align) != SL_OK) {
        const int of_host = on_host(arena);
        sl_free(arena);
        return of_host ? sl_error(SL_ENOMEM, "out of memory: a device arena of %zu bytes", room) : SL_ENOMEM;
    }
    size_t skew = (size_t)((uintptr_t)arena->memory % align);
    arena->base = arena->memory + (skew ? align - skew : 0);
    if (align == HUGE_PAGE)
        madvise(arena->base, arena->room, MADV_HUGEPAGE); /* a wish */
    touch(arena, 0);
    pthread_mutex_init(&arena->mutex, NULL);
    *out = arena;
    return SL_OK;
}

sl_status sl_arena_open_pinned(sl_device *device, size_t limit, sl_arena **out) {
    SL_TRY(sl_arena_open(NULL, limit, out));
    /* whole pages, of which no other arena has a part */
    sl_status status = device->pin(device, (*out)->base, (*out)->room);
    if (status == SL_OK) {
        (*out)->pinned = device;
        return SL_OK;
    }
    sl_arena_close(*out);
    *out = NULL;
    return status;
}

void sl_arena_close(sl_arena *arena) {
    if (!arena)
        return;
    pthread_mutex_destroy(&arena->mutex);
    if (arena->pinned)
        arena->pinned->unpin(arena->pinned, arena->base);
    if (arena->device)
        arena->device->memory_close(arena->device, arena->memory);
    else
        sl_free(arena->memory);
    SL_FREE(arena->taken, arena);
}

/* The gap before taken[i] (i == count: up to the end). */
static arena_block gap_before(const sl_arena *arena, size_t i) {
    size_t start = i ? arena->taken[i - 1].start + arena->taken[i - 1].size : 0;
    size_t end = i < arena->count ? arena->taken[i].start : arena->room;
    return (arena_block){start, end - start};
}

static int find_gap(const sl_arena *arena, size_t size, sl_arena_end end, size_t *index, arena_block *found) {
    for (size_t step = 0; step <= arena->count; step++) {
        size_t i = end == SL_ARENA_LOW ? step : arena->count - step;
        arena_block gap = gap_before(arena, i);
        if (gap.size < size)
            continue;
        *index = i;
        *found = (arena_block){end == SL_ARENA_LOW ? gap.start : gap.start + gap.size - size, size};
        return 1;
    }
    return 0;
}

static sl_status take(sl_arena *arena, size_t bytes, sl_arena_end end, const char *what, void *pointer) {
    size_t size = sl_arena_round(bytes), index;
    arena_block found;
    SL_TRY(sl_grow(&arena->taken, &arena->capacity, arena->count + 1, sizeof *arena->taken));
    if (size > arena->limit - arena->in_use || !find_gap(arena, size, end, &index, &found))
        return sl_error(SL_ENOMEM,
                        "device memory: %s needs %zu bytes, %zu of the limit of %zu bytes are in use%s", what,
                        size, arena->in_use, arena->limit,
                        arena->limit - arena->in_use >= size ? " and no gap is large enough" : "");
    memmove(arena->taken + index + 1, arena->taken + index, (arena->count - index) * sizeof *arena->taken);
    arena->taken[index] = found;
    arena->count++;
    arena->in_use += size;
    if (arena->in_use > arena->peak)
        arena->peak = arena->in_use;
    void *address = arena->base + found.start;
    memcpy(pointer, &address, sizeof address);
    return SL_OK;
}

sl_status sl_arena_take(sl_arena *arena, size_t bytes, sl_arena_end end, const char *what, void *pointer) {
    pthread_mutex_lock(&arena->mutex);
    sl_status status = take(arena, bytes, end, what, pointer);
    pthread_mutex_unlock(&arena->mutex);
    return status;
}

void sl_arena_give(sl_arena *arena, void *address) {
    if (!address)
        return;
    pthread_mutex_lock(&arena->mutex);
    size_t start = (size_t)((char *)address - arena->base), i = 0;
    while (i < arena->count && arena->taken[i].start != start)
        i++;
    assert(i < arena->count); /* not a block of this arena, or given twice */
    arena->in_use -= arena->taken[i].size;
    arena->count--;
    memmove(arena->taken + i, arena->taken + i + 1, (arena->count - i) * sizeof *arena->taken);
    pthread_mutex_unlock(&arena->mutex);
}

size_t sl_arena_in_use(const sl_arena *arena) {
    return arena->in_use;
}

size_t sl_arena_peak(const sl_arena *arena) {
    return arena->peak;
}

int sl_arena_extend(sl_arena *arena, size_t limit, size_t room) {
    const size_t before = arena->room;
    limit = sl_arena_round(limit);
    room = sl_arena_round(room > limit ? room : limit);
    if (room > arena->addresses)
        return 0;
    arena->limit = limit > arena->limit ? limit : arena->limit;
    if (room <= before)
        return 1;
    arena->room = room;
    touch(arena, before); /* the page in which it begins holds nothing after the previous room */
    return 1;
}

void sl_arena_restart_peak(sl_arena *arena) {
    arena->peak = arena->in_use;
}

size_t sl_arena_limit(const sl_arena *arena) {
    return arena->limit;
}
