#include "notice/plugin/profiler_events.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "notice/plugin/event_slots.h"
#include "notice/probe/reported_events.h"

/* Found in the preloaded probe. Without one they are NULL, and NCCL is asked for no events. */
#pragma weak sl_reported_plugged
#pragma weak sl_reported_timing
#pragma weak sl_reported_now
#pragma weak sl_reported_write
#pragma weak sl_reported_lost

enum { COMMUNICATORS = 1024, TASKS = 8192, OPS = 8192, STEPS = 16 };
enum { BASIC = SL_NCCL_COLLECTIVE | SL_NCCL_MESSAGE | SL_NCCL_COPY_COLLECTIVE };
enum { TIMED = BASIC | SL_NCCL_PROXY_OP | SL_NCCL_PROXY_STEP | SL_NCCL_KERNEL };

#define AMOUNT_MAX (UINT64_C(1) << 50)
#define LONGEST INT64_C(3600000000000) /* ns; a longer kernel is an error of the GPU's times */

typedef struct followed_communicator {
    sl_event_slot slot;
    _Atomic uint64_t name; /* 0: not known yet */
    int version, rank, ranks;
} followed_communicator;

/* A collective or message: parts are the host's, its open proxy ops, and the blocks of its kernel. Until the
 * first of its children has come, an event of an unknown number of blocks has one part more, which that child
 * takes over (`waits`). */
typedef struct followed_task {
    sl_event_slot slot;
    sl_call call;
    uint32_t communicator;           /* its slot */
    _Atomic int host, waits, blocks; /* host: not stopped; blocks: of the kernel, not yet started */
    _Atomic int64_t began, ended;    /* host's times, of blocks */
    _Atomic uint64_t gpu_began, gpu_ended;
    _Atomic int64_t op_ended; /* the last of its proxy ops */
} followed_task;

typedef enum wait_for { WAIT_GPU, WAIT_PEER, WAIT_NETWORK, WAITS, WAIT_NOTHING = WAITS } wait_for;

/* A proxy op. A wait lasts while at least one of its steps is in it. */
typedef struct followed_op {
    sl_event_slot slot;
    sl_call call;
    uint32_t communicator;
    const void *task; /* NULL: none */
    _Atomic uint64_t bytes;
    struct {
        _Atomic int steps;
        _Atomic int64_t since, total;
    } wait[WAITS];
    _Atomic int step[STEPS]; /* wait_for + 1; 0: not started */
} followed_op;

static void finish_communicator(sl_event_slot *slot, uint32_t parts);
static void finish_task(sl_event_slot *slot, uint32_t parts);
static void finish_op(sl_event_slot *slot, uint32_t parts);

/* The process. Pools are made once and stay: NCCL may close the plug-in and open it again, and its threads
 * may come late. */
static struct {
    pthread_once_t once;
    pid_t pid;
    sl_event_pool communicators, tasks, ops;
    int *_Atomic mask; /* NCCL's own; NULL: no communicator */
    _Atomic int masked;
    _Atomic uint32_t count; /* communicators */
} all = {.once = PTHREAD_ONCE_INIT,
         .communicators = {.kind = SL_EVENT_COMMUNICATOR, .finish = finish_communicator},
         .tasks = {.kind = SL_EVENT_TASK, .finish = finish_task},
         .ops = {.kind = SL_EVENT_OP, .finish = finish_op}};

static void make_pool(sl_event_pool *pool, uint32_t count, size_t size) {
    pool->slots = calloc(count, size);
    pool->count = count;
    pool->size = (uint32_t)size;
}

static void make_pools(void) {
    make_pool(&all.communicators, COMMUNICATORS, sizeof(followed_communicator));
    make_pool(&all.tasks, TASKS, sizeof(followed_task));
    make_pool(&all.ops, OPS, sizeof(followed_op));
}

static void forked(void) {
    all.pid = getpid();
}

static void make_process(void) {
    make_pools();
    forked();
    pthread_atfork(NULL, NULL, forked);
}

/* ---- small things ---- */

