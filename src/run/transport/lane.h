/* Lanes: messages of one directed pair of ranks, in shared memory.
 *
 * A region belongs to the sending rank (a file that its peers map, or memory of the process) and holds a lane
 * for each of its peers. A lane has slots for payloads and a ring of slot numbers in the order of publishing.
 * The sender claims a free slot and fills it ahead of time; publishing writes the slot's number into the
 * ring, advances `published` and rings `bell`. The receiver drains the ring into a private list, takes the
 * message that it wants from its slot, in any order, and gives the slot back. A sender that finds no free
 * slot asks to be rung (`wanted`) and looks again.
 *
 * A lane also carries clearances, the way of its messages: "I have reached the receive of your message", for
 * messages of the opposite lane that wait for that. They have a ring of their own, so they pass all messages.
 *
 * The ring cannot overflow: an entry not yet drained names a slot not yet free, and there are `slots` of
 * both. Its counts have 64 bits, so they never wrap: wrapping would renumber the ring's entries in use if
 * `slots` is not a power of two.
 *
 * Every field names its writer, its reader, their order, and why that is enough. "Sender" is the transport
 * that owns the region (its compute side claims and fills, its communication thread publishes); for a rail
 * (TCP) the network thread of the receiving process plays the sender. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SL_REGION_MAGIC 0x656e616c6b6c7331ULL
#define SL_REGION_VERSION 3u
#define SL_LINE 64u /* bytes of a cache line, to avoid false sharing */

enum { SL_SLOT_FREE, SL_SLOT_CLAIMED, SL_SLOT_PUBLISHED };

typedef struct sl_slot {
    /* FREE -> CLAIMED: sender, compare-and-swap (two of its threads may claim). CLAIMED -> PUBLISHED: sender,
     * release (the receiver's order comes from `published`; this one is for the sender's own next claimer,
     * because the thread sanitizer cannot see the receiver's process in between). PUBLISHED -> FREE:
     * receiver, seq_cst, because it then reads the lane's `wanted`, while the sender sets `wanted` and then
     * reads `state`; one of the two sees the other. The claim acquires, so that the payload is overwritten
     * only after the receiver has copied it. */
    _Atomic uint32_t state;
    uint32_t iteration; /* these, and the payload after the slot: written by the sender while CLAIMED, read
                           by the */
    uint32_t index; /* receiver once `published` (acquire) covers the slot; the release there orders them */
    uint32_t reserved;
    uint64_t bytes;
    int64_t published; /* time of publishing */
    uint8_t pad[32];
} sl_slot;
_Static_assert(sizeof(sl_slot) == SL_LINE, "a slot's header is one line, shared between processes");

typedef struct sl_lane {
    /* Futex word of the receiver. Carries no data: a thread that changed something that the receiver reads
     * (published, or a private flag of the receiver's process such as abort) increments it (seq_cst), then
     * wakes. The receiver reads it first, and sleeps only while it is unchanged. */
    _Atomic uint32_t bell;
    /* 1: sender waits for a slot. Sender sets, receiver clears by exchange; seq_cst, see state */
    _Atomic uint32_t wanted;
    _Atomic uint32_t attached; /* futex word: 1 once the receiver has mapped the region. Receiver: release;
                                  sender: acquire */
    /* messages so far. Sender: release, after slot and ring entry; receiver: acquire */
    _Atomic uint64_t published;
    /* clearances so far. Sender's compute side: release, after the entry; receiver's: acquire */
    _Atomic uint64_t cleared;
    uint8_t pad[32];
    /* then uint32_t ring[slots] (padded to a line; entry n % slots holds the slot of message n; written by
     * the sender before `published`, read by the receiver after), then sl_clearance ring[2 * slots]
     * (likewise, by `cleared`: those of one iteration are read before the next but one begins), then slots:
     * sl_slot and payload each */
} sl_lane;
_Static_assert(sizeof(sl_lane) == SL_LINE, "a lane's header is one line, shared between processes");

typedef struct sl_clearance {
    uint32_t iteration, index; /* of the message */
    int64_t reached;           /* its receive */
} sl_clearance;
_Static_assert(sizeof(sl_clearance) == 16, "shared between processes");

