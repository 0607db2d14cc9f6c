/* The gate: the part inside the held program. A wrapper announces a call before it makes it, then reads the
 * hold word. While the job is held it makes the call only if its number is at most its channel's target;
 * otherwise it parks until the target rises, the hold ends or the deadline passes. The targets that stop the
 * job at a consistent cut are computed elsewhere (notice/control/hold_cut.h), from views of the gates.
 *
 * One gate per rank, in shared memory. A channel numbers calls equally on all its members. The invariants,
 * and why nothing here can deadlock: README.md in this folder. libc only; atomics and a futex, no lock. Idle,
 * a call costs an add, a few stores to a line of its own thread and a load of the hold word. The add is a
 * locked one, or, on a channel that one thread at a time counts on (`plain`), an ordinary one: then
 * sl_gate_hold has the kernel put a barrier into every thread (membarrier), so the rare side pays for the
 * order of the two. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "notice/record/probe_folder.h"

#define SL_GATE_MAGIC 0x736c6761u /* "slga" */
#define SL_GATE_LAYOUT 4
#define SL_GATE_CHANNELS 4096 /* per rank; beyond, `overflow` is set and the rank cannot be held */
#define SL_GATE_SLOTS 8192    /* entries of the hash index, a power of two */
#define SL_GATE_THREADS 64
#define SL_GATE_ENTRIES 64                   /* calls and needs of one thread at a time */
#define SL_GATE_DEADLINE INT64_C(5000000000) /* default length of a hold, ns */

typedef enum sl_channel_kind {
    /* A communicator's collectives, blocking or not; its entry in a gate means that the rank is a member, so
     * it is made with the communicator. */
    SL_CHANNEL_COLLECTIVE = 1,
    /* Messages (communicator, source, destination, tag), numbered by the sender as it sends and by the
     * receiver as it posts; source and destination are world ranks and differ. */
    SL_CHANNEL_POINT = 2,
    /* Receives and probes with MPI_ANY_SOURCE (source -1) or MPI_ANY_TAG (tag -1), which match unknown
     * channels: calls of one rank, without a number on any other rank. */
    SL_CHANNEL_WILD = 3,
    /* Calls of one rank in which no other rank takes part: the Wait and Test families, probes, the entrance
     * of a forbidden region, messages to itself. */
    SL_CHANNEL_LOCAL = 4,
    /* Synchronization of a window between two ranks (sl_window_tag), `communicator` being its name. No hold
     * stops it, and the cut does not count it; it shows who waits for whom in a job that hangs. */
    SL_CHANNEL_WINDOW = 5
} sl_channel_kind;

/* The tag of a WINDOW channel. */
typedef enum sl_window_tag {
    /* MPI_Win_post of the source for the destination, numbered by it and by the destination's MPI_Win_start
     */
    SL_WINDOW_POST = 1,
    /* MPI_Win_complete of the source for the destination, numbered by it and by the destination's
     * MPI_Win_post, whose MPI_Win_wait waits for it */
    SL_WINDOW_COMPLETE = 2,
    /* The source's lock on the window of the destination (-1: of all): `announced` modulo 4 is a
     * sl_window_lock. A need's number, modulo 4, is the lock that is asked for. */
    SL_WINDOW_LOCK = 3
} sl_window_tag;

typedef enum sl_window_lock { SL_LOCK_FREE = 0, SL_LOCK_SHARED = 1, SL_LOCK_EXCLUSIVE = 2 } sl_window_lock;

/* The name of a channel: equal on all members, so it never holds a handle. `communicator` comes from parent,
 * creation number and color, or NCCL's unique id. Unused ranks and tags are -1; WILD and LOCAL have their own
 * rank as destination. */
typedef struct sl_channel_key {
    uint64_t communicator;
    int32_t source, destination, tag;
    uint32_t kind; /* sl_channel_kind */
} sl_channel_key;

static inline int sl_channel_key_same(const sl_channel_key *a, const sl_channel_key *b) {
    return a->communicator == b->communicator && a->source == b->source && a->destination == b->destination &&
           a->tag == b->tag && a->kind == b->kind;
}

