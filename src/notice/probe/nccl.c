/* The wrappers of NCCL's calls. The declarations are the shim's own, without headers of NCCL or CUDA; a test
 * compares them with the real ones. A call is recorded when it returns to the host, that is, when it is
 * enqueued; its times on the device come from NCCL's own events (notice/plugin), which then record the call,
 * too. */
#include <stdlib.h>
#include <string.h>

#include "notice/probe/communicators.h"
#include "notice/probe/device_events.h"
#include "notice/probe/probe.h"

typedef struct sl_unique_id {
    char internal[128];
} SL_UNIQUE_ID;
typedef void *SL_NCCL_COMM, *SL_STREAM;
typedef int SL_NCCL_TYPE, SL_NCCL_OP;
typedef void SL_NCCL_CONFIG, SL_NCCL_CALL_CONFIG;

#define SL_NO_COLOR (-1) /* NCCL_SPLIT_NOCOLOR */

/* The thread's group: its depth, and the calls in it. */
static __thread struct { int depth, calls; } group __attribute__((tls_model("initial-exec")));

/* Bytes of each ncclDataType_t, from ncclInt8 to ncclFloat8e5m2. */
static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static uint64_t n(size_t count, SL_NCCL_TYPE type) {
    return type >= 0 && type < (int)sizeof sizes ? (uint64_t)count * sizes[type] : 0;
}

static sl_gate_channel *local; /* where its calls without other ranks park */

/* The gate of a process without one from MPI. A process with an unknown rank cannot be held. */
static void open_gate(void) {
    int rank = atomic_load_explicit(&sl_probe_self.file->rank, memory_order_relaxed);
    sl_gate *gate = rank < 0 ? NULL : sl_probe_gate ? sl_probe_gate : sl_probe_gate_new(rank);
    if (!gate || local)
        return;
    sl_channel_key key = {sl_name_text("nccl"), -1, rank, -1, SL_CHANNEL_LOCAL};
    local = sl_gate_channel_of(gate, &key);
    if (!sl_probe_gate)
        sl_probe_gate_open(gate, NULL);
}

