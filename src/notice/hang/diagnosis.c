#include "notice/hang/diagnosis.h"
#include "base/memory.h"
#include "notice/hang/diagnosis_inside.h"
#include "notice/record/call.h"

#include <stdio.h>
#include <string.h>

static const char *const names[SL_HANG_CAUSES] = {
    [SL_HANG_NOTHING] = "nothing",
    [SL_HANG_COLLECTIVE] = "another collective",
    [SL_HANG_ROOT] = "another root",
    [SL_HANG_SIZE] = "another size",
    [SL_HANG_ENDED] = "a peer that ended",
    [SL_HANG_TAG] = "a message with another tag",
    [SL_HANG_MISSING] = "a collective left out",
    [SL_HANG_MESSAGE] = "a message never sent",
    [SL_HANG_WINDOW] = "a window call left out",
    [SL_HANG_LOCK] = "a lock that is held",
    [SL_HANG_CIRCLE] = "ranks that wait for each other",
    [SL_HANG_AWAY] = "a rank that has not entered",
    [SL_HANG_INSIDE] = "all inside",
};

const char *sl_hang_cause_name(sl_hang_cause cause) {
    return cause < SL_HANG_CAUSES ? names[cause] : "?";
}

/* ---- the graph ---- */

int sl_hang_is_member(const sl_hang_graph *g, int rank, uint64_t communicator) {
    const sl_channel_key key = {communicator, -1, -1, -1, SL_CHANNEL_COLLECTIVE};
    if (g->node[rank].rank && !g->node[rank].rank->moving)
        return sl_hang_channel_of(g->node[rank].rank, &key) != NULL;
    for (int i = 0; i < g->size; i++) /* unknown: if all that are known are members */
        if (g->node[i].rank && !g->node[i].rank->moving && !sl_hang_channel_of(g->node[i].rank, &key))
            return 0;
    return 1;
}

static uint64_t announced(const sl_hang_graph *g, int rank, const sl_channel_key *key) {
    const sl_hang_channel *c = rank >= 0 && rank < g->size && g->node[rank].rank
                                   ? sl_hang_channel_of(g->node[rank].rank, key)
                                   : NULL;
    return c ? c->announced : 0;
}

static int stopped(const sl_hang_thread *t) {
    return t->state == 'T' || t->state == 't';
}

/* The thread that waits; NULL if one may still act: in the program's own code and awake, or stopped. */
static const sl_hang_thread *waiting_thread(const sl_hang_rank *r, double least_s) {
    const sl_hang_thread *found = NULL;
    for (size_t i = 0; i < r->threads; i++) {
        const sl_hang_thread *t = &r->thread[i];
        if (stopped(t) || (!t->inside && (t->state == 'R' || t->state == 'D')))
            return NULL;
        if (t->inside && t->for_s >= least_s && (t->waits > 0 || sl_hang_waits_at_target(t)) &&
            (!found || t->for_s > found->for_s))
            found = t;
    }
    return found;
}

void sl_hang_add_edge(sl_hang_graph *g, int from, int to, const sl_hang_wait *wait) {
    sl_hang_node *n = &g->node[from];
    if (to < 0 || to >= g->size || to == from)
        return;
    g->awaits[(size_t)from * (size_t)g->size + (size_t)to] = 1;
    n->waits = 1;
    if (!n->on)
        n->on = wait;
}

static void add_collective(sl_hang_graph *g, int rank, const sl_hang_wait *w) {
    for (int i = 0; i < g->size; i++)
        if (i != rank && sl_hang_is_member(g, i, w->channel.communicator) &&
            (g->node[i].rank == NULL || announced(g, i, &w->channel) < w->number))
            sl_hang_add_edge(g, rank, i, w);
}

