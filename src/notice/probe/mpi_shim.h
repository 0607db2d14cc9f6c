/* The wrappers of MPI's calls, for one family of libraries: included once by mpi_openmpi.c and once by
 * mpi_mpich.c, which define handles. A library's layout is used only as far as its mpi.h makes it part of
 * every compiled program: the width of handles and the values of constants (tests compare them with the real
 * mpi.h).
 *
 * Defined before: SL_FAMILY, SL_WRAPPERS, SL_HANDLE, SL_KEY(handle), SL_IN_PLACE, SL_PROC_NULL,
 * SL_ANY_SOURCE, SL_ROOT, SL_NO_PRECEDE, SL_EXCLUSIVE, SL_IGNORE (a status), SL_STATUS_SIZE, _SOURCE, _TAG,
 * and SL_CONSTANT(openmpi name, mpich value) for handles that are constants. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "notice/probe/choose.h"
#include "notice/probe/communicators.h"
#include "notice/probe/int_counts.h"
#include "notice/probe/mpi_requests.h"
#include "notice/probe/probe.h"

typedef SL_HANDLE SL_COMM, SL_TYPE, SL_REQUEST, SL_OP, SL_INFO, SL_MPI_GROUP, SL_MESSAGE, SL_WIN;

typedef void SL_STATUS; /* only source and tag are looked at */
typedef void *SL_FILE;  /* in both families */
typedef long SL_AINT;
typedef long long SL_OFFSET;
typedef long long SL_LARGE_COUNT;

#define SL_NO_RANK INT_MIN
#define SL_NUMBERED INT_MIN
#define SL_NO_TAG INT_MIN
#define SL_ANY_TAG (-1)
#define SL_THREAD_SERIALIZED 2
#define SL_THREAD_MULTIPLE 3
#define SL_FEW 32 /* requests kept on the stack */
#define SL_PLAIN_TYPES 8

/* Functions of the library itself, by its profiling names. */
static struct {
    _Atomic int ready;
    int rank;
    SL_COMM world, null, self;
    SL_REQUEST no_request;
    SL_TYPE no_type;
    struct {
        SL_TYPE type;
        int size;
    } plain_type[SL_PLAIN_TYPES]; /* predefined ones, and their bytes */
    int (*type_size)(SL_TYPE, long long *);
    int (*comm_rank)(SL_COMM, int *);
    int (*comm_size)(SL_COMM, int *);
    int (*comm_group)(SL_COMM, SL_MPI_GROUP *);
    int (*comm_remote_group)(SL_COMM, SL_MPI_GROUP *);
    int (*comm_test_inter)(SL_COMM, int *);
    int (*group_size)(SL_MPI_GROUP, int *);
    int (*group_translate)(SL_MPI_GROUP, int, const int *, SL_MPI_GROUP, int *);
    int (*group_free)(SL_MPI_GROUP *);
    /* for the gate */
    int level, plain;   /* threads that MPI granted; what that makes of channels (sl_gate_channel) */
    SL_COMM quiet;      /* no rank sends here, */
    SL_REQUEST unheard; /* so this receive never ends: testing it moves everything else. Under `listening` */
    pthread_mutex_t listening;
    sl_gate_channel *local;
    _Atomic int cancels;
    int (*initialized)(int *);
    int (*comm_get_parent)(SL_COMM *);
    int (*query_thread)(int *);
    int (*is_thread_main)(int *);
    int (*comm_create)(SL_COMM, SL_MPI_GROUP, SL_COMM *);
    int (*comm_free)(SL_COMM *);
    int (*irecv)(void *, int, SL_TYPE, int, int, SL_COMM, SL_REQUEST *);
    int (*test)(SL_REQUEST *, int *, void *);
    int (*cancel)(SL_REQUEST *);
    int (*request_free)(SL_REQUEST *);
    int (*get_status)(SL_REQUEST, int *, void *);
    int (*test_cancelled)(const void *, int *);
} library = {.rank = -1, .listening = PTHREAD_MUTEX_INITIALIZER};

#define SL_COMM_NULL library.null

static void *named(const char *name) {
    return sl_probe_real_or_error(name);
}

