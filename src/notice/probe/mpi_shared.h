/* What ranks make and end together, written by hand: communicators, which are recorded, windows and files,
 * which only pass the gate (but for fences), and MPI itself. Part of mpi_shim.h, for one family of libraries.
 */

static int free_communicator(int (*real)(SL_COMM *), SL_COMM *comm) {
    if (!comm) /* left to the library to refuse, here and below */
        return real(comm);
    sl_call call = {.kind = SL_RECORD_CALL};
    passage p = pass(&call, communicator_of(*comm), WAY_TOGETHER, SL_GATE_BLOCK);
    sl_communicator_remove(SL_KEY(*comm));
    int result = real(comm);
    leave(&p);
    return result;
}

static uint64_t next_child(sl_communicator *parent) {
    return sl_name_mix(parent->name,
                       1 + atomic_fetch_add_explicit(&parent->children, 1, memory_order_relaxed));
}

static int post_duplicate(int (*real)(SL_COMM, SL_COMM *, SL_REQUEST *), SL_COMM comm, SL_COMM *created,
                          SL_REQUEST *request) {
    sl_call call;
    sl_communicator *communicator = communicator_of(comm);
    uint64_t name = next_child(communicator);
    before(&call, SL_CALL_MPI_Comm_idup, communicator, SL_NO_RANK, SL_NO_TAG);
    passage p = pass(&call, communicator, WAY_TOGETHER, SL_GATE_POST);
    sl_probe_begin(&call);
    int result = real(comm, created, request);
    if (result == 0)
        posted(&call, 0, *request, 0, created, name, &p, communicator);
    else
        sl_probe_after(&call, 0);
    leave(&p);
    return result;
}

/* The program makes no call after this one. It parks here as anywhere; then its rank counts as finished,
 * because inside no rank owes another one a call that could be counted. */
static int finalize(int (*real)(void)) {
    passage p = pass_alone();
    sl_probe_gate_finish();
    if (p.caller)
        end_quiet();
    leave(&p);
    return real();
}

/* ---- windows and files ---- */

/* A window or a file has a channel like a communicator: the joint calls of all ranks that made it. */
static void enter_shared(uint64_t handle, const sl_communicator *parent, uint64_t name) {
    sl_communicator *communicator = calloc(1, sizeof *communicator);
    if (!communicator)
        return;
    communicator->name = name;
    communicator->rank = library.rank;
    communicator->size = communicator->peers = parent->peers;
    if (sl_probe_gate && parent->channel)
        communicator->channel = gate_channel(communicator->name, -1, -1, -1, SL_CHANNEL_COLLECTIVE);
    sl_communicator_add(handle, communicator, 1);
}

static void enter_window(SL_WIN window, const sl_communicator *parent, uint64_t numbered) {
    enter_shared(SL_KEY(window), parent, sl_name_mix(numbered, sl_name_text("window")));
}

static passage pass_shared(uint64_t handle) {
    static const sl_call call = {.kind = SL_RECORD_CALL};
    const sl_communicator *communicator = sl_communicator_find(handle);
    return pass(&call, communicator ? communicator : &sl_nowhere, WAY_TOGETHER, SL_GATE_BLOCK);
}

static passage pass_window(SL_WIN window) {
    return pass_shared(SL_KEY(window));
}

static inline uint64_t file_key(SL_FILE file) {
    return (uint64_t)(uintptr_t)file;
}

static int open_file(int (*real)(SL_COMM, const char *, int, SL_INFO, SL_FILE *), SL_COMM comm,
                     const char *name, int mode, SL_INFO info, SL_FILE *file) {
    sl_communicator *communicator = communicator_of(comm);
    uint64_t numbered = next_child(communicator);
    const sl_call call = {.kind = SL_RECORD_CALL};
    passage p = pass(&call, communicator, WAY_TOGETHER, SL_GATE_BLOCK);
    int result = real(comm, name, mode, info, file);
    if (result == 0)
        enter_shared(file_key(*file), communicator, sl_name_mix(numbered, sl_name_text("file")));
    leave(&p);
    return result;
}

static int close_file(int (*real)(SL_FILE *), SL_FILE *file) {
    if (!file)
        return real(file);
    passage p = pass_shared(file_key(*file));
    sl_communicator_remove(file_key(*file));
    int result = real(file);
    leave(&p);
    return result;
}

static int free_window(int (*real)(SL_WIN *), SL_WIN *window) {
    if (!window)
        return real(window);
    passage p = pass_window(*window);
    sl_communicator_remove(SL_KEY(*window));
    int result = real(window);
    leave(&p);
    return result;
}

/* Between fences a rank may park: others still reach its window, because a parked thread keeps the library
 * going. A fence ends one region and opens the next, so there would be no other point to park. It is recorded
 * like a barrier unless it ends no region: then it need not wait for anyone. */
static int fence_window(int (*real)(int, SL_WIN), int assertion, SL_WIN window) {
    sl_call call;
    const sl_communicator *shared = sl_communicator_find(SL_KEY(window));
    before(&call, SL_CALL_MPI_Win_fence, shared ? shared : &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    passage p = pass_window(window);
    sl_probe_begin(&call);
    int result = real(assertion, window);
    if (shared && (assertion & SL_NO_PRECEDE) == 0)
        sl_probe_after(&call, 0);
    leave(&p);
    return result;
}

/* A thread that holds a lock does not park: others may wait for the lock inside their calls. */
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

/* Start, complete, post and wait pair ranks by groups without numbers. */
static int expose_window(int (*real)(SL_MPI_GROUP, int, SL_WIN), SL_MPI_GROUP group, int assertion,
                         SL_WIN window) {
    const sl_gate_caller *caller = sl_probe_gated();
    if (caller)
        sl_gate_refuse(caller->gate, SL_GATE_EXPOSED);
    return real(group, assertion, window);
}

/* After a successful creation: `key` is SL_NUMBERED when all members of the parent take part, and `numbered`
 * is its name; otherwise only the members of the new communicator do, and the name is made of them and the
 * tag. */
static void created_communicator(SL_COMM created, int key, uint64_t numbered) {
    if (created != library.null)
        enter_communicator(created,
                           key == SL_NUMBERED ? numbered : sl_name_mix(sl_name_text("tagged"), (uint64_t)key),
                           key == SL_NUMBERED, 1);
}