/* A receive from any rank, or with any tag: whether a fitting message is on its way. */
static int has_message(const sl_hang_graph *g, int rank, const sl_channel_key *wild) {
    for (int i = 0; i < g->size; i++) {
        const sl_hang_rank *r = g->node[i].rank;
        for (size_t c = 0; r && i != rank && c < r->channels; c++) {
            const sl_channel_key *k = &r->channel[c].key;
            if (k->kind == SL_CHANNEL_POINT && k->communicator == wild->communicator && k->source == i &&
                k->destination == rank && (wild->source < 0 || wild->source == i) &&
                (wild->tag < 0 || wild->tag == k->tag) && r->channel[c].announced > announced(g, rank, k))
                return 1;
        }
    }
    return 0;
}

static void add_wild(sl_hang_graph *g, int rank, const sl_hang_wait *w) {
    const sl_hang_channel *own = sl_hang_channel_of(g->node[rank].rank, &w->channel);
    if ((own && own->matched >= w->number) || has_message(g, rank, &w->channel))
        return;
    for (int i = 0; i < g->size; i++)
        if (w->channel.source >= 0 ? i == w->channel.source
                                   : sl_hang_is_member(g, i, w->channel.communicator))
            sl_hang_add_edge(g, rank, i, w);
    g->node[rank].any = g->node[rank].any || w->channel.source < 0;
}

/* The partners that are missing. A send counts only if nothing else does: most are complete at once. */
static void add_waits(sl_hang_graph *g, int rank, int sends) {
    const sl_hang_thread *t = g->node[rank].thread;
    for (size_t i = 0; i < t->waits; i++) {
        const sl_hang_wait *w = &t->wait[i];
        const sl_channel_key *k = &w->channel;
        const int is_send = k->kind == SL_CHANNEL_POINT && k->source == rank;
        if (is_send != sends)
            continue;
        if (k->kind == SL_CHANNEL_COLLECTIVE)
            add_collective(g, rank, w);
        else if (k->kind == SL_CHANNEL_WILD)
            add_wild(g, rank, w);
        else if (k->kind == SL_CHANNEL_WINDOW)
            sl_hang_add_window(g, rank, w);
        else if (k->kind == SL_CHANNEL_POINT) {
            int other = is_send ? k->destination : k->source;
            if (other >= 0 && other < g->size && announced(g, other, k) < w->number)
                sl_hang_add_edge(g, rank, other, w);
        }
    }
}

static void build(sl_hang_graph *g) {
    for (int i = 0; i < g->size; i++) {
        sl_hang_node *n = &g->node[i];
        n->rank = sl_hang_find(g->job, i);
        if (n->rank && !n->rank->ended && !n->rank->moving)
            n->thread = waiting_thread(n->rank, g->least_s);
    }
    for (int i = 0; i < g->size; i++) {
        sl_hang_node *n = &g->node[i];
        if (!n->thread)
            continue;
        n->any = strcmp(n->thread->call, "MPI_Waitany") == 0 || strcmp(n->thread->call, "MPI_Waitsome") == 0;
        add_waits(g, i, 0);
        if (!n->waits)
            add_waits(g, i, 1);
        if (!n->waits)
            sl_hang_add_targets(g, i);
    }
    for (int i = 0; i < g->size; i++)
        for (int k = 0; k < g->size; k++)
            g->node[k].waiters += sl_hang_awaits(g, i, k);
}

static int is_over(const sl_hang_graph *g, int rank) {
    const sl_hang_rank *r = g->node[rank].rank;
    return r && (r->ended || r->finished);
}

static int awaits_one_that_is_over(const sl_hang_graph *g, int rank) {
    for (int i = 0; i < g->size; i++)
        if (sl_hang_awaits(g, rank, i) && is_over(g, i))
            return 1;
    return 0;
}