static void open_gate(void);

static void name_types(void) {
    int i = 0;
#define SL_PLAIN(name, mpich, bytes)                                                                         \
    library.plain_type[i].type = SL_CONSTANT("ompi_mpi_" name, mpich);                                       \
    library.plain_type[i++].size = bytes;
    SL_PLAIN("double", 0x4c00080b, 8)
    SL_PLAIN("float", 0x4c00040a, 4)
    SL_PLAIN("int", 0x4c000405, 4)
    SL_PLAIN("byte", 0x4c00010d, 1)
    SL_PLAIN("char", 0x4c000101, 1)
    SL_PLAIN("long", 0x4c000807, 8)
    SL_PLAIN("unsigned", 0x4c000406, 4)
    SL_PLAIN("long_long_int", 0x4c000809, 8)
#undef SL_PLAIN
}

static void prepare_once(void) {
    library.type_size = (int (*)(SL_TYPE, long long *))(uintptr_t)named("PMPI_Type_size_x");
    library.comm_rank = (int (*)(SL_COMM, int *))(uintptr_t)named("PMPI_Comm_rank");
    library.comm_size = (int (*)(SL_COMM, int *))(uintptr_t)named("PMPI_Comm_size");
    library.comm_group = (int (*)(SL_COMM, SL_MPI_GROUP *))(uintptr_t)named("PMPI_Comm_group");
    library.comm_remote_group = (int (*)(SL_COMM, SL_MPI_GROUP *))(uintptr_t)named("PMPI_Comm_remote_group");
    library.comm_test_inter = (int (*)(SL_COMM, int *))(uintptr_t)named("PMPI_Comm_test_inter");
    library.group_size = (int (*)(SL_MPI_GROUP, int *))(uintptr_t)named("PMPI_Group_size");
    library.group_translate = (int (*)(SL_MPI_GROUP, int, const int *, SL_MPI_GROUP, int *))(uintptr_t)named(
        "PMPI_Group_translate_ranks");
    library.group_free = (int (*)(SL_MPI_GROUP *))(uintptr_t)named("PMPI_Group_free");
    library.world = SL_CONSTANT("ompi_mpi_comm_world", 0x44000000);
    library.self = SL_CONSTANT("ompi_mpi_comm_self", 0x44000001);
    library.null = SL_CONSTANT("ompi_mpi_comm_null", 0x04000000);
    library.no_request = SL_CONSTANT("ompi_request_null", 0x2c000000);
    library.no_type = SL_CONSTANT("ompi_mpi_datatype_null", 0x0c000000);
    name_types();
    int size = -1;
    library.comm_rank(library.world, &library.rank);
    library.comm_size(library.world, &size);
    sl_probe_world(library.rank, size, SL_FAMILY);
    open_gate();
    atomic_store_explicit(&library.ready, 1, memory_order_release);
}

/* The world, once MPI is up. */
static void prepare(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&library.ready, memory_order_relaxed))
        prepare_once();
    pthread_mutex_unlock(&lock);
}

/* ---- communicators ---- */

/* World ranks of a group, malloc'ed. NULL: the library cannot be asked, or no memory. */
static int *world_ranks(SL_MPI_GROUP group, int *count) {
    SL_MPI_GROUP world;
    int *ranks = NULL, *theirs = NULL;
    if (library.group_size(group, count) == 0 && library.comm_group(library.world, &world) == 0) {
        ranks = malloc(((size_t)*count + 1) * sizeof *ranks);
        theirs = malloc(((size_t)*count + 1) * sizeof *theirs);
        for (int i = 0; ranks && i < *count; i++)
            ranks[i] = i;
        if (ranks && theirs && library.group_translate(group, *count, ranks, world, theirs) != 0) {
            free(theirs);
            theirs = NULL;
        }
        library.group_free(&world);
    }
    free(ranks);
    return theirs;
}

