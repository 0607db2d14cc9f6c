/* Device memory: one allocation up front with a hard limit, so that what a run may hold is known before it
 * starts and no step of it ever asks the system for memory.
 *
 * Blocks are 64-byte aligned and lie in one region. A request takes the first gap that fits, seen from the
 * low or from the high end: blocks of one size that share an end (what F keeps: low, what I adds: high) fill
 * each other's gaps exactly, so such a mix never fragments. Which address a block gets never changes a result
 * (design.md, rule 2). The number of blocks is small (a few per microbatch in flight), so a gap is found by
 * walking them. Blocks may be taken and given by several threads. */
#pragma once

#include "base/status.h"
#include <stddef.h>

#define SL_ARENA_ALIGN ((size_t)64)

typedef struct sl_arena sl_arena;

typedef enum sl_arena_end { SL_ARENA_LOW, SL_ARENA_HIGH } sl_arena_end;

/** What a request of `bytes` takes: rounded up to the alignment, at least one unit. */
size_t sl_arena_round(size_t bytes);

/** Takes `limit` bytes (rounded) from the system and touches each page, so that later no op pays for that.
 * SL_ENOMEM. */
sl_status sl_arena_open(size_t limit, sl_arena **arena);

/** The same, but the region has `room` >= `limit` bytes, of which blocks of `limit` bytes in all may be in
 * use at once. n blocks of one size low and m of another high never meet where the room is for both at their
 * most, even if they never are at their most together: then the limit alone decides, not where gaps happen to
 * lie.
 */
sl_status sl_arena_open_room(size_t limit, size_t room, sl_arena **arena);
void sl_arena_close(sl_arena *arena);

/** A block into *pointer (address of any object pointer); its content is undefined. `what` names it in the
 * error. SL_ENOMEM says how much is in use and what the limit is. */
sl_status sl_arena_take(sl_arena *arena, size_t bytes, sl_arena_end end, const char *what, void *pointer);

/** Gives a block back; NULL is allowed. The block must be one of this arena. */
void sl_arena_give(sl_arena *arena, void *block);

/** Bytes in blocks now, and the most there ever were; both rounded sizes, gaps not counted. */
size_t sl_arena_in_use(const sl_arena *arena);
size_t sl_arena_peak(const sl_arena *arena);
size_t sl_arena_limit(const sl_arena *arena);
/** Makes limit and room of an arena that is in use at least these, where it lies: an arena has addresses for
 * a quarter more than it was opened with. 0: that is not enough. */
int sl_arena_extend(sl_arena *arena, size_t limit, size_t room);
/** The peak counts from now on. */
void sl_arena_restart_peak(sl_arena *arena);