/* What never changes again: see the header. */
static int can_move_now(const sl_hang_graph *g, int rank) {
    const sl_hang_node *n = &g->node[rank];
    int some = 0, all = 1;
    if (!n->rank)
        return 1;
    if (n->rank->ended || (n->rank->finished && !n->rank->moving))
        return 0;
    if (!n->waits)
        return 1;
    if (n->thread->inside == SL_HANG_POLLS) /* between two tests it may do anything */
        return 1;
    if (n->thread->inside == SL_HANG_ON_DEVICE) /* its host may enqueue more, unless a partner is gone */
        return !awaits_one_that_is_over(g, rank);
    for (int i = 0; i < g->size; i++)
        if (sl_hang_awaits(g, rank, i)) {
            some = some || g->node[i].can_move;
            all = all && g->node[i].can_move;
        }
    return n->any ? some : all;
}

static void find_movers(sl_hang_graph *g) {
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < g->size; i++)
            if (!g->node[i].can_move && can_move_now(g, i))
                changed = g->node[i].can_move = 1;
    }
}

/* ---- verdicts ---- */

static int is_stuck(const sl_hang_graph *g, int rank) {
    return g->node[rank].waits && !g->node[rank].can_move;
}

void sl_hang_begin(sl_hang_verdict *v, sl_hang_cause cause, int certain, int rank) {
    v->cause = cause;
    v->certain = certain;
    v->rank = rank;
    v->peer = -1;
}

void sl_hang_say_waiters(sl_hang_text *t, const sl_hang_graph *g, int rank) {
    unsigned char chosen[4096] = {0};
    int first = -1, most = g->size < 4096 ? g->size : 4096, count = 0;
    for (int i = 0; i < most; i++)
        if (sl_hang_awaits(g, i, rank)) {
            chosen[i] = 1;
            count++;
            first = first < 0 ? i : first;
        }
    if (first < 0)
        return;
    const sl_hang_wait *on = g->node[first].on;
    sl_hang_say_ranks(t, chosen, most);
    sl_hang_add_text(t, on->channel.kind == SL_CHANNEL_COLLECTIVE ? (count == 1 ? " waits in " : " wait in ")
                        : count == 1                              ? " waits for "
                                                                  : " wait for ");
    sl_hang_say_wait(t, g, on, sl_hang_wait_call(g, first, on));
    if (!g->job->from_dumps)
        sl_hang_add_text(t, " for %.0f s", g->node[first].thread->for_s);
}

/* Rank `who` is awaited, and what it does. */
static void say_awaited(const sl_hang_graph *g, int who, const char *verb, sl_hang_verdict *v) {
    sl_hang_text seen = {v->seen, sizeof v->seen, 0}, why = {v->why, sizeof v->why, 0};
    sl_hang_add_text(&seen, "rank %d %s: ", who, verb);
    sl_hang_say_waiters(&seen, g, who);
    sl_hang_add_text(&why, "rank %d ", who);
    sl_hang_say_doing(&why, g, who);
}

/* A stuck rank that waits for one that has ended. */
static int diagnose_ended(const sl_hang_graph *g, sl_hang_verdict *v) {
    for (int i = 0; i < g->size; i++)
        for (int k = 0; is_stuck(g, i) && k < g->size; k++) {
            if (!sl_hang_awaits(g, i, k) || !is_over(g, k) ||
                (g->node[i].any && g->node[i].on->channel.source < 0))
                continue;
            sl_hang_begin(v, SL_HANG_ENDED, 1, k);
            say_awaited(g, k, g->node[k].rank->ended ? "has ended" : "has reached its end", v);
            return 1;
        }
    return 0;
}

/* A message on its way from `source` that `rank` has no receive for, other than on this channel; NULL. */
static const sl_channel_key *other_message(const sl_hang_graph *g, int source, int rank,
                                           const sl_channel_key *wanted) {
    const sl_hang_rank *r = source >= 0 && source < g->size ? g->node[source].rank : NULL;
    const sl_channel_key *found = NULL;
    for (size_t i = 0; r && i < r->channels; i++) {
        const sl_channel_key *k = &r->channel[i].key;
        if (k->kind != SL_CHANNEL_POINT || k->source != source || k->destination != rank ||
            sl_channel_key_same(k, wanted) || r->channel[i].announced <= announced(g, rank, k))
            continue;
        if (!found || k->communicator == wanted->communicator)
            found = k;
    }
    return found;
}

