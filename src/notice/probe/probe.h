/* The state with which a process records its calls: the folder, the control word, and one ring per thread.
 *
 * All of it is made at the first recorded call of a process or thread; afterwards a record costs no lock and
 * no system call. State at file scope is that of the process: a preloaded library has nothing else to hold
 * it. A wrapper of a call looks like this: if (!sl_probe_enter()) return real(...);      nested in another
 * wrapper, or nothing is recorded
 *   ... pass the gate ... sl_probe_now() ... real(...) ... sl_probe_write(&call) ... leave the gate ...
 *   sl_probe_leave();
 * Calls that a library makes itself inside a wrapper are not recorded: they are part of that call. */
#pragma once

#include <stdint.h>

#include "notice/gate/gate.h"
#include "notice/probe/probe_clock.h"
#include "notice/record/call.h"

typedef struct sl_probe_thread {
    sl_record_ring *ring; /* NULL: none yet */
    uint32_t capacity;    /* its own; the value in shared memory is not read again */
    uint16_t thread;
    sl_ring_file *file;
    int entered;     /* inside a wrapper */
    int in_nccl;     /* the call passing the gate is NCCL's */
    uint32_t polls;  /* tests in a row that completed nothing */
    int64_t polling; /* when the first of them began, or the one under way */
    sl_probe_clock clock;
    sl_gate_caller gate; /* its slot in the gate; gate.gate NULL: none yet */
} sl_probe_thread;

/* One library, one process: hidden from others, and reached without a call because it is loaded at the start.
 */
extern __thread sl_probe_thread sl_probe_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern sl_control *sl_probe_control __attribute__((visibility("hidden"))); /* NULL: nothing is recorded */

/* The gate of this process, once it is open; NULL: calls pass. */
extern sl_gate *sl_probe_gate __attribute__((visibility("hidden")));

/** The gate of world rank `rank`, in a file of the folder, made if needed; NULL: it cannot be made, or the
 * process is a child of one that had a gate. No call passes it before it is opened. */
sl_gate *sl_probe_gate_new(int rank);

/** From now on calls pass `gate`. `progress` (may be NULL) moves messages while a thread is parked; its
 * argument is whether the parked call is NCCL's. */
void sl_probe_gate_open(sl_gate *gate, void (*progress)(int in_nccl));

/** The process will make no further call. */
void sl_probe_gate_finish(void);

/** Gives this thread its slot in the gate. */
sl_gate_caller *sl_probe_join(void);

/** This thread's slot in the gate, for the call that it is about to make; NULL: no gate. */
static inline sl_gate_caller *sl_probe_gated(void) {
    sl_probe_thread *self = &sl_probe_self;
    if (self->gate.gate)
        return &self->gate;
    return __atomic_load_n(&sl_probe_gate, __ATOMIC_ACQUIRE) ? sl_probe_join() : NULL;
}

/** Gives this thread its ring; 0 when nothing is recorded. Keeps errno. */
int sl_probe_attach(void);

/** Whether to record this call; if so, sl_probe_leave must follow. */
static inline int sl_probe_enter(void) {
    sl_probe_thread *self = &sl_probe_self;
    if (self->entered || (!self->ring && !sl_probe_attach()))
        return 0;
    self->entered = 1;
    return 1;
}

static inline void sl_probe_leave(void) {
    sl_probe_self.entered = 0;
}

/** ns, or 0 when timing is off. */
static inline int64_t sl_probe_now(void) {
    if (atomic_load_explicit(&sl_probe_control->timing, memory_order_relaxed) == SL_TIMING_OFF)
        return 0;
    return sl_probe_clock_now(&sl_probe_self.clock);
}

/** Around a test: it begins; it has completed nothing. Only the first in a row reads the clock. */
static inline void sl_probe_poll(void) {
    sl_probe_thread *self = &sl_probe_self;
    if (self->polls == 0)
        self->polling = sl_probe_now();
}

static inline void sl_probe_polled(void) {
    sl_probe_self.polls++;
}

/** Writes a record of this thread; only between enter and leave. Fills in the thread. */
static inline void sl_probe_write(sl_call *call) {
    sl_probe_self.polls = 0;
    call->thread = sl_probe_self.thread;
    sl_call_write(sl_probe_self.ring, sl_probe_self.capacity, call);
}

/** Describes the call that is about to be made, for readers of the gate; `amount` and `unit` as there. */
static inline void sl_probe_describe(const sl_call *call, uint64_t amount, int32_t unit) {
    sl_gate_thread *thread = sl_probe_self.gate.thread;
    if (!thread)
        return;
    atomic_store_explicit(&thread->communicator, call->communicator, memory_order_relaxed);
    atomic_store_explicit(&thread->amount, amount, memory_order_relaxed);
    atomic_store_explicit(&thread->peer, call->peer, memory_order_relaxed);
    atomic_store_explicit(&thread->tag, call->tag, memory_order_relaxed);
    atomic_store_explicit(&thread->unit, unit, memory_order_relaxed);
    atomic_store_explicit(&thread->call, call->call, memory_order_relaxed);
}

/** Around the recorded call: starts its time; ends it, with `bytes`, and writes the record. */
static inline void sl_probe_begin(sl_call *call) {
    call->start = sl_probe_now();
}

static inline void sl_probe_after(sl_call *call, uint64_t bytes) {
    call->end = call->start ? sl_probe_now() : 0;
    call->bytes = bytes;
    sl_probe_write(call);
}

/** Rank and size in MPI_COMM_WORLD, for the heads of all rings of this process. */
void sl_probe_world(int rank, int size, int family);

/** The rank of a process without MPI, which its launcher has put into the environment; for the heads of its
 * rings. Does nothing when the rank is known. The thread has a ring. */
void sl_probe_rank_by_environment(void);

/* 1: NCCL reports its events to its profiler plug-in (reported_events.h), so wrappers of NCCL's calls write
 * no record. Set once. */
extern _Atomic int sl_probe_plugged __attribute__((visibility("hidden")));

/** Counts one more request or communicator without room. */
void sl_probe_untracked(void);

/** Prints "slackline: ..." to standard error. */
void sl_probe_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** The function `name` that the program would have reached without the probe, by name alone: the next one in
 * the search order, else that of any library that the program has loaded itself. NULL: none. */
void *sl_probe_real(const char *name);

/** A variable of the library, which may be in the program itself (a copy relocation). NULL: none. */
void *sl_probe_variable(const char *name);

/** The same function; if there is none, a function that only returns an error. */
void *sl_probe_real_or_error(const char *name);

/** Declares `address` and `real`, the function `name` (text) of these parameters: looked up once; concurrent
 * lookups find the same. */
#define SL_PROBE_REAL(name, params)                                                                          \
    static _Atomic(void *) found;                                                                            \
    void *address = atomic_load_explicit(&found, memory_order_relaxed);                                      \
    if (!address) {                                                                                          \
        address = sl_probe_real_or_error(name);                                                              \
        atomic_store_explicit(&found, address, memory_order_relaxed);                                        \
    }                                                                                                        \
    int(*real) params = (int(*) params)(uintptr_t)address;

/** Whether an address is that function. */
int sl_probe_is_error(const void *function);

/** Whether the folder is given and usable: otherwise wrappers stay inactive for good. */
int sl_probe_on(void);
