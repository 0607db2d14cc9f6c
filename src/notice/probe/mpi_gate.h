/* How MPI's calls pass the gate (gate.h): the channel of each call, what a Wait waits for, what a wildcard
 * took. Part of mpi_shim.h, for one family of libraries.
 *
 * A wrapper describes its call (`before`), passes, makes the call, and leaves. Without a gate (it could not
 * be made, a child of fork, a spawned process) all of this is one test. */

/* Channels that this thread used last, by communicator and message. The pointers stay valid while the process
 * has this gate; a child of fork has none. */
#define SL_CACHED 64
static __thread struct {
    uint64_t name, message;
    sl_gate_channel *channel;
} cache[SL_CACHED] __attribute__((tls_model("initial-exec")));

typedef enum gate_way {
    WAY_LOCAL,    /* no other rank takes part */
    WAY_SEND,     /* a message to `peer` */
    WAY_RECEIVE,  /* one from `peer`, taken by this call */
    WAY_PROBE,    /* one from `peer`, which stays */
    WAY_TOGETHER, /* a collective of the communicator */
} gate_way;

/* Known when the wrapper is compiled: `number` is a constant. */
static inline __attribute__((always_inline)) gate_way way_of(int number) {
    switch (number) {
    case SL_CALL_MPI_Send:
    case SL_CALL_MPI_Bsend:
    case SL_CALL_MPI_Ssend:
    case SL_CALL_MPI_Rsend:
    case SL_CALL_MPI_Isend:
    case SL_CALL_MPI_Ibsend:
    case SL_CALL_MPI_Issend:
    case SL_CALL_MPI_Irsend:
    case SL_CALL_MPI_Send_init:
    case SL_CALL_MPI_Bsend_init:
    case SL_CALL_MPI_Ssend_init:
    case SL_CALL_MPI_Rsend_init:
        return WAY_SEND;
    case SL_CALL_MPI_Recv:
    case SL_CALL_MPI_Irecv:
    case SL_CALL_MPI_Recv_init:
    case SL_CALL_MPI_Mprobe:
        return WAY_RECEIVE;
    case SL_CALL_MPI_Probe:
        return WAY_PROBE;
    case SL_CALL_MPI_Mrecv: /* what they take was counted at the probe */
    case SL_CALL_MPI_Imrecv:
    case SL_CALL_MPI_Comm_create_group: /* its members are not a communicator's */
        return WAY_LOCAL;
    default:
        return WAY_TOGETHER;
    }
}

static sl_gate_channel *gate_channel(uint64_t name, int source, int destination, int tag, uint32_t kind) {
    sl_channel_key key = {name, source, destination, tag, kind};
    sl_gate_channel *channel = sl_gate_channel_of(sl_probe_gate, &key);
    if (channel && library.plain)
        atomic_store_explicit(&channel->plain, 1, memory_order_relaxed);
    return channel;
}

/* ---- the gate of this process ---- */

/* Called while a thread is parked: for an NCCL call only if MPI allows it. */
static void progress(int in_nccl) {
    int main_thread = 0, flag;
    if (in_nccl && library.level < SL_THREAD_MULTIPLE &&
        (library.level >= SL_THREAD_SERIALIZED || library.is_thread_main(&main_thread) != 0 || !main_thread))
        return;
    if (library.unheard != library.no_request && pthread_mutex_trylock(&library.listening) == 0) {
        library.test(&library.unheard, &flag, SL_IGNORE); /* MPI allows one thread at a time */
        pthread_mutex_unlock(&library.listening);
    }
}

/* A receive that is never sent. MPI_Comm_create copies no attribute, so no function of the program is called.
 * (A probe moves less: MPICH's leaves nonblocking collectives and windows alone.) */
static void make_quiet(void) {
    static char nothing;
    SL_MPI_GROUP alone;
    SL_TYPE byte = SL_CONSTANT("ompi_mpi_byte", 0x4c00010d);
    library.unheard = library.no_request;
    if (library.comm_group(library.self, &alone) != 0)
        return;
    if (library.comm_create(library.self, alone, &library.quiet) == 0 && library.quiet != library.null &&
        library.irecv(&nothing, 1, byte, 0, 0, library.quiet, &library.unheard) != 0)
        library.unheard = library.no_request;
    library.group_free(&alone);
}

/* Before MPI ends; no thread is parked any more, or ever will be. */
static void end_quiet(void) {
    pthread_mutex_lock(&library.listening);
    if (library.unheard != library.no_request) {
        library.cancel(&library.unheard);
        library.request_free(&library.unheard);
        library.unheard = library.no_request;
        library.comm_free(&library.quiet);
    }
    pthread_mutex_unlock(&library.listening);
}