static int diagnose_tag(const sl_hang_graph *g, sl_hang_verdict *v) {
    for (int i = 0; i < g->size; i++) {
        const sl_hang_wait *w = g->node[i].on;
        if (!is_stuck(g, i) || (w->channel.kind != SL_CHANNEL_POINT && w->channel.kind != SL_CHANNEL_WILD) ||
            w->channel.destination != i)
            continue;
        const sl_channel_key *k = other_message(g, w->channel.source, i, &w->channel);
        if (!k)
            continue;
        sl_hang_text seen = {v->seen, sizeof v->seen, 0}, why = {v->why, sizeof v->why, 0};
        sl_hang_begin(v, SL_HANG_TAG, 1, i);
        v->peer = k->source;
        sl_hang_add_text(&seen, "rank %d waits for ", i);
        sl_hang_say_wait(&seen, g, w, g->node[i].thread->call);
        sl_hang_add_text(&seen, " for %.0f s, but rank %d sent ", g->node[i].thread->for_s, k->source);
        if (k->communicator == w->channel.communicator)
            sl_hang_add_text(&seen, "tag %d, which no receive fits", k->tag);
        else
            sl_hang_add_text(&seen, "on another communicator (tag %d), which no receive fits", k->tag);
        sl_hang_add_text(&why, "rank %d ", i);
        sl_hang_say_doing(&why, g, i);
        sl_hang_add_text(&why, "; rank %d ", k->source);
        sl_hang_say_doing(&why, g, k->source);
        return 1;
    }
    return 0;
}

/* The next rank of a circle. */
static int next_stuck(const sl_hang_graph *g, int rank) {
    for (int i = 0; i < g->size; i++)
        if (sl_hang_awaits(g, rank, i) && is_stuck(g, i))
            return i;
    return -1;
}

/* Follows the waiting until a rank comes again; `order` gets the circle. */
static int find_circle(const sl_hang_graph *g, int *order) {
    int rank = 0, length = 0;
    while (rank < g->size && !is_stuck(g, rank))
        rank++;
    if (rank == g->size)
        return 0;
    for (int i = 0; i < g->size; i++) /* into the circle */
        rank = next_stuck(g, rank) >= 0 ? next_stuck(g, rank) : rank;
    for (int at = rank; length == 0 || (at != rank && length < g->size); at = next_stuck(g, at))
        order[length++] = at;
    return length;
}

static int is_receive(const sl_hang_graph *g, int rank) {
    const sl_channel_key *k = &g->node[rank].on->channel;
    return k->kind == SL_CHANNEL_WILD || (k->kind == SL_CHANNEL_POINT && k->destination == rank);
}

void sl_hang_say_circle(const sl_hang_graph *g, const int *order, int length, sl_hang_verdict *v) {
    sl_hang_text why = {v->why, sizeof v->why, 0};
    for (int i = 0; i < length; i++) {
        sl_hang_add_text(&why, "%srank %d ", i ? "; " : "", order[i]);
        sl_hang_say_doing(&why, g, order[i]);
    }
}

