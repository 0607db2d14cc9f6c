/* The wrappers of NCCL's calls. The declarations are the shim's own, no header of NCCL or CUDA is needed; a
 * test holds them against the real ones. A call is recorded when it returns to the host, that is when it is
 * enqueued; with device timing a completion with the device's time follows, for a group one for all of it. */
#include <stdlib.h>
#include <string.h>

#include "notice/probe/events.h"
#include "notice/probe/place.h"
#include "notice/probe/probe.h"

typedef struct sl_unique_id {
    char internal[128];
} SL_UNIQUE_ID;
typedef void *SL_NCCL_COMM, *SL_STREAM;
typedef int SL_NCCL_TYPE, SL_NCCL_OP;
typedef void SL_NCCL_CONFIG, SL_NCCL_CALL_CONFIG;

#define SL_NO_COLOR (-1) /* NCCL_SPLIT_NOCOLOR */

/* The thread's group: how deep, and its first call, which stands for all of them in device time. */
static __thread struct {
    int depth;
    SL_STREAM stream;
    sl_call first;
    uint64_t bytes;
    int calls;
} group __attribute__((tls_model("initial-exec")));

/* Bytes of each ncclDataType_t, from ncclInt8 to ncclFloat8e5m2. */
static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static uint64_t n(size_t count, SL_NCCL_TYPE type) {
    return type >= 0 && type < (int)sizeof sizes ? (uint64_t)count * sizes[type] : 0;
}

/* Programs without MPI say their rank in the environment. */
static void say_rank(void) {
    if (atomic_load_explicit(&sl_probe_self.file->rank, memory_order_relaxed) >= 0)
        return;
    const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE");
    if (rank && size)
        sl_probe_world(atoi(rank), atoi(size), SL_FAMILY_NONE);
}

static sl_place *enter(SL_NCCL_COMM comm, uint64_t name, int rank, int size, int fresh) {
    sl_place *place = calloc(1, sizeof *place);
    if (!place)
        return &sl_nowhere;
    *place = (sl_place){.name = name, .rank = rank, .size = size, .peers = size};
    say_rank();
    return sl_place_add((uint64_t)(uintptr_t)comm, place, fresh);
}

/* Rank and size may be unknown while a communicator is made in a group: asked for at its first call. */
static void ask(SL_NCCL_COMM comm, sl_place *place) {
    int (*rank)(SL_NCCL_COMM, int *) =
        (int (*)(SL_NCCL_COMM, int *))(uintptr_t)sl_probe_real_or_error("ncclCommUserRank");
    int (*count)(SL_NCCL_COMM, int *) =
        (int (*)(SL_NCCL_COMM, int *))(uintptr_t)sl_probe_real_or_error("ncclCommCount");
    int own = -1, size = 0;
    if (rank(comm, &own) == 0 && count(comm, &size) == 0) {
        place->rank = own;
        place->size = place->peers = size;
    }
}

/* One made by a call that is not wrapped (ncclCommGrow) has a name of this process alone. */
static sl_place *place_of(SL_NCCL_COMM comm) {
    sl_place *place = sl_place_find((uint64_t)(uintptr_t)comm);
    if (!place && !comm)
        return &sl_nowhere;
    if (!place)
        place = enter(comm, sl_name_mix(sl_name_text("unknown to the probe"), sl_name_repeat(1)), -1, 0, 0);
    if (place->rank < 0 && place != &sl_nowhere)
        ask(comm, place);
    return place;
}

static void before(sl_call *call, int number, const sl_place *place, int peer) {
    *call = (sl_call){.kind = SL_RECORD_CALL,
                      .call = (uint8_t)number,
                      .tag = SL_TAG_NONE,
                      .rank = place->rank,
                      .peer = peer,
                      .communicator = place->name,
                      .device = -1};
    call->start = sl_probe_now();
}

static void after(sl_call *call, uint64_t bytes) {
    call->end = call->start ? sl_probe_now() : 0;
    call->bytes = bytes;
    sl_probe_write(call);
}

static void in_group(const sl_call *call, SL_STREAM stream) {
    if (group.calls++ == 0) {
        group.first = *call;
        group.stream = stream;
    }
    group.bytes += call->bytes;
}

/* ---- by hand ---- */

static int group_start(int (*real)(void)) {
    sl_call call;
    before(&call, SL_CALL_ncclGroupStart, &sl_nowhere, SL_PEER_NONE);
    int result = real();
    after(&call, 0);
    if (result == 0 && group.depth++ == 0) {
        group.calls = 0;
        group.bytes = 0;
    }
    return result;
}

static int group_end(int (*real)(void)) {
    sl_call call;
    before(&call, SL_CALL_ncclGroupEnd, &sl_nowhere, SL_PEER_NONE);
    int timed = group.depth == 1 && group.calls > 0, place = timed ? sl_events_before(group.stream) : -1;
    int result = real();
    after(&call, 0);
    if (group.depth > 0)
        group.depth--;
    if (place >= 0) {
        group.first.call = SL_CALL_ncclGroupEnd;
        group.first.start = call.start;
        group.first.bytes = group.bytes;
        sl_events_after(place, group.stream, &group.first);
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

/* A creation is recorded with the name of what it made. */
static void made(sl_call *call, int result, SL_NCCL_COMM comm, uint64_t name, int rank, int size) {
    if (result == 0 && comm) {
        enter(comm, name, rank, size, 1);
        call->communicator = name;
        call->rank = rank;
    }
    after(call, 0);
}

static int init_rank(int (*real)(SL_NCCL_COMM *, int, SL_UNIQUE_ID, int), SL_NCCL_COMM *comm, int size,
                     SL_UNIQUE_ID id, int rank) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitRank, &sl_nowhere, SL_PEER_NONE);
    int result = real(comm, size, id, rank);
    made(&call, result, result == 0 ? *comm : NULL, name_of_ids(&id, 1), rank, size);
    return result;
}