/* Once, when MPI is up. A spawned process has none: its world is another, whose ranks would be mistaken for
 * the first one's. */
static void open_gate(void) {
    int up = 0;
    SL_COMM parent = library.null;
    library.initialized = (int (*)(int *))(uintptr_t)named("PMPI_Initialized");
    library.comm_get_parent = (int (*)(SL_COMM *))(uintptr_t)named("PMPI_Comm_get_parent");
    library.query_thread = (int (*)(int *))(uintptr_t)named("PMPI_Query_thread");
    library.is_thread_main = (int (*)(int *))(uintptr_t)named("PMPI_Is_thread_main");
    library.comm_create = (int (*)(SL_COMM, SL_MPI_GROUP, SL_COMM *))(uintptr_t)named("PMPI_Comm_create");
    library.comm_free = (int (*)(SL_COMM *))(uintptr_t)named("PMPI_Comm_free");
    library.irecv =
        (int (*)(void *, int, SL_TYPE, int, int, SL_COMM, SL_REQUEST *))(uintptr_t)named("PMPI_Irecv");
    library.test = (int (*)(SL_REQUEST *, int *, void *))(uintptr_t)named("PMPI_Test");
    library.cancel = (int (*)(SL_REQUEST *))(uintptr_t)named("PMPI_Cancel");
    library.request_free = (int (*)(SL_REQUEST *))(uintptr_t)named("PMPI_Request_free");
    library.get_status = (int (*)(SL_REQUEST, int *, void *))(uintptr_t)named("PMPI_Request_get_status");
    library.test_cancelled = (int (*)(const void *, int *))(uintptr_t)named("PMPI_Test_cancelled");
    if (library.initialized(&up) != 0 || !up || library.comm_get_parent(&parent) != 0 ||
        parent != library.null)
        return;
    sl_gate *gate = sl_probe_gate_new(library.rank);
    if (!gate)
        return;
    make_quiet();
    if (library.query_thread(&library.level) != 0)
        library.level = SL_THREAD_MULTIPLE;
    /* below MULTIPLE the program itself ensures one thread at a time here */
    library.plain = library.level < SL_THREAD_MULTIPLE && sl_gate_use_barriers(gate);
    sl_channel_key local = {0, -1, library.rank, -1, SL_CHANNEL_LOCAL};
    library.local = sl_gate_channel_of(gate, &local);
    if (library.local && library.plain)
        atomic_store_explicit(&library.local->plain, 1, memory_order_relaxed);
    sl_probe_gate_open(gate, progress);
}

/* ---- messages ---- */

/* The tag in a channel's name. Programs that use a new tag for each message would fill the table; both ends
 * fold large tags equally. If two folded tags coincide and are under way in different orders at the two ends,
 * a hold may not close, but it never closes wrongly: it closes when all ranks stop, whatever the numbers are.
 */
static int channel_tag(int tag) {
    return tag == SL_TAG_ANY ? -1 : tag < 128 ? tag : 128 + tag % 64;
}

__attribute__((noinline)) static sl_gate_channel *find_message(const sl_communicator *communicator, int sends,
                                                               int peer, int tag, int wild) {
    if (peer == SL_PEER_UNKNOWN || peer == SL_PEER_NONE) {
        sl_gate_refuse(sl_probe_gate, SL_GATE_STRANGERS);
        return NULL;
    }
    int other = peer == SL_PEER_ANY ? -1 : peer, own = library.rank;
    return gate_channel(communicator->name, sends ? own : other, sends ? other : own, channel_tag(tag),
                        wild ? SL_CHANNEL_WILD : SL_CHANNEL_POINT);
}

/* The channel of a message; NULL: of this rank alone (to itself, to no rank). `peer` and `tag` as in records.
 */
static inline sl_gate_channel *message_channel(const sl_communicator *communicator, int sends, int peer,
                                               int tag, int *wild) {
    *wild = 0;
    if (peer == SL_PEER_NULL || peer == library.rank)
        return NULL;
    *wild = !sends && (peer == SL_PEER_ANY || tag == SL_TAG_ANY);
    uint64_t name = communicator->name + (uint64_t)sends;
    uint64_t message = (uint64_t)(uint32_t)peer << 32 | (uint32_t)tag;
    size_t at = (size_t)(((name ^ message) * 0x9e3779b97f4a7c15u) >> 58);
    if (cache[at].name == name && cache[at].message == message && cache[at].channel)
        return cache[at].channel;
    sl_gate_channel *channel = find_message(communicator, sends, peer, tag, *wild);
    cache[at].name = name;
    cache[at].message = message;
    cache[at].channel = channel;
    return channel;
}

