/* Windows, written by hand. Joint calls (making, freeing, fences) pass the gate like a communicator's. The
 * others pair ranks: what a rank has posted, completed or locked, and which of these a call waits for, is
 * counted on WINDOW channels (gate.h), so that a job that hangs shows who is missing. Part of mpi_shim.h, for
 * one family of libraries. */

static void enter_window(SL_WIN window, const sl_communicator *parent, uint64_t numbered) {
    enter_shared(SL_KEY(window), parent, sl_name_mix(numbered, sl_name_text("window")));
}

static int free_window(int (*real)(SL_WIN *), SL_WIN *window) {
    if (!window)
        return real(window);
    passage p = pass_shared(SL_KEY(*window), SL_CALL_MPI_Win_free);
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
    passage p = pass_shared(SL_KEY(window), SL_CALL_MPI_Win_fence);
    sl_probe_begin(&call);
    int result = real(assertion, window);
    if (shared && (assertion & SL_NO_PRECEDE) == 0)
        sl_probe_after(&call, 0);
    leave(&p);
    return result;
}

/* Windows leave room in the table for messages: what does not fit is not seen, from its first call on. */
static sl_gate_channel *window_channel(const sl_communicator *window, int from, int to, int tag) {
    const sl_channel_key key = {window->name, from, to, tag, SL_CHANNEL_WINDOW};
    sl_gate_channel *channel = sl_gate_channel_known(sl_probe_gate, &key);
    return channel || atomic_load(&sl_probe_gate->channels) >= SL_GATE_CHANNELS / 2
               ? channel
               : sl_gate_channel_of(sl_probe_gate, &key);
}

/* ---- start and complete, post and wait ---- */

static sl_communicator *window_of(SL_WIN window) {
    sl_communicator *shared = sl_communicator_find(SL_KEY(window));
    return shared ? shared : &sl_nowhere;
}

static void close_pairs(sl_window_pairs *pairs) {
    free(pairs->pair);
    *pairs = (sl_window_pairs){0};
}

/* Counts what this rank will wait for at the end. `from`: of this rank's own calls; `to`: of the others'. */
static void open_pairs(sl_window_pairs *pairs, const sl_communicator *window, SL_MPI_GROUP group,
                       sl_window_tag from, sl_window_tag to) {
    int count = 0, *ranks = sl_probe_gated() && window != &sl_nowhere ? world_ranks(group, &count) : NULL;
    if (!ranks)
        return;
    close_pairs(pairs);
    pairs->pair = calloc((size_t)count + 1, sizeof *pairs->pair);
    pairs->count = pairs->pair ? count : 0;
    for (int i = 0; i < pairs->count; i++) {
        sl_window_pair *pair = &pairs->pair[i];
        if (ranks[i] < 0 || ranks[i] == library.rank)
            continue;
        pair->own = window_channel(window, library.rank, ranks[i], (int)from);
        pair->awaited = window_channel(window, ranks[i], library.rank, (int)to);
        if (pair->awaited)
            pair->number = sl_gate_count(pair->awaited, 1);
    }
    free(ranks);
}

/* This rank has made its calls for the others. */
static void count_pairs(const sl_window_pairs *pairs) {
    for (int i = 0; i < pairs->count; i++)
        if (pairs->pair[i].own)
            sl_gate_count(pairs->pair[i].own, 1);
}

static passage pass_pairs(sl_call *call, int number, const sl_communicator *window,
                          const sl_window_pairs *awaited) {
    passage p = {.caller = sl_probe_gated()};
    before(call, number, window, SL_NO_RANK, SL_NO_TAG);
    if (p.caller) {
        sl_gate_announce(p.caller, library.local);
        for (int i = 0; awaited && i < awaited->count; i++)
            sl_gate_need(p.caller, awaited->pair[i].awaited, awaited->pair[i].number);
        sl_gate_pass(p.caller, SL_GATE_BLOCK);
        sl_probe_describe(call, 0, SL_GATE_OWN_TYPE);
    }
    sl_probe_begin(call);
    return p;
}

static void leave_pairs(const passage *p, sl_call *call) {
    sl_probe_after(call, 0);
    leave(p);
}

/* The pairs are known to a hang's diagnosis, not to the cut of a hold. */
static void refuse_holds(void) {
    const sl_gate_caller *caller = sl_probe_gated();
    if (caller)
        sl_gate_refuse(caller->gate, SL_GATE_EXPOSED);
}

static int start_window(int (*real)(SL_MPI_GROUP, int, SL_WIN), SL_MPI_GROUP group, int assertion,
                        SL_WIN window) {
    sl_communicator *shared = window_of(window);
    sl_call call;
    refuse_holds();
    open_pairs(&shared->access, shared, group, SL_WINDOW_COMPLETE, SL_WINDOW_POST);
    passage p = pass_pairs(&call, SL_CALL_MPI_Win_start, shared, &shared->access);
    int result = real(group, assertion, window);
    leave_pairs(&p, &call);
    return result;
}

static int complete_window(int (*real)(SL_WIN), SL_WIN window) {
    sl_communicator *shared = window_of(window);
    sl_call call;
    passage p = pass_pairs(&call, SL_CALL_MPI_Win_complete, shared, &shared->access);
    int result = real(window);
    if (result == 0) {
        count_pairs(&shared->access);
        close_pairs(&shared->access);
    }
    leave_pairs(&p, &call);
    return result;
}

static int post_window(int (*real)(SL_MPI_GROUP, int, SL_WIN), SL_MPI_GROUP group, int assertion,
                       SL_WIN window) {
    sl_communicator *shared = window_of(window);
    sl_call call;
    refuse_holds();
    passage p = pass_pairs(&call, SL_CALL_MPI_Win_post, shared, NULL);
    int result = real(group, assertion, window);
    if (result == 0) {
        open_pairs(&shared->exposure, shared, group, SL_WINDOW_POST, SL_WINDOW_COMPLETE);
        count_pairs(&shared->exposure);
    }
    leave_pairs(&p, &call);
    return result;
}

