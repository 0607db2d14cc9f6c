/* One-sided calls: whom they wait for, and who is at fault when they wait for each other with others in a
 * collective.
 *
 * A call at a window waits for what another rank has not called (MPI_Win_post, MPI_Win_complete), or for a
 * lock that another rank holds. If none of this is missing, the library may still need the target: some move
 * data only while it is inside a call. So a target that is in none is awaited. */
#include "notice/hang/diagnosis_inside.h"
#include "notice/record/call.h"

#include <inttypes.h>
#include <string.h>

static const char *call_of(const sl_channel_key *key) {
    return key->tag == SL_WINDOW_POST ? "MPI_Win_post" : "MPI_Win_complete";
}

static int pairs(const sl_channel_key *key) {
    return key->kind == SL_CHANNEL_WINDOW && (key->tag == SL_WINDOW_POST || key->tag == SL_WINDOW_COMPLETE);
}

static int is_lock(const sl_channel_key *key) {
    return key->kind == SL_CHANNEL_WINDOW && key->tag == SL_WINDOW_LOCK;
}

/* ---- the graph ---- */

int sl_hang_waits_at_target(const sl_hang_thread *t) {
    return t->peer >= 0 && (strcmp(t->call, "MPI_Win_unlock") == 0 || strcmp(t->call, "MPI_Win_flush") == 0 ||
                            strcmp(t->call, "MPI_Win_flush_local") == 0);
}

/* A rank whose table has no room for windows counts nothing there (window_channel of the probe). */
static int counts_windows(const sl_hang_rank *r) {
    return !r || r->channels < SL_GATE_CHANNELS / 4;
}

static void add_pair(sl_hang_graph *g, int rank, const sl_hang_wait *w) {
    const int other = w->channel.source;
    const sl_hang_rank *r = other >= 0 && other < g->size ? g->node[other].rank : NULL;
    const sl_hang_channel *c = r ? sl_hang_channel_of(r, &w->channel) : NULL;
    if (c ? c->announced < w->number : counts_windows(r))
        sl_hang_add_edge(g, rank, other, w);
}

/* Whether a rank's lock, as counted on `c`, is in the way of the one that is asked for. */
static int excludes(const sl_hang_channel *c, const sl_hang_wait *asked) {
    const sl_channel_key *key = &asked->channel;
    const uint64_t held = c->announced & 3, wanted = asked->number & 3;
    const int meets =
        c->key.destination == key->destination || c->key.destination < 0 || key->destination < 0;
    return is_lock(&c->key) && c->key.communicator == key->communicator && meets &&
           (held == SL_LOCK_EXCLUSIVE || (held == SL_LOCK_SHARED && wanted == SL_LOCK_EXCLUSIVE));
}

static void add_lock(sl_hang_graph *g, int rank, const sl_hang_wait *w) {
    for (int i = 0; i < g->size; i++) {
        const sl_hang_rank *r = g->node[i].rank;
        for (size_t c = 0; r && !r->moving && c < r->channels; c++)
            if (excludes(&r->channel[c], w))
                sl_hang_add_edge(g, rank, i, w);
    }
}

/* The target, if it is in no call. */
static void add_target(sl_hang_graph *g, int rank, int target) {
    const sl_hang_rank *r = target >= 0 && target < g->size ? g->node[target].rank : NULL;
    if (!r || r->moving)
        return;
    for (size_t i = 0; i < r->threads; i++)
        if (r->thread[i].inside)
            return;
    g->node[rank].target = (sl_hang_wait){{0, -1, target, SL_WINDOW_TARGET, SL_CHANNEL_WINDOW}, 0, 1};
    sl_hang_add_edge(g, rank, target, &g->node[rank].target);
}

void sl_hang_add_window(sl_hang_graph *g, int rank, const sl_hang_wait *w) {
    if (pairs(&w->channel))
        add_pair(g, rank, w);
    else if (is_lock(&w->channel))
        add_lock(g, rank, w);
}

void sl_hang_add_targets(sl_hang_graph *g, int rank) {
    const sl_hang_thread *t = g->node[rank].thread;
    if (sl_hang_waits_at_target(t) || strcmp(t->call, "MPI_Win_lock") == 0)
        add_target(g, rank, t->peer);
    for (size_t i = 0; strcmp(t->call, "MPI_Win_complete") == 0 && i < t->waits && !g->node[rank].waits; i++)
        if (pairs(&t->wait[i].channel))
            add_target(g, rank, t->wait[i].channel.source);
}

/* ---- circles ---- */

