#include "notice/gate/gate.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A parked thread looks again at least this often while it has a library or a device to poll. */
#define POLL_SHORTEST INT64_C(20000)
#define POLL_LONGEST INT64_C(500000)

static int64_t monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void sl_gate_init(sl_gate *gate, int rank, const sl_process_id *process) {
    gate->size = sizeof *gate;
    gate->rank = rank;
    sl_file_head_write(&gate->head, SL_GATE_MAGIC, SL_GATE_LAYOUT, process); /* last: early readers wait */
}

int sl_gate_use_barriers(sl_gate *gate) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0)
        return 0;
    atomic_store(&gate->barrier, 1);
    return 1;
}

/* No signal shortens it. */
static void sleep_through(int64_t ns) {
    struct timespec left = {.tv_sec = ns / INT64_C(1000000000), .tv_nsec = ns % INT64_C(1000000000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* A full barrier in every running thread of every process that asked for it. If the controller's side may not
 * use it (a filter of system calls), the slow form; else a pause far longer than a store takes. */
static void barrier_everywhere(void) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0 &&
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
        sleep_through(INT64_C(1000000));
}

void sl_gate_refuse(sl_gate *gate, sl_gate_unfit reason) {
    uint32_t fit = SL_GATE_FIT;
    atomic_compare_exchange_strong(&gate->overflow, &fit, (uint32_t)reason);
}

const char *sl_gate_unfit_text(uint32_t reason) {
    static const char *const texts[] = {
        [SL_GATE_FIT] = "can be held",
        [SL_GATE_FULL] = "uses more channels or threads than its gate holds",
        [SL_GATE_STRANGERS] = "talks to processes outside its MPI_COMM_WORLD",
        [SL_GATE_CANCELLED] = "has canceled a message",
        [SL_GATE_EXPOSED] = "uses MPI_Win_start or MPI_Win_post",
        [SL_GATE_CAPTURED] = "replays NCCL calls from captured graphs",
        [SL_GATE_UNKNOWN] = "uses a communicator that the probe did not see made",
        [SL_GATE_ANYBODY] = "receives from any rank over Gloo",
    };
    return reason < sizeof texts / sizeof texts[0] ? texts[reason] : "cannot be held";
}

sl_probe_file sl_gate_read(const sl_gate *gate, size_t bytes, char *text, size_t size) {
    sl_probe_file kind = sl_file_head_read(&gate->head, bytes, SL_GATE_MAGIC, SL_GATE_LAYOUT, text, size);
    if (kind == SL_FILE_OURS && (bytes < sizeof *gate || gate->size != sizeof *gate))
        return SL_FILE_FOREIGN;
    return kind;
}

/* ---- channels ---- */

static uint32_t key_hash(const sl_channel_key *key) {
    uint64_t h = key->communicator * UINT64_C(0x9e3779b97f4a7c15);
    h ^= ((uint64_t)(uint32_t)key->source << 32 | (uint32_t)key->destination) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 29)) * UINT64_C(0x94d049bb133111eb);
    h ^= ((uint64_t)(uint32_t)key->tag << 8 | key->kind) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(h >> 32);
}

/* Takes an entry of channel[] and fills its key; it becomes the channel only when the hash index has it. */
static uint32_t channel_new(sl_gate *gate, const sl_channel_key *key) {
    uint32_t index = atomic_load(&gate->channels);
    do {
        if (index >= SL_GATE_CHANNELS)
            return UINT32_MAX;
    } while (!atomic_compare_exchange_weak(&gate->channels, &index, index + 1));
    gate->channel[index].key = *key;
    return index;
}