static inline int record_tag(int tag) {
    return tag == SL_NO_TAG ? SL_TAG_NONE : tag == SL_ANY_TAG ? SL_TAG_ANY : tag;
}

/* A wildcard has received the message of `status`, which counts on its channel (from itself: nowhere). NULL:
 * it received none. */
static void matched(sl_gate_channel *wild, const sl_communicator *communicator, const void *status) {
    sl_gate_channel *channel = NULL;
    int again;
    if (!sl_probe_self.gate.gate) /* a child of fork completes what its parent posted */
        return;
    if (status) {
        const int *words = status;
        int source = words[SL_STATUS_SOURCE];
        if (source >= 0)
            channel = message_channel(communicator, 0, world_rank(communicator, source), words[SL_STATUS_TAG],
                                      &again);
    }
    sl_gate_wild_matched(sl_probe_self.gate.gate, wild, channel);
}

/* ---- passing ---- */

/* How a call passed, until it leaves. */
typedef struct passage {
    sl_gate_caller *caller;   /* NULL: no gate */
    sl_gate_channel *channel; /* of the call; NULL: this rank's alone */
    uint64_t number;
    int wild; /* a wildcard receive whose message is not yet known */
} passage;

/* The next call on `channel` would take the message: a probe waits for what that call needs. */
static inline void need_next(sl_gate_caller *caller, const sl_gate_channel *channel) {
    if (channel)
        sl_gate_need(caller, channel, atomic_load_explicit(&channel->announced, memory_order_relaxed) + 1);
}

/* Passes the gate. `kind` and `mode` are constants. */
static inline __attribute__((always_inline)) passage
pass(const sl_call *call, const sl_communicator *communicator, gate_way kind, sl_gate_mode mode) {
    passage p = {.caller = sl_probe_gated()};
    if (!p.caller)
        return p;
    if (kind == WAY_TOGETHER)
        p.channel = communicator->channel;
    else if (kind != WAY_LOCAL)
        p.channel = message_channel(communicator, kind == WAY_SEND, call->peer, call->tag, &p.wild);
    if (p.wild && mode == SL_GATE_BLOCK)
        sl_gate_wild_posted(p.caller->gate);
    if (kind == WAY_PROBE && !p.wild) { /* it takes nothing, so it has no number */
        sl_gate_announce(p.caller, library.local);
        need_next(p.caller, p.channel);
        sl_gate_pass(p.caller, mode);
        return p;
    }
    p.number = sl_gate_enter(p.caller, p.channel ? p.channel : library.local, mode);
    if (p.wild && mode != SL_GATE_BLOCK)
        sl_gate_wild_posted(p.caller->gate);
    return p;
}

/* The channel and kind of a persistent request's calls, for each start. */
static passage name_start(const sl_call *call, const sl_communicator *communicator, gate_way kind) {
    passage p = {.caller = sl_probe_gated()};
    if (p.caller)
        p.channel = message_channel(communicator, kind == WAY_SEND, call->peer, call->tag, &p.wild);
    return p;
}

/* Sendrecv: both pass together. */
static passage pass_exchange(const sl_call *call, const sl_communicator *communicator, int source, int tag) {
    passage p = {.caller = sl_probe_gated()};
    if (!p.caller)
        return p;
    int unused;
    sl_gate_channel *out = message_channel(communicator, 1, call->peer, call->tag, &unused);
    p.channel = message_channel(communicator, 0, world_rank(communicator, source), record_tag(tag), &p.wild);
    if (p.wild)
        sl_gate_wild_posted(p.caller->gate);
    sl_gate_announce(p.caller, out ? out : library.local);
    sl_gate_announce(p.caller, p.channel ? p.channel : library.local);
    sl_gate_pass(p.caller, SL_GATE_BLOCK);
    return p;
}

/* A nonblocking probe: a point to park at, where it needs a message only if its rank must move on. */
static passage pass_look(const sl_call *call, const sl_communicator *communicator) {
    passage p = {.caller = sl_probe_gated()};
    if (!p.caller)
        return p;
    sl_gate_announce(p.caller, library.local);
    if (sl_gate_careful(p.caller))
        need_next(p.caller, message_channel(communicator, 0, call->peer, call->tag, &p.wild));
    sl_gate_pass(p.caller, SL_GATE_POST);
    return p;
}

/* A call of this rank alone that may block. */
static passage pass_alone(void) {
    passage p = {.caller = sl_probe_gated()};
    if (p.caller)
        sl_gate_enter(p.caller, library.local, SL_GATE_BLOCK);
    return p;
}

static inline void leave(const passage *p) {
    if (p->caller)
        sl_gate_leave(p->caller);
}

/* A message that was probed in order to be taken counts as received, but its sender may wait until it is: so
 * the thread does not park before it has made that call. `number` is a constant. */
