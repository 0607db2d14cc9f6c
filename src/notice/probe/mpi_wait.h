/* Starting and completing requests, and probing, written by hand: what the Wait and Test families complete is
 * known only by their handles. Part of mpi_shim.h, for one family of libraries.
 *
 * After an error (a program may ask for MPI_ERRORS_RETURN) no output is read: flags, counts, indices and
 * statuses may be anything. The handles are the program's own. A handle that has become null means that its
 * request has ended; any other request is still under way, except for a persistent one, whose handle does not
 * change: it counts as ended. Null pointers are left to the library to refuse. */

/* Most tests complete nothing: programs make millions. So only the number of the call is kept; the record is
 * filled in when there is something to record. A rank that makes one test after the other is waiting, from
 * the first of them on, and its record says so like that of a Wait. Tests between which it may compute say
 * only when they ended: their records take no time. The limit was chosen, not measured: far above what a test takes
 * by itself, and below pieces of work that are worth a test. */
#define DENSE_NS 100000 /* from test to test, on average: there is no time to compute in between */

/* Ends a test that has completed something, and fills in its times. */
static void end_test(sl_call *call) {
    const sl_probe_thread *self = &sl_probe_self;
    call->start = call->end = sl_probe_now();
    if (call->end > 0 && call->end - self->polling <= ((int64_t)self->polls + 1) * DENSE_NS)
        call->start = self->polling < call->end ? self->polling : call->end - 1;
}

static inline void test_begins(sl_call *call, int number) {
    call->kind = 0;
    call->call = (uint8_t)number;
}