static sl_gate_channel *find_channel(sl_gate *gate, const sl_channel_key *key, int make) {
    uint32_t index =
        UINT32_MAX; /* ours, once the search has failed; unused for good when another was faster */
    uint32_t at = key_hash(key) & (SL_GATE_SLOTS - 1);
    for (uint32_t probe = 0; probe < SL_GATE_SLOTS; probe++, at = (at + 1) & (SL_GATE_SLOTS - 1)) {
        uint32_t found = atomic_load_explicit(&gate->slot[at], memory_order_acquire);
        if (found == 0 && !make)
            return NULL;
        if (found == 0) {
            if (index == UINT32_MAX && (index = channel_new(gate, key)) == UINT32_MAX)
                break;
            if (atomic_compare_exchange_strong(&gate->slot[at], &found, index + 1)) {
                atomic_store_explicit(&gate->channel[index].ready, 1, memory_order_release);
                return &gate->channel[index];
            }
        }
        if (found > SL_GATE_CHANNELS) /* written by another process with the memory */
            break;
        if (sl_channel_key_same(&gate->channel[found - 1].key, key))
            return &gate->channel[found - 1];
    }
    if (make)
        sl_gate_refuse(gate, SL_GATE_FULL);
    return NULL;
}

sl_gate_channel *sl_gate_channel_of(sl_gate *gate, const sl_channel_key *key) {
    return find_channel(gate, key, 1);
}

sl_gate_channel *sl_gate_channel_known(sl_gate *gate, const sl_channel_key *key) {
    return find_channel(gate, key, 0);
}

uint64_t sl_gate_count(sl_gate_channel *channel, uint64_t by) {
    return atomic_fetch_add(&channel->announced, by) + by;
}

/* ---- threads ---- */

static void publish(sl_gate_caller *caller, sl_gate_state state) {
    atomic_store_explicit(&caller->thread->word, ++caller->serial << 8 | (uint64_t)state,
                          memory_order_release);
}

void sl_gate_join(sl_gate_caller *caller, sl_gate *gate, const sl_gate_shim *shim) {
    *caller = (sl_gate_caller){.gate = gate, .shim = shim};
    for (uint32_t i = 0; i < SL_GATE_THREADS; i++) {
        uint64_t word = atomic_load(&gate->thread[i].word);
        if ((word & 0xff) != SL_GATE_FREE)
            continue;
        uint64_t mine = ((word >> 8) + 1) << 8 | SL_GATE_OUTSIDE;
        if (!atomic_compare_exchange_strong(&gate->thread[i].word, &word, mine))
            continue;
        caller->thread = &gate->thread[i];
        atomic_store_explicit(&caller->thread->kernel_id, (int32_t)syscall(SYS_gettid), memory_order_relaxed);
        caller->serial = mine >> 8;
        uint32_t used = atomic_load(&gate->threads);
        while (used < i + 1 && !atomic_compare_exchange_weak(&gate->threads, &used, i + 1))
            ;
        return;
    }
    sl_gate_refuse(gate, SL_GATE_FULL);
}

void sl_gate_part(sl_gate_caller *caller) {
    if (caller->thread) {
        atomic_store(&caller->thread->forbidden, 0);
        publish(caller, SL_GATE_FREE);
    }
    caller->thread = NULL;
}

/* ---- calls ---- */

static void list(sl_gate_caller *caller, const sl_gate_channel *channel, uint64_t number) {
    if (caller->count == SL_GATE_ENTRIES) { /* a Wait for more than the list holds is seen in part */
        if (!(number & SL_GATE_NEED))
            sl_gate_refuse(caller->gate, SL_GATE_FULL);
        return;
    }
    sl_gate_entry *entry = &caller->thread->entry[caller->count++];
    atomic_store_explicit(&entry->channel, (uint32_t)(channel - caller->gate->channel), memory_order_release);
    atomic_store_explicit(&entry->number, number, memory_order_release);
    atomic_store_explicit(&caller->thread->count, caller->count, memory_order_release);
}

/* MOVING comes before the add and the entries (which are release stores): a reader that sees one of them
 * knows that this call is undecided. */
static void begin(sl_gate_caller *caller) {
    if (caller->count == 0)
        publish(caller, SL_GATE_MOVING);
}

/* The next number of a channel. The load of the hold word comes after it: by the locked add or, if only one
 * thread counts, by the barrier that the holder puts exactly here. */
