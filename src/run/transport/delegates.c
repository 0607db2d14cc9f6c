/* Creates the resources of delegates and sends their addresses to the peers. delegates_watch.c watches the
 * processes. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/shared.h"
#include "run/rail/rail_line.h"
#include "run/transport/delegates_inside.h"
#include "run/transport/listen.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the block: where a rank's receiving delegates listen ---- */

typedef struct port_row {
    uint16_t port[SL_DELEGATES_MAX][SL_RAILS_MAX];
} port_row;

typedef struct delegate_block {
    uint64_t magic;
    int32_t rank, count, rails, slots;
    uint64_t message_bytes;
    char address[SL_RAILS_MAX][64];
    port_row from[]; /* [ranks] */
} delegate_block;

size_t sl_delegates_block_bytes(int ranks) {
    return sizeof(delegate_block) + (size_t)ranks * sizeof(port_row);
}

static const delegate_block *block_of(const sl_delegates *d, const void *blocks, int rank) {
    return (const delegate_block *)(const void *)((const char *)blocks +
                                                  (size_t)rank * sl_delegates_block_bytes(d->config->ranks));
}

static sl_status check_block(const sl_delegates *d, const delegate_block *b, int rank) {
    if (b->magic != SL_DELEGATE_MAGIC || b->rank != rank || b->count != d->count ||
        b->slots != d->config->slots || b->message_bytes != d->config->message_bytes || b->rails < 0 ||
        b->rails > SL_RAILS_MAX)
        return sl_error(SL_EPEER, "link %d -> %d: rank %d prepared other delegates (%d, %d slots)",
                        d->config->rank, rank, rank, b->count, b->slots);
    return SL_OK;
}

/* ---- one delegate's things ---- */

