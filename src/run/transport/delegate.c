#include "run/transport/delegate.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/shared.h"
#include "run/transport/scheduling.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK_MAX (1u << 30)
/* The launcher's signal to end (launch/delegate_launch.h): SIGTERM and SIGUSR1 are warnings to all processes
 * of a rank, which the trainer handles. */
#define LEAVE SIGHUP
/* Death signal. Not SIGKILL: an orphan still removes the names of its sockets. Not LEAVE, which asks for a
 * successor: while the trainer's threads die one after the other, getppid does not distinguish the two. */
#define ORPHANED SIGUSR2

static int ends(const char *text, size_t room) {
    return memchr(text, 0, room) != NULL;
}

static sl_status check_rail(const sl_rail_address *rail, int i) {
    if ((rail->kind != SL_RAIL_TCP && rail->kind != SL_RAIL_UNIX && rail->kind != SL_RAIL_UCX) ||
        !ends(rail->interface, sizeof rail->interface) || !ends(rail->address, sizeof rail->address) ||
        !ends(rail->source, sizeof rail->source) || !rail->address[0])
        return sl_error(SL_EPEER, "a delegate's order has no address for rail %d", i);
    return SL_OK;
}

sl_status sl_delegate_check(const sl_delegate_order *o, size_t bytes) {
    if (bytes < SL_DELEGATE_QUEUE + sizeof(sl_queue) || o->magic != SL_DELEGATE_MAGIC)
        return sl_error(SL_EPEER, "%zu bytes of shared memory hold no order for a delegate", bytes);
    if (o->version != SL_DELEGATE_VERSION)
        return sl_error(SL_EPEER, "a delegate's order has version %u, not %u", o->version,
                        SL_DELEGATE_VERSION);
    if (o->from < 0 || o->to < 0 || o->from == o->to || o->number < 0 || o->number > 0xffff ||
        (o->sends != 0 && o->sends != 1) || (o->proves != 0 && o->proves != 1) || o->parent <= 1)
        return sl_error(SL_EPEER, "a delegate's order names no link (%d -> %d, conduit %d)", o->from, o->to,
                        o->number);
    if (o->rails < 1 || o->rails > SL_RAILS_MAX)
        return sl_error(SL_EPEER, "a delegate's order has %d rails", o->rails);
    if (o->chunk_bytes > CHUNK_MAX || o->beat < 0 || o->silence < 0 || o->outage < 0 || o->refusal < 0 ||
        o->scheduling < SL_CLASS_BEST || o->scheduling > SL_CLASS_NORMAL)
        return sl_error(SL_EPEER, "a delegate's order has limits out of range");
    for (int i = 0; i < o->rails; i++)
        SL_TRY(check_rail(&o->rail[i], i));
    return SL_OK;
}

void sl_delegate_report(sl_delegate_order *order, sl_endpoint_event happened, int rail, const char *text) {
    uint64_t put = atomic_load_explicit(&order->put, memory_order_relaxed); /* own count */
    if (put - atomic_load_explicit(&order->taken, memory_order_acquire) >= SL_DELEGATE_EVENT) {
        atomic_fetch_add(&order->dropped, 1);
        return;
    }
    sl_delegate_event *slot = &order->happened[put % SL_DELEGATE_EVENT];
    slot->time = sl_now();
    slot->happened = (int32_t)happened;
    slot->rail = (int32_t)rail;
    snprintf(slot->text, sizeof slot->text, "%s", text ? text : "");
    atomic_store_explicit(&order->put, put + 1, memory_order_release);
}

int sl_delegate_hear(sl_delegate_order *order, sl_delegate_event *happened) {
    uint64_t taken = atomic_load_explicit(&order->taken, memory_order_relaxed); /* own count */
    if (atomic_load_explicit(&order->put, memory_order_acquire) == taken)
        return 0;
    *happened = order->happened[taken % SL_DELEGATE_EVENT];
    happened->text[sizeof happened->text - 1] = 0;
    atomic_store_explicit(&order->taken, taken + 1, memory_order_release);
    return 1;
}

/* ---- the process ---- */

typedef struct life {
    sl_delegate_order order;   /* private copy of its constant part, which no other process can change */
    sl_delegate_order *shared; /* for `up` and the events */
    size_t bytes;
    sl_queue_view queue;
    sl_loop *loop;
    sl_endpoint *endpoint;
    int parent; /* pidfd */
    int orphan; /* the trainer has exited */
} life;

static void mark_up(life *l, uint32_t set, uint32_t clear) {
    uint32_t up = atomic_load(&l->shared->up);
    atomic_store(&l->shared->up, (up | set) & ~clear);
    sl_clock_wake(sl_clock_real(), &l->shared->up);
}

static void report(void *object, sl_endpoint_event happened, int rail, const char *text) {
    life *l = object;
    uint32_t bit = rail >= 0 && rail < SL_RAILS_MAX ? 1u << rail : 0;
    sl_delegate_report(l->shared, happened, rail, text);
    if (happened == SL_HAPPENED_RAIL_UP)
        mark_up(l, bit, 0);
    else if (happened == SL_HAPPENED_RAIL_DOWN)
        mark_up(l, 0, bit);
    else if (happened == SL_HAPPENED_LOST)
        mark_up(l, SL_DELEGATE_FAILED, 0);
}

static sl_status on_doorbell(void *object, int file) {
    life *l = object;
    uint64_t rung;
    if (read(file, &rung, sizeof rung) < 0) {
        /* another process was quicker: nothing to clear, but looking does no harm */
    }
    return sl_endpoint_look(l->endpoint);
}

static sl_status on_parent(void *object, int file) {
    life *l = object;
    (void)file;
    l->orphan = 1;
    sl_loop_stop(l->loop);
    return SL_OK;
}