static sl_gate_channel *collective_channel(uint64_t name) {
    sl_channel_key key = {name, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    return sl_probe_gate ? sl_gate_channel_of(sl_probe_gate, &key) : NULL;
}

static sl_communicator *enter(SL_NCCL_COMM comm, uint64_t name, int rank, int size, int fresh) {
    sl_communicator *communicator = calloc(1, sizeof *communicator);
    if (!communicator)
        return &sl_nowhere;
    *communicator = (sl_communicator){.name = name, .rank = rank, .size = size, .peers = size};
    sl_probe_rank_by_environment();
    open_gate();
    communicator->channel = collective_channel(name);
    return sl_communicator_add((uint64_t)(uintptr_t)comm, communicator, fresh);
}

/* Rank and size may be unknown while a communicator is made in a group: asked for at its first call. */
static void ask(SL_NCCL_COMM comm, sl_communicator *communicator) {
    int (*rank)(SL_NCCL_COMM, int *) =
        (int (*)(SL_NCCL_COMM, int *))(uintptr_t)sl_probe_real_or_error("ncclCommUserRank");
    int (*count)(SL_NCCL_COMM, int *) =
        (int (*)(SL_NCCL_COMM, int *))(uintptr_t)sl_probe_real_or_error("ncclCommCount");
    int own = -1, size = 0;
    if (rank(comm, &own) == 0 && count(comm, &size) == 0) {
        communicator->rank = own;
        communicator->size = communicator->peers = size;
    }
}

/* One made by a call that is not wrapped (ncclCommGrow) has a name of this process alone. */
static sl_communicator *communicator_of(SL_NCCL_COMM comm) {
    sl_communicator *communicator = sl_communicator_find((uint64_t)(uintptr_t)comm);
    if (!communicator && !comm)
        return &sl_nowhere;
    if (!communicator && sl_probe_gate)
        sl_gate_refuse(sl_probe_gate, SL_GATE_UNKNOWN);
    if (!communicator)
        communicator =
            enter(comm, sl_name_mix(sl_name_text("unknown to the probe"), sl_name_repeat(1)), -1, 0, 0);
    if (communicator->rank < 0 && communicator != &sl_nowhere)
        ask(comm, communicator);
    return communicator;
}

static void before(sl_call *call, int number, const sl_communicator *communicator, int peer) {
    *call = (sl_call){.kind = SL_RECORD_CALL,
                      .call = (uint8_t)number,
                      .tag = SL_TAG_NONE,
                      .rank = communicator->rank,
                      .peer = peer,
                      .communicator = communicator->name,
                      .device = -1};
}

/* ---- the gate ---- */

static sl_gate_caller *enter_gate(sl_gate_channel *channel, sl_gate_mode mode) {
    sl_gate_caller *caller = sl_probe_gated();
    if (!caller)
        return NULL;
    sl_probe_self.in_nccl = 1;
    sl_gate_enter(caller, channel ? channel : local, mode);
    sl_probe_self.in_nccl = 0;
    return caller;
}

static void leave_gate(sl_gate_caller *caller) {
    if (caller)
        sl_gate_leave(caller);
}

/* Messages from `source` to `destination` of a communicator, which both ends must enqueue: a channel like
 * that of a communicator of two, with NCCL's ranks, which need no translation. */
static sl_gate_channel *pair_channel(const sl_communicator *communicator, int source, int destination) {
    if (source == destination || !communicator->channel)
        return NULL;
    uint64_t name =
        sl_name_mix(sl_name_mix(communicator->name, (uint64_t)source + 1), (uint64_t)destination + 1);
    return collective_channel(name);
}

/* Before a call is enqueued. NULL: no gate, or the call becomes part of a graph. */
static sl_gate_caller *pass_enqueued(const sl_call *call, const sl_communicator *communicator,
                                     SL_STREAM stream) {
    if (!sl_probe_gate)
        return NULL;
    if (sl_events_capturing(stream)) {
        sl_gate_refuse(sl_probe_gate, SL_GATE_CAPTURED);
        return NULL;
    }
    sl_gate_channel *channel =
        call->call == SL_CALL_ncclSend   ? pair_channel(communicator, communicator->rank, call->peer)
        : call->call == SL_CALL_ncclRecv ? pair_channel(communicator, call->peer, communicator->rank)
                                         : communicator->channel;
    return enter_gate(channel, SL_GATE_ENQUEUE);
}

static void left_enqueued(sl_gate_caller *caller, SL_NCCL_COMM comm, SL_STREAM stream) {
    if (!caller)
        return;
    sl_events_enqueued(comm, stream);
    sl_gate_enqueued(caller);
    sl_gate_leave(caller);
}

/* ---- by hand ---- */

/* Nothing parks inside a group, so it parks at the outermost start. */
static int group_start(int (*real)(void)) {
    sl_call call;
    sl_gate_caller *caller = sl_probe_gated();
    before(&call, SL_CALL_ncclGroupStart, &sl_nowhere, SL_PEER_NONE);
    sl_probe_self.in_nccl = 1;
    if (caller)
        sl_gate_forbid(caller, local);
    sl_probe_self.in_nccl = 0;
    sl_probe_begin(&call);
    int result = real();
    sl_probe_after(&call, 0);
    if (result == 0 && group.depth++ == 0)
        group.calls = 0;
    if (result != 0 && caller)
        sl_gate_allow(caller);
    return result;
}

/* The group is on its streams now. */
static void leave_group(int calls) {
    sl_gate_caller *caller = sl_probe_gated();
    if (!caller)
        return;
    if (calls > 0) {
        sl_events_group_ended();
        sl_gate_enqueued(caller);
    }
    sl_gate_allow(caller);
}

static int group_end(int (*real)(void)) {
    sl_call call;
    before(&call, SL_CALL_ncclGroupEnd, &sl_nowhere, SL_PEER_NONE);
    sl_probe_begin(&call);
    int result = real();
    sl_probe_after(&call, 0);
    if (group.depth > 0) {
        group.depth--;
        leave_group(group.depth == 0 ? group.calls : 0);
    }
    return result;
}

static uint64_t name_of_ids(const SL_UNIQUE_ID *ids, int count) {
    uint64_t name = sl_name_text("nccl");
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < sizeof ids->internal; at += sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, ids[i].internal + at, sizeof word);
            name = sl_name_mix(name, word);
        }
    return name;
}

