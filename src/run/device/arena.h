/* Device memory: one allocation up front with a hard limit, so that a run's memory is known before it starts
 * and no step ever asks the system for memory.
 *
 * Blocks are 64-byte aligned in one region. A request takes the first gap that fits, seen from the low or
 * from the high end: blocks of one size that share an end (F's kept data: low, I's added data: high) fill
 * each other's gaps exactly, so such a mix never fragments. The address of a block never changes a result
 * (design.md, rule 2). The number of blocks is small (a few per microbatch in flight), so a gap is found by
 * walking them. Several threads may take and give blocks. */
#pragma once

#include "run/device/device.h"

#define SL_ARENA_ALIGN ((size_t)64)

typedef struct sl_arena sl_arena;

typedef enum sl_arena_end { SL_ARENA_LOW, SL_ARENA_HIGH } sl_arena_end;

/** The size of a request of `bytes`: rounded up to the alignment, at least one unit. */
size_t sl_arena_round(size_t bytes);

/** Takes `limit` bytes (rounded) of the device's memory, or (device NULL) of the host's; touches each page of
 * the host's, so that later no op pays for that. The device must outlive the arena. SL_ENOMEM. */
sl_status sl_arena_open(sl_device *device, size_t limit, sl_arena **arena);

/** The same, but the region has `room` >= `limit` bytes, of which blocks of `limit` bytes in all may be in
 * use at the same time. n blocks of one size low and m of another high never meet if the room holds the
 * maximum of both, even if they never reach it at the same time: then only the limit decides, not the
 * position of gaps. */
sl_status sl_arena_open_room(sl_device *device, size_t limit, size_t room, sl_arena **arena);
/** An arena of the host's memory, pinned for copies by the device. SL_ENOMEM, SL_ESYS. */
sl_status sl_arena_open_pinned(sl_device *device, size_t limit, sl_arena **arena);
void sl_arena_close(sl_arena *arena);

/** A block into *pointer (address of any object pointer); its content is undefined. `what` names it in the
 * error. SL_ENOMEM gives the bytes in use and the limit. */
sl_status sl_arena_take(sl_arena *arena, size_t bytes, sl_arena_end end, const char *what, void *pointer);

/** Gives a block back; NULL is allowed. The block must be one of this arena. */
void sl_arena_give(sl_arena *arena, void *block);

/** Bytes in blocks now, and their maximum so far; both rounded sizes, excluding gaps. */
size_t sl_arena_in_use(const sl_arena *arena);
size_t sl_arena_peak(const sl_arena *arena);
size_t sl_arena_limit(const sl_arena *arena);
/** Extends limit and room of an arena in use in place to at least these: an arena of the host's memory
 * reserves addresses for a quarter more than it was opened with. 0: that is not enough. */
int sl_arena_extend(sl_arena *arena, size_t limit, size_t room);
/** Restarts the peak. */
void sl_arena_restart_peak(sl_arena *arena);