static sl_status on_signal(void *object, const siginfo_t *signal) {
    life *l = object;
    if (signal->si_signo == ORPHANED)
        l->orphan = 1;
    if (signal->si_signo == ORPHANED || signal->si_signo == LEAVE)
        sl_loop_stop(l->loop); /* the others are for the trainer, which then ends us */
    return SL_OK;
}

static sl_status map_order(life *l) {
    struct stat facts;
    if (fstat(SL_DELEGATE_MEMORY, &facts) != 0 || facts.st_size <= 0)
        return sl_error(SL_EPEER, "a delegate without shared memory");
    l->bytes = (size_t)facts.st_size;
    if (l->bytes < sizeof l->order)
        return sl_delegate_check(&l->order, l->bytes);
    SL_TRY(sl_shared_map(SL_DELEGATE_MEMORY, l->bytes, "a delegate's memory", &l->shared));
    memcpy(&l->order, l->shared, sizeof l->order);
    SL_TRY(sl_delegate_check(&l->order, l->bytes));
    return sl_queue_open((sl_queue *)(void *)((char *)l->shared + SL_DELEGATE_QUEUE),
                         l->bytes - SL_DELEGATE_QUEUE, &l->queue);
}

/* A predecessor may have died after finishing a message, before ringing this bell. */
static sl_status map_bell(life *l) {
    struct stat facts;
    if (!l->order.sends)
        return SL_OK;
    if (fstat(SL_DELEGATE_SETTLED, &facts) != 0 || facts.st_size < (off_t)SL_DELEGATE_PAGE)
        return sl_error(SL_EPEER, "a delegate without its trainer's bell");
    SL_TRY(sl_shared_map(SL_DELEGATE_SETTLED, SL_DELEGATE_PAGE, "a delegate's bell", &l->queue.settled));
    atomic_fetch_add(l->queue.settled, 1);
    sl_clock_wake(sl_clock_real(), l->queue.settled);
    return SL_OK;
}

/* getppid detects a trainer that died before the signal was requested. */
static sl_status watch_parent(life *l) {
    if (prctl(PR_SET_PDEATHSIG, ORPHANED) != 0)
        return sl_error_errno(SL_ESYS, "a delegate cannot watch for its trainer's end");
    l->parent = (int)syscall(SYS_pidfd_open, l->order.parent, 0);
    if (getppid() != l->order.parent)
        l->orphan = 1;
    /* without pidfds the death signal has to do */
    return l->orphan || l->parent < 0 ? SL_OK : sl_loop_watch(l->loop, l->parent, on_parent, l);
}

void sl_delegate_signals(sigset_t *heard) {
    static const int signals[] = {LEAVE, ORPHANED, SIGTERM, SIGUSR1, SIGINT};
    sigemptyset(heard);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(heard, signals[i]);
}

static sl_status watch_signals(life *l) {
    sigset_t heard;
    sl_delegate_signals(&heard);
    signal(SIGPIPE, SIG_IGN);
    return sl_loop_signals(l->loop, &heard, on_signal, l);
}

static sl_status open_endpoint(life *l) {
    const sl_delegate_order *o = &l->order;
    sl_endpoint_config config = {.sends = o->sends,
                                 .from = o->from,
                                 .to = o->to,
                                 .number = o->number,
                                 .queue = &l->queue,
                                 .rails = o->rails,
                                 .chunk_bytes = o->chunk_bytes,
                                 .beat = o->beat,
                                 .silence = o->silence,
                                 .outage = o->outage,
                                 .refusal = o->refusal,
                                 .proves = o->proves,
                                 .report = report,
                                 .object = l};
    memcpy(config.key, o->key, sizeof config.key);
    memcpy(config.rail, o->rail, sizeof config.rail);
    for (int i = 0; i < SL_RAILS_MAX; i++)
        config.listening[i] = !o->sends && i < o->rails ? SL_DELEGATE_LISTENING + i : -1;
    SL_TRY(sl_endpoint_open(l->loop, &config, &l->endpoint));
    SL_TRY(sl_loop_watch(l->loop, SL_DELEGATE_LISTENERBELL, on_doorbell, l));
    return sl_endpoint_look(l->endpoint); /* what an earlier life left to do */
}

static sl_status live(life *l, const char *starter) {
    sl_status order = map_order(l);
    SL_TRY(sl_build_check(starter)); /* more specific than an error in an order of another version */
    SL_TRY(order);
    SL_TRY(map_bell(l));
    SL_TRY(sl_loop_open(&l->loop));
    SL_TRY(watch_signals(l));
    SL_TRY(watch_parent(l));
    if (l->orphan)
        return SL_OK;
    sl_scheduling_obtain(
        sl_scheduling_for((sl_transport_class)l->order.scheduling, l->order.rail, l->order.rails));
    mark_up(l, 0, ~0u);
    SL_TRY(open_endpoint(l));
    return sl_loop_run(l->loop);
}

/* The trainer would have removed these names; no other process knows them now. */
static void remove_names(const life *l) {
    for (int i = 0; i < l->order.rails && !l->order.sends; i++)
        sl_rail_remove(&l->order.rail[i]);
}

int sl_delegate_run(const char *starter) {
    life l = {.parent = -1};
    sl_status status = live(&l, starter);
    if (status != SL_OK && l.queue.queue) {
        sl_queue_lose(&l.queue, sl_error_text());
        report(&l, SL_HAPPENED_LOST, -1, l.queue.queue->reason);
    }
    int known = l.queue.queue != NULL;
    if (l.orphan || (known && getppid() != l.order.parent))
        remove_names(&l);
    sl_endpoint_close(l.endpoint);
    sl_loop_close(l.loop);
    return status == SL_OK ? 0 : known ? 1 : 2;
}
