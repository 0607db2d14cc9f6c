#include "run/transport/lane.h"
#include "base/memory.h"
#include "base/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t to_line(uint64_t bytes) {
    return (bytes + SL_LINE - 1) & ~(uint64_t)(SL_LINE - 1);
}

static uint64_t table_bytes(uint64_t ranks) {
    return to_line(ranks * sizeof(int32_t));
}

static uint64_t stride_of(uint64_t message_bytes) {
    return sizeof(sl_slot) + to_line(message_bytes);
}

static uint64_t rings_bytes(uint64_t slots) {
    return to_line(slots * sizeof(uint32_t)) + to_line(2 * slots * sizeof(sl_clearance));
}

static uint64_t lane_bytes(uint64_t slots, uint64_t message_bytes) {
    return sizeof(sl_lane) + rings_bytes(slots) + slots * stride_of(message_bytes);
}

/* Bytes of a region with `lanes` lanes. SL_EINVAL on overflow. */
static sl_status size_of_region(int ranks, int lanes, int slots, size_t message_bytes, size_t *bytes) {
    uint64_t payload = 0, all = 0;
    if (message_bytes > (UINT64_MAX >> 2) ||
        __builtin_mul_overflow(stride_of(message_bytes), (uint64_t)slots, &payload) ||
        __builtin_mul_overflow(payload + (1u << 20) * (uint64_t)slots, (uint64_t)lanes, &all) ||
        all > INT64_MAX / 2)
        return sl_error(SL_EINVAL, "%d lanes of %d messages of %zu bytes do not fit into memory", lanes,
                        slots, message_bytes);
    *bytes = (size_t)(sizeof(sl_region) + table_bytes((uint64_t)ranks) +
                      (uint64_t)lanes * lane_bytes((uint64_t)slots, message_bytes));
    return SL_OK;
}

static int32_t *table_of(sl_region *region) {
    return (int32_t *)(region + 1);
}

static int count_lanes(int ranks, const char *towards) {
    int lanes = 0;
    for (int r = 0; r < ranks; r++)
        lanes += towards[r] != 0;
    return lanes;
}

/* Writes the header of zeroed memory of sl_region_size bytes; `towards[ranks]`: nonzero if there is a
 * lane. */
static void format_region(sl_region *region, int rank, int ranks, int slots, size_t message_bytes,
                          uint64_t run, const char *towards) {
    int lanes = 0;
    for (int r = 0; r < ranks; r++)
        table_of(region)[r] = towards[r] ? lanes++ : -1;
    region->version = SL_REGION_VERSION;
    region->rank = (uint32_t)rank;
    region->ranks = (uint32_t)ranks;
    region->slots = (uint32_t)slots;
    region->message_bytes = message_bytes;
    region->total_bytes = sizeof *region + table_bytes((uint64_t)ranks) +
                          (uint64_t)lanes * lane_bytes((uint64_t)slots, message_bytes);
    region->run = run;
    region->magic = SL_REGION_MAGIC;
}

sl_status sl_region_alloc(int rank, int ranks, int slots, size_t message_bytes, const char *towards,
                          sl_region **region) {
    size_t bytes = 0;
    SL_TRY(size_of_region(ranks, count_lanes(ranks, towards), slots, message_bytes, &bytes));
    SL_TRY(sl_alloc(region, bytes, 1));
    format_region(*region, rank, ranks, slots, message_bytes, 0, towards);
    return SL_OK;
}