typedef struct sl_region {
    uint64_t magic; /* all but `doorbell`: written by the owner before the region is visible, then constant */
    uint32_t version;
    uint32_t rank;
    uint32_t ranks;
    uint32_t slots;
    uint64_t message_bytes;
    uint64_t total_bytes;
    uint64_t run; /* digest of the run's key, to reject a file left by another run */
    /* Futex word of the owner's communication thread; carries no data. Incremented (seq_cst) and woken by the
     * owner's compute side after a handover and by a receiver that gave back a wanted slot. */
    _Atomic uint32_t doorbell;
    /* Futex word of the owner's compute side when it waits for whatever comes first; carries no data.
     * Incremented (seq_cst) and woken by the owner after each message published, and by a peer after a
     * message or clearance for the owner. */
    _Atomic uint32_t changed;
    uint8_t pad[8];
    /* then int32_t lane[ranks] (padded to a line): position of the lane towards that rank, -1 for none; then
     * lanes */
} sl_region;
_Static_assert(sizeof(sl_region) == SL_LINE, "a region's header is one line, shared between processes");
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
               "words shared between processes must be lock-free");

/* Private handle of one end of a lane; lives in that end's process. */
typedef struct sl_lane_view {
    sl_region *region;
    sl_lane *lane;
    uint32_t *ring;
    sl_clearance *clearance;
    char *slot; /* the first */
    size_t stride;
    uint32_t slots;
    uint64_t message_bytes;
    _Atomic uint32_t hint; /* sender: where to look for a free slot; only a hint, relaxed */
    uint64_t published;    /* sender: the publishing thread's own count */
    uint64_t drained;      /* receiver: ring entries seen */
    uint64_t heard;        /* receiver: clearances read */
    uint32_t *waiting;     /* receiver: slots published and not yet taken, in order of publishing; [slots] */
    uint32_t waitings;
} sl_lane_view;

/** A region in this process. Free with sl_free. */
sl_status sl_region_alloc(int rank, int ranks, int slots, size_t message_bytes, const char *towards,
                          sl_region **region);

/** Makes `path` (complete before it appears under that name, all its memory reserved, so that a full memory
 * file system is SL_ESYS here and not a signal later) and maps it. */
sl_status sl_region_create(const char *path, int rank, int ranks, int slots, size_t message_bytes,
                           uint64_t run, const char *towards, sl_region **region);

/** Maps the file of rank `rank`. SL_ENONE if there is none yet (or only one of another run): try again;
 * SL_EPEER if it does not fit the configuration. */
sl_status sl_region_map(const char *path, int rank, int ranks, int slots, size_t message_bytes, uint64_t run,
                        sl_region **region);
void sl_region_unmap(sl_region *region);

/** A handle of the lane towards `rank` of a region; SL_EPEER if it has none. Close with sl_lane_close. */
sl_status sl_lane_open(sl_region *region, int rank, sl_lane_view *view);
void sl_lane_close(sl_lane_view *view);

sl_slot *sl_lane_slot(const sl_lane_view *view, uint32_t slot);
void *sl_slot_payload(sl_slot *slot);

/** Sender: claims a free slot, or -1. */
int32_t sl_lane_claim(sl_lane_view *view);
/** Sender: the same, but if there is none it asks the receiver to ring as soon as it gives one back. */
int32_t sl_lane_claim_or_want(sl_lane_view *view);
/** Sender: publishes a claimed and filled slot at time `now`. The caller wakes `bell` of the lane. */
void sl_lane_publish(sl_lane_view *view, int32_t slot, sl_time now);

/** Sender: adds a clearance. The caller wakes the owner of the other end. */
void sl_lane_clear(sl_lane_view *view, const sl_clearance *clearance);
/** Receiver: the next clearance of `iteration`; those of earlier ones are dropped, later ones stay. SL_ENONE:
 * none (without a text); SL_EPEER if the ring is invalid (the text lacks the link's name). */
sl_status sl_lane_next_cleared(sl_lane_view *view, uint32_t iteration, sl_clearance *clearance);

/** Receiver: drains published entries. SL_EPEER if the ring is invalid (the text lacks the link's name). */
sl_status sl_lane_drain(sl_lane_view *view);
/** Receiver: position of message (iteration, index) among the drained ones, or -1. */
int sl_lane_find(const sl_lane_view *view, uint32_t iteration, uint32_t index);
/** Receiver: gives the slot at this position back. 1: the sender wants to be rung. */
int sl_lane_free(sl_lane_view *view, int position);