static int diagnose_circle(const sl_hang_graph *g, sl_hang_verdict *v) {
    int *order = NULL;
    unsigned char *chosen = NULL;
    if (sl_alloc(&order, (size_t)g->size + 1, sizeof *order) != SL_OK ||
        sl_alloc(&chosen, (size_t)g->size + 1, 1) != SL_OK) {
        sl_free(order);
        return 0;
    }
    const int length = find_circle(g, order);
    const int window = sl_hang_window_circle(g, order, length, v);
    int receiver = -1, most = -1, collective = 0;
    for (int i = 0; i < length && !window; i++) {
        const int r = order[i];
        receiver = is_receive(g, r) && (receiver < 0 || g->node[r].waiters > g->node[receiver].waiters)
                       ? r
                       : receiver;
        most = most < 0 || g->node[r].waiters > g->node[most].waiters ? r : most;
        collective += g->node[r].on->channel.kind == SL_CHANNEL_COLLECTIVE;
    }
    sl_hang_text seen = {v->seen, sizeof v->seen, 0};
    if (!window && length > 0 && receiver >= 0 && collective > 0) {
        /* in a receive while others are in a collective. A message of a kind that came before is the next
         * iteration's: the collective was left out. Otherwise the message is the mistake */
        const sl_hang_wait *on = g->node[receiver].on;
        sl_hang_begin(v, on->number > 1 ? SL_HANG_MISSING : SL_HANG_MESSAGE, 1, receiver);
        v->peer = on->channel.source;
        sl_hang_add_text(&seen, "rank %d has not entered: ", receiver);
        sl_hang_say_waiters(&seen, g, receiver);
        sl_hang_add_text(&seen, "; it waits for ");
        sl_hang_say_wait(&seen, g, on, g->node[receiver].thread->call);
        sl_hang_add_text(&seen, ", which was never sent");
        sl_hang_say_circle(g, order, length, v);
    } else if (!window && length > 0) {
        sl_hang_begin(v, SL_HANG_CIRCLE, 1, g->node[most].waiters > 1 ? most : -1);
        for (int i = 0; i < length; i++)
            chosen[order[i]] = 1;
        sl_hang_say_ranks(&seen, chosen, g->size);
        sl_hang_add_text(&seen, " wait for each other: ");
        sl_hang_say_waiters(&seen, g, order[0]);
        sl_hang_say_circle(g, order, length, v);
    }
    SL_FREE(order, chosen);
    return length > 0;
}

/* Stuck without a circle or an ended peer: a receive from any rank when all others are over. */
static int diagnose_rest(const sl_hang_graph *g, sl_hang_verdict *v) {
    for (int i = 0; i < g->size; i++) {
        if (!is_stuck(g, i))
            continue;
        sl_hang_text seen = {v->seen, sizeof v->seen, 0}, why = {v->why, sizeof v->why, 0};
        sl_hang_begin(v, SL_HANG_MESSAGE, 1, i);
        sl_hang_add_text(&seen, "rank %d waits for ", i);
        sl_hang_say_wait(&seen, g, g->node[i].on, sl_hang_wait_call(g, i, g->node[i].on));
        sl_hang_add_text(&seen, " for %.0f s, which no other rank can send any more",
                         g->node[i].thread->for_s);
        sl_hang_add_text(&why, "rank %d ", i);
        sl_hang_say_doing(&why, g, i);
        return 1;
    }
    return 0;
}

/* Whether the first rank that waits for this one waits for a lock. */
static int holds_lock(const sl_hang_graph *g, int rank) {
    for (int i = 0; i < g->size; i++)
        if (sl_hang_awaits(g, i, rank)) {
            const sl_channel_key *k = &g->node[i].on->channel;
            return k->kind == SL_CHANNEL_WINDOW && k->tag == SL_WINDOW_LOCK;
        }
    return 0;
}