typedef struct sl_gate_channel {
    sl_channel_key key;     /* written once, before `ready` */
    _Atomic uint32_t ready; /* 1: key is readable (release, acquire) */
    _Atomic uint32_t plain; /* rank only: 1: its threads count here one at a time, and gate->barrier is set */
    _Atomic uint64_t announced; /* calls announced. Rank: sequentially consistent add, or see `plain` */
    _Atomic uint64_t due; /* calls that all other members must make too (WILD: that are matched). Rank only */
    _Atomic uint64_t target; /* calls that may be made while held. Controller: only raised in a hold */
    uint64_t pad2;
} sl_gate_channel;
_Static_assert(sizeof(sl_gate_channel) == 64, "the layout is part of the version");

/* What a thread is doing. */
typedef enum sl_gate_state {
    SL_GATE_FREE = 0,    /* the slot is unused */
    SL_GATE_OUTSIDE = 1, /* in the program's own code */
    SL_GATE_MOVING = 2,  /* announcing, or posting a nonblocking call */
    SL_GATE_INSIDE = 3,  /* in a call that may block until others take part */
    SL_GATE_PARKED = 4   /* waiting here; none of its listed calls has been made */
} sl_gate_state;

#define SL_GATE_BYTES (-1)         /* `unit` of an amount in bytes */
#define SL_GATE_OWN_TYPE INT32_MIN /* `unit`: a type that only this rank knows */

#define SL_GATE_NEED (UINT64_C(1) << 63) /* set in an entry's number: waited for, announced earlier */

/* A call that the thread makes, or a need: an earlier announced call that it waits for. */
typedef struct sl_gate_entry {
    _Atomic uint64_t number; /* or-ed with SL_GATE_NEED */
    _Atomic uint32_t channel;
    uint32_t pad;
} sl_gate_entry;

typedef struct sl_gate_thread {
    /* serial << 8 | state. Written only by the thread, with release, after the entries; a reader loads it
     * before and after (acquire) and drops what changed in between. */
    _Atomic uint64_t word;
    _Atomic uint32_t count;     /* entries of the call, or of the last one while outside */
    _Atomic uint32_t forbidden; /* inside a region where it must not park */
    /* The call that it makes or made last, for a reader that finds it inside for seconds: relaxed stores of
     * the thread. Fields as in notice/record/call.h. */
    _Atomic uint64_t communicator, amount; /* of the buffer, in units of `unit` */
    _Atomic int32_t peer, tag;
    _Atomic int32_t unit; /* SL_GATE_BYTES; else the type of an element, equal on all ranks */
    _Atomic uint32_t call;
    _Atomic int32_t kernel_id; /* the thread for the kernel (gettid), in its own pid namespace */
    uint8_t pad[12];
    sl_gate_entry entry[SL_GATE_ENTRIES];
} sl_gate_thread;

/* Why a rank cannot be held. */
typedef enum sl_gate_unfit {
    SL_GATE_FIT = 0,
    SL_GATE_FULL,      /* more channels, threads or entries than fit */
    SL_GATE_STRANGERS, /* it talks to processes outside its world (spawned, connected) */
    SL_GATE_CANCELLED, /* it cancelled a message of a known channel, or freed a wildcard receive under way:
                          the numbers of both ends no longer agree */
    SL_GATE_EXPOSED,   /* it synchronizes windows by MPI_Win_start and _post */
    SL_GATE_CAPTURED,  /* it replays NCCL calls from captured graphs, which no wrapper sees */
    SL_GATE_UNKNOWN,   /* it uses a communicator that has a name only on this rank */
    SL_GATE_ANYBODY    /* it reports receives from any source, whose messages are not counted */
} sl_gate_unfit;

