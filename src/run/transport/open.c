/* Opening and closing: lanes to the peers on this host, rails to the others, then the threads. */
#include "base/memory.h"
#include "run/transport/network.h"
#include "run/transport/peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 4096

static sl_status check_config(const sl_transport_config *c) {
    if (c->rank < 0 || c->rank >= c->ranks || !c->clock)
        return sl_error(SL_EINVAL, "rank %d of %d cannot have a transport", c->rank, c->ranks);
    if (c->hub) {
        if (c->hub->ranks != c->ranks || c->message_bytes > c->hub->message_bytes || c->slots > c->hub->slots)
            return sl_error(SL_EINVAL, "rank %d: the hub is for %d ranks and %d messages of %zu bytes",
                            c->rank, c->hub->ranks, c->hub->slots, c->hub->message_bytes);
        return SL_OK;
    }
    if (c->slots < 1)
        return sl_error(SL_EINVAL, "rank %d: a transport for %d messages under way", c->rank, c->slots);
    if (sl_clock_is_virtual(c->clock))
        return sl_error(SL_EINVAL, "rank %d: a virtual clock needs a hub", c->rank);
    return SL_OK;
}

static int shares_memory(const sl_transport_config *c, int rank) {
    const sl_transport_address *mine = c->addresses ? &c->addresses[c->rank] : NULL;
    return c->hub || !mine ||
           (strcmp(c->addresses[rank].host, mine->host) == 0 && c->addresses[rank].memory == mine->memory);
}

/* Not the key itself: the file is readable by every user who may read the run's directory. */
static uint64_t digest(const uint8_t key[32]) {
    uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a */
    for (int i = 0; i < 32; i++)
        hash = (hash ^ key[i]) * 0x100000001b3ULL;
    return hash;
}

static sl_status name_file(const sl_transport_config *c, int rank, char path[PATH_SIZE]) {
    if (!c->directory)
        return sl_error(SL_EINVAL, "rank %d: no directory for the messages of this host", c->rank);
    if (snprintf(path, PATH_SIZE, "%s/messages.%d", c->directory, rank) >= PATH_SIZE)
        return sl_error(SL_EINVAL, "rank %d: the directory's name is too long", c->rank);
    return SL_OK;
}

static sl_status open_peer(sl_transport *t, sl_peer *peer) {
    size_t slots = (size_t)t->slots;
    SL_TRY(sl_alloc(&peer->posted, slots, sizeof *peer->posted));
    SL_TRY(sl_alloc(&peer->outgoing, slots, sizeof *peer->outgoing));
    return sl_alloc(&peer->handover, slots, sizeof *peer->handover);
}

static sl_status open_peers(sl_transport *t, const sl_transport_config *c, char *local, char *remote) {
    SL_TRY(sl_alloc(&t->peer, (size_t)t->ranks, sizeof *t->peer));
    for (int r = 0; r < t->ranks; r++) {
        sl_peer *peer = &t->peer[r];
        peer->rank = r;
        peer->talks = r != t->rank && (!c->peers || c->peers[r]);
        peer->remote = peer->talks && !shares_memory(c, r);
        local[r] = peer->talks && !peer->remote;
        remote[r] = (char)peer->remote;
        if (peer->talks)
            SL_TRY(open_peer(t, peer));
    }
    return SL_OK;
}

/* Links that share a wire with others use its word instead of their own. */
static sl_status open_wires(sl_transport *t, const sl_transport_config *c) {
    if (!c->wire)
        return SL_OK;
    if (c->hub)
        t->wires.free_at = c->hub->wires.free_at;
    else
        SL_TRY(sl_wires_open(c->directory, "wires", sl_wires_count(t->ranks), &t->wires));
    for (int r = 0; r < t->ranks; r++) {
        int number = c->wire[t->rank * t->ranks + r];
        if (number < 0 || (size_t)number >= sl_wires_count(t->ranks))
            return sl_error(SL_EINVAL, "link %d -> %d: wire %d does not exist", t->rank, r, number);
        if (number >= t->ranks * t->ranks)
            t->peer[r].emulator.wire = &t->wires.free_at[number];
    }
    return SL_OK;
}