/* The rank that could move, and for which others wait: directly or through others that wait for it. */
static int diagnose_away(const sl_hang_graph *g, sl_hang_verdict *v) {
    int who = -1;
    for (int i = 0; i < g->size; i++)
        if (!g->node[i].waits && g->node[i].waiters > 0 &&
            (who < 0 || g->node[i].waiters > g->node[who].waiters))
            who = i;
    for (int i = 0; who < 0 && i < g->size; i++)
        if (g->node[i].waiters > 0 && g->node[i].thread && g->node[i].thread->inside == SL_HANG_POLLS)
            who = i;
    for (int i = 0; who < 0 && i < g->size; i++) /* hosts that wait for each other's devices may both go on */
        if (g->node[i].waiters > 0 && g->node[i].can_move)
            who = i;
    if (who < 0)
        return 0;
    sl_hang_begin(v, SL_HANG_AWAY, 0, who);
    say_awaited(g, who,
                holds_lock(g, who) ? "holds a lock"
                : g->node[who].thread || (g->node[who].rank && g->node[who].rank->threads &&
                                          g->node[who].rank->thread[0].inside)
                    ? "is in another call"
                    : "has not entered",
                v);
    return 1;
}

/* Calls that all partners have entered, and that do not end. */
static int diagnose_inside(const sl_hang_graph *g, sl_hang_verdict *v) {
    int first = -1, halted = -1;
    for (int i = 0; i < g->size; i++) {
        const sl_hang_rank *r = g->node[i].rank;
        first = first < 0 && g->node[i].thread ? i : first;
        for (size_t t = 0; r && !r->ended && t < r->threads; t++)
            halted = halted < 0 && stopped(&r->thread[t]) ? i : halted;
    }
    if (first < 0)
        return 0;
    sl_hang_text seen = {v->seen, sizeof v->seen, 0}, why = {v->why, sizeof v->why, 0};
    const sl_hang_thread *t = g->node[first].thread;
    sl_hang_begin(v, halted >= 0 ? SL_HANG_AWAY : SL_HANG_INSIDE, 0, halted);
    if (halted >= 0)
        sl_hang_add_text(&seen, "rank %d is stopped: ", halted);
    sl_hang_add_text(&seen, "rank %d is in %s for %.0f s", first, t->call, t->for_s);
    sl_hang_add_text(&seen, ", all partners have entered, and nothing moves");
    sl_hang_add_text(&why, "rank %d ", halted >= 0 ? halted : first);
    sl_hang_say_doing(&why, g, halted >= 0 ? halted : first);
    return 1;
}

static int all_stand(const sl_hang_graph *g) {
    for (int i = 0; i < g->size; i++)
        if (g->node[i].rank && !g->node[i].rank->ended &&
            (g->node[i].rank->moving || g->node[i].rank->still_s < g->least_s))
            return 0;
    return 1;
}

static void diagnose(const sl_hang_graph *g, sl_hang_verdict *v) {
    int stuck = 0, waiting = 0;
    for (int i = 0; i < g->size; i++) {
        stuck += is_stuck(g, i);
        if (g->node[i].thread) {
            waiting++;
            v->for_s = g->node[i].thread->for_s > v->for_s ? g->node[i].thread->for_s : v->for_s;
        }
    }
    if (waiting == 0)
        return;
    if ((stuck > 0 || all_stand(g)) && sl_hang_compare(g, v))
        return;
    if (stuck > 0 &&
        (diagnose_tag(g, v) || diagnose_ended(g, v) || diagnose_circle(g, v) || diagnose_rest(g, v)))
        return;
    if (all_stand(g) && (diagnose_away(g, v) || diagnose_inside(g, v)))
        return;
}

sl_status sl_hang_diagnose(const sl_hang_job *job, double least_s, sl_hang_verdict *verdict) {
    sl_hang_graph g = {.job = job, .size = job->size, .least_s = least_s};
    sl_status status;
    *verdict = (sl_hang_verdict){.rank = -1, .peer = -1};
    SL_TRY_GOTO(done, status, sl_alloc(&g.node, (size_t)g.size + 1, sizeof *g.node));
    SL_TRY_GOTO(done, status, sl_alloc(&g.awaits, (size_t)g.size * (size_t)g.size + 1, 1));
    build(&g);
    find_movers(&g);
    diagnose(&g, verdict);
done:
    SL_FREE(g.node, g.awaits);
    return status;
}
