/* The wrappers of MPI's calls, for one family of libraries: included once by mpi_openmpi.c and once by
 * mpi_mpich.c, which say what a handle is. Nothing of a library's layout is used beyond what its mpi.h makes
 * part of every compiled program: the width of handles and the values of constants (tests hold them against
 * the real mpi.h).
 *
 * Defined before: SL_FAMILY, SL_WRAPPERS, SL_HANDLE, SL_KEY(handle), SL_IN_PLACE, SL_PROC_NULL,
 * SL_ANY_SOURCE, SL_ROOT, SL_IGNORE (a status), SL_STATUS_SIZE, _SOURCE, _TAG, and SL_CONSTANT(openmpi name,
 * mpich value) for handles that are constants. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "notice/probe/choose.h"
#include "notice/probe/narrow.h"
#include "notice/probe/place.h"
#include "notice/probe/probe.h"
#include "notice/probe/request.h"

typedef SL_HANDLE SL_COMM, SL_TYPE, SL_REQUEST, SL_OP, SL_INFO, SL_MPI_GROUP, SL_MESSAGE, SL_WIN;

typedef void SL_STATUS; /* only source and tag are looked at */
typedef long SL_AINT;
typedef long long SL_LARGE_COUNT;

#define SL_NO_RANK INT_MIN
#define SL_NUMBERED INT_MIN
#define SL_NO_TAG INT_MIN
#define SL_ANY_TAG (-1)
#define SL_THREAD_SERIALIZED 2
#define SL_THREAD_MULTIPLE 3
#define SL_FEW 32 /* requests that are kept on the stack */

/* What is asked of the library itself, by its profiling names. */
static struct {
    _Atomic int ready;
    int rank;
    SL_COMM world, null, self;
    SL_REQUEST no_request;
    SL_TYPE no_type;
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
    int level, plain; /* of threads that MPI gave; what that makes of channels (sl_gate_channel) */
    SL_COMM quiet;    /* nobody sends here: a probe that found something would move nothing else */
    sl_gate_channel *local;
    _Atomic int cancels;
    int (*initialized)(int *);
    int (*comm_get_parent)(SL_COMM *);
    int (*query_thread)(int *);
    int (*is_thread_main)(int *);
    int (*comm_create)(SL_COMM, SL_MPI_GROUP, SL_COMM *);
    int (*comm_free)(SL_COMM *);
    int (*iprobe)(int, int, SL_COMM, int *, void *);
    int (*get_status)(SL_REQUEST, int *, void *);
    int (*test_cancelled)(const void *, int *);
} library = {.rank = -1};

#define SL_COMM_NULL library.null

static void *named(const char *name) {
    return sl_probe_real_or_error(name);
}

static void open_gate(void);

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

/* World ranks of one side of a communicator, malloc'ed, and a name mixed from them. */
static int *members_of(SL_COMM comm, int remote, int *count, uint64_t *name) {
    SL_MPI_GROUP group, world;
    if ((remote ? library.comm_remote_group(comm, &group) : library.comm_group(comm, &group)) != 0)
        return NULL;
    int *ranks = NULL, *theirs = NULL;
    if (library.group_size(group, count) == 0 && library.comm_group(library.world, &world) == 0) {
        ranks = malloc(((size_t)*count + 1) * sizeof *ranks);
        theirs = malloc(((size_t)*count + 1) * sizeof *theirs);
        for (int i = 0; ranks && i < *count; i++)
            ranks[i] = i;
        if (ranks && theirs)
            library.group_translate(group, *count, ranks, world, theirs);
        library.group_free(&world);
    }
    library.group_free(&group);
    free(ranks);
    *name = sl_name_text("members");
    for (int i = 0; theirs && i < *count; i++) {
        if (theirs[i] < 0)
            theirs[i] = SL_PEER_UNKNOWN;
        *name = sl_name_mix(*name, (uint64_t)theirs[i]);
    }
    return theirs;
}

static sl_gate_channel *gate_channel(uint64_t name, int source, int destination, int tag, uint32_t kind);

/* Enters a communicator whose name is `base` mixed with its members, and, when no parent counts it, with how
 * often there was one of that name before. */