static sl_status own_region(sl_transport *t, const sl_transport_config *c, const char *local) {
    char path[PATH_SIZE];
    if (c->hub) {
        t->region = c->hub->region[t->rank];
        return SL_OK;
    }
    if (!memchr(local, 1, (size_t)t->ranks))
        return SL_OK;
    SL_TRY(name_file(c, t->rank, path));
    SL_TRY(sl_copy_text(&t->file, path));
    t->mapped = 1;
    sl_status status = sl_region_create(path, t->rank, t->ranks, t->slots, t->message_bytes, digest(c->key),
                                        local, &t->region);
    if (status != SL_OK) { /* there is no file of ours to remove later */
        sl_free(t->file);
        t->file = NULL;
    }
    return status;
}

/* Maps a peer's file, which may not exist yet. No event announces it: look once per millisecond. */
static sl_status map_peer(sl_transport *t, const sl_transport_config *c, sl_peer *peer, sl_time deadline) {
    char path[PATH_SIZE];
    SL_TRY(name_file(c, peer->rank, path));
    for (;;) {
        sl_status status = sl_region_map(path, peer->rank, t->ranks, t->slots, t->message_bytes,
                                         digest(c->key), &peer->region);
        if (status != SL_ENONE)
            return status;
        sl_time now = sl_clock_now(t->clock);
        if (now >= deadline)
            return sl_error(SL_EPEER, "link %d -> %d: rank %d did not open its end in time (%s)", t->rank,
                            peer->rank, peer->rank, sl_error_text());
        sl_clock_sleep_until(t->clock, now + SL_MS);
    }
}

static sl_status open_lanes(sl_transport *t, const sl_transport_config *c, sl_peer *peer, sl_time deadline) {
    if (c->hub)
        peer->region = c->hub->region[peer->rank];
    else
        SL_TRY(map_peer(t, c, peer, deadline));
    SL_TRY(sl_lane_open(t->region, peer->rank, &peer->out));
    SL_TRY(sl_lane_open(peer->region, t->rank, &peer->in));
    atomic_store_explicit(&peer->in.lane->attached, 1, memory_order_release);
    sl_clock_wake(t->clock, &peer->in.lane->attached);
    return SL_OK;
}

/* Our file must not disappear before the peer has mapped it. Threads of a hub need not wait: its memory
 * stays. */
static sl_status await_peer(sl_transport *t, sl_peer *peer, sl_time deadline) {
    _Atomic uint32_t *attached = &peer->out.lane->attached;
    while (t->mapped && !atomic_load_explicit(attached, memory_order_acquire)) {
        if (sl_clock_now(t->clock) >= deadline)
            return sl_error(SL_EPEER, "link %d -> %d: rank %d did not open its end in time", t->rank,
                            peer->rank, peer->rank);
        sl_clock_wait(t->clock, attached, 0, deadline);
    }
    return SL_OK;
}

/* Notes what delegates will need; they are created on demand. */
static sl_status note_delegation(sl_transport *t, const sl_transport_config *c) {
    sl_delegates_config *d = &t->delegation;
    *d = (sl_delegates_config){.rank = c->rank,
                               .ranks = c->ranks,
                               .slots = t->slots,
                               .message_bytes = t->message_bytes,
                               .chunk_bytes = c->chunk_bytes,
                               .beat = c->rail_beat,
                               .silence = c->rail_silence,
                               .outage = c->outage,
                               .proves = c->proves,
                               .deaths_max = c->deaths_max,
                               .scheduling = c->scheduling};
    if (!c->starter || c->hub)
        return SL_OK;
    if (c->rail_count < 0 || c->rail_count > SL_RAILS_MAX)
        return sl_error(SL_EINVAL, "rank %d: %d rails; at most %d are possible", c->rank, c->rail_count,
                        SL_RAILS_MAX);
    for (int i = 0; i < c->rail_count; i++)
        if (snprintf(d->rail[i], sizeof d->rail[i], "%s", c->rails[i]) >= (int)sizeof d->rail[i])
            return sl_error(SL_EINVAL, "rank %d: '%s' is neither an interface nor an address", c->rank,
                            c->rails[i]);
    d->rails = c->rail_count;
    d->starter = *c->starter;
    d->has_starter = 1;
    memcpy(d->key, c->key, sizeof d->key);
    if (c->directory)
        SL_TRY(sl_copy_text(&d->directory, c->directory));
    SL_TRY(sl_alloc(&d->talks, (size_t)c->ranks, 1));
    for (int r = 0; r < c->ranks; r++)
        d->talks[r] = (char)(!t->peer[r].talks ? 0 : t->peer[r].remote ? 2 : 1);
    return SL_OK;
}