static int wait_window(int (*real)(SL_WIN), SL_WIN window) {
    sl_communicator *shared = window_of(window);
    sl_call call;
    passage p = pass_pairs(&call, SL_CALL_MPI_Win_wait, shared, &shared->exposure);
    int result = real(window);
    if (result == 0)
        close_pairs(&shared->exposure);
    leave_pairs(&p, &call);
    return result;
}

static int test_window(int (*real)(SL_WIN, int *), SL_WIN window, int *flag) {
    int result = real(window, flag);
    if (result == 0 && flag && *flag)
        close_pairs(&window_of(window)->exposure);
    return result;
}

/* ---- locks ---- */

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

/* This rank's lock on one window (`rank`), or on all (SL_NO_RANK). */
static sl_gate_channel *lock_channel(const sl_communicator *window, int rank) {
    const int target = rank == SL_NO_RANK ? -1 : world_rank(window, rank);
    if (!sl_probe_gated() || window == &sl_nowhere || (rank != SL_NO_RANK && target < 0))
        return NULL;
    return window_channel(window, library.rank, target, SL_WINDOW_LOCK);
}

/* A call that may wait for the window of `rank`: for `lock`, if it asks for one. */
static passage pass_lock(int number, const sl_communicator *window, int rank, const sl_gate_channel *channel,
                         sl_window_lock lock) {
    sl_call call;
    passage p = {.caller = sl_probe_gated()};
    before(&call, number, window, rank, SL_NO_TAG);
    if (!p.caller)
        return p;
    if (channel) /* the call itself counts nowhere: it is in a region without parking */
        sl_gate_need(p.caller, channel, (atomic_load(&channel->announced) & ~UINT64_C(3)) | (uint64_t)lock);
    sl_gate_pass(p.caller, SL_GATE_BLOCK);
    sl_probe_describe(&call, 0, SL_GATE_OWN_TYPE);
    return p;
}

static passage pass_locking(int number, sl_communicator *window, int rank, sl_window_lock lock,
                            sl_gate_channel **channel) {
    forbid();
    *channel = lock_channel(window, rank);
    return pass_lock(number, window, rank, *channel, lock);
}

static int locked(const passage *p, sl_gate_channel *channel, sl_window_lock lock, int result) {
    if (result == 0 && channel)
        sl_gate_count(channel, (uint64_t)lock);
    leave(p);
    if (result != 0)
        allow();
    return result;
}

static int unlocked(const passage *p, sl_gate_channel *channel, int result) {
    const uint64_t held = channel ? atomic_load(&channel->announced) & 3 : 0;
    if (held)
        sl_gate_count(channel, 4 - held);
    leave(p);
    allow();
    return result;
}

static int lock_window(int (*real)(int, int, int, SL_WIN), int type, int rank, int assertion, SL_WIN window) {
    const sl_window_lock lock = type == SL_EXCLUSIVE ? SL_LOCK_EXCLUSIVE : SL_LOCK_SHARED;
    sl_gate_channel *channel;
    passage p = pass_locking(SL_CALL_MPI_Win_lock, window_of(window), rank, lock, &channel);
    return locked(&p, channel, lock, real(type, rank, assertion, window));
}

static int lock_all_window(int (*real)(int, SL_WIN), int assertion, SL_WIN window) {
    sl_gate_channel *channel;
    passage p =
        pass_locking(SL_CALL_MPI_Win_lock_all, window_of(window), SL_NO_RANK, SL_LOCK_SHARED, &channel);
    return locked(&p, channel, SL_LOCK_SHARED, real(assertion, window));
}

static int unlock_window(int (*real)(int, SL_WIN), int rank, SL_WIN window) {
    const sl_communicator *shared = window_of(window);
    passage p = pass_lock(SL_CALL_MPI_Win_unlock, shared, rank, NULL, SL_LOCK_FREE);
    return unlocked(&p, lock_channel(shared, rank), real(rank, window));
}

static int unlock_all_window(int (*real)(SL_WIN), SL_WIN window) {
    const sl_communicator *shared = window_of(window);
    passage p = pass_lock(SL_CALL_MPI_Win_unlock_all, shared, SL_NO_RANK, NULL, SL_LOCK_FREE);
    return unlocked(&p, lock_channel(shared, SL_NO_RANK), real(window));
}

static int flush_one(int (*real)(int, SL_WIN), int number, int rank, SL_WIN window) {
    passage p = pass_lock(number, window_of(window), rank, NULL, SL_LOCK_FREE);
    int result = real(rank, window);
    leave(&p);
    return result;
}

static int flush_each(int (*real)(SL_WIN), int number, SL_WIN window) {
    passage p = pass_lock(number, window_of(window), SL_NO_RANK, NULL, SL_LOCK_FREE);
    int result = real(window);
    leave(&p);
    return result;
}

static int flush_window(int (*real)(int, SL_WIN), int rank, SL_WIN window) {
    return flush_one(real, SL_CALL_MPI_Win_flush, rank, window);
}

static int flush_local_window(int (*real)(int, SL_WIN), int rank, SL_WIN window) {
    return flush_one(real, SL_CALL_MPI_Win_flush_local, rank, window);
}

static int flush_all_window(int (*real)(SL_WIN), SL_WIN window) {
    return flush_each(real, SL_CALL_MPI_Win_flush_all, window);
}

static int flush_local_all_window(int (*real)(SL_WIN), SL_WIN window) {
    return flush_each(real, SL_CALL_MPI_Win_flush_local_all, window);
}