static sl_place *enter_communicator(SL_COMM comm, uint64_t base, int counted, int fresh) {
    sl_place *place = calloc(1, sizeof *place);
    int inter = 0, count = 0;
    if (!place)
        return &sl_nowhere;
    library.comm_test_inter(comm, &inter);
    uint64_t own = 0, other = 0;
    int *local = members_of(comm, 0, &place->size, &own);
    place->peers = place->size;
    place->world = local;
    if (inter) {
        place->world = members_of(comm, 1, &count, &other);
        place->peers = count;
        free(local);
    }
    if (!place->world)
        place->peers = 0;
    place->rank = library.rank;
    /* both sides of an intercommunicator say the same name */
    place->name = sl_name_mix(sl_name_mix(base, own < other ? own : other), own < other ? other : own);
    if (!counted)
        place->name = sl_name_mix(place->name, sl_name_repeat(place->name));
    if (sl_probe_gate && (inter || place->peers > 1))
        place->channel = gate_channel(place->name, -1, -1, -1, SL_CHANNEL_COLLECTIVE);
    sl_place *entered = sl_place_add(SL_KEY(comm), place, fresh);
    if (entered == &sl_nowhere && sl_probe_gate)
        sl_gate_refuse(sl_probe_gate, SL_GATE_FULL);
    return entered;
}

/* Met for the first time: the world, itself, or one that was made by a call that is not wrapped. */
__attribute__((noinline)) static sl_place *discover(SL_COMM comm) {
    if (!atomic_load_explicit(&library.ready, memory_order_acquire))
        prepare();
    if (comm == library.null)
        return &sl_nowhere;
    if (comm != library.world && !sl_place_find(SL_KEY(library.world)))
        discover(library.world); /* its members must be known before anybody waits for them */
    const char *name = comm == library.world ? "world" : comm == library.self ? "self" : "unknown";
    return enter_communicator(comm, sl_name_text(name), *name != 'u', 0);
}

static inline sl_place *place_of(SL_COMM comm) {
    sl_place *place = sl_place_find(SL_KEY(comm));
    return place ? place : discover(comm);
}

static inline int world_rank(const sl_place *place, int peer) {
    if (peer >= 0)
        return peer < place->peers ? place->world[peer] : SL_PEER_UNKNOWN;
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

static inline uint64_t b(long long count, SL_TYPE type) {
    long long size = 0;
    if (count <= 0 || type == library.no_type || library.type_size(type, &size) != 0 || size < 0)
        return 0;
    return (uint64_t)count * (uint64_t)size;
}

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
    _Generic(*(counts), int : sum_int, default : sum_large)((const void *)(counts), members)

static uint64_t sum_types(const void *counts, int large, const SL_TYPE *types, uint64_t members) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < members; i++)
        sum += b(large ? ((const long long *)counts)[i] : ((const int *)counts)[i], types[i]);
    return sum;
}

#define SL_SUM_TYPES(counts, types, members) sum_types(counts, sizeof *(counts) > sizeof(int), types, members)

#include "notice/probe/mpi_gate.h"

/* ---- one call ---- */

/* What a call is; its time begins when it has passed the gate (`begin`): being held is no time of the call.
 */
static inline void before(sl_call *call, int number, const sl_place *place, int peer, int tag) {
    *call = (sl_call){.kind = SL_RECORD_CALL,
                      .call = (uint8_t)number,
                      .tag = record_tag(tag),
                      .rank = library.rank,
                      .peer = world_rank(place, peer),
                      .communicator = place->name,
                      .device = -1};
}

static inline void begin(sl_call *call) {
    call->start = sl_probe_now();
}

/* After it. */
static inline void after(sl_call *call, uint64_t bytes) {
    call->end = call->start ? sl_probe_now() : 0;
    call->bytes = bytes;
    sl_probe_write(call);
}

/* A posted call is complete; `status` NULL: not known. */
static void complete(sl_request *request, int64_t end, const void *status) {
    if (request->wild || request->cancelled)
        settle(request, status);
    sl_narrowed_free(request->owned);
    if (request->created) {
        SL_COMM created = *(SL_COMM *)request->created;
        if (created != library.null)
            enter_communicator(created, request->new_name, 1, 1);
    }
    request->call.kind = SL_RECORD_COMPLETION;
    request->call.end = request->call.start ? end : 0;
    sl_probe_write(&request->call);
}