static sl_status open_all(sl_transport *t, const sl_transport_config *c, int *listening, sl_time deadline,
                          char *local, char *remote) {
    SL_TRY(open_peers(t, c, local, remote));
    SL_TRY(note_delegation(t, c));
    SL_TRY(open_wires(t, c));
    SL_TRY(own_region(t, c, local));
    t->changed = t->region ? &t->region->changed : &t->own_changed;
    if (memchr(remote, 1, (size_t)t->ranks))
        SL_TRY(sl_network_open(t, c, listening, deadline));
    for (int r = 0; r < t->ranks; r++)
        if (local[r])
            SL_TRY(open_lanes(t, c, &t->peer[r], deadline));
    for (int r = 0; r < t->ranks; r++)
        if (local[r])
            SL_TRY(await_peer(t, &t->peer[r], deadline));
    return memchr(local, 1, (size_t)t->ranks) ? sl_communication_start(t) : SL_OK;
}

static sl_status make(const sl_transport_config *c, sl_transport **transport) {
    SL_TRY(check_config(c));
    SL_TRY(sl_alloc(transport, 1, sizeof **transport));
    sl_transport *t = *transport;
    t->rank = c->rank;
    t->ranks = c->ranks;
    t->slots = c->hub ? c->hub->slots : c->slots;
    t->message_bytes = c->hub ? c->hub->message_bytes : c->message_bytes;
    t->clock = c->clock;
    t->scheduling = c->scheduling;
    sem_init(&t->started, 0, 0);
    return SL_OK;
}

static void gather_sockets(const sl_transport_config *c, int socket, int sockets[SL_TRANSPORT_RAILS]) {
    for (int i = 0; i < SL_TRANSPORT_RAILS; i++)
        sockets[i] = c->rail_sockets && i < (c->rail_count ? c->rail_count : 1) ? c->rail_sockets[i] : -1;
    if (socket >= 0)
        sockets[0] = socket;
}

static void close_sockets(int sockets[SL_TRANSPORT_RAILS]) {
    for (int i = 0; i < SL_TRANSPORT_RAILS; i++)
        if (sockets[i] >= 0)
            close(sockets[i]);
}

sl_status sl_transport_open(const sl_transport_config *config, int socket, sl_time timeout,
                            sl_transport **transport) {
    char *scratch = NULL;
    int sockets[SL_TRANSPORT_RAILS];
    *transport = NULL;
    gather_sockets(config, socket, sockets);
    sl_status status = make(config, transport);
    SL_THEN(status, sl_alloc(&scratch, 2 * (size_t)config->ranks, 1));
    SL_THEN(status, open_all(*transport, config, sockets, sl_clock_now(config->clock) + timeout, scratch,
                             scratch + config->ranks));
    sl_free(scratch);
    if (status != SL_OK) {
        sl_transport_close(*transport);
        *transport = NULL;
    }
    close_sockets(sockets); /* those not taken over */
    return status;
}

static void close_peer(sl_transport *t, sl_peer *peer) {
    sl_lane_close(&peer->out);
    sl_lane_close(&peer->in);
    if (t->mapped)
        sl_region_unmap(peer->region);
    SL_FREE(peer->posted, peer->outgoing, peer->handover);
}

void sl_transport_close(sl_transport *t) {
    if (!t)
        return;
    atomic_store(&t->closing, 1);
    sl_delegates_close(t->delegates);
    sl_communication_end(t);
    sl_network_close(t->network);
    for (int r = 0; t->peer && r < t->ranks; r++)
        close_peer(t, &t->peer[r]);
    sl_wires_close(&t->wires);
    if (t->mapped)
        sl_region_unmap(t->region);
    if (t->file)
        unlink(t->file);
    sem_destroy(&t->started);
    SL_FREE(t->file, t->delegation.directory, t->delegation.talks, t->peer, t);
}

const char *sl_transport_scheduling(const sl_transport *t) {
    return t->obtained ? t->obtained : t->network ? sl_network_scheduling(t->network) : "none";
}