/* How often the rank has made this call for any other. */
static uint64_t made(const sl_hang_rank *r, const sl_channel_key *key) {
    uint64_t most = 0;
    for (size_t i = 0; i < r->channels; i++) {
        const sl_channel_key *k = &r->channel[i].key;
        if (k->kind == key->kind && k->tag == key->tag && k->communicator == key->communicator &&
            k->source == r->rank && r->channel[i].announced > most)
            most = r->channel[i].announced;
    }
    return most;
}

/* Other ranks that have made the call as often as `w` asks, less those that have made it, but not as often:
 * whether `w` belongs to this iteration or to the next. */
static int others_ahead(const sl_hang_graph *g, int rank, const sl_hang_wait *w) {
    int ahead = 0;
    for (int i = 0; i < g->size; i++) {
        const sl_hang_rank *r = g->node[i].rank;
        const uint64_t count =
            r && !r->moving && i != rank && i != w->channel.source ? made(r, &w->channel) : 0;
        if (count > 0)
            ahead += count >= w->number ? 1 : -1;
    }
    return ahead;
}

/* One rank waits for a lock that another holds, which waits for it. */
static void say_held(const sl_hang_graph *g, int waiter, int holder, sl_hang_verdict *v) {
    sl_hang_text seen = {v->seen, sizeof v->seen, 0};
    sl_hang_begin(v, SL_HANG_LOCK, 1, holder);
    v->peer = waiter;
    sl_hang_add_text(&seen, "rank %d holds a lock and is in another call: rank %d waits for ", holder,
                     waiter);
    sl_hang_say_wait(&seen, g, g->node[waiter].on, g->node[waiter].thread->call);
    sl_hang_add_text(&seen, " for %.0f s", g->node[waiter].thread->for_s);
}

/* `rank` waits for a call of a rank that is in a collective. If the others have made that call as often, it
 * was left out; if they have not, the collective was, and `rank` is in the next iteration. */
static void say_left_out(const sl_hang_graph *g, int rank, sl_hang_verdict *v) {
    const sl_hang_wait *w = g->node[rank].on;
    const int other = w->channel.source, ahead = others_ahead(g, rank, w);
    sl_hang_text seen = {v->seen, sizeof v->seen, 0};
    sl_hang_begin(v, ahead < 0 ? SL_HANG_MISSING : SL_HANG_WINDOW, 1,
                  ahead < 0   ? rank
                  : ahead > 0 ? other
                              : -1);
    v->peer = ahead > 0 ? rank : other;
    if (ahead < 0)
        sl_hang_add_text(&seen, "rank %d has not entered: ", rank);
    else if (ahead > 0)
        sl_hang_add_text(&seen, "rank %d has left out %s: ", other, call_of(&w->channel));
    if (ahead <= 0) {
        sl_hang_say_waiters(&seen, g, rank);
        sl_hang_add_text(&seen, ahead < 0 ? "; it" : ", and rank %d", rank);
    } else
        sl_hang_add_text(&seen, "rank %d", rank);
    sl_hang_add_text(&seen, " waits for ");
    sl_hang_say_wait(&seen, g, w, g->node[rank].thread->call);
    if (ahead > 0)
        sl_hang_add_text(&seen, " for %.0f s", g->node[rank].thread->for_s);
}

int sl_hang_window_circle(const sl_hang_graph *g, const int *order, int length, sl_hang_verdict *v) {
    int locked = -1, locks = 0, caller = -1;
    for (int i = 0; i < length; i++) {
        const sl_channel_key *key = &g->node[order[i]].on->channel;
        locks += is_lock(key);
        locked = is_lock(key) ? i : locked;
        if (pairs(key) && g->node[key->source].on &&
            g->node[key->source].on->channel.kind == SL_CHANNEL_COLLECTIVE)
            caller = order[i];
    }
    if (locks == 1)
        say_held(g, order[locked], order[(locked + 1) % length], v);
    else if (locks == 0 && caller >= 0)
        say_left_out(g, caller, v);
    else
        return 0;
    sl_hang_say_circle(g, order, length, v);
    return 1;
}

/* ---- words ---- */

void sl_hang_say_window(sl_hang_text *t, const sl_hang_wait *w) {
    const sl_channel_key *k = &w->channel;
    if (pairs(k))
        sl_hang_add_text(t, "rank %d's %s (number %" PRIu64 " for rank %d)", k->source, call_of(k), w->number,
                         k->destination);
    else if (is_lock(k) && k->destination >= 0)
        sl_hang_add_text(t, "the lock on rank %d's window", k->destination);
    else if (is_lock(k))
        sl_hang_add_text(t, "the locks on all windows");
    else
        sl_hang_add_text(t, "rank %d to take part at its window", k->destination);
}
