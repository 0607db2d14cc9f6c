#include "notice/probe/reported_calls.h"

#include <pthread.h>
#include <stdlib.h>

#include "notice/probe/communicators.h"
#include "notice/probe/probe.h"

#define EXPORTED __attribute__((visibility("default")))
#define NAMED_TAGS 128 /* larger tags share channels, as MPI's do (mpi_gate.h) */

typedef struct reported_group {
    struct reported_group *next;
    uint64_t name;
    int number, size;
    sl_gate_channel *channel; /* of its collectives; NULL: no other member, or no gate */
} reported_group;

typedef struct reported_request {
    sl_call call;
    sl_gate_channel *channel; /* NULL: no gate, or no other rank takes part */
    uint64_t number;
    int complete;
} reported_request;

/* The process: groups are only added, so readers need no lock. */
static struct {
    pthread_mutex_t lock;
    reported_group *_Atomic groups;
    int count, rank;
    sl_gate_channel *local;
    void *(*release)(void); /* NULL: the caller holds no lock */
    void (*take)(void *);
} reported = {.lock = PTHREAD_MUTEX_INITIALIZER, .rank = -1};

/* What this thread has begun. */
static __thread struct {
    sl_call call;
    sl_gate_caller *caller;
    sl_gate_channel *channel;
    uint64_t number;
    int posted;
} under_way __attribute__((tls_model("initial-exec")));

EXPORTED int sl_reported_version(void) {
    return SL_REPORTED_VERSION;
}

EXPORTED int sl_reported_call(const char *name) {
    return sl_call_of(name);
}

EXPORTED void sl_reported_pauses(void *(*release)(void), void (*take)(void *)) {
    reported.take = take;
    reported.release = release;
}

static void open_gate(int rank) {
    sl_gate *gate = sl_probe_gate ? sl_probe_gate : sl_probe_gate_new(rank);
    if (!gate)
        return;
    sl_channel_key key = {sl_name_text("gloo"), -1, rank, -1, SL_CHANNEL_LOCAL};
    reported.local = sl_gate_channel_of(gate, &key);
    if (!sl_probe_gate)
        sl_probe_gate_open(gate, NULL);
}

EXPORTED int sl_reported_world(int rank, int size) {
    if (!sl_probe_enter())
        return 0;
    sl_probe_leave();
    int known = atomic_load_explicit(&sl_probe_self.file->rank, memory_order_relaxed);
    uint32_t family = atomic_load_explicit(&sl_probe_self.file->family, memory_order_relaxed);
    if (known >= 0 && family != SL_FAMILY_NONE && known != rank)
        return 0; /* peers would be reported in another world than MPI's */
    if (known != rank || family == SL_FAMILY_NONE)
        sl_probe_world(rank, size, (int)family);
    pthread_mutex_lock(&reported.lock);
    if (reported.rank != rank)
        open_gate(rank);
    reported.rank = rank;
    pthread_mutex_unlock(&reported.lock);
    return 1;
}

static reported_group *find(int number) {
    reported_group *group = atomic_load_explicit(&reported.groups, memory_order_acquire);
    while (group && group->number != number)
        group = group->next;
    return group;
}