typedef struct sl_gate {
    sl_file_head head;
    uint64_t size;
    int32_t rank;              /* in the program's world */
    _Atomic uint32_t finished; /* rank: it will make no further call */
    _Atomic uint32_t overflow; /* rank: cannot be held, and why (sl_gate_unfit); the first reason stays */
    _Atomic uint32_t wild;     /* rank: wildcard receives posted whose message is not yet known */
    _Atomic uint32_t hold;     /* controller: number of the hold, 0 none (sequentially consistent); a rank
                                  clears it when the deadline is past */
    _Atomic uint32_t wake;     /* controller: futex that parked threads sleep on; grows at each change */
    _Atomic int64_t deadline;  /* controller: CLOCK_MONOTONIC ns, stored before `hold` */
    _Atomic uint64_t enqueued; /* rank: changes before a call is enqueued on a device, and after */
    _Atomic uint64_t drained;  /* rank: number of these that a parked thread has seen done */
    _Atomic uint32_t channels; /* entries of channel[] in use */
    _Atomic uint32_t threads;  /* entries of thread[] in use */
    _Atomic uint32_t barrier;  /* rank: the holder must use membarrier (see `plain`) */
    uint8_t pad[52];
    _Atomic uint32_t slot[SL_GATE_SLOTS]; /* hash index: 1 + index in channel[], 0 empty; only ever set */
    sl_gate_channel channel[SL_GATE_CHANNELS];
    sl_gate_thread thread[SL_GATE_THREADS];
} sl_gate;
_Static_assert(offsetof(sl_gate, slot) == 192, "the layout is part of the version, and lines begin at 64");

/* ---- the rank's side ---- */

/* What the gate asks of the shim while a thread is parked; private to the process. */
typedef struct sl_gate_shim {
    /** Keeps the library's messages moving, so that a peer inside a call can leave it. Must not block. For
     * MPI: MPI_Test of a receive that never ends, on a private communicator. A probe is not enough: one that
     * finds a message returns in Open MPI without moving anything else, and MPICH's moves neither nonblocking
     * collectives nor windows. NULL: nothing to move. */
    void (*progress)(void *context);
    /** 1 when everything enqueued on this rank's devices so far is done, by polling an event recorded after
     * the last enqueued call; never waits. NULL: no device. */
    int (*drained)(void *context);
    void *context;
} sl_gate_shim;

/* A thread's private handle. One per thread, never shared. */
typedef struct sl_gate_caller {
    sl_gate *gate;
    sl_gate_thread
        *thread; /* NULL: no slot was left; calls pass unguarded and the rank counts as overflowed */
    const sl_gate_shim *shim;
    uint64_t serial;
    uint32_t count;
    int forbidden;
} sl_gate_caller;

typedef enum sl_gate_mode {
    SL_GATE_BLOCK,  /* may block until others take part */
    SL_GATE_POST,   /* counts when posted, returns at once, may straddle the cut */
    SL_GATE_ENQUEUE /* returns at once, but a device will block in it (NCCL): the others must enqueue theirs
                     */
} sl_gate_mode;

/** Makes the gate of `rank`, in zeroed memory of sizeof(sl_gate) bytes. `process`: its owner, or NULL. */
void sl_gate_init(sl_gate *gate, int rank, const sl_process_id *process);

/** Asks the kernel for the barriers that plain channels rely on; 1 when the calling process has them, and
 * `gate` records it from then on. 0: no channel may become plain. */
int sl_gate_use_barriers(sl_gate *gate);

/** Marks the rank as unfit to be held, for this reason. */
void sl_gate_refuse(sl_gate *gate, sl_gate_unfit reason);

/** What makes a rank unfit to be held: "uses more channels or threads than its gate holds". */
const char *sl_gate_unfit_text(uint32_t reason);

/** Checks memory of `bytes` bytes from outside; `text` as in sl_file_head_read. */
sl_probe_file sl_gate_read(const sl_gate *gate, size_t bytes, char *text, size_t size);

/** The channel of that name, made if new. NULL when the table is full (the rank then counts as overflowed and
 * will not be held). Any thread, and the agent, at any time; the pointer stays valid. */
sl_gate_channel *sl_gate_channel_of(sl_gate *gate, const sl_channel_key *key);

/** The same, but NULL if the rank has not used it yet. */
sl_gate_channel *sl_gate_channel_known(sl_gate *gate, const sl_channel_key *key);