static uint64_t count_call(sl_gate_channel *channel) {
    if (!atomic_load_explicit(&channel->plain, memory_order_relaxed))
        return atomic_fetch_add(&channel->announced, 1) + 1;
    uint64_t number = atomic_load_explicit(&channel->announced, memory_order_relaxed) + 1;
    atomic_store_explicit(&channel->announced, number, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    return number;
}

uint64_t sl_gate_announce(sl_gate_caller *caller, sl_gate_channel *channel) {
    if (!channel)
        return 0;
    if (!caller->thread)
        return count_call(channel);
    begin(caller);
    uint64_t number = count_call(channel);
    list(caller, channel, number);
    return number;
}

void sl_gate_no_needs(sl_gate_caller *caller) {
    if (!caller->thread)
        return;
    while (caller->count > 0 &&
           (atomic_load_explicit(&caller->thread->entry[caller->count - 1].number, memory_order_relaxed) &
            SL_GATE_NEED))
        caller->count--;
    atomic_store_explicit(&caller->thread->count, caller->count, memory_order_release);
}

void sl_gate_need(sl_gate_caller *caller, const sl_gate_channel *channel, uint64_t number) {
    if (!channel || !caller->thread)
        return;
    begin(caller);
    list(caller, channel, number | SL_GATE_NEED);
}

static void raise_to(_Atomic uint64_t *value, uint64_t least) {
    uint64_t old = atomic_load_explicit(value, memory_order_relaxed);
    while (old < least && !atomic_compare_exchange_weak(value, &old, least))
        ;
}

static void raise_due(sl_gate_channel *channel, uint64_t number) {
    if (!atomic_load_explicit(&channel->plain, memory_order_relaxed))
        raise_to(&channel->due, number);
    else if (atomic_load_explicit(&channel->due, memory_order_relaxed) < number)
        atomic_store_explicit(&channel->due, number, memory_order_release);
}

/* Whether a held caller's calls are all within the cut. */
static int within_targets(const sl_gate_caller *caller) {
    for (uint32_t i = 0; i < caller->count; i++) {
        const sl_gate_entry *entry = &caller->thread->entry[i];
        uint64_t number = atomic_load_explicit(&entry->number, memory_order_relaxed);
        const sl_gate_channel *channel =
            &caller->gate->channel[atomic_load_explicit(&entry->channel, memory_order_relaxed)];
        if (!(number & SL_GATE_NEED) && number > atomic_load(&channel->target))
            return 0;
    }
    return 1;
}

static void admit(sl_gate_caller *caller, sl_gate_mode mode) {
    if (mode == SL_GATE_ENQUEUE)
        atomic_fetch_add(&caller->gate->enqueued, 1);
    for (uint32_t i = 0; mode != SL_GATE_POST && i < caller->count; i++) {
        const sl_gate_entry *entry = &caller->thread->entry[i];
        uint64_t number = atomic_load_explicit(&entry->number, memory_order_relaxed);
        sl_gate_channel *channel =
            &caller->gate->channel[atomic_load_explicit(&entry->channel, memory_order_relaxed)];
        /* A blocking send or receive is owed only while its thread is in it, as its entry shows; a collective
         * that this rank has left, or a call that a device will block in, is owed until all have made it. */
        if (!(number & SL_GATE_NEED) &&
            (mode == SL_GATE_ENQUEUE || channel->key.kind == SL_CHANNEL_COLLECTIVE))
            raise_due(channel, number);
    }
    publish(caller, mode == SL_GATE_BLOCK ? SL_GATE_INSIDE : SL_GATE_MOVING);
}

/* Whether the rank is held; ends a hold whose deadline has passed, even without a living controller. */
static int held(sl_gate *gate, int64_t now) {
    uint32_t hold = atomic_load(&gate->hold);
    if (hold == 0)
        return 0;
    if (now < atomic_load(&gate->deadline))
        return 1;
    atomic_compare_exchange_strong(&gate->hold, &hold, 0);
    return 0;
}

int sl_gate_try(sl_gate_caller *caller, sl_gate_mode mode, int64_t now) {
    if (!caller->thread)
        return 1;
    if (caller->forbidden || !held(caller->gate, now) || within_targets(caller)) {
        admit(caller, mode);
        return 1;
    }
    if ((atomic_load_explicit(&caller->thread->word, memory_order_relaxed) & 0xff) != SL_GATE_PARKED)
        publish(caller, SL_GATE_PARKED);
    return 0;
}

static void poll_device(const sl_gate_caller *caller) {
    uint64_t enqueued = atomic_load(&caller->gate->enqueued);
    if (enqueued > atomic_load(&caller->gate->drained) && caller->shim->drained(caller->shim->context))
        raise_to(&caller->gate->drained, enqueued);
}

static void park(sl_gate_caller *caller, sl_gate_mode mode) {
    int64_t pause = POLL_SHORTEST;
    int kept = errno; /* the program's */
    for (;;) {
        uint32_t wake =
            atomic_load(&caller->gate->wake); /* before the look, or a change could be slept over */
        int64_t now = monotonic();
        if (sl_gate_try(caller, mode, now)) {
            errno = kept;
            return;
        }
        int polls = caller->shim && (caller->shim->progress || caller->shim->drained);
        if (polls && caller->shim->progress)
            caller->shim->progress(caller->shim->context);
        if (polls && caller->shim->drained)
            poll_device(caller);
        int64_t left = atomic_load(&caller->gate->deadline) - now;
        if (polls && left > pause)
            left = pause;
        pause = pause * 2 < POLL_LONGEST ? pause * 2 : POLL_LONGEST;
        if (left <= 0)
            continue;
        struct timespec limit = {.tv_sec = left / INT64_C(1000000000), .tv_nsec = left % INT64_C(1000000000)};
        syscall(SYS_futex, &caller->gate->wake, FUTEX_WAIT, wake, &limit, NULL, 0);
    }
}

void sl_gate_pass(sl_gate_caller *caller, sl_gate_mode mode) {
    if (!caller->thread)
        return;
    if (caller->forbidden || atomic_load(&caller->gate->hold) == 0)
        admit(caller, mode);
    else
        park(caller, mode);
}

void sl_gate_enqueued(sl_gate_caller *caller) {
    atomic_fetch_add(&caller->gate->enqueued, 1);
}

void sl_gate_leave(sl_gate_caller *caller) {
    if (!caller->thread)
        return;
    caller->count = 0;
    publish(caller, SL_GATE_OUTSIDE);
}

void sl_gate_wild_posted(sl_gate *gate) {
    atomic_fetch_add(&gate->wild, 1);
}

void sl_gate_wild_matched(sl_gate *gate, sl_gate_channel *wild, sl_gate_channel *channel) {
    if (wild)
        atomic_fetch_add(&wild->due, 1);
    if (channel)
        atomic_fetch_add(&channel->announced, 1);
    atomic_fetch_sub(&gate->wild, 1);
}

void sl_gate_forbid(sl_gate_caller *caller, sl_gate_channel *local) {
    if (caller->forbidden == 0 && local) {
        sl_gate_enter(caller, local, SL_GATE_POST);
        sl_gate_leave(caller);
    }
    caller->forbidden++;
    if (caller->thread)
        atomic_store(&caller->thread->forbidden, 1);
}

void sl_gate_allow(sl_gate_caller *caller) {
    if (caller->forbidden > 0 && --caller->forbidden == 0 && caller->thread)
        atomic_store(&caller->thread->forbidden, 0);
}

void sl_gate_finish(sl_gate *gate) {
    atomic_store(&gate->finished, 1);
}

/* ---- the agent's side ---- */

void sl_gate_hold(sl_gate *gate, uint32_t hold, int64_t deadline) {
    uint32_t channels = atomic_load(&gate->channels); /* of memory that is shared */
    for (uint32_t i = 0; i < channels && i < SL_GATE_CHANNELS; i++)
        atomic_store(&gate->channel[i].target, 0);
    atomic_store(&gate->deadline, deadline);
    atomic_store(&gate->hold, hold);
    if (atomic_load(&gate->barrier))
        barrier_everywhere();
    sl_gate_wake(gate);
}

int sl_gate_raise(sl_gate *gate, const sl_channel_key *key, uint64_t target) {
    sl_gate_channel *channel = sl_gate_channel_of(gate, key);
    if (!channel)
        return -1;
    raise_to(&channel->target, target);
    return 0;
}

void sl_gate_wake(sl_gate *gate) {
    atomic_fetch_add(&gate->wake, 1);
    syscall(SYS_futex, &gate->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sl_gate_release(sl_gate *gate) {
    atomic_store(&gate->hold, 0);
    sl_gate_wake(gate);
}