static reported_group *add_group(uint64_t name, int count) {
    reported_group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    sl_channel_key key = {name, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    *group =
        (reported_group){.next = reported.groups, .name = name, .number = reported.count++, .size = count};
    if (sl_probe_gate && count > 1)
        group->channel = sl_gate_channel_of(sl_probe_gate, &key);
    atomic_store_explicit(&reported.groups, group, memory_order_release);
    return group;
}

EXPORTED int sl_reported_group(const char *name, const int32_t *ranks, int count) {
    uint64_t key = sl_name_mix(sl_name_text("gloo"), sl_name_text(name));
    for (int i = 0; i < count; i++)
        key = sl_name_mix(key, (uint64_t)ranks[i] + 1);
    pthread_mutex_lock(&reported.lock);
    reported_group *group = reported.groups;
    while (group && group->name != key)
        group = group->next;
    if (!group)
        group = add_group(key, count);
    pthread_mutex_unlock(&reported.lock);
    return group ? group->number : -1;
}

static int is_message(int call) {
    return call == SL_CALL_glooSend || call == SL_CALL_glooRecv || call == SL_CALL_glooIsend ||
           call == SL_CALL_glooIrecv;
}

/* The channel on which the call counts; NULL: no other rank takes part, or it cannot be counted. */
static sl_gate_channel *channel_of(const reported_group *group, int call, int peer, int tag) {
    if (!is_message(call))
        return group->channel;
    if (peer < 0)
        sl_gate_refuse(sl_probe_gate, SL_GATE_ANYBODY);
    if (peer < 0 || peer == reported.rank)
        return NULL;
    int sends = call == SL_CALL_glooSend || call == SL_CALL_glooIsend;
    sl_channel_key key = {group->name, sends ? reported.rank : peer, sends ? peer : reported.rank,
                          tag < NAMED_TAGS ? tag : NAMED_TAGS + tag % 64, SL_CHANNEL_POINT};
    return sl_gate_channel_of(sl_probe_gate, &key);
}

/* Lets the announced call pass; the caller's lock is given up only if it must wait. */
static void pass_gate(sl_gate_mode mode) {
    if (sl_gate_try(under_way.caller, mode, 0))
        return;
    void *lock = reported.release ? reported.release() : NULL;
    sl_gate_pass(under_way.caller, mode);
    if (reported.release)
        reported.take(lock);
}

static void pass(const reported_group *group, int call, int peer, int tag) {
    under_way.caller = sl_probe_gated();
    under_way.channel = NULL;
    if (!under_way.caller)
        return;
    under_way.channel = channel_of(group, call, peer, tag);
    under_way.number =
        sl_gate_announce(under_way.caller, under_way.channel ? under_way.channel : reported.local);
    pass_gate(under_way.posted ? SL_GATE_POST : SL_GATE_BLOCK);
}

EXPORTED int sl_reported_begin(int call, int number, int peer, int tag, uint64_t bytes) {
    const reported_group *group = find(number);
    if (!group || call < SL_CALL_glooSend || call > SL_CALL_glooIscatter || !sl_probe_enter())
        return 0;
    under_way.posted = call >= SL_CALL_glooIsend;
    pass(group, call, peer, tag);
    under_way.call = (sl_call){.kind = SL_RECORD_CALL,
                               .call = (uint8_t)call,
                               .tag = tag,
                               .rank = reported.rank,
                               .peer = peer,
                               .communicator = group->name,
                               .bytes = bytes,
                               .device = -1,
                               .start = sl_probe_now()};
    sl_probe_describe(&under_way.call, bytes, SL_GATE_BYTES);
    return 1;
}

static reported_request *request_of(void) {
    reported_request *request = malloc(sizeof *request);
    if (request)
        *request = (reported_request){
            .call = under_way.call, .channel = under_way.channel, .number = under_way.number};
    return request;
}

EXPORTED void *sl_reported_end(int ok) {
    sl_call *call = &under_way.call;
    call->end = call->start ? sl_probe_now() : 0;
    if (!ok)
        call->bytes = 0;
    void *request = under_way.posted && ok ? request_of() : NULL;
    sl_probe_write(call);
    if (under_way.caller)
        sl_gate_leave(under_way.caller);
    sl_probe_leave();
    return request;
}

EXPORTED int sl_reported_wait(void *opaque) {
    const reported_request *request = opaque;
    if (!request || !sl_probe_enter())
        return 0;
    under_way.caller = sl_probe_gated();
    if (under_way.caller) {
        sl_gate_announce(under_way.caller, reported.local);
        if (request->channel && !request->complete)
            sl_gate_need(under_way.caller, request->channel, request->number);
        pass_gate(SL_GATE_BLOCK);
    }
    under_way.call = (sl_call){.kind = SL_RECORD_CALL,
                               .call = SL_CALL_glooWait,
                               .tag = 0,
                               .rank = reported.rank,
                               .peer = SL_PEER_NONE,
                               .device = -1,
                               .start = sl_probe_now()};
    sl_probe_describe(&under_way.call, 0, SL_GATE_BYTES);
    return 1;
}

EXPORTED void sl_reported_waited(void *opaque, int done, int peer) {
    reported_request *request = opaque;
    sl_call *call = &under_way.call;
    done = done && !request->complete;
    call->end = call->start ? sl_probe_now() : 0;
    call->tag = done;
    sl_probe_write(call);
    if (done) {
        sl_call completion = request->call;
        completion.kind = SL_RECORD_COMPLETION;
        completion.end = call->end;
        if (completion.peer == SL_PEER_ANY && peer >= 0)
            completion.peer = peer;
        sl_probe_write(&completion);
        request->complete = 1;
    }
    if (under_way.caller)
        sl_gate_leave(under_way.caller);
    sl_probe_leave();
}

EXPORTED void sl_reported_forget(void *request) {
    free(request);
}