#define IN_PROGRESS 7 /* ncclInProgress: a nonblocking communicator is being made */

static int init_rank_config(int (*real)(SL_NCCL_COMM *, int, SL_UNIQUE_ID, int, SL_NCCL_CONFIG *),
                            SL_NCCL_COMM *comm, int size, SL_UNIQUE_ID id, int rank, SL_NCCL_CONFIG *config) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitRankConfig, &sl_nowhere, SL_PEER_NONE);
    int result = real(comm, size, id, rank, config);
    int good = result == 0 || result == IN_PROGRESS;
    made(&call, good ? 0 : result, good ? *comm : NULL, name_of_ids(&id, 1), rank, size);
    return result;
}

static int init_rank_scalable(int (*real)(SL_NCCL_COMM *, int, int, int, SL_UNIQUE_ID *, SL_NCCL_CONFIG *),
                              SL_NCCL_COMM *comm, int size, int rank, int ids, SL_UNIQUE_ID *id,
                              SL_NCCL_CONFIG *config) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitRankScalable, &sl_nowhere, SL_PEER_NONE);
    int result = real(comm, size, rank, ids, id, config);
    int good = result == 0 || result == IN_PROGRESS;
    made(&call, good ? 0 : result, good ? *comm : NULL, good ? name_of_ids(id, ids) : 0, rank, size);
    return result;
}

static int init_all(int (*real)(SL_NCCL_COMM *, int, const int *), SL_NCCL_COMM *comms, int devices,
                    const int *device) {
    sl_call call;
    before(&call, SL_CALL_ncclCommInitAll, &sl_nowhere, SL_PEER_NONE);
    int result = real(comms, devices, device);
    uint64_t name = sl_name_mix(sl_name_text("ncclCommInitAll"), sl_name_repeat(2));
    for (int i = 0; result == 0 && i < devices; i++)
        enter(comms[i], name, i, devices, 1);
    call.communicator = result == 0 ? name : 0;
    after(&call, 0);
    return result;
}

static int split(int (*real)(SL_NCCL_COMM, int, int, SL_NCCL_COMM *, SL_NCCL_CONFIG *), SL_NCCL_COMM comm,
                 int color, int key, SL_NCCL_COMM *created, SL_NCCL_CONFIG *config) {
    sl_call call;
    sl_place *place = place_of(comm);
    uint64_t number = 1 + atomic_fetch_add_explicit(&place->children, 1, memory_order_relaxed);
    before(&call, SL_CALL_ncclCommSplit, place, SL_PEER_NONE);
    int result = real(comm, color, key, created, config);
    after(&call, 0);
    if ((result == 0 || result == IN_PROGRESS) && color != SL_NO_COLOR && *created)
        enter(*created, sl_name_mix(sl_name_mix(place->name, number), (uint64_t)color), -1, 0, 1);
    return result;
}

static int end_communicator(int number, int (*real)(SL_NCCL_COMM), SL_NCCL_COMM comm, int gone) {
    sl_call call;
    before(&call, number, place_of(comm), SL_PEER_NONE);
    if (gone)
        sl_place_remove((uint64_t)(uintptr_t)comm);
    int result = real(comm);
    after(&call, 0);
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

/* ---- the wrappers, from the table; pnccl... names are the library's own ---- */

#define SL_REAL(name, params)                                                                                \
    static _Atomic(void *) found;                                                                            \
    void *address = atomic_load_explicit(&found, memory_order_relaxed);                                      \
    if (!address) {                                                                                          \
        address = sl_probe_real_or_error(#name);                                                             \
        atomic_store_explicit(&found, address, memory_order_relaxed);                                        \
    }                                                                                                        \
    int(*real) params = (int(*) params)(uintptr_t)address;

#define SL_NCCL(name, as, params, args, peer_, bytes_)                                                       \
    int name params;                                                                                         \
    int name params {                                                                                        \
        SL_REAL(name, params)                                                                                \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        sl_events_collect();                                                                                 \
        sl_place *place = place_of(comm);                                                                    \
        uint64_t members = (uint64_t)place->size;                                                            \
        sl_call call;                                                                                        \
        int timed = group.depth == 0 ? sl_events_before(stream) : -1;                                        \
        before(&call, SL_CALL_##as, place, peer_);                                                           \
        int result = real args;                                                                              \
        after(&call, result == 0 || result == IN_PROGRESS ? (bytes_) : 0);                                   \
        if (group.depth > 0)                                                                                 \
            in_group(&call, stream);                                                                         \
        sl_events_after(timed, stream, &call);                                                               \
        (void)members;                                                                                       \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_LIST(...) __VA_ARGS__
#define SL_NCCL_WRAP(name, params, args, made_by)                                                            \
    int name params;                                                                                         \
    int name params {                                                                                        \
        SL_REAL(name, params)                                                                                \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        sl_events_collect();                                                                                 \
        int result = made_by;                                                                                \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }
#define SL_NCCL_HAND(name, params, args, body) SL_NCCL_WRAP(name, params, args, body(real, SL_LIST args))
#define SL_NCCL_BRACKET(name, body) SL_NCCL_WRAP(name, (void), (), body(real))

#include "notice/probe/nccl_table.h"