/* World ranks of one side of a communicator, malloc'ed, and a name mixed from them. */
static int *members_of(SL_COMM comm, int remote, int *count, uint64_t *name) {
    SL_MPI_GROUP group;
    if ((remote ? library.comm_remote_group(comm, &group) : library.comm_group(comm, &group)) != 0)
        return NULL;
    int *theirs = world_ranks(group, count);
    library.group_free(&group);
    *name = sl_name_text("members");
    for (int i = 0; theirs && i < *count; i++) {
        if (theirs[i] < 0)
            theirs[i] = SL_PEER_UNKNOWN;
        *name = sl_name_mix(*name, (uint64_t)theirs[i]);
    }
    return theirs;
}

static sl_gate_channel *gate_channel(uint64_t name, int source, int destination, int tag, uint32_t kind);

/* Adds a communicator whose name is `base` mixed with its members and, if no parent counts it, with the
 * number of earlier ones of that name. */
static sl_communicator *enter_communicator(SL_COMM comm, uint64_t base, int counted, int fresh) {
    sl_communicator *communicator = calloc(1, sizeof *communicator);
    int inter = 0, count = 0;
    if (!communicator)
        return &sl_nowhere;
    library.comm_test_inter(comm, &inter);
    uint64_t own = 0, other = 0;
    int *local = members_of(comm, 0, &communicator->size, &own);
    communicator->peers = communicator->size;
    communicator->world = local;
    if (inter) {
        communicator->world = members_of(comm, 1, &count, &other);
        communicator->peers = count;
        free(local);
    }
    if (!communicator->world)
        communicator->peers = 0;
    communicator->rank = library.rank;
    /* both sides of an intercommunicator get the same name */
    communicator->name = sl_name_mix(sl_name_mix(base, own < other ? own : other), own < other ? other : own);
    if (!counted)
        communicator->name = sl_name_mix(communicator->name, sl_name_repeat(communicator->name));
    if (sl_probe_gate && (inter || communicator->peers > 1))
        communicator->channel = gate_channel(communicator->name, -1, -1, -1, SL_CHANNEL_COLLECTIVE);
    sl_communicator *entered = sl_communicator_add(SL_KEY(comm), communicator, fresh);
    if (entered == &sl_nowhere && sl_probe_gate)
        sl_gate_refuse(sl_probe_gate, SL_GATE_FULL);
    return entered;
}

/* Seen for the first time: the world, self, or one made by a call that is not wrapped. */
__attribute__((noinline)) static sl_communicator *discover(SL_COMM comm) {
    if (!atomic_load_explicit(&library.ready, memory_order_acquire))
        prepare();
    if (comm == library.null)
        return &sl_nowhere;
    if (comm != library.world && !sl_communicator_find(SL_KEY(library.world)))
        discover(library.world); /* its members must be known before any rank waits for them */
    const char *name = comm == library.world ? "world" : comm == library.self ? "self" : "unknown";
    return enter_communicator(comm, sl_name_text(name), *name != 'u', 0);
}

static inline sl_communicator *communicator_of(SL_COMM comm) {
    sl_communicator *communicator = sl_communicator_find(SL_KEY(comm));
    return communicator ? communicator : discover(comm);
}

static inline int world_rank(const sl_communicator *communicator, int peer) {
    if (peer >= 0)
        return peer < communicator->peers ? communicator->world[peer] : SL_PEER_UNKNOWN;
    return peer == SL_NO_RANK      ? SL_PEER_NONE
           : peer == SL_ANY_SOURCE ? SL_PEER_ANY
           : peer == SL_PROC_NULL  ? SL_PEER_NULL
           : peer == SL_ROOT       ? library.rank
                                   : SL_PEER_UNKNOWN;
}

static int own_rank(SL_COMM comm) {
    int rank = 0;
    library.comm_rank(comm, &rank);
    return rank;
}

/* ---- bytes ---- */

static inline uint64_t bytes_made(long long count, SL_TYPE type) {
    long long size = 0;
    if (count <= 0 || type == library.no_type || library.type_size(type, &size) != 0 || size < 0)
        return 0;
    return (uint64_t)count * (uint64_t)size;
}

/* The same before the call, when the library cannot be asked, because the type may be invalid: exact for the
 * predefined types that programs use most. */