/* A creation is recorded with the name of the new communicator. */
static void made(sl_call *call, int result, SL_NCCL_COMM comm, uint64_t name, int rank, int size) {
    if (result == 0 && comm) {
        enter(comm, name, rank, size, 1);
        call->communicator = name;
        call->rank = rank;
    }
    sl_probe_after(call, 0);
}

static int init_rank(int (*real)(SL_NCCL_COMM *, int, SL_UNIQUE_ID, int), SL_NCCL_COMM *comm, int size,
                     SL_UNIQUE_ID id, int rank) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitRank, &sl_nowhere, SL_PEER_NONE);
    sl_gate_caller *caller = enter_gate(NULL, SL_GATE_BLOCK);
    sl_probe_begin(&call);
    int result = real(comm, size, id, rank);
    made(&call, result, result == 0 ? *comm : NULL, name_of_ids(&id, 1), rank, size);
    leave_gate(caller);
    return result;
}

#define IN_PROGRESS 7 /* ncclInProgress: a nonblocking communicator is being made */

static int init_rank_config(int (*real)(SL_NCCL_COMM *, int, SL_UNIQUE_ID, int, SL_NCCL_CONFIG *),
                            SL_NCCL_COMM *comm, int size, SL_UNIQUE_ID id, int rank, SL_NCCL_CONFIG *config) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitRankConfig, &sl_nowhere, SL_PEER_NONE);
    sl_gate_caller *caller = enter_gate(NULL, SL_GATE_BLOCK);
    sl_probe_begin(&call);
    int result = real(comm, size, id, rank, config);
    int good = result == 0 || result == IN_PROGRESS;
    made(&call, good ? 0 : result, good ? *comm : NULL, name_of_ids(&id, 1), rank, size);
    leave_gate(caller);
    return result;
}

static int init_rank_scalable(int (*real)(SL_NCCL_COMM *, int, int, int, SL_UNIQUE_ID *, SL_NCCL_CONFIG *),
                              SL_NCCL_COMM *comm, int size, int rank, int ids, SL_UNIQUE_ID *id,
                              SL_NCCL_CONFIG *config) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitRankScalable, &sl_nowhere, SL_PEER_NONE);
    sl_gate_caller *caller = enter_gate(NULL, SL_GATE_BLOCK);
    sl_probe_begin(&call);
    int result = real(comm, size, rank, ids, id, config);
    int good = result == 0 || result == IN_PROGRESS;
    made(&call, good ? 0 : result, good ? *comm : NULL, good ? name_of_ids(id, ids) : 0, rank, size);
    leave_gate(caller);
    return result;
}

static int init_all(int (*real)(SL_NCCL_COMM *, int, const int *), SL_NCCL_COMM *comms, int devices,
                    const int *device) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitAll, &sl_nowhere, SL_PEER_NONE);
    sl_gate_caller *caller = enter_gate(NULL, SL_GATE_BLOCK);
    sl_probe_begin(&call);
    int result = real(comms, devices, device);
    uint64_t name = sl_name_mix(sl_name_text("ncclCommInitAll"), sl_name_repeat(2));
    for (int i = 0; result == 0 && i < devices; i++) /* all members are this process's own */
        enter(comms[i], name, i, devices, 1)->channel = NULL;
    call.communicator = result == 0 ? name : 0;
    sl_probe_after(&call, 0);
    leave_gate(caller);
    return result;
}