static inline __attribute__((always_inline)) void mind_message(const passage *p, int number, int result) {
    if (!p->caller || result != 0)
        return;
    if (number == SL_CALL_MPI_Mprobe || number == SL_CALL_MPI_Improbe)
        sl_gate_forbid(p->caller, NULL);
    else if (number == SL_CALL_MPI_Mrecv || number == SL_CALL_MPI_Imrecv)
        sl_gate_allow(p->caller);
}

/* Where a wildcard's call finds its message if the program does not ask for a status. */
static inline void *status_for(const passage *p, void *given, void *own) {
    return p->wild && given == SL_IGNORE ? own : given;
}

/* ---- what a Wait waits for ---- */

/* Lists what requests need. Without a look at them, each counts as incomplete: that costs nothing and is
 * right for receives and collectives (complete ones need nothing that is missing). For a send it counts only
 * if the thread stays in its Wait. With a look (MPI_Request_get_status, which completes nothing), only the
 * incomplete ones are listed. */
static void list_needs(sl_gate_caller *caller, int count, const SL_REQUEST *requests, int look) {
    for (int i = 0; i < count; i++) {
        const sl_request *request =
            requests[i] == library.no_request ? NULL : sl_request_find(SL_KEY(requests[i]));
        int done = 0;
        if (!request || !request->channel || (request->persistent && !request->active))
            continue;
        if (look && library.get_status(requests[i], &done, SL_IGNORE) == 0 && done)
            continue;
        sl_gate_need(caller, request->channel, request->number);
    }
}

static passage pass_wait(int count, const SL_REQUEST *requests, sl_gate_mode mode) {
    passage p = {.caller = sl_probe_gated()};
    if (!p.caller)
        return p;
    sl_gate_announce(p.caller, library.local);
    if (mode == SL_GATE_BLOCK)
        list_needs(p.caller, count, requests, 0);
    if (sl_gate_careful(p.caller)) {
        sl_gate_no_needs(p.caller);
        list_needs(p.caller, count, requests, 1);
    }
    sl_gate_pass(p.caller, mode);
    return p;
}

/* A test causes nothing that another rank could wait for, so without a hold it need not be announced, and
 * programs make millions. One that began before the hold was seen ends immediately. */
static inline void pass_test(passage *p, int count, const SL_REQUEST *requests) {
    const sl_gate_caller *caller = sl_probe_gated();
    if (caller && sl_gate_careful(caller))
        *p = pass_wait(count, requests, SL_GATE_POST);
    else
        p->caller = NULL;
    if (p->caller)
        sl_probe_self.polls = 0; /* a hold is no waiting */
    sl_probe_poll();
}

/* Requests the statuses that the program does not ask for, while something depends on them. */
static int statuses_matter(void) {
    const sl_gate *gate = sl_probe_self.gate.gate;
    return gate && (atomic_load_explicit(&gate->wild, memory_order_relaxed) > 0 ||
                    atomic_load_explicit(&library.cancels, memory_order_relaxed) > 0);
}

/* Whether this rank has a gate, and nothing is held. */
static inline int is_unheld(void) {
    const sl_gate_caller *caller = &sl_probe_self.gate;
    return caller->gate && !sl_gate_careful(caller);
}

/* Whether a test can go straight to the library, with the program's own statuses. */
static inline int passes_freely(const void *statuses) {
    return is_unheld() && (statuses != SL_IGNORE || !statuses_matter());
}

/* `few` has room for SL_FEW. The result may be malloc'ed: see statuses_done. */
static void *statuses_for(int count, void *given, void *few) {
    if (given != SL_IGNORE || !statuses_matter())
        return given;
    void *own = count <= SL_FEW ? few : malloc((size_t)count * SL_STATUS_SIZE);
    return own ? own : given;
}

static void statuses_done(void *used, const void *given, const void *few) {
    if (used != given && used != few)
        free(used);
}

static const void *status_at(const void *statuses, int i) {
    return statuses == SL_IGNORE ? NULL : (const char *)statuses + (size_t)i * SL_STATUS_SIZE;
}

/* A request is complete: its wildcard has received its message, or was canceled. */
static void settle(const sl_request *request, const void *status) {
    int cancelled = 0;
    if (request->cancelled && (!status || library.test_cancelled(status, &cancelled) != 0))
        cancelled = 1;
    if (request->wild) {
        matched(request->channel, request->wild, cancelled ? NULL : status);
        if (!request->persistent)
            atomic_fetch_sub(&request->wild->pending, 1);
    } else if (cancelled && request->channel && sl_probe_self.gate.gate)
        sl_gate_refuse(sl_probe_self.gate.gate, SL_GATE_CANCELLED);
}