static inline uint64_t bytes_described(int32_t *unit, long long count, SL_TYPE type) {
    for (int i = 0; i < SL_PLAIN_TYPES; i++)
        if (type == library.plain_type[i].type)
            return (uint64_t)(count > 0 ? count : 0) * (uint64_t)library.plain_type[i].size;
    *unit = SL_GATE_OWN_TYPE;
    return 0;
}

/* Bytes of a buffer, in wrappers: before the call (`over` is 0) and after it. */
#define b(count, type) (over ? bytes_made(count, type) : bytes_described(&unit, count, type))

static long long sum_int(const int *counts, uint64_t members) {
    long long sum = 0;
    for (uint64_t i = 0; i < members; i++)
        sum += counts[i];
    return sum;
}

static long long sum_large(const long long *counts, uint64_t members) {
    long long sum = 0;
    for (uint64_t i = 0; i < members; i++)
        sum += counts[i];
    return sum;
}

#define SL_SUM(counts, members)                                                                              \
    !over ? 0 : _Generic(*(counts), int : sum_int, default : sum_large)((const void *)(counts), members)

static uint64_t sum_types(const void *counts, int large, const SL_TYPE *types, uint64_t members) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < members; i++)
        sum += bytes_made(large ? ((const long long *)counts)[i] : ((const int *)counts)[i], types[i]);
    return sum;
}

#define SL_SUM_TYPES(counts, types, members)                                                                 \
    !over ? 0 : sum_types(counts, sizeof *(counts) > sizeof(int), types, members)

#include "notice/probe/mpi_gate.h"

/* ---- one call ---- */

/* Describes a call; its time begins when it has passed the gate (`begin`): the time of a hold is not part of
 * the call. */
static inline void before(sl_call *call, int number, const sl_communicator *communicator, int peer, int tag) {
    call->kind =
        SL_RECORD_CALL; /* one by one: a literal is made elsewhere first and copied in wider pieces */
    call->call = (uint8_t)number;
    call->thread = 0;
    call->tag = record_tag(tag);
    call->rank = library.rank;
    call->peer = world_rank(communicator, peer);
    call->communicator = communicator->name;
    call->bytes = 0;
    call->start = call->end = 0;
    call->device = -1;
    call->sequence = 0;
}

/* What a Sendrecv has received, in addition to what it has sent. */
static void received_too(sl_call call, const sl_communicator *communicator, int source, int tag, int done,
                         uint64_t room) {
    if (!done || source == SL_PROC_NULL)
        return;
    call.kind = SL_RECORD_COMPLETION;
    call.peer = world_rank(communicator, source);
    call.tag = record_tag(tag);
    call.bytes = room;
    sl_probe_write(&call);
}

/* A posted call is complete; `status` NULL: unknown. After an error (`result` not 0) it is not, and the
 * object that it should make does not exist. */
static void complete(sl_request *request, int64_t end, const void *status, int result) {
    if (request->wild || request->cancelled)
        settle(request, status);
    sl_narrowed_free(request->owned);
    if (request->created && result == 0) {
        SL_COMM created = *(SL_COMM *)request->created;
        if (created != library.null)
            enter_communicator(created, request->new_name, 1, 1);
    }
    request->call.kind = SL_RECORD_COMPLETION;
    request->call.end = request->call.start ? end : 0;
    sl_probe_write(&request->call);
}

/* After a call that posted: keeps it until completion. */
static void posted(sl_call *call, uint64_t bytes, SL_REQUEST handle, int persistent, void *created,
                   uint64_t name, const passage *p, sl_communicator *communicator) {
    sl_probe_after(call, bytes);
    sl_request request = {.call = *call,
                          .persistent = persistent,
                          .created = created,
                          .new_name = name,
                          .owned = persistent ? NULL : sl_narrowed_take(),
                          .channel = p->channel,
                          .number = p->number,
                          .wild = p->wild ? communicator : NULL};
    if (request.wild)
        atomic_fetch_add(&communicator->pending, 1);
    int entered = handle == library.no_request ? 0 : sl_request_add(SL_KEY(handle), &request);
    if (entered < 0)
        sl_probe_untracked();
    if (entered < 0 && request.wild)
        sl_gate_refuse(p->caller->gate, SL_GATE_FULL);
    else if (entered == 0 && !persistent)
        complete(&request, call->end, NULL, 0);
}