static void earliest(_Atomic int64_t *time, int64_t now) {
    int64_t before = atomic_load_explicit(time, memory_order_relaxed);
    while ((before == 0 || now < before) && now > 0 &&
           !atomic_compare_exchange_weak_explicit(time, &before, now, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

static void latest(_Atomic int64_t *time, int64_t now) {
    int64_t before = atomic_load_explicit(time, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak_explicit(time, &before, now, memory_order_relaxed,
                                                                  memory_order_relaxed))
        ;
}

static void lowest(_Atomic uint64_t *value, uint64_t now) {
    uint64_t before = atomic_load_explicit(value, memory_order_relaxed);
    while (now > 0 && (before == 0 || now < before) &&
           !atomic_compare_exchange_weak_explicit(value, &before, now, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

static void highest(_Atomic uint64_t *value, uint64_t now) {
    uint64_t before = atomic_load_explicit(value, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak_explicit(value, &before, now, memory_order_relaxed,
                                                                  memory_order_relaxed))
        ;
}

#define GET(member) atomic_load_explicit(&(member), memory_order_relaxed)
#define SET(member, value) atomic_store_explicit(&(member), (value), memory_order_relaxed)

/* What NCCL is to report from now on: everything while a profile asks for times of the device. */
static int wanted(void) {
    return sl_reported_timing() == SL_TIMING_DEVICE ? TIMED : BASIC;
}

static void adjust_mask(void) {
    int now = wanted(), *mask = atomic_load_explicit(&all.mask, memory_order_acquire);
    if (mask && GET(all.masked) != now) {
        SET(all.masked, now);
        __atomic_store_n(mask, now, __ATOMIC_RELAXED);
    }
}

/* ---- communicators ---- */

static uint32_t index_of(const sl_event_pool *pool, const sl_event_slot *slot) {
    return (uint32_t)((size_t)((const char *)slot - pool->slots) / pool->size);
}

static void finish_communicator(sl_event_slot *slot, uint32_t parts) {
    (void)slot;
    sl_reported_lost(parts > 0);
}

int sl_nccl_open(void **context, int *mask, int version, uint64_t name, int ranks, int rank) {
    if (!context || !mask)
        return SL_NCCL_SUCCESS;
    *context = NULL;
    pthread_once(&all.once, make_process);
    if (!sl_reported_plugged || !sl_reported_plugged()) {
        *mask = 0;
        return SL_NCCL_SUCCESS;
    }
    SET(all.masked, wanted());
    __atomic_store_n(mask, GET(all.masked), __ATOMIC_RELAXED);
    atomic_store_explicit(&all.mask, mask, memory_order_release);
    sl_event_slot *slot = sl_event_claim(&all.communicators, 1);
    sl_reported_lost(!slot);
    if (!slot)
        return SL_NCCL_SUCCESS;
    followed_communicator *c = (followed_communicator *)slot;
    SET(c->name, name);
    c->version = version;
    c->ranks = ranks;
    c->rank = rank;
    *context = sl_event_handle(&all.communicators, slot, SL_EVENT_COMMUNICATOR, 0);
    sl_event_unpin(&all.communicators, slot, 0);
    atomic_fetch_add_explicit(&all.count, 1, memory_order_relaxed);
    return SL_NCCL_SUCCESS;
}

static int op_is_of(const sl_event_slot *slot, uint32_t communicator) {
    return ((const followed_op *)slot)->communicator == communicator;
}

static int task_is_of(const sl_event_slot *slot, uint32_t communicator) {
    return ((const followed_task *)slot)->communicator == communicator;
}

/* Its events under way end with it: an op with the waits so far, a task if any of its children ended. */
int sl_nccl_close(void *context) {
    unsigned part;
    sl_event_slot *slot = sl_event_kind_of(context, &part) == SL_EVENT_COMMUNICATOR
                              ? sl_event_pin(&all.communicators, context)
                              : NULL;
    if (!slot)
        return SL_NCCL_SUCCESS;
    sl_event_drop(&all.ops, op_is_of, index_of(&all.communicators, slot));
    sl_event_drop(&all.tasks, task_is_of, index_of(&all.communicators, slot));
    sl_event_unpin(&all.communicators, slot, -1);
    if (atomic_fetch_sub_explicit(&all.count, 1, memory_order_relaxed) == 1)
        atomic_store_explicit(&all.mask, NULL, memory_order_release);
    return SL_NCCL_SUCCESS;
}

/* ---- collectives and messages ---- */

/* ns on the device: by the GPU's clock, else between the blocks' events. -1: it was not seen. */
static int64_t device_time(const followed_task *t) {
    uint64_t gpu_began = GET(t->gpu_began), gpu_ended = GET(t->gpu_ended);
    int64_t began = GET(t->began), ended = GET(t->ended);
    if (ended == 0 || began == 0)
        return -1;
    if (gpu_began > 0 && gpu_ended > gpu_began && gpu_ended - gpu_began < (uint64_t)LONGEST)
        return (int64_t)(gpu_ended - gpu_began);
    return ended - began;
}

static void finish_task(sl_event_slot *slot, uint32_t parts) {
    const followed_task *t = (const followed_task *)slot;
    sl_reported_lost(parts > (uint32_t)GET(t->waits)); /* without any child, nothing is lost */
    sl_call done = t->call;
    done.kind = SL_RECORD_COMPLETION;
    done.device = device_time(t);
    done.end = GET(t->ended) > 0 ? GET(t->ended) : GET(t->op_ended);
    if (done.end > 0 && done.start > 0)
        sl_reported_write(&done);
}

/* Bytes as in src/notice/probe/README.md. */
static uint64_t bytes_of(const sl_nccl_event *e, const followed_communicator *c) {
    uint64_t ranks = e->call == SL_CALL_ncclReduceScatter && c->ranks > 0 ? (uint64_t)c->ranks : 1;
    return e->bytes < AMOUNT_MAX ? e->bytes * ranks : 0;
}

static sl_call call_of(const sl_nccl_event *e, const followed_communicator *c) {
    int rooted = e->call == SL_CALL_ncclBroadcast || e->call == SL_CALL_ncclReduce ||
                 e->call == SL_CALL_ncclGather || e->call == SL_CALL_ncclScatter ||
                 e->call == SL_CALL_ncclSend || e->call == SL_CALL_ncclRecv;
    return (sl_call){.kind = SL_RECORD_CALL,
                     .call = (uint8_t)e->call,
                     .tag = SL_TAG_NONE,
                     .rank = c->version >= 4 ? c->rank : e->rank,
                     .peer = rooted ? e->peer : SL_PEER_NONE,
                     .communicator = GET(c->name),
                     .bytes = bytes_of(e, c),
                     .device = -1,
                     .start = sl_reported_now()};
}

static void *start_task(const sl_nccl_event *e, followed_communicator *c) {
    int device = sl_reported_timing() == SL_TIMING_DEVICE && e->type != SL_NCCL_COPY_COLLECTIVE;
    int known = e->type == SL_NCCL_COLLECTIVE && c->version >= 3 && e->channels > 0;
    uint32_t parts = 1 + (uint32_t)(!device ? 0 : known ? e->channels : 1);
    if (e->call == SL_CALL_NOTHING)
        return NULL;
    if (e->communicator && GET(c->name) == 0)
        SET(c->name, e->communicator);
    sl_event_slot *slot = sl_event_claim(&all.tasks, parts);
    sl_reported_lost(!slot);
    if (!slot)
        return NULL;
    followed_task *t = (followed_task *)slot;
    t->call = call_of(e, c);
    t->communicator = index_of(&all.communicators, &c->slot);
    SET(t->host, 1);
    SET(t->waits, device && !known);
    SET(t->blocks, device && known ? e->channels : 0);
    SET(t->began, 0);
    SET(t->ended, 0);
    SET(t->gpu_began, 0);
    SET(t->gpu_ended, 0);
    SET(t->op_ended, 0);
    void *handle = sl_event_handle(&all.tasks, slot, SL_EVENT_TASK, 0);
    sl_event_unpin(&all.tasks, slot, 0);
    return handle;
}

/* It is enqueued. */
static void stop_task(followed_task *t) {
    sl_call call = t->call;
    if (atomic_exchange_explicit(&t->host, 0, memory_order_relaxed) == 0) {
        sl_event_unpin(&all.tasks, &t->slot, 0);
        return;
    }
    call.end = call.start ? sl_reported_now() : 0;
    sl_reported_write(&call);
    sl_event_unpin(&all.tasks, &t->slot, -1);
}

/* The task that an event belongs to, pinned; NULL: none. */
static followed_task *task_of(const void *parent) {
    unsigned part;
    return sl_event_kind_of(parent, &part) == SL_EVENT_TASK
               ? (followed_task *)sl_event_pin(&all.tasks, parent)
               : NULL;
}

/* A child begins: the number of parts that it adds. */
static int take_part(followed_task *t, int block) {
    if (block && atomic_fetch_sub_explicit(&t->blocks, 1, memory_order_relaxed) > 0)
        return 0;
    if (block)
        atomic_fetch_add_explicit(&t->blocks, 1, memory_order_relaxed);
    return atomic_exchange_explicit(&t->waits, 0, memory_order_relaxed) ? 0 : 1;
}

static void *start_block(const sl_nccl_event *e) {
    followed_task *t = task_of(e->parent);
    if (!t)
        return NULL;
    earliest(&t->began, sl_reported_now());
    lowest(&t->gpu_began, e->time);
    void *handle = sl_event_handle(&all.tasks, &t->slot, SL_EVENT_KERNEL, (unsigned)e->channel);
    sl_event_unpin(&all.tasks, &t->slot, take_part(t, 1));
    return handle;
}

static void stop_block(followed_task *t) {
    latest(&t->ended, sl_reported_now());
    sl_event_unpin(&all.tasks, &t->slot, -1);
}

/* ---- proxy ops ---- */

static void write_wait(const followed_op *op, int call, wait_for wait) {
    sl_call record = op->call;
    record.call = (uint8_t)call;
    record.device = GET(op->wait[wait].total);
    if (call == op->call.call || record.device > 0)
        sl_reported_write(&record);
}

static void finish_op(sl_event_slot *slot, uint32_t parts) {
    followed_op *op = (followed_op *)slot;
    int64_t now = sl_reported_now();
    uint64_t bytes = GET(op->bytes);
    sl_reported_lost(parts > 0);
    op->call.end = now;
    op->call.bytes = bytes ? bytes : op->call.bytes;
    for (int w = 0; w < WAITS; w++) /* steps that were not stopped */
        if (GET(op->wait[w].steps) > 0 && now > GET(op->wait[w].since))
            SET(op->wait[w].total, GET(op->wait[w].total) + now - GET(op->wait[w].since));
    if (op->call.start > 0 && now > 0) {
        write_wait(op, op->call.call, WAIT_NETWORK);
        write_wait(op, SL_CALL_ncclProxyGpuWait, WAIT_GPU);
        write_wait(op, SL_CALL_ncclProxyPeerWait, WAIT_PEER);
    }
    followed_task *t = task_of(op->task);
    if (!t)
        return;
    latest(&t->op_ended, now);
    sl_event_unpin(&all.tasks, &t->slot, -1);
}

static void *start_op(const sl_nccl_event *e, const followed_communicator *c) {
    if (e->pid != all.pid) /* its parent is an event of another process */
        return NULL;
    sl_event_slot *slot = sl_event_claim(&all.ops, 1);
    sl_reported_lost(!slot);
    if (!slot)
        return NULL;
    followed_op *op = (followed_op *)slot;
    op->call = (sl_call){.kind = SL_RECORD_COMPLETION,
                         .call = e->sends ? SL_CALL_ncclProxySend : SL_CALL_ncclProxyRecv,
                         .tag = e->channel,
                         .rank = c->version >= 4 ? c->rank : e->rank,
                         .peer = e->peer,
                         .communicator = GET(c->name),
                         .bytes = e->bytes < AMOUNT_MAX ? e->bytes : 0,
                         .start = sl_reported_now()};
    op->communicator = index_of(&all.communicators, &c->slot);
    SET(op->bytes, 0);
    for (int w = 0; w < WAITS; w++) {
        SET(op->wait[w].steps, 0);
        SET(op->wait[w].since, 0);
        SET(op->wait[w].total, 0);
    }
    for (int s = 0; s < STEPS; s++)
        SET(op->step[s], 0);
    followed_task *t = task_of(e->parent);
    op->task = t ? e->parent : NULL;
    if (t)
        sl_event_unpin(&all.tasks, &t->slot, take_part(t, 0));
    void *handle = sl_event_handle(&all.ops, slot, SL_EVENT_OP, 0);
    sl_event_unpin(&all.ops, slot, 0);
    return handle;
}

/* ---- steps ---- */

static followed_op *op_of(const void *handle, sl_handle_kind kind, unsigned *part) {
    return sl_event_kind_of(handle, part) == kind ? (followed_op *)sl_event_pin(&all.ops, handle) : NULL;
}

/* A step waits for something else now. */
static void change_wait(followed_op *op, unsigned step, wait_for next) {
    int64_t now = sl_reported_now();
    int before = atomic_exchange_explicit(&op->step[step % STEPS], (int)next + 1, memory_order_relaxed) - 1;
    if (before == (int)next)
        return;
    if (before >= 0 && before < WAITS) {
        if (atomic_fetch_sub_explicit(&op->wait[before].steps, 1, memory_order_relaxed) == 1)
            atomic_fetch_add_explicit(&op->wait[before].total, now - GET(op->wait[before].since),
                                      memory_order_relaxed);
    }
    if (next < WAITS && atomic_fetch_add_explicit(&op->wait[next].steps, 1, memory_order_relaxed) == 0)
        SET(op->wait[next].since, now);
}

static void *start_step(const sl_nccl_event *e) {
    unsigned part;
    followed_op *op = op_of(e->parent, SL_EVENT_OP, &part);
    if (!op)
        return NULL;
    change_wait(op, e->step, WAIT_NOTHING);
    void *handle = sl_event_handle(&all.ops, &op->slot, SL_EVENT_STEP, e->step % STEPS);
    sl_event_unpin(&all.ops, &op->slot, 0);
    return handle;
}

static wait_for wait_of(int state) {
    switch (state) {
    case SL_NCCL_SEND_GPU_WAIT:
    case SL_NCCL_RECV_FLUSH_WAIT:
    case SL_NCCL_RECV_GPU_WAIT:
        return WAIT_GPU;
    case SL_NCCL_SEND_PEER_WAIT:
        return WAIT_PEER;
    case SL_NCCL_SEND_WAIT:
    case SL_NCCL_RECV_WAIT:
        return WAIT_NETWORK;
    default:
        return WAIT_NOTHING;
    }
}

/* ---- what NCCL calls ---- */

static void *start_in(followed_communicator *c, const sl_nccl_event *e) {
    switch (e->type) {
    case SL_NCCL_COLLECTIVE:
    case SL_NCCL_MESSAGE:
    case SL_NCCL_COPY_COLLECTIVE:
        return start_task(e, c);
    case SL_NCCL_PROXY_OP:
        return start_op(e, c);
    case SL_NCCL_PROXY_STEP:
        return start_step(e);
    case SL_NCCL_KERNEL:
        return start_block(e);
    default:
        return NULL;
    }
}

int sl_nccl_start(const void *context, void **handle, const sl_nccl_event *e) {
    unsigned part;
    *handle = NULL;
    if (sl_event_kind_of(context, &part) != SL_EVENT_COMMUNICATOR)
        return SL_NCCL_SUCCESS;
    sl_event_slot *slot = sl_event_pin(&all.communicators, context);
    if (!slot)
        return SL_NCCL_SUCCESS;
    adjust_mask();
    *handle = start_in((followed_communicator *)slot, e);
    sl_event_unpin(&all.communicators, slot, 0);
    return SL_NCCL_SUCCESS;
}

int sl_nccl_stop(const void *handle) {
    unsigned part;
    sl_handle_kind kind = sl_event_kind_of(handle, &part);
    sl_event_slot *slot = kind == SL_EVENT_TASK || kind == SL_EVENT_KERNEL ? sl_event_pin(&all.tasks, handle)
                          : kind == SL_EVENT_OP || kind == SL_EVENT_STEP   ? sl_event_pin(&all.ops, handle)
                                                                           : NULL;
    if (!slot)
        return SL_NCCL_SUCCESS;
    if (kind == SL_EVENT_TASK)
        stop_task((followed_task *)slot);
    else if (kind == SL_EVENT_KERNEL)
        stop_block((followed_task *)slot);
    else if (kind == SL_EVENT_OP)
        sl_event_unpin(&all.ops, slot, -1);
    else {
        change_wait((followed_op *)slot, part, WAIT_NOTHING);
        sl_event_unpin(&all.ops, slot, 0);
    }
    return SL_NCCL_SUCCESS;
}

int sl_nccl_reach(const void *handle, int state, uint64_t size, uint64_t time) {
    unsigned part;
    sl_handle_kind kind = sl_event_kind_of(handle, &part);
    if (kind == SL_EVENT_KERNEL && state == SL_NCCL_KERNEL_STOP) {
        followed_task *t = (followed_task *)sl_event_pin(&all.tasks, handle);
        if (t) {
            highest(&t->gpu_ended, time);
            sl_event_unpin(&all.tasks, &t->slot, 0);
        }
        return SL_NCCL_SUCCESS;
    }
    followed_op *op = wait_of(state) == WAIT_NOTHING ? NULL : op_of(handle, SL_EVENT_STEP, &part);
    if (!op)
        return SL_NCCL_SUCCESS;
    if ((state == SL_NCCL_SEND_WAIT || state == SL_NCCL_RECV_FLUSH_WAIT) && size < AMOUNT_MAX &&
        GET(op->step[part % STEPS]) != (int)wait_of(state) + 1)
        atomic_fetch_add_explicit(&op->bytes, size, memory_order_relaxed);
    change_wait(op, part, wait_of(state));
    sl_event_unpin(&all.ops, &op->slot, 0);
    return SL_NCCL_SUCCESS;
}