/* Zeroed memory for two processes; *file and *memory are set as far as it succeeds. */
static sl_status share(size_t bytes, int *file, void *memory) {
    *file = memfd_create("slackline-queue", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*file < 0)
        return sl_error_errno(SL_ESYS, "no %zu bytes of memory to share with a delegate", bytes);
    SL_TRY(sl_shared_reserve(*file, bytes, "a delegate's memory"));
    /* neither process can shrink the memory, which would be a SIGBUS in the other */
    if (fcntl(*file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return sl_error_errno(SL_ESYS, "the memory of a delegate cannot be sealed");
    return sl_shared_map(*file, bytes, "a delegate's memory", memory);
}

static sl_status make_memory(sl_delegate *e, const sl_delegates_config *c) {
    size_t queue_bytes = 0;
    SL_TRY(sl_queue_size((uint32_t)c->slots, c->message_bytes, &queue_bytes));
    e->bytes = SL_DELEGATE_QUEUE + queue_bytes;
    SL_TRY(share(e->bytes, &e->memory, &e->order));
    sl_queue *queue = (sl_queue *)(void *)((char *)e->order + SL_DELEGATE_QUEUE);
    sl_queue_format(queue, (uint32_t)c->slots, c->message_bytes);
    SL_TRY(sl_queue_open(queue, queue_bytes, &e->stream.queue));
    return sl_alloc(&e->stream.record, (size_t)c->slots, sizeof *e->stream.record);
}

static sl_status make(sl_delegates *d, sl_delegate *e, int peer, int sends, int number) {
    const sl_delegates_config *c = d->config;
    e->peer = peer;
    SL_TRY(make_memory(e, c));
    if (sends)
        e->stream.queue.settled = d->settled;
    e->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->doorbell < 0)
        return sl_error_errno(SL_ESYS, "no doorbell for a delegate");
    sl_delegate_order *o = e->order;
    o->version = SL_DELEGATE_VERSION;
    o->parent = (int32_t)getpid();
    o->sends = sends;
    o->from = sends ? c->rank : peer;
    o->to = sends ? peer : c->rank;
    o->number = number;
    o->scheduling = (int32_t)c->scheduling;
    o->chunk_bytes = c->chunk_bytes;
    o->beat = c->beat;
    o->silence = c->silence;
    o->outage = c->outage;
    o->refusal = c->refusal;
    o->proves = c->proves;
    memcpy(o->key, c->key, sizeof o->key);
    o->magic = SL_DELEGATE_MAGIC;
    return SL_OK;
}

/* ---- rails ---- */

static sl_status name_socket(const sl_delegates *d, int from, int to, int number, sl_rail_address *rail) {
    int size = snprintf(rail->address, sizeof rail->address, "%s/rail.%d-%d.%d", d->config->directory, from,
                        to, number);
    if (!d->config->directory || size >= (int)sizeof rail->address)
        return sl_error(SL_EINVAL, "link %d -> %d: the run's directory '%s' has too long a name for a socket",
                        from, to, d->config->directory ? d->config->directory : "");
    rail->kind = SL_RAIL_UNIX;
    return SL_OK;
}

/* A rail is bound to an interface if its name was given, not its address. */
static void bind_to(sl_rail_address *rail, const char *name, const char *number) {
    const char *given = sl_rail_parse(name, &rail->kind);
    if (given[0] && strcmp(given, number) != 0)
        snprintf(rail->interface, sizeof rail->interface, "%.31s", given);
}

static sl_status listen_for(sl_delegates *d, sl_delegate *e) {
    const sl_delegates_config *c = d->config;
    sl_delegate_order *o = e->order;
    int remote = c->talks[e->peer] == 2;
    int rails = remote ? d->rails : 1;
    for (int i = 0; i < rails; i++) {
        sl_rail_address *rail = &o->rail[i];
        if (remote) {
            snprintf(rail->address, sizeof rail->address, "%s", d->address[i]);
            bind_to(rail, c->rail[i], d->address[i]);
        } else
            SL_TRY(name_socket(d, o->from, o->to, o->number, rail));
        SL_TRY(sl_rail_listen(rail, &e->listening[i]));
        o->rails = i + 1;
    }
    return SL_OK;
}

static sl_status find_way(sl_delegates *d, sl_delegate *e, const delegate_block *there) {
    const sl_delegates_config *c = d->config;
    sl_delegate_order *o = e->order;
    if (c->talks[e->peer] == 1) {
        o->rails = 1;
        return name_socket(d, o->from, o->to, o->number, &o->rail[0]);
    }
    for (int i = 0; i < there->rails; i++) {
        int own = i % d->rails;
        sl_rail_address *rail = &o->rail[i];
        snprintf(rail->address, sizeof rail->address, "%.63s", there->address[i]);
        snprintf(rail->source, sizeof rail->source, "%s", d->address[own]);
        bind_to(rail, c->rail[own], d->address[own]);
        rail->port = there->from[c->rank].port[o->number][i];
    }
    o->rails = there->rails;
    return SL_OK;
}

static sl_status choose_addresses(sl_delegates *d) {
    const sl_delegates_config *c = d->config;
    if (!memchr(c->talks, 2, (size_t)c->ranks))
        return SL_OK;
    d->rails = c->rails ? c->rails : 1;
    for (int i = 0; i < d->rails; i++) {
        sl_rail_kind kind = SL_RAIL_TCP;
        const char *name = c->rails ? sl_rail_parse(c->rail[i], &kind) : NULL;
        SL_TRY(sl_line_check(kind));
        SL_TRY(sl_address_choose(name, d->address[i]));
    }
    return SL_OK;
}

/* ---- all of them ---- */

/* Order: peers ascending, and for each its incoming ones, then its outgoing ones. */
static sl_delegate *delegate_at(sl_delegates *d, int peer, int sends, int number) {
    return &d->delegate[(d->peer_index[peer] * 2 + sends) * d->count + number];
}

static sl_status make_all(sl_delegates *d) {
    const sl_delegates_config *c = d->config;
    SL_TRY(share(SL_DELEGATE_PAGE, &d->page, &d->settled));
    SL_TRY(choose_addresses(d));
    SL_TRY(sl_alloc(&d->peer_index, (size_t)c->ranks, sizeof *d->peer_index));
    int peers = 0;
    for (int r = 0; r < c->ranks; r++)
        d->peer_index[r] = c->talks[r] ? peers++ : -1;
    int all = peers * 2 * d->count;
    SL_TRY(sl_alloc(&d->delegate, (size_t)all, sizeof *d->delegate));
    for (; d->delegates < all; d->delegates++) {
        sl_delegate *e = &d->delegate[d->delegates];
        e->all = d;
        e->memory = e->doorbell = -1;
        for (int i = 0; i < SL_RAILS_MAX; i++)
            e->listening[i] = -1;
    }
    for (int r = 0; r < c->ranks; r++)
        for (int i = 0; c->talks[r] && i < 2 * d->count; i++)
            SL_TRY(make(d, delegate_at(d, r, i / d->count, i % d->count), r, i / d->count, i % d->count));
    return SL_OK;
}

static sl_status listen_all(sl_delegates *d, delegate_block *own) {
    const sl_delegates_config *c = d->config;
    own->magic = SL_DELEGATE_MAGIC;
    own->rank = c->rank;
    own->count = d->count;
    own->rails = d->rails;
    own->slots = c->slots;
    own->message_bytes = c->message_bytes;
    memcpy(own->address, d->address, sizeof own->address);
    for (int r = 0; r < c->ranks; r++)
        for (int i = 0; c->talks[r] && i < d->count; i++) {
            sl_delegate *e = delegate_at(d, r, 0, i);
            SL_TRY(listen_for(d, e));
            for (int rail = 0; rail < e->order->rails; rail++)
                own->from[r].port[i][rail] = e->order->rail[rail].port;
        }
    return SL_OK;
}

sl_status sl_delegates_prepare(const sl_delegates_config *config, int count, void *out,
                               sl_delegates **result) {
    sl_delegates *d;
    sl_status status;
    *result = NULL;
    memset(out, 0, sl_delegates_block_bytes(config->ranks));
    if (!config->has_starter)
        return sl_error(SL_EINVAL, "rank %d: nothing is there that could start delegates", config->rank);
    if (count < 1 || count > SL_DELEGATES_MAX)
        return sl_error(SL_EINVAL, "rank %d: %d delegates per link; 1 to %d are possible", config->rank,
                        count, SL_DELEGATES_MAX);
    SL_TRY(sl_alloc(&d, 1, sizeof *d));
    d->config = config;
    d->count = count;
    d->page = -1;
    pthread_mutex_init(&d->mutex, NULL);
    SL_TRY_GOTO(err_close, status, make_all(d));
    SL_TRY_GOTO(err_close, status, listen_all(d, out));
    *result = d;
    return SL_OK;
err_close:
    sl_delegates_close(d);
    return status;
}

/* Sleeps until a sending delegate has a rail. */
static sl_status await_rail(sl_delegate *e, sl_time deadline) {
    sl_delegate_order *o = e->order;
    for (;;) {
        uint32_t up = atomic_load(&o->up);
        if (up & SL_DELEGATE_FAILED)
            return sl_error(SL_EPEER, "link %d -> %d: %.*s", o->from, o->to, SL_QUEUE_REASON - 1,
                            e->stream.queue.queue->reason);
        if (up)
            return SL_OK;
        if (sl_now() >= deadline)
            return sl_error(SL_EPEER, "link %d -> %d: delegate %d found no way to the other side in time",
                            o->from, o->to, o->number);
        sl_clock_wait(sl_clock_real(), &o->up, up, deadline);
    }
}

sl_status sl_delegates_start(sl_delegates *d, const void *blocks, sl_time timeout) {
    const sl_delegates_config *c = d->config;
    sl_time deadline = sl_now() + timeout;
    for (int r = 0; r < c->ranks; r++)
        if (c->talks[r])
            SL_TRY(check_block(d, block_of(d, blocks, r), r));
    for (int i = 0; i < d->delegates; i++)
        if (d->delegate[i].order->sends)
            SL_TRY(find_way(d, &d->delegate[i], block_of(d, blocks, d->delegate[i].peer)));
    SL_TRY(sl_delegates_watch(d));
    for (int i = 0; i < d->delegates; i++)
        if (d->delegate[i].order->sends)
            SL_TRY(await_rail(&d->delegate[i], deadline));
    return SL_OK;
}

static void free_delegate(sl_delegate *e) {
    for (int i = 0; i < SL_RAILS_MAX; i++)
        if (e->listening[i] >= 0) {
            close(e->listening[i]);
            sl_rail_remove(&e->order->rail[i]);
        }
    if (e->order)
        munmap(e->order, e->bytes);
    if (e->memory >= 0)
        close(e->memory);
    if (e->doorbell >= 0)
        close(e->doorbell);
    sl_free(e->stream.record);
}

void sl_delegates_close(sl_delegates *d) {
    if (!d)
        return;
    sl_delegates_unwatch(d);
    for (int i = 0; i < d->delegates; i++)
        free_delegate(&d->delegate[i]);
    if (d->settled)
        munmap((void *)d->settled, SL_DELEGATE_PAGE);
    if (d->page >= 0)
        close(d->page);
    pthread_mutex_destroy(&d->mutex);
    SL_FREE(d->delegate, d->peer_index, d);
}

/* ---- for the compute side ---- */

int sl_delegates_count(const sl_delegates *d) {
    return d->count;
}

sl_delegate_stream *sl_delegates_stream(sl_delegates *d, int peer, int sends, uint64_t message) {
    return &delegate_at(d, peer, sends, (int)(message % (uint64_t)d->count))->stream;
}

uint64_t sl_delegates_position(const sl_delegates *d, uint64_t message) {
    return message / (uint64_t)d->count;
}

_Atomic uint32_t *sl_delegates_settled(sl_delegates *d) {
    return d->settled;
}

void sl_delegates_ring(sl_delegates *d, const sl_delegate_stream *stream) {
    const sl_delegate *e =
        (const sl_delegate *)(const void *)((const char *)stream - offsetof(sl_delegate, stream));
    uint64_t one = 1;
    (void)d;
    /* fails only if the counter is full, and then the delegate is being woken anyway */
    if (write(e->doorbell, &one, sizeof one) < 0)
        return;
}

/* 0: nothing that a delegate says. */
static int kind_of(int32_t heard, sl_transport_event_kind *kind) {
    static const sl_transport_event_kind kinds[] = {[SL_HAPPENED_RAIL_UP] = SL_TRANSPORT_RAIL_UP,
                                                    [SL_HAPPENED_RAIL_DOWN] = SL_TRANSPORT_RAIL_DOWN,
                                                    [SL_HAPPENED_STRANGER] = SL_TRANSPORT_STRANGER,
                                                    [SL_HAPPENED_GOODBYE] = SL_TRANSPORT_GOODBYE,
                                                    [SL_HAPPENED_LOST] = SL_TRANSPORT_LOST};
    if (heard < 0 || heard >= (int32_t)(sizeof kinds / sizeof *kinds))
        return 0;
    *kind = kinds[heard];
    return 1;
}

int sl_delegates_next_event(sl_delegates *d, sl_transport_event *happened) {
    sl_delegate_event heard;
    for (int i = 0; i < d->delegates; i++) {
        const sl_delegate_order *o = d->delegate[i].order;
        while (sl_delegate_hear(d->delegate[i].order, &heard)) {
            *happened = (sl_transport_event){
                .from = o->from, .to = o->to, .number = o->number, .rail = heard.rail, .time = heard.time};
            memcpy(happened->text, heard.text, sizeof happened->text);
            if (kind_of(heard.happened, &happened->kind))
                return 1;
        }
    }
    return sl_delegates_watch_event(d, happened);
}