/* ---- large counts for libraries without them ----
 *
 * A program may check for MPI_Send_c by a weak symbol, and finds the probe's. If the library has none, the
 * call goes to MPI_Send: a count that does not fit becomes negative, and the library handles the error. */

static inline int narrow(intptr_t count) {
    return count >= 0 && count <= INT_MAX ? (int)count : -1;
}

static const int *narrow_all(const void *counts, SL_COMM comm) {
    const sl_communicator *communicator = communicator_of(comm);
    int count = communicator->peers > communicator->size ? communicator->peers : communicator->size;
    return sl_narrowed(counts, count);
}

/* One argument: counts are long long, arrays of counts and displacements their pointers, all others
 * unchanged. */
#define SL_NARROW(comm, x)                                                                                   \
    _Generic((x),                                                                                            \
        long long: narrow((intptr_t)(x)),                                                                    \
        const long long *: narrow_all((const void *)(uintptr_t)(x), comm),                                   \
        const long *: narrow_all((const void *)(uintptr_t)(x), comm),                                        \
        default: (x))
#define SL_MAP1(c, x) SL_NARROW(c, x)
#define SL_MAP2(c, x, ...) SL_NARROW(c, x), SL_MAP1(c, __VA_ARGS__)
#define SL_MAP3(c, x, ...) SL_NARROW(c, x), SL_MAP2(c, __VA_ARGS__)
#define SL_MAP4(c, x, ...) SL_NARROW(c, x), SL_MAP3(c, __VA_ARGS__)
#define SL_MAP5(c, x, ...) SL_NARROW(c, x), SL_MAP4(c, __VA_ARGS__)
#define SL_MAP6(c, x, ...) SL_NARROW(c, x), SL_MAP5(c, __VA_ARGS__)
#define SL_MAP7(c, x, ...) SL_NARROW(c, x), SL_MAP6(c, __VA_ARGS__)
#define SL_MAP8(c, x, ...) SL_NARROW(c, x), SL_MAP7(c, __VA_ARGS__)
#define SL_MAP9(c, x, ...) SL_NARROW(c, x), SL_MAP8(c, __VA_ARGS__)
#define SL_MAP10(c, x, ...) SL_NARROW(c, x), SL_MAP9(c, __VA_ARGS__)
#define SL_MAP11(c, x, ...) SL_NARROW(c, x), SL_MAP10(c, __VA_ARGS__)
#define SL_MAP12(c, x, ...) SL_NARROW(c, x), SL_MAP11(c, __VA_ARGS__)
#define SL_MAP13(c, x, ...) SL_NARROW(c, x), SL_MAP12(c, __VA_ARGS__)
#define SL_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, name, ...) name
#define SL_NARROW_ALL(c, ...)                                                                                \
    SL_PICK(__VA_ARGS__, SL_MAP13, SL_MAP12, SL_MAP11, SL_MAP10, SL_MAP9, SL_MAP8, SL_MAP7, SL_MAP6,         \
            SL_MAP5, SL_MAP4, SL_MAP3, SL_MAP2, SL_MAP1, )                                                   \
    (c, __VA_ARGS__)

/* Set before the table is read with large counts. */
#define SL_NO_FALL_BACK(prefix, name, args, comm)
#define SL_FALL_BACK_NARROW(prefix, name, args, comm)                                                        \
    if (sl_probe_is_error(address)) {                                                                        \
        int narrowed = SL_CAT(SL_WRAPPER_, SL_CAT(prefix, name))(SL_NARROW_ALL(comm, SL_LIST args));         \
        sl_narrowed_free(sl_narrowed_take());                                                                \
        return narrowed;                                                                                     \
    }

#include "notice/probe/mpi_wait.h"

#include "notice/probe/mpi_shared.h"

#include "notice/probe/mpi_windows.h"

/* ---- the wrappers, from the table ---- */

#include "notice/probe/mpi_rows.h"