/* After a call that posted: keeps it until it is complete. */
static void posted(sl_call *call, uint64_t bytes, SL_REQUEST handle, int persistent, void *created,
                   uint64_t name, const passage *p, sl_place *place) {
    after(call, bytes);
    sl_request request = {.call = *call,
                          .persistent = persistent,
                          .created = created,
                          .new_name = name,
                          .owned = persistent ? NULL : sl_narrowed_take(),
                          .channel = p->channel,
                          .number = p->number,
                          .wild = p->wild ? place : NULL};
    if (request.wild)
        atomic_fetch_add(&place->pending, 1);
    int entered = handle == library.no_request ? 0 : sl_request_add(SL_KEY(handle), &request);
    if (entered < 0)
        sl_probe_untracked();
    if (entered < 0 && request.wild)
        sl_gate_refuse(p->caller->gate, SL_GATE_FULL);
    else if (entered == 0 && !persistent)
        complete(&request, call->end, NULL);
}

/* ---- large counts where the library has none ----
 *
 * A program may ask by a weak symbol whether there is an MPI_Send_c, and finds the probe's. In a library
 * without it the call goes to MPI_Send: a count that does not fit becomes negative, which the library refuses
 * as it sees fit. */

static inline int narrow(intptr_t count) {
    return count >= 0 && count <= INT_MAX ? (int)count : -1;
}

static const int *narrow_all(const void *counts, SL_COMM comm) {
    const sl_place *place = place_of(comm);
    int count = place->peers > place->size ? place->peers : place->size;
    return sl_narrowed(counts, count);
}

/* One argument: counts are long long, arrays of counts and displacements their pointers, all else stays. */
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

/* ---- the Wait and Test families: what they complete is known only by the handles they are given ---- */

/* The call itself: nobody's peer, and as its tag the number of requests that it completed. */
static void waited(sl_call *call, int completed) {
    call->tag = completed;
    after(call, 0);
}

/* Room for the statuses of a few requests. */
typedef union few_statuses {
    char bytes[SL_FEW * SL_STATUS_SIZE];
    uint64_t align;
} few_statuses;

/* Announces the start of a persistent request. */
static void announce_start(sl_gate_caller *caller, SL_REQUEST handle) {
    sl_request *request = sl_request_find(SL_KEY(handle));
    int known = request && request->persistent && request->channel;
    uint64_t number = sl_gate_announce(caller, known ? request->channel : library.local);
    if (known)
        request->number = number;
}

/* It has passed. */
static void pass_start(sl_gate_caller *caller, SL_REQUEST handle) {
    const sl_request *request = sl_request_find(SL_KEY(handle));
    if (request && request->persistent && request->wild)
        sl_gate_wild_posted(caller->gate);
}

/* Starts pass together; more than a gate lists go in parts, and in parts to the library as well. */
static sl_gate_caller *pass_starts(int count, const SL_REQUEST *requests) {
    sl_gate_caller *caller = sl_probe_gated();
    for (int i = 0; caller && i < count; i++)
        announce_start(caller, requests[i]);
    if (caller && count > 0)
        sl_gate_pass(caller, SL_GATE_POST);
    for (int i = 0; caller && i < count; i++)
        pass_start(caller, requests[i]);
    return count > 0 ? caller : NULL;
}