/* The call itself: no peer, and as tag the number of completed requests. */
static void waited(sl_call *call, int completed) {
    if (call->kind == 0) { /* a test */
        before(call, call->call, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
        end_test(call);
        call->tag = completed;
        sl_probe_write(call);
        return;
    }
    call->tag = completed;
    sl_probe_after(call, 0);
}

#define SL_QUICK 8 /* requests of a test without a call more than the library's */

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

/* Starts pass together; more than a gate lists go in parts, to the library as well. */
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

/* It was not started: nothing will complete it, and a wildcard will receive nothing. */
static void not_started(sl_gate_caller *caller, SL_REQUEST handle) {
    sl_request *request = sl_request_find(SL_KEY(handle));
    if (!request || !request->persistent)
        return;
    request->active = 0;
    if (caller && request->wild)
        sl_gate_wild_matched(caller->gate, request->channel, NULL);
}

static void started(sl_gate_caller *caller, SL_REQUEST handle, int number, int64_t start, int result) {
    sl_call call;
    if (!sl_request_start(SL_KEY(handle), start, &call))
        before(&call, 0, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    if (result != 0)
        not_started(caller, handle);
    call.kind = SL_RECORD_CALL;
    call.call = (uint8_t)number;
    call.start = start;
    sl_probe_after(&call, result == 0 ? call.bytes : 0);
}

static int start_one(int (*real)(SL_REQUEST *), SL_REQUEST *request) {
    if (!request)
        return real(request);
    sl_gate_caller *caller = pass_starts(1, request);
    int64_t start = sl_probe_now();
    int result = real(request);
    started(caller, *request, SL_CALL_MPI_Start, start, result);
    if (caller)
        sl_gate_leave(caller);
    return result;
}

static int start_all(int (*real)(int, SL_REQUEST *), int count, SL_REQUEST *requests) {
    int result = 0, first = 0;
    if (!requests && count > 0)
        return real(count, requests);
    do {
        int part = count - first < SL_GATE_ENTRIES ? count - first : SL_GATE_ENTRIES;
        sl_gate_caller *caller = pass_starts(part, requests + first);
        int64_t start = sl_probe_now();
        result = real(part, requests + first);
        for (int i = first; i < first + part; i++)
            started(caller, requests[i], SL_CALL_MPI_Startall, start, result);
        if (caller)
            sl_gate_leave(caller);
        first += part;
    } while (result == 0 && first < count);
    return result;
}

/* A request of the call that was removed from the table: ended or, after an error, perhaps not. Its handle is
 * `now`. */
static void conclude(sl_request *done, SL_REQUEST now, int result, int64_t end, const void *status) {
    if (result == 0 || done->persistent || now == library.no_request)
        complete(done, end, result == 0 ? status : NULL, result);
    else
        sl_request_add(SL_KEY(now), done);
}

/* Removed before the library can give the handle to another thread. */
static int wait_one(int (*real)(SL_REQUEST *, void *), SL_REQUEST *request, void *status) {
    sl_call call;
    sl_request done;
    few_statuses few;
    if (!request)
        return real(request, status);
    before(&call, SL_CALL_MPI_Wait, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    passage p = pass_wait(1, request, SL_GATE_BLOCK);
    sl_probe_describe(&call, 0, SL_GATE_BYTES);
    sl_probe_begin(&call);
    int nothing = *request == library.no_request;
    int known = !nothing && sl_request_complete(SL_KEY(*request), &done);
    void *used = known && (done.wild || done.cancelled) ? statuses_for(1, status, few.bytes) : status;
    int result = real(request, used);
    waited(&call, !nothing && (result == 0 || *request == library.no_request));
    if (known)
        conclude(&done, *request, result, call.end, status_at(used, 0));
    leave(&p);
    return result;
}

/* One of the requests that a Waitall completes, removed before. */
typedef struct taken {
    int given, known;
    sl_request request;
} taken;

static int take_all(int count, const SL_REQUEST *requests, taken *done) {
    int completed = 0;
    for (int i = 0; i < count; i++) {
        done[i].given = requests[i] != library.no_request;
        completed += done[i].given;
        done[i].known = done[i].given && sl_request_complete(SL_KEY(requests[i]), &done[i].request);
    }
    return completed;
}

static int wait_all(int (*real)(int, SL_REQUEST *, void *), int count, SL_REQUEST *requests, void *statuses) {
    sl_call call;
    taken few[SL_FEW], *done = few;
    few_statuses own;
    if (!requests && count > 0)
        return real(count, requests, statuses);
    before(&call, SL_CALL_MPI_Waitall, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
    if (count > SL_FEW && !(done = malloc((size_t)count * sizeof *done)))
        return real(count, requests, statuses);
    passage p = pass_wait(count, requests, SL_GATE_BLOCK);
    sl_probe_describe(&call, 0, SL_GATE_BYTES);
    sl_probe_begin(&call);
    void *used = statuses_for(count, statuses, own.bytes);
    int completed = take_all(count, requests, done);
    int result = real(count, requests, used);
    for (int i = 0; result != 0 && i < count; i++)
        completed -= done[i].given && requests[i] != library.no_request;
    waited(&call, completed);
    for (int i = 0; i < count; i++)
        if (done[i].known)
            conclude(&done[i].request, requests[i], result, call.end, status_at(used, i));
    leave(&p);
    statuses_done(used, statuses, own.bytes);
    if (done != few)
        free(done);
    return result;
}

static void complete_handle(uint64_t handle, int64_t end, const void *status, int result) {
    sl_request done;
    if (sl_request_complete(handle, &done))
        complete(&done, end, status, result);
}

/* The original handles, for a call that may set them to null; `few` has room for SL_FEW. NULL: no memory. */
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
        complete_handle(SL_KEY(kept[indices[i]]), call->end, status_at(statuses, i), 0);
}

/* The call has failed: a request whose handle has become null has ended. */
static void completed_in_error(sl_call *call, const SL_REQUEST *kept, const SL_REQUEST *requests, int count) {
    int done = 0;
    for (int i = 0; kept && i < count; i++)
        done += kept[i] != library.no_request && requests[i] == library.no_request;
    if (done > 0)
        waited(call, done);
    for (int i = 0; done > 0 && i < count; i++)
        if (kept[i] != library.no_request && requests[i] == library.no_request)
            complete_handle(SL_KEY(kept[i]), call->end, NULL, 1);
}

/* The common part of the calls that complete one or some of several requests; `blocks`: Wait..., else Test...
 */
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
    if (mode == SL_GATE_BLOCK) {
        before(&s->call, number, &sl_nowhere, SL_NO_RANK, SL_NO_TAG);
        s->p = pass_wait(count, requests, mode);
        sl_probe_describe(&s->call, 0, SL_GATE_BYTES);
    } else {
        test_begins(&s->call, number);
        pass_test(&s->p, count, requests);
    }
    s->given = statuses;
    s->used = statuses_for(asked, statuses, s->own.bytes);
    if (mode == SL_GATE_BLOCK)
        sl_probe_begin(&s->call);
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
    if (!requests && count > 0)
        return real(count, requests, index, status);
    several_begin(&s, SL_CALL_MPI_Waitany, count, requests, status, 1, SL_GATE_BLOCK);
    int result = real(count, requests, index, s.used);
    if (result != 0)
        completed_in_error(&s.call, s.kept, requests, count);
    else
        completed_some(&s.call, s.kept, *index >= 0 && *index < count, index, s.used);
    several_end(&s);
    return result;
}

static int complete_some(int number, sl_gate_mode mode, int (*real)(int, SL_REQUEST *, int *, int *, void *),
                         int count, SL_REQUEST *requests, int *done, int *indices, void *statuses) {
    several s;
    if (!requests && count > 0)
        return real(count, requests, done, indices, statuses);
    several_begin(&s, number, count, requests, statuses, count, mode);
    int result = real(count, requests, done, indices, s.used);
    if (result != 0)
        completed_in_error(&s.call, s.kept, requests, count);
    else /* MPI_UNDEFINED, which is negative, when none was active */
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

static int test_any_carefully(int (*real)(int, SL_REQUEST *, int *, int *, void *), int count,
                              SL_REQUEST *requests, int *index, int *flag, void *status) {
    several s;
    if (!requests && count > 0)
        return real(count, requests, index, flag, status);
    several_begin(&s, SL_CALL_MPI_Testany, count, requests, status, 1, SL_GATE_POST);
    int result = real(count, requests, index, flag, s.used);
    if (result != 0)
        completed_in_error(&s.call, s.kept, requests, count);
    else
        completed_some(&s.call, s.kept, *flag && *index >= 0 && *index < count, index, s.used);
    several_end(&s);
    return result;
}

/* Of a few requests: one by one, because calling a function that copies them takes longer. */
static inline void keep_few(SL_REQUEST *kept, const SL_REQUEST *requests, int count) {
    for (int i = 0; i < count; i++) {
        kept[i] = requests[i];
        __asm__ volatile("" : : : "memory");
    }
}

__attribute__((noinline)) static void tested_any(const SL_REQUEST *kept, const SL_REQUEST *requests,
                                                 int count, const int *index, const void *status,
                                                 int result) {
    sl_call call;
    test_begins(&call, SL_CALL_MPI_Testany);
    if (result != 0)
        completed_in_error(&call, kept, requests, count);
    else
        completed_some(&call, kept, *index >= 0 && *index < count, index, status);
}

static inline int test_any(int (*real)(int, SL_REQUEST *, int *, int *, void *), int count,
                           SL_REQUEST *requests, int *index, int *flag, void *status) {
    SL_REQUEST kept[SL_QUICK];
    if (!requests || count > SL_QUICK || !passes_freely(status))
        return test_any_carefully(real, count, requests, index, flag, status);
    keep_few(kept, requests, count);
    sl_probe_poll();
    int result = real(count, requests, index, flag, status);
    if (result != 0 || *flag)
        tested_any(kept, requests, count, index, status, result);
    else
        sl_probe_polled();
    return result;
}

/* A test that completes something is rare, so what is needed for its record is made afterwards. */
__attribute__((noinline)) static void tested_one(SL_REQUEST kept, const void *status, int result) {
    sl_call call;
    test_begins(&call, SL_CALL_MPI_Test);
    waited(&call, 1);
    complete_handle(SL_KEY(kept), call.end, result == 0 ? status_at(status, 0) : NULL, result);
}

static inline int has_completed(SL_REQUEST kept, const SL_REQUEST *request, const int *flag, int result) {
    return kept != library.no_request && (result == 0 ? *flag : *request == library.no_request);
}

__attribute__((noinline)) static int test_one_carefully(int (*real)(SL_REQUEST *, int *, void *),
                                                        SL_REQUEST *request, int *flag, void *status) {
    few_statuses few;
    passage p;
    if (!request)
        return real(request, flag, status);
    SL_REQUEST kept = *request;
    pass_test(&p, 1, request);
    void *used = statuses_for(1, status, few.bytes);
    int result = real(request, flag, used);
    if (has_completed(kept, request, flag, result))
        tested_one(kept, used, result);
    leave(&p);
    return result;
}

static inline int test_one(int (*real)(SL_REQUEST *, int *, void *), SL_REQUEST *request, int *flag,
                           void *status) {
    if (!request || !passes_freely(status))
        return test_one_carefully(real, request, flag, status);
    SL_REQUEST kept = *request;
    sl_probe_poll();
    int result = real(request, flag, status);
    if (has_completed(kept, request, flag, result))
        tested_one(kept, status, result);
    else
        sl_probe_polled();
    return result;
}

__attribute__((noinline)) static void tested_all(const SL_REQUEST *kept, const SL_REQUEST *requests,
                                                 int count, const void *statuses, int result) {
    sl_call call;
    int completed = 0;
    test_begins(&call, SL_CALL_MPI_Testall);
    if (result != 0) {
        completed_in_error(&call, kept, requests, count);
        return;
    }
    for (int i = 0; i < count; i++)
        completed += kept[i] != library.no_request;
    waited(&call, completed);
    for (int i = 0; i < count; i++)
        if (kept[i] != library.no_request)
            complete_handle(SL_KEY(kept[i]), call.end, status_at(statuses, i), 0);
}

static int test_all_carefully(int (*real)(int, SL_REQUEST *, int *, void *), int count, SL_REQUEST *requests,
                              int *flag, void *statuses) {
    several s;
    if (!requests && count > 0)
        return real(count, requests, flag, statuses);
    several_begin(&s, SL_CALL_MPI_Testall, count, requests, statuses, count, SL_GATE_POST);
    int result = real(count, requests, flag, s.used);
    if (s.kept && (result != 0 || *flag))
        tested_all(s.kept, requests, count, s.used, result);
    several_end(&s);
    return result;
}

static inline int test_all(int (*real)(int, SL_REQUEST *, int *, void *), int count, SL_REQUEST *requests,
                           int *flag, void *statuses) {
    SL_REQUEST kept[SL_QUICK];
    if (!requests || count > SL_QUICK || !passes_freely(statuses))
        return test_all_carefully(real, count, requests, flag, statuses);
    keep_few(kept, requests, count);
    sl_probe_poll();
    int result = real(count, requests, flag, statuses);
    if (result != 0 || *flag)
        tested_all(kept, requests, count, statuses, result);
    else
        sl_probe_polled();
    return result;
}

/* Completes nothing, so it is not recorded; but a program may use it to wait. */
static int look_at_request(int (*real)(SL_REQUEST, int *, void *), SL_REQUEST request, int *flag,
                           void *status) {
    passage p;
    if (passes_freely(status))
        return real(request, flag, status);
    pass_test(&p, 1, &request);
    int result = real(request, flag, status);
    leave(&p);
    return result;
}

__attribute__((noinline)) static void probed(int peer, int tag, SL_COMM comm) {
    sl_call call;
    before(&call, SL_CALL_MPI_Iprobe, communicator_of(comm), peer, tag);
    end_test(&call);
    sl_probe_write(&call);
}

__attribute__((noinline)) static int probe_carefully(int (*real)(int, int, SL_COMM, int *, void *), int peer,
                                                     int tag, SL_COMM comm, int *flag, void *status) {
    sl_call call;
    sl_communicator *communicator = communicator_of(comm);
    before(&call, SL_CALL_MPI_Iprobe, communicator, peer, tag);
    passage p = pass_look(&call, communicator);
    sl_probe_self.polls = 0; /* a hold is no waiting */
    sl_probe_poll();
    int result = real(peer, tag, comm, flag, status);
    if (result == 0 && *flag)
        probed(peer, tag, comm);
    leave(&p);
    return result;
}

static inline int probe_now(int (*real)(int, int, SL_COMM, int *, void *), int peer, int tag, SL_COMM comm,
                            int *flag, void *status) {
    if (!is_unheld())
        return probe_carefully(real, peer, tag, comm, flag, status);
    sl_probe_poll();
    int result = real(peer, tag, comm, flag, status);
    if (result == 0 && *flag)
        probed(peer, tag, comm);
    else
        sl_probe_polled();
    return result;
}

/* It takes what it finds, which counts as a receive. */
static int probe_message_now(int (*real)(int, int, SL_COMM, int *, SL_MESSAGE *, void *), int peer, int tag,
                             SL_COMM comm, int *flag, SL_MESSAGE *message, void *status) {
    sl_call call;
    few_statuses few;
    sl_communicator *communicator = communicator_of(comm);
    before(&call, SL_CALL_MPI_Improbe, communicator, peer, tag);
    passage p = pass_look(&call, communicator);
    sl_probe_begin(&call);
    void *used = p.caller && status == SL_IGNORE ? few.bytes : status;
    int result = real(peer, tag, comm, flag, message, used);
    if (result == 0 && *flag) {
        sl_probe_after(&call, 0);
        if (p.caller) {
            sl_gate_wild_posted(p.caller->gate);
            matched(NULL, communicator, used);
        }
    }
    leave(&p);
    mind_message(&p, SL_CALL_MPI_Improbe, result != 0 || !*flag);
    return result;
}

/* Removed before the library can give the handle to another thread; added again if the library refuses. */
static int free_request(int (*real)(SL_REQUEST *), SL_REQUEST *request) {
    if (!request)
        return real(request);
    const SL_REQUEST kept = *request;
    const sl_request *known = sl_request_find(SL_KEY(kept));
    sl_request gone = known ? *known : (sl_request){.persistent = 0};
    sl_request_remove(SL_KEY(kept));
    int result = real(request);
    if (result != 0 && known)
        sl_request_add(SL_KEY(kept), &gone);
    else if (gone.wild) {
        atomic_fetch_sub(&gone.wild->pending, 1);
        if ((!gone.persistent || gone.active) && sl_probe_self.gate.gate)
            sl_gate_refuse(sl_probe_self.gate.gate, SL_GATE_CANCELLED); /* what it took will never be known */
    }
    return result;
}

static int cancel_request(int (*real)(SL_REQUEST *), SL_REQUEST *request) {
    if (!request)
        return real(request);
    sl_request *cancelled = sl_request_find(SL_KEY(*request));
    if (cancelled)
        cancelled->cancelled = 1;
    atomic_fetch_add_explicit(&library.cancels, 1, memory_order_relaxed);
    int result = real(request);
    if (result != 0 && cancelled)
        cancelled->cancelled = 0; /* it continues */
    return result;
}