#define SL_FILE_CALL(...) SL_FILE_ONE(MPI_, __VA_ARGS__) SL_FILE_ONE(PMPI_, __VA_ARGS__)
#define SL_CALL(...) SL_CALL_ONE(MPI_, __VA_ARGS__) SL_CALL_ONE(PMPI_, __VA_ARGS__)
#define SL_TAKE(...) SL_TAKE_ONE(MPI_, __VA_ARGS__) SL_TAKE_ONE(PMPI_, __VA_ARGS__)
#define SL_EXCHANGE(...) SL_EXCHANGE_ONE(MPI_, __VA_ARGS__) SL_EXCHANGE_ONE(PMPI_, __VA_ARGS__)
#define SL_WINDOW(...) SL_WINDOW_ONE(MPI_, __VA_ARGS__) SL_WINDOW_ONE(PMPI_, __VA_ARGS__)
#define SL_BRACKET(...) SL_BRACKET_ONE(MPI_, __VA_ARGS__) SL_BRACKET_ONE(PMPI_, __VA_ARGS__)
#define SL_POST(...) SL_POST_ONE(MPI_, __VA_ARGS__, 0) SL_POST_ONE(PMPI_, __VA_ARGS__, 0)
#define SL_INIT(...) SL_POST_ONE(MPI_, __VA_ARGS__, 1) SL_POST_ONE(PMPI_, __VA_ARGS__, 1)
#define SL_CREATE(...) SL_CREATE_ONE(MPI_, __VA_ARGS__) SL_CREATE_ONE(PMPI_, __VA_ARGS__)
#define SL_HAND(...) SL_HAND_ONE(MPI_, __VA_ARGS__) SL_HAND_ONE(PMPI_, __VA_ARGS__)
#define SL_GROUP(name, iname, params, args, peer_, bytes_)                                                   \
    SL_CALL(name, params, args, comm, peer_, SL_NO_TAG, bytes_)                                              \
    SL_POST(iname, (SL_LIST params, SL_REQUEST * request), (SL_LIST args, request), comm, peer_, SL_NO_TAG,  \
            bytes_)

#define SL_FALL_BACK SL_NO_FALL_BACK
#define SL_S(name) name
#include "notice/probe/mpi_table.h"
#undef SL_S
#undef SL_FALL_BACK
#define SL_FALL_BACK SL_FALL_BACK_NARROW
#define SL_S(name) name##_c
#define SL_LARGE
#include "notice/probe/mpi_table.h"
#undef SL_LARGE
#undef SL_S

/* clang-format off */
#undef SL_CALL
#undef SL_TAKE
#undef SL_EXCHANGE
#undef SL_WINDOW
#undef SL_BRACKET
#undef SL_FILE_CALL
#undef SL_POST
#undef SL_INIT
#undef SL_CREATE
#undef SL_HAND
#undef SL_GROUP
#define SL_BOTH(name) (void *)(uintptr_t)&SL_FUNCTION(MPI_, name), (void *)(uintptr_t)&SL_FUNCTION(PMPI_, name),
#define SL_CALL(name, ...) SL_BOTH(name)
#define SL_TAKE(name, ...) SL_BOTH(name)
#define SL_EXCHANGE(name, ...) SL_BOTH(name)
#define SL_WINDOW(name, ...) SL_BOTH(name)
#define SL_BRACKET(name, ...) SL_BOTH(name)
#define SL_FILE_CALL(name, ...) SL_BOTH(name)
#define SL_POST(name, ...) SL_BOTH(name)
#define SL_INIT(name, ...) SL_BOTH(name)
#define SL_CREATE(name, ...) SL_BOTH(name)
#define SL_HAND(name, ...) SL_BOTH(name)
#define SL_GROUP(name, iname, ...) SL_BOTH(name) SL_BOTH(iname)
void *const SL_WRAPPERS[] __attribute__((visibility("hidden"))) = {
#define SL_S(name) name
#include "notice/probe/mpi_table.h"
#undef SL_S
#define SL_S(name) name##_c
#define SL_LARGE
#include "notice/probe/mpi_table.h"
#undef SL_LARGE
};
/* clang-format on */