static void started(SL_REQUEST handle, int number, int64_t start) {
    sl_call call;
    if (!sl_request_start(SL_KEY(handle), start, &call))
        before(&call, 0, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    call.kind = SL_RECORD_CALL;
    call.call = (uint8_t)number;
    call.start = start;
    after(&call, call.bytes);
}

static int start_one(int (*real)(SL_REQUEST *), SL_REQUEST *request) {
    sl_gate_caller *caller = pass_starts(1, request);
    int64_t start = sl_probe_now();
    int result = real(request);
    started(*request, SL_CALL_MPI_Start, start);
    if (caller)
        sl_gate_leave(caller);
    return result;
}

static int start_all(int (*real)(int, SL_REQUEST *), int count, SL_REQUEST *requests) {
    int result = 0, first = 0;
    do {
        int part = count - first < SL_GATE_ENTRIES ? count - first : SL_GATE_ENTRIES;
        sl_gate_caller *caller = pass_starts(part, requests + first);
        int64_t start = sl_probe_now();
        result = real(part, requests + first);
        for (int i = first; i < first + part; i++)
            started(requests[i], SL_CALL_MPI_Startall, start);
        if (caller)
            sl_gate_leave(caller);
        first += part;
    } while (result == 0 && first < count);
    return result;
}

/* Taken out before the library can give the handle to another thread. */
static int wait_one(int (*real)(SL_REQUEST *, void *), SL_REQUEST *request, void *status) {
    sl_call call;
    sl_request done;
    few_statuses few;
    before(&call, SL_CALL_MPI_Wait, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    passage p = pass_wait(1, request, SL_GATE_BLOCK);
    begin(&call);
    int nothing = *request == library.no_request;
    int known = !nothing && sl_request_complete(SL_KEY(*request), &done);
    void *used = known && (done.wild || done.cancelled) ? statuses_for(1, status, few.bytes) : status;
    int result = real(request, used);
    waited(&call, !nothing);
    if (known)
        complete(&done, call.end, result == 0 ? status_at(used, 0) : NULL);
    leave(&p);
    return result;
}

/* One of the requests that a Waitall completes, taken out before. */
typedef struct taken {
    int known;
    sl_request request;
} taken;

static int take_all(int count, const SL_REQUEST *requests, taken *done) {
    int completed = 0;
    for (int i = 0; i < count; i++) {
        int given = requests[i] != library.no_request;
        completed += given;
        done[i].known = given && sl_request_complete(SL_KEY(requests[i]), &done[i].request);
    }
    return completed;
}

static int wait_all(int (*real)(int, SL_REQUEST *, void *), int count, SL_REQUEST *requests, void *statuses) {
    sl_call call;
    taken few[SL_FEW], *done = few;
    few_statuses own;
    before(&call, SL_CALL_MPI_Waitall, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    if (count > SL_FEW && !(done = malloc((size_t)count * sizeof *done)))
        return real(count, requests, statuses);
    passage p = pass_wait(count, requests, SL_GATE_BLOCK);
    begin(&call);
    void *used = statuses_for(count, statuses, own.bytes);
    int completed = take_all(count, requests, done);
    int result = real(count, requests, used);
    waited(&call, completed);
    for (int i = 0; i < count; i++)
        if (done[i].known)
            complete(&done[i].request, call.end, result == 0 ? status_at(used, i) : NULL);
    leave(&p);
    statuses_done(used, statuses, own.bytes);
    if (done != few)
        free(done);
    return result;
}

static void complete_handle(uint64_t handle, int64_t end, const void *status) {
    sl_request done;
    if (sl_request_complete(handle, &done))
        complete(&done, end, status);
}

/* The handles as they were, for a call that may set them to null; `few` has room for SL_FEW. NULL: no memory.
 */
static SL_REQUEST *kept_handles(int count, const SL_REQUEST *requests, SL_REQUEST *few) {
    SL_REQUEST *kept = count <= SL_FEW ? few : malloc((size_t)count * sizeof *kept);
    if (kept && count > 0)
        memcpy(kept, requests, (size_t)count * sizeof *kept);
    return kept;
}

/* indices[0..done) of `kept` have completed in this call; statuses are in the order of the indices. */
static void completed_some(sl_call *call, const SL_REQUEST *kept, int done, const int *indices,
                           const void *statuses) {
    if (!kept || done <= 0)
        return;
    waited(call, done);
    for (int i = 0; i < done; i++)
        complete_handle(SL_KEY(kept[indices[i]]), call->end, status_at(statuses, i));
}

/* What the calls that complete one or some of several requests have in common; `blocks`: Wait..., else
 * Test... */
typedef struct several {
    sl_call call;
    passage p;
    SL_REQUEST few[SL_FEW], *kept;
    few_statuses own;
    void *given, *used;
} several;

static inline void several_begin(several *s, int number, int count, const SL_REQUEST *requests,
                                 void *statuses, int asked, sl_gate_mode mode) {
    s->kept = kept_handles(count, requests, s->few);
    before(&s->call, number, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    s->p = pass_wait(count, requests, mode);
    s->given = statuses;
    s->used = statuses_for(asked, statuses, s->own.bytes);
    begin(&s->call);
}

static inline void several_end(several *s) {
    leave(&s->p);
    statuses_done(s->used, s->given, s->own.bytes);
    if (s->kept != s->few)
        free(s->kept);
}

static int wait_any(int (*real)(int, SL_REQUEST *, int *, void *), int count, SL_REQUEST *requests,
                    int *index, void *status) {
    several s;
    several_begin(&s, SL_CALL_MPI_Waitany, count, requests, status, 1, SL_GATE_BLOCK);
    int result = real(count, requests, index, s.used);
    completed_some(&s.call, s.kept, *index >= 0 && *index < count, index, s.used);
    several_end(&s);
    return result;
}

static int complete_some(int number, sl_gate_mode mode, int (*real)(int, SL_REQUEST *, int *, int *, void *),
                         int count, SL_REQUEST *requests, int *done, int *indices, void *statuses) {
    several s;
    several_begin(&s, number, count, requests, statuses, count, mode);
    int result = real(count, requests, done, indices, s.used);
    completed_some(&s.call, s.kept, *done, indices, s.used);
    several_end(&s);
    return result;
}

static int wait_some(int (*real)(int, SL_REQUEST *, int *, int *, void *), int count, SL_REQUEST *requests,
                     int *done, int *indices, void *statuses) {
    return complete_some(SL_CALL_MPI_Waitsome, SL_GATE_BLOCK, real, count, requests, done, indices, statuses);
}

static int test_some(int (*real)(int, SL_REQUEST *, int *, int *, void *), int count, SL_REQUEST *requests,
                     int *done, int *indices, void *statuses) {
    return complete_some(SL_CALL_MPI_Testsome, SL_GATE_POST, real, count, requests, done, indices, statuses);
}

static int test_any(int (*real)(int, SL_REQUEST *, int *, int *, void *), int count, SL_REQUEST *requests,
                    int *index, int *flag, void *status) {
    several s;
    several_begin(&s, SL_CALL_MPI_Testany, count, requests, status, 1, SL_GATE_POST);
    int result = real(count, requests, index, flag, s.used);
    completed_some(&s.call, s.kept, *flag && *index >= 0 && *index < count, index, s.used);
    several_end(&s);
    return result;
}

static int test_one(int (*real)(SL_REQUEST *, int *, void *), SL_REQUEST *request, int *flag, void *status) {
    sl_call call;
    few_statuses few;
    SL_REQUEST kept = *request;
    before(&call, SL_CALL_MPI_Test, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    passage p = pass_wait(1, request, SL_GATE_POST);
    begin(&call);
    void *used = statuses_for(1, status, few.bytes);
    int result = real(request, flag, used);
    if (*flag && kept != library.no_request) {
        waited(&call, 1);
        complete_handle(SL_KEY(kept), call.end, status_at(used, 0));
    }
    leave(&p);
    return result;
}

static int test_all(int (*real)(int, SL_REQUEST *, int *, void *), int count, SL_REQUEST *requests, int *flag,
                    void *statuses) {
    several s;
    several_begin(&s, SL_CALL_MPI_Testall, count, requests, statuses, count, SL_GATE_POST);
    int result = real(count, requests, flag, s.used), completed = 0;
    for (int i = 0; s.kept && *flag && i < count; i++)
        completed += s.kept[i] != library.no_request;
    if (s.kept && *flag)
        waited(&s.call, completed);
    for (int i = 0; s.kept && *flag && i < count; i++)
        if (s.kept[i] != library.no_request)
            complete_handle(SL_KEY(s.kept[i]), s.call.end, status_at(s.used, i));
    several_end(&s);
    return result;
}

/* Completes nothing, so it is not recorded; but a program may wait by it. */
static int look_at_request(int (*real)(SL_REQUEST, int *, void *), SL_REQUEST request, int *flag,
                           void *status) {
    passage p = pass_wait(1, &request, SL_GATE_POST);
    int result = real(request, flag, status);
    leave(&p);
    return result;
}

static int probe_now(int (*real)(int, int, SL_COMM, int *, void *), int peer, int tag, SL_COMM comm,
                     int *flag, void *status) {
    sl_call call;
    sl_place *place = place_of(comm);
    before(&call, SL_CALL_MPI_Iprobe, place, peer, tag);
    passage p = pass_look(&call, place);
    begin(&call);
    int result = real(peer, tag, comm, flag, status);
    if (result == 0 && *flag)
        after(&call, 0);
    leave(&p);
    return result;
}

/* What it finds it has taken, which counts as a receive. */
static int probe_message_now(int (*real)(int, int, SL_COMM, int *, SL_MESSAGE *, void *), int peer, int tag,
                             SL_COMM comm, int *flag, SL_MESSAGE *message, void *status) {
    sl_call call;
    few_statuses few;
    sl_place *place = place_of(comm);
    before(&call, SL_CALL_MPI_Improbe, place, peer, tag);
    passage p = pass_look(&call, place);
    begin(&call);
    void *used = p.caller && status == SL_IGNORE ? few.bytes : status;
    int result = real(peer, tag, comm, flag, message, used);
    if (result == 0 && *flag) {
        after(&call, 0);
        if (p.caller) {
            sl_gate_wild_posted(p.caller->gate);
            matched(NULL, place, used);
        }
    }
    leave(&p);
    return result;
}

static int free_request(int (*real)(SL_REQUEST *), SL_REQUEST *request) {
    sl_request *gone = sl_request_find(SL_KEY(*request));
    if (gone && gone->wild) {
        atomic_fetch_sub(&gone->wild->pending, 1);
        if ((!gone->persistent || gone->active) && sl_probe_self.gate.gate)
            sl_gate_refuse(sl_probe_self.gate.gate, SL_GATE_CANCELLED); /* nobody will learn what it took */
    }
    sl_request_remove(SL_KEY(*request));
    return real(request);
}

static int cancel_request(int (*real)(SL_REQUEST *), SL_REQUEST *request) {
    sl_request *cancelled = sl_request_find(SL_KEY(*request));
    if (cancelled)
        cancelled->cancelled = 1;
    atomic_fetch_add_explicit(&library.cancels, 1, memory_order_relaxed);
    return real(request);
}

/* ---- communicators come and go ---- */

static int free_communicator(int (*real)(SL_COMM *), SL_COMM *comm) {
    sl_call call = {.kind = SL_RECORD_CALL};
    passage p = pass(&call, place_of(*comm), WAY_TOGETHER, SL_GATE_BLOCK);
    sl_place_remove(SL_KEY(*comm));
    int result = real(comm);
    leave(&p);
    return result;
}

static uint64_t next_child(sl_place *parent) {
    return sl_name_mix(parent->name,
                       1 + atomic_fetch_add_explicit(&parent->children, 1, memory_order_relaxed));
}

static int post_duplicate(int (*real)(SL_COMM, SL_COMM *, SL_REQUEST *), SL_COMM comm, SL_COMM *created,
                          SL_REQUEST *request) {
    sl_call call;
    sl_place *place = place_of(comm);
    uint64_t name = next_child(place);
    before(&call, SL_CALL_MPI_Comm_idup, place, SL_NO_RANK, SL_NO_TAG);
    passage p = pass(&call, place, WAY_TOGETHER, SL_GATE_POST);
    begin(&call);
    int result = real(comm, created, request);
    if (result == 0)
        posted(&call, 0, *request, 0, created, name, &p, place);
    else
        after(&call, 0);
    leave(&p);
    return result;
}

/* The program makes no call after this one. It parks here like anywhere; then its rank counts as finished,
 * for inside nobody owes anything to anybody that could be counted. */
static int finalize(int (*real)(void)) {
    passage p = pass_alone();
    sl_probe_gate_finish();
    if (p.caller && library.quiet != library.null)
        library.comm_free(&library.quiet);
    library.quiet = library.null;
    leave(&p);
    return real();
}

/* ---- windows ---- */

/* A window is a communicator of its own: its fences are collectives. */
static void enter_window(SL_WIN window, const sl_place *parent, uint64_t numbered) {
    sl_place *place = calloc(1, sizeof *place);
    if (!place)
        return;
    place->name = sl_name_mix(numbered, sl_name_text("window"));
    place->rank = library.rank;
    place->size = place->peers = parent->peers;
    if (sl_probe_gate && parent->channel)
        place->channel = gate_channel(place->name, -1, -1, -1, SL_CHANNEL_COLLECTIVE);
    sl_place_add(SL_KEY(window), place, 1);
}

static passage pass_window(SL_WIN window) {
    static const sl_call call = {.kind = SL_RECORD_CALL};
    const sl_place *place = sl_place_find(SL_KEY(window));
    return pass(&call, place ? place : &sl_nowhere, WAY_TOGETHER, SL_GATE_BLOCK);
}

static int free_window(int (*real)(SL_WIN *), SL_WIN *window) {
    passage p = pass_window(*window);
    sl_place_remove(SL_KEY(*window));
    int result = real(window);
    leave(&p);
    return result;
}

/* Between fences a rank may park: others reach its window all the same, for a parked thread keeps the library
 * going. A fence ends one region and opens the next, so there would be no other place. */
static int fence_window(int (*real)(int, SL_WIN), int assertion, SL_WIN window) {
    passage p = pass_window(window);
    int result = real(assertion, window);
    leave(&p);
    return result;
}

/* Whoever holds a lock does not park: others may wait for it inside their calls. */
static void forbid(void) {
    sl_gate_caller *caller = sl_probe_gated();
    if (caller)
        sl_gate_forbid(caller, library.local);
}

static void allow(void) {
    sl_gate_caller *caller = sl_probe_gated();
    if (caller)
        sl_gate_allow(caller);
}

static int lock_window(int (*real)(int, int, int, SL_WIN), int type, int rank, int assertion, SL_WIN window) {
    forbid();
    int result = real(type, rank, assertion, window);
    if (result != 0)
        allow();
    return result;
}

static int unlock_window(int (*real)(int, SL_WIN), int rank, SL_WIN window) {
    int result = real(rank, window);
    allow();
    return result;
}

static int lock_all_window(int (*real)(int, SL_WIN), int assertion, SL_WIN window) {
    forbid();
    int result = real(assertion, window);
    if (result != 0)
        allow();
    return result;
}

static int unlock_all_window(int (*real)(SL_WIN), SL_WIN window) {
    int result = real(window);
    allow();
    return result;
}

/* Start, complete, post and wait pair ranks by groups that no number counts. */
static int expose_window(int (*real)(SL_MPI_GROUP, int, SL_WIN), SL_MPI_GROUP group, int assertion,
                         SL_WIN window) {
    const sl_gate_caller *caller = sl_probe_gated();
    if (caller)
        sl_gate_refuse(caller->gate, SL_GATE_EXPOSED);
    return real(group, assertion, window);
}

/* After a creation succeeded: `key` is SL_NUMBERED when all members of the parent take part, and `numbered`
 * its name; otherwise only the members of the new communicator do, and the name is made of them and the tag.
 */
static void created_communicator(SL_COMM created, int key, uint64_t numbered) {
    if (created != library.null)
        enter_communicator(created,
                           key == SL_NUMBERED ? numbered : sl_name_mix(sl_name_text("tagged"), (uint64_t)key),
                           key == SL_NUMBERED, 1);
}

/* ---- the wrappers, from the table ---- */

#define SL_LIST(...) __VA_ARGS__
#define SL_JOIN(a, b) a##b
#define SL_CAT(a, b) SL_JOIN(a, b)

#define SL_EXPORTED(prefix, name) SL_CAT(prefix, SL_S(name))
#define SL_FUNCTION(prefix, name) SL_CAT(SL_WRAPPER_, SL_EXPORTED(prefix, name))
#define SL_NAMED(x) SL_NAMED_(x)
#define SL_NAMED_(x) #x

/* `real`: found once; whoever finds it finds the same. */
#define SL_REAL(prefix, name, params)                                                                        \
    static _Atomic(void *) found;                                                                            \
    void *address = atomic_load_explicit(&found, memory_order_relaxed);                                      \
    if (!address) {                                                                                          \
        address = sl_probe_real_or_error(SL_NAMED(SL_EXPORTED(prefix, name)));                               \
        atomic_store_explicit(&found, address, memory_order_relaxed);                                        \
    }                                                                                                        \
    int(*real) params = (int(*) params)(uintptr_t)address;

/* What wrappers begin with: `place`, `members`, and `call` that says what is called. */
#define SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
    sl_place *place = place_of(comm_);                                                                       \
    uint64_t members = (uint64_t)place->peers;                                                               \
    sl_call call;                                                                                            \
    (void)members;                                                                                           \
    before(&call, SL_CALL_MPI_##name, place, peer_, tag_);

#define SL_CALL_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_)                                  \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        SL_FALL_BACK(prefix, name, args, comm_)                                                              \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
        passage p = pass(&call, place, way_of(SL_CALL_MPI_##name), SL_GATE_BLOCK);                           \
        begin(&call);                                                                                        \
        int result = real args;                                                                              \
        after(&call, result == 0 ? (uint64_t)(bytes_) : 0);                                                  \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

/* `takes`: the call has taken the message that its status tells of. */
#define SL_TAKING_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_, pass_, takes)                  \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        SL_FALL_BACK(prefix, name, args, comm_)                                                              \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
        few_statuses own;                                                                                    \
        passage p = pass_;                                                                                   \
        status = status_for(&p, status, own.bytes);                                                          \
        begin(&call);                                                                                        \
        int result = real args;                                                                              \
        after(&call, result == 0 ? (uint64_t)(bytes_) : 0);                                                  \
        if (p.wild)                                                                                          \
            matched(p.channel, place, (takes) && result == 0 ? status : NULL);                               \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_TAKE_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_)                                  \
    SL_TAKING_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_,                                    \
                  pass(&call, place, way_of(SL_CALL_MPI_##name), SL_GATE_BLOCK),                             \
                  way_of(SL_CALL_MPI_##name) == WAY_RECEIVE)

#define SL_EXCHANGE_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_)                              \
    SL_TAKING_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_,                                    \
                  pass_exchange(&call, place, source, receive_tag), 1)

#define SL_POST_ONE(prefix, name, params, args, comm_, peer_, tag_, bytes_, persistent)                      \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        SL_FALL_BACK(prefix, name, args, comm_)                                                              \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, comm_, peer_, tag_)                                                                   \
        passage p = (persistent) ? name_start(&call, place, way_of(SL_CALL_MPI_##name))                      \
                                 : pass(&call, place, way_of(SL_CALL_MPI_##name), SL_GATE_POST);             \
        begin(&call);                                                                                        \
        int result = real args;                                                                              \
        if (result == 0)                                                                                     \
            posted(&call, (uint64_t)(bytes_), *request, persistent, NULL, 0, &p, place);                     \
        else {                                                                                               \
            after(&call, 0);                                                                                 \
            if (p.wild && !(persistent))                                                                     \
                matched(p.channel, place, NULL);                                                             \
        }                                                                                                    \
        if (!(persistent))                                                                                   \
            leave(&p);                                                                                       \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_CREATE_ONE(prefix, name, params, args, parent_, created_, key_)                                   \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        SL_BEGIN(name, parent_, SL_NO_RANK, SL_NO_TAG)                                                       \
        uint64_t numbered = (key_) == SL_NUMBERED ? next_child(place) : 0;                                   \
        passage p = pass(&call, place, way_of(SL_CALL_MPI_##name), SL_GATE_BLOCK);                           \
        begin(&call);                                                                                        \
        int result = real args;                                                                              \
        after(&call, 0);                                                                                     \
        if (result == 0)                                                                                     \
            created_communicator(*(created_), key_, numbered);                                               \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_WINDOW_ONE(prefix, name, params, args)                                                            \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        sl_place *place = place_of(comm);                                                                    \
        uint64_t numbered = next_child(place);                                                               \
        const sl_call call = {.kind = SL_RECORD_CALL};                                                       \
        passage p = pass(&call, place, WAY_TOGETHER, SL_GATE_BLOCK);                                         \
        int result = real args;                                                                              \
        if (result == 0)                                                                                     \
            enter_window(*win, place, numbered);                                                             \
        leave(&p);                                                                                           \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_HAND_ONE(prefix, name, params, args, body)                                                        \
    static int SL_FUNCTION(prefix, name) params {                                                            \
        SL_REAL(prefix, name, params)                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real args;                                                                                \
        int result = body(real, SL_LIST args);                                                               \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

#define SL_BRACKET_ONE(prefix, name, body)                                                                   \
    static int SL_FUNCTION(prefix, name)(void) {                                                             \
        SL_REAL(prefix, name, (void))                                                                        \
        if (!sl_probe_enter())                                                                               \
            return real();                                                                                   \
        int result = body(real);                                                                             \
        sl_probe_leave();                                                                                    \
        return result;                                                                                       \
    }

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
