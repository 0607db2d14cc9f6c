/* What ranks make and end together, written by hand: communicators and files, whose making is recorded, and
 * MPI itself. Part of mpi_shim.h, for one family of libraries. */

static int end_communicator(int (*real)(SL_COMM *), SL_COMM *comm, int number) {
    if (!comm) /* left to the library to refuse, here and below */
        return real(comm);
    sl_call call;
    const sl_communicator *communicator = communicator_of(*comm);
    before(&call, number, communicator, SL_NO_RANK, SL_NO_TAG);
    passage p = pass(&call, communicator, WAY_TOGETHER, SL_GATE_BLOCK);
    sl_probe_describe(&call, 0, SL_GATE_OWN_TYPE);
    sl_communicator_remove(SL_KEY(*comm));
    int result = real(comm);
    leave(&p);
    return result;
}

static int free_communicator(int (*real)(SL_COMM *), SL_COMM *comm) {
    return end_communicator(real, comm, SL_CALL_MPI_Comm_free);
}

static int disconnect_communicator(int (*real)(SL_COMM *), SL_COMM *comm) {
    return end_communicator(real, comm, SL_CALL_MPI_Comm_disconnect);
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

/* ---- files ---- */

/* A window or a file has a channel like a communicator: the joint calls of all ranks that made it. */
static void enter_shared(uint64_t handle, const sl_communicator *parent, uint64_t name) {
    sl_communicator *communicator = calloc(1, sizeof *communicator);
    if (!communicator)
        return;
    communicator->name = name;
    communicator->rank = library.rank;
    communicator->size = communicator->peers = parent->peers;
    if (parent->world && (communicator->world = malloc((size_t)parent->peers * sizeof(int) + 1)))
        memcpy(communicator->world, parent->world, (size_t)parent->peers * sizeof(int));
    else
        communicator->peers = 0;
    if (sl_probe_gate && parent->channel)
        communicator->channel = gate_channel(communicator->name, -1, -1, -1, SL_CHANNEL_COLLECTIVE);
    sl_communicator_add(handle, communicator, 1);
}

/* A joint call; `number` names it for readers of the gate. */
static passage pass_shared(uint64_t handle, int number) {
    sl_call call;
    const sl_communicator *shared = sl_communicator_find(handle);
    shared = shared ? shared : &sl_nowhere;
    before(&call, number, shared, SL_NO_RANK, SL_NO_TAG);
    passage p = pass(&call, shared, WAY_TOGETHER, SL_GATE_BLOCK);
    sl_probe_describe(&call, 0, SL_GATE_OWN_TYPE);
    return p;
}

static inline uint64_t file_key(SL_FILE file) {
    return (uint64_t)(uintptr_t)file;
}

static int open_file(int (*real)(SL_COMM, const char *, int, SL_INFO, SL_FILE *), SL_COMM comm,
                     const char *name, int mode, SL_INFO info, SL_FILE *file) {
    sl_communicator *communicator = communicator_of(comm);
    uint64_t numbered = next_child(communicator);
    sl_call call;
    before(&call, SL_CALL_MPI_File_open, communicator, SL_NO_RANK, SL_NO_TAG);
    passage p = pass(&call, communicator, WAY_TOGETHER, SL_GATE_BLOCK);
    sl_probe_describe(&call, 0, SL_GATE_OWN_TYPE);
    sl_probe_begin(&call);
    int result = real(comm, name, mode, info, file);
    sl_probe_after(&call, 0);
    if (result == 0)
        enter_shared(file_key(*file), communicator, sl_name_mix(numbered, sl_name_text("file")));
    leave(&p);
    return result;
}

static int close_file(int (*real)(SL_FILE *), SL_FILE *file) {
    if (!file)
        return real(file);
    passage p = pass_shared(file_key(*file), SL_CALL_MPI_File_close);
    sl_communicator_remove(file_key(*file));
    int result = real(file);
    leave(&p);
    return result;
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