/** Counts `by` more on a WINDOW channel; returns the new number. */
uint64_t sl_gate_count(sl_gate_channel *channel, uint64_t by);

/** Takes a slot for the calling thread, and gives it back. */
void sl_gate_join(sl_gate_caller *caller, sl_gate *gate, const sl_gate_shim *shim);
void sl_gate_part(sl_gate_caller *caller);

/** Announces the next call on `channel` (NULL: none) and returns its number, from 1. Several may be announced
 *  for one library call (Sendrecv, Startall); they pass together. */
uint64_t sl_gate_announce(sl_gate_caller *caller, sl_gate_channel *channel);

/** The next call waits for call `number` of `channel`, posted before (Wait and Test families: the requests
 * that MPI_Request_get_status shows incomplete; a probe: the next number of its channel). */
void sl_gate_need(sl_gate_caller *caller, const sl_gate_channel *channel, uint64_t number);

/** Removes the needs listed for the current call, because they are looked at more closely. */
void sl_gate_no_needs(sl_gate_caller *caller);

/** Whether a hold is on, or the thread is in a forbidden region: then needs must be listed with care. */
static inline int sl_gate_careful(const sl_gate_caller *caller) {
    return atomic_load_explicit(&caller->gate->hold, memory_order_relaxed) != 0 || caller->forbidden;
}

/** Lets the announced calls pass: immediately, or after parking. The library call follows, then
 * sl_gate_leave. Never fails, and never waits beyond the deadline. */
void sl_gate_pass(sl_gate_caller *caller, sl_gate_mode mode);

/** One look, without waiting: 1 when the calls may be made (the state records it from then on), 0 when the
 * thread is parked. `now` is CLOCK_MONOTONIC ns. sl_gate_pass repeats it; a simulation calls it directly. */
int sl_gate_try(sl_gate_caller *caller, sl_gate_mode mode, int64_t now);

/** The library call has returned. */
void sl_gate_leave(sl_gate_caller *caller);

/** The library call of an SL_GATE_ENQUEUE has returned, so that an event recorded from now on comes after
 * what it enqueued; before sl_gate_leave. */
void sl_gate_enqueued(sl_gate_caller *caller);

/** announce and pass in one: the ordinary blocking or nonblocking call. Returns the call's number. */
static inline uint64_t sl_gate_enter(sl_gate_caller *caller, sl_gate_channel *channel, sl_gate_mode mode) {
    uint64_t number = sl_gate_announce(caller, channel);
    sl_gate_pass(caller, mode);
    return number;
}

/** A wildcard receive was posted; and later: it has received a message of `channel`, which counts there. A
 * blocking one does both. A canceled one passes NULL. */
void sl_gate_wild_posted(sl_gate *gate);
void sl_gate_wild_matched(sl_gate *gate, sl_gate_channel *wild, sl_gate_channel *channel);

/** Brackets a region without parking: MPI_Win_lock..unlock, ncclGroupStart..End, a stream capture. `local` is
 *  the rank's LOCAL channel, where a held thread parks before the region; NULL: it has just passed
 *  there. Regions nest. */
void sl_gate_forbid(sl_gate_caller *caller, sl_gate_channel *local);
void sl_gate_allow(sl_gate_caller *caller);

/** No further call will come (after MPI_Finalize). */
void sl_gate_finish(sl_gate *gate);

/* ---- the agent's side ---- */

/** Holds the rank until sl_gate_release or `deadline` (CLOCK_MONOTONIC ns of its host); all targets become 0.
 * After it returns, each call of the rank either has been announced or will see the hold. */
void sl_gate_hold(sl_gate *gate, uint32_t hold, int64_t deadline);

/** Raises a channel's target, never lowers it. Makes the channel if the rank has not used it yet. 0, or -1 if
 * the table is full. */
int sl_gate_raise(sl_gate *gate, const sl_channel_key *key, uint64_t target);

/** Wakes parked threads to look at their targets again; sl_gate_hold and sl_gate_release do it themselves. */
void sl_gate_wake(sl_gate *gate);

/** Ends the hold. */
void sl_gate_release(sl_gate *gate);