sl_status sl_region_create(const char *path, int rank, int ranks, int slots, size_t message_bytes,
                           uint64_t run, const char *towards, sl_region **region) {
    char making[4096];
    size_t bytes = 0;
    *region = NULL;
    SL_TRY(size_of_region(ranks, count_lanes(ranks, towards), slots, message_bytes, &bytes));
    if (snprintf(making, sizeof making, "%s.%ld", path, (long)getpid()) >= (int)sizeof making)
        return sl_error(SL_EINVAL, "%s: the name is too long", path);
    int file = open(making, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot make the file of rank %d's messages", making, rank);
    sl_status status = sl_shared_reserve(file, bytes, making);
    SL_THEN(status, sl_shared_map(file, bytes, making, region));
    close(file);
    if (status == SL_OK) {
        format_region(*region, rank, ranks, slots, message_bytes, run, towards);
        if (rename(making, path) == 0)
            return SL_OK;
        status = sl_error_errno(SL_ESYS, "%s: cannot rename", path);
        munmap(*region, bytes);
        *region = NULL;
    }
    unlink(making);
    return status;
}

static sl_status check_region(const sl_region *region, const char *path, uint64_t file_bytes, int rank,
                              int ranks, int slots, size_t message_bytes) {
    if (region->version != SL_REGION_VERSION || region->rank != (uint32_t)rank ||
        region->ranks != (uint32_t)ranks || region->slots != (uint32_t)slots ||
        region->message_bytes != message_bytes || region->total_bytes != file_bytes)
        return sl_error(SL_EPEER,
                        "%s: rank %u of %u with %u slots of %llu bytes (version %u), expected rank %d of %d "
                        "with %d slots of "
                        "%zu bytes (version %u)",
                        path, region->rank, region->ranks, region->slots,
                        (unsigned long long)region->message_bytes, region->version, rank, ranks, slots,
                        message_bytes, SL_REGION_VERSION);
    return SL_OK;
}

sl_status sl_region_map(const char *path, int rank, int ranks, int slots, size_t message_bytes, uint64_t run,
                        sl_region **region) {
    *region = NULL;
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 && errno == ENOENT)
        return sl_error(SL_ENONE, "%s does not exist", path);
    if (file < 0)
        return sl_error_errno(SL_ESYS, "%s: cannot open the file of rank %d's messages", path, rank);
    struct stat facts;
    sl_status status = SL_OK;
    if (fstat(file, &facts) != 0)
        status = sl_error_errno(SL_ESYS, "%s", path);
    else if ((size_t)facts.st_size < sizeof(sl_region))
        status = sl_error(SL_EPEER, "%s: only %lld bytes", path, (long long)facts.st_size);
    SL_THEN(status, sl_shared_map(file, (size_t)facts.st_size, path, region));
    close(file);
    if (status != SL_OK)
        return status;
    if ((*region)->magic != SL_REGION_MAGIC || (*region)->run != run)
        status = sl_error(SL_ENONE, "%s belongs to another run", path);
    else
        status = check_region(*region, path, (uint64_t)facts.st_size, rank, ranks, slots, message_bytes);
    if (status != SL_OK) {
        munmap(*region, (size_t)facts.st_size);
        *region = NULL;
    }
    return status;
}

void sl_region_unmap(sl_region *region) {
    if (region)
        munmap(region, region->total_bytes);
}

sl_status sl_lane_open(sl_region *region, int rank, sl_lane_view *view) {
    *view = (sl_lane_view){.region = region, .slots = region->slots, .message_bytes = region->message_bytes};
    uint64_t each = lane_bytes(region->slots, region->message_bytes), tables = table_bytes(region->ranks);
    int32_t position = table_of(region)[rank];
    if (position < 0 || sizeof *region + tables + ((uint64_t)position + 1) * each > region->total_bytes)
        return sl_error(SL_EPEER, "link %u -> %d: rank %u does not expect to talk to rank %d", region->rank,
                        rank, region->rank, rank);
    char *start = (char *)region + sizeof *region + tables + (uint64_t)position * each;
    view->lane = (sl_lane *)(void *)start;
    view->ring = (uint32_t *)(void *)(start + sizeof(sl_lane));
    view->clearance =
        (sl_clearance *)(void *)(start + sizeof(sl_lane) + to_line(region->slots * sizeof(uint32_t)));
    view->slot = start + sizeof(sl_lane) + rings_bytes(region->slots);
    view->stride = stride_of(region->message_bytes);
    return sl_alloc(&view->waiting, region->slots, sizeof *view->waiting);
}

void sl_lane_close(sl_lane_view *view) {
    sl_free(view->waiting);
    *view = (sl_lane_view){0};
}

sl_slot *sl_lane_slot(const sl_lane_view *view, uint32_t slot) {
    return (sl_slot *)(void *)(view->slot + slot * view->stride);
}

void *sl_slot_payload(sl_slot *slot) {
    return slot + 1;
}