static int split(int (*real)(SL_NCCL_COMM, int, int, SL_NCCL_COMM *, SL_NCCL_CONFIG *), SL_NCCL_COMM comm,
                 int color, int key, SL_NCCL_COMM *created, SL_NCCL_CONFIG *config) {
    sl_call call;
    sl_communicator *communicator = communicator_of(comm);
    uint64_t number = 1 + atomic_fetch_add_explicit(&communicator->children, 1, memory_order_relaxed);
    before(&call, SL_CALL_ncclCommSplit, communicator, SL_PEER_NONE);
    sl_gate_caller *caller = enter_gate(communicator->channel, SL_GATE_BLOCK);
    sl_probe_begin(&call);
    int result = real(comm, color, key, created, config);
    sl_probe_after(&call, 0);
    if ((result == 0 || result == IN_PROGRESS) && color != SL_NO_COLOR && *created)
        enter(*created, sl_name_mix(sl_name_mix(communicator->name, number), (uint64_t)color), -1, 0, 1);
    leave_gate(caller);
    return result;
}

static int end_communicator(int number, int (*real)(SL_NCCL_COMM), SL_NCCL_COMM comm, int gone) {
    sl_call call;
    before(&call, number, communicator_of(comm), SL_PEER_NONE);
    sl_gate_caller *caller = enter_gate(NULL, SL_GATE_BLOCK);
    sl_probe_begin(&call);
    if (gone) {
        sl_communicator_remove((uint64_t)(uintptr_t)comm);
        sl_events_forget(comm);
    }
    int result = real(comm);
    sl_probe_after(&call, 0);
    leave_gate(caller);
    return result;
}

static int finalize(int (*real)(SL_NCCL_COMM), SL_NCCL_COMM comm) {
    return end_communicator(SL_CALL_ncclCommFinalize, real, comm, 0);
}

static int destroy(int (*real)(SL_NCCL_COMM), SL_NCCL_COMM comm) {
    return end_communicator(SL_CALL_ncclCommDestroy, real, comm, 1);
}

static int abort_communicator(int (*real)(SL_NCCL_COMM), SL_NCCL_COMM comm) {
    return end_communicator(SL_CALL_ncclCommAbort, real, comm, 1);
}

/* A call on a stream has returned. NCCL's plug-in records it, if there is one. */
static void enqueued(sl_call *call, uint64_t bytes) {
    if (!atomic_load_explicit(&sl_probe_plugged, memory_order_relaxed)) {
        sl_probe_after(call, bytes);
        return;
    }
    call->bytes = bytes;
    sl_probe_self.polls = 0;
}

/* ---- the wrappers, from the table; pnccl... names are the library's own ---- */

#define SL_NCCL(name, as, params, args, peer_, bytes_)                                                       \
    int name params;                                                                                         \
    int name params {                                                                                        \
        SL_PROBE_REAL(#name, params)                                                                         \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        sl_communicator *communicator = communicator_of(comm);                                               \
        uint64_t members = (uint64_t)communicator->size;                                                     \
        sl_call call;                                                                                        \
        before(&call, SL_CALL_##as, communicator, peer_);                                                    \
        sl_gate_caller *caller = pass_enqueued(&call, communicator, stream);                                 \
        sl_probe_describe(&call, (uint64_t)(bytes_), SL_GATE_BYTES);                                         \
        sl_probe_begin(&call);                                                                               \
        int result = real args;                                                                              \
        enqueued(&call, result == 0 || result == IN_PROGRESS ? (bytes_) : 0);                                \
        group.calls += group.depth > 0;                                                                      \
        left_enqueued(caller, comm, stream);                                                                 \
        (void)members;                                                                                       \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_LIST(...) __VA_ARGS__
#define SL_NCCL_WRAP(name, params, args, made_by)                                                            \
    int name params;                                                                                         \
    int name params {                                                                                        \
        SL_PROBE_REAL(#name, params)                                                                         \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        int result = made_by;                                                                                \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }
#define SL_NCCL_HAND(name, params, args, body) SL_NCCL_WRAP(name, params, args, body(real, SL_LIST args))
#define SL_NCCL_BRACKET(name, body) SL_NCCL_WRAP(name, (void), (), body(real))

#include "notice/probe/nccl_table.h"