int32_t sl_lane_claim(sl_lane_view *view) {
    uint32_t from = atomic_load_explicit(&view->hint, memory_order_relaxed);
    for (uint32_t i = 0; i < view->slots; i++) {
        uint32_t slot = (from + i) % view->slots, expected = SL_SLOT_FREE;
        _Atomic uint32_t *state = &sl_lane_slot(view, slot)->state;
        /* the plain load first avoids contention on a slot that the receiver is reading */
        if (atomic_load(state) == SL_SLOT_FREE &&
            atomic_compare_exchange_strong(state, &expected, SL_SLOT_CLAIMED)) {
            atomic_store_explicit(&view->hint, slot + 1, memory_order_relaxed);
            return (int32_t)slot;
        }
    }
    return -1;
}

int32_t sl_lane_claim_or_want(sl_lane_view *view) {
    int32_t slot = sl_lane_claim(view);
    if (slot < 0) {
        atomic_store(&view->lane->wanted, 1);
        slot = sl_lane_claim(view);
    }
    return slot;
}

void sl_lane_publish(sl_lane_view *view, int32_t slot, sl_time now) {
    sl_slot *s = sl_lane_slot(view, (uint32_t)slot);
    s->published = now;
    atomic_store_explicit(&s->state, SL_SLOT_PUBLISHED, memory_order_release);
    view->ring[view->published % view->slots] = (uint32_t)slot;
    view->published++;
    atomic_store_explicit(&view->lane->published, view->published, memory_order_release);
    atomic_fetch_add(&view->lane->bell, 1);
}

void sl_lane_clear(sl_lane_view *view, const sl_clearance *clearance) {
    uint64_t cleared = atomic_load_explicit(&view->lane->cleared, memory_order_relaxed); /* own count */
    view->clearance[cleared % (2 * view->slots)] = *clearance;
    atomic_store_explicit(&view->lane->cleared, cleared + 1, memory_order_release);
}

sl_status sl_lane_next_cleared(sl_lane_view *view, uint32_t iteration, sl_clearance *clearance) {
    uint64_t cleared = atomic_load_explicit(&view->lane->cleared, memory_order_acquire);
    if (cleared - view->heard > 2 * view->slots)
        return sl_error(SL_EPEER, "%llu clearances in a ring of %u",
                        (unsigned long long)(cleared - view->heard), 2 * view->slots);
    for (; view->heard != cleared; view->heard++) {
        *clearance = view->clearance[view->heard % (2 * view->slots)];
        if (clearance->iteration > iteration)
            return SL_ENONE;
        if (clearance->iteration == iteration) {
            view->heard++;
            return SL_OK;
        }
    }
    return SL_ENONE;
}

sl_status sl_lane_drain(sl_lane_view *view) {
    uint64_t published = atomic_load_explicit(&view->lane->published, memory_order_acquire);
    if (published - view->drained > view->slots - view->waitings)
        return sl_error(SL_EPEER, "%llu messages in %u slots",
                        (unsigned long long)(published - view->drained + view->waitings), view->slots);
    while (view->drained != published) {
        uint32_t slot = view->ring[view->drained % view->slots];
        if (slot >= view->slots)
            return sl_error(SL_EPEER, "slot %u of %u", slot, view->slots);
        view->waiting[view->waitings++] = slot;
        view->drained++;
    }
    return SL_OK;
}

int sl_lane_find(const sl_lane_view *view, uint32_t iteration, uint32_t index) {
    for (uint32_t i = 0; i < view->waitings; i++) {
        const sl_slot *slot = sl_lane_slot(view, view->waiting[i]);
        if (slot->iteration == iteration && slot->index == index)
            return (int)i;
    }
    return -1;
}

int sl_lane_free(sl_lane_view *view, int position) {
    uint32_t slot = view->waiting[position];
    memmove(&view->waiting[position], &view->waiting[position + 1],
            (view->waitings - (uint32_t)position - 1) * sizeof *view->waiting);
    view->waitings--;
    atomic_store(&sl_lane_slot(view, slot)->state, SL_SLOT_FREE);
    return atomic_load(&view->lane->wanted) && atomic_exchange(&view->lane->wanted, 0);
}
