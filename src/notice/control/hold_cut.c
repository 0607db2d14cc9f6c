#include "notice/control/hold_cut.h"
#include "base/memory.h"
#include <stdio.h>

#define TIME_LIMIT INT64_C(2000000000)

/* A channel of the job. Needs are of this step, the target of the whole hold. */
typedef struct channel {
    sl_channel_key key;
    uint64_t target;
    uint64_t due;                           /* all members owe their calls up to here */
    uint64_t due_source, due_destination;   /* POINT: owed by that end */
    uint64_t made_source, made_destination; /* calls that each end has made */
    int seen_source, seen_destination;      /* the gate of that end has it */
} channel;

typedef struct rank {
    uint32_t *map; /* index in the view -> index in channels */
    size_t map_size, mapped;
    uint64_t first_calls;
    uint64_t serial[SL_GATE_THREADS]; /* of the last step */
    int steady[SL_GATE_THREADS];      /* thread: as in the last step */
    int turn;                         /* next one among the possible senders of its wildcard */
    int moving, owes, chosen;         /* this step; chosen: its waits have been followed */
} rank;

struct sl_cut {
    int ranks;
    sl_cut_limits limits;
    int steps, agreed;
    int64_t started;
    rank *rank;
    channel *channel;
    size_t channels, channel_size;
    uint32_t *slot;
    size_t slots;
    sl_cut_raise *raise;
    size_t raises, raise_size;
    char reason[160];
};

sl_status sl_cut_create(sl_cut **result, int ranks, sl_cut_limits limits) {
    *result = NULL;
    if (ranks < 1)
        return sl_error(SL_EINVAL, "a cut needs at least one rank, got %d", ranks);
    sl_cut *cut;
    SL_TRY(sl_alloc(&cut, 1, sizeof *cut));
    cut->ranks = ranks;
    cut->limits = limits;
    if (cut->limits.time == 0)
        cut->limits.time = TIME_LIMIT;
    cut->slots = 1024;
    sl_status status;
    SL_TRY_GOTO(err_destroy, status, sl_alloc(&cut->rank, (size_t)ranks, sizeof *cut->rank));
    SL_TRY_GOTO(err_destroy, status, sl_alloc(&cut->slot, cut->slots, sizeof *cut->slot));
    *result = cut;
    return SL_OK;
err_destroy:
    sl_cut_destroy(cut);
    return status;
}

void sl_cut_destroy(sl_cut *cut) {
    if (!cut)
        return;
    for (int r = 0; cut->rank && r < cut->ranks; r++)
        sl_free(cut->rank[r].map);
    SL_FREE(cut->rank, cut->channel, cut->slot, cut->raise, cut);
}

const char *sl_cut_reason(const sl_cut *cut) {
    return cut->reason;
}

/* ---- names ---- */

static size_t key_slot(const sl_channel_key *key, size_t slots) {
    uint64_t h = key->communicator * UINT64_C(0x9e3779b97f4a7c15);
    h ^= ((uint64_t)(uint32_t)key->source << 32 | (uint32_t)key->destination) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 29)) * UINT64_C(0x94d049bb133111eb);
    h ^= ((uint64_t)(uint32_t)key->tag << 8 | key->kind) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (size_t)(h >> 32) & (slots - 1);
}

static size_t find_slot(const sl_cut *cut, const sl_channel_key *key) {
    size_t at = key_slot(key, cut->slots);
    while (cut->slot[at] && !sl_channel_key_same(&cut->channel[cut->slot[at] - 1].key, key))
        at = (at + 1) & (cut->slots - 1);
    return at;
}

static sl_status grow_slots(sl_cut *cut) {
    uint32_t *bigger;
    SL_TRY(sl_alloc(&bigger, cut->slots * 2, sizeof *bigger));
    sl_free(cut->slot);
    cut->slot = bigger;
    cut->slots *= 2;
    for (size_t g = 0; g < cut->channels; g++)
        cut->slot[find_slot(cut, &cut->channel[g].key)] = (uint32_t)g + 1;
    return SL_OK;
}

static sl_status channel_named(sl_cut *cut, const sl_channel_key *key, uint32_t *index) {
    size_t at = find_slot(cut, key);
    if (!cut->slot[at]) {
        SL_TRY(sl_grow(&cut->channel, &cut->channel_size, cut->channels + 1, sizeof *cut->channel));
        if (cut->channels * 2 >= cut->slots) {
            SL_TRY(grow_slots(cut));
            at = find_slot(cut, key);
        }
        cut->channel[cut->channels] = (channel){.key = *key};
        cut->slot[at] = (uint32_t)++cut->channels;
    }
    *index = cut->slot[at] - 1;
    return SL_OK;
}

/* A gate's channels keep their indices, so each is looked up once per hold. An index without a channel stays
 * UINT32_MAX until it has one. */
static sl_status map_channels(sl_cut *cut, int r, const sl_gate_view *view) {
    rank *own = &cut->rank[r];
    SL_TRY(sl_grow(&own->map, &own->map_size, view->channels, sizeof *own->map));
    for (; own->mapped < view->channels; own->mapped++)
        own->map[own->mapped] = UINT32_MAX;
    for (uint32_t i = 0; i < view->channels; i++)
        if (own->map[i] == UINT32_MAX && view->channel[i].ready)
            SL_TRY(channel_named(cut, &view->channel[i].key, &own->map[i]));
    return SL_OK;
}

/* The job's channel of an entry; NULL if its index had no channel at the look. */
static channel *channel_at(sl_cut *cut, int r, uint32_t index) {
    const rank *own = &cut->rank[r];
    return index < own->mapped && own->map[index] != UINT32_MAX ? &cut->channel[own->map[index]] : NULL;
}

static void raise_to(uint64_t *value, uint64_t least) {
    if (*value < least)
        *value = least;
}

/* ---- debts ---- */

static void note_steadiness(rank *own, const sl_gate_view *view) {
    own->moving = 0;
    for (uint32_t i = 0; i < view->threads; i++) {
        own->steady[i] = own->serial[i] == view->thread[i].serial + 1; /* 0: never seen */
        own->serial[i] = view->thread[i].serial + 1;
        own->moving |= view->thread[i].state == SL_GATE_MOVING;
    }
}

/* Counters: what has been announced at first, or later entered, all may enter. */
static void read_counters(sl_cut *cut, int r, const sl_gate_view *view) {
    for (uint32_t i = 0; i < view->channels; i++) {
        channel *c = channel_at(cut, r, i);
        if (!c)
            continue;
        const sl_gate_view_channel *seen = &view->channel[i];
        c->seen_source |= c->key.source == r;
        c->seen_destination |= c->key.destination == r;
        if (c->key.source == r)
            c->made_source = seen->entered;
        if (c->key.destination == r)
            c->made_destination = seen->entered;
        if (cut->steps == 0)
            raise_to(&c->target, seen->announced);
        else if (!cut->rank[r].moving)
            raise_to(&c->target, seen->entered);
        raise_to(&c->due, seen->due);
    }
}

/* A thread waits for call `number` of `c`: the others must make theirs. A sender counts only when it is still
 * in the same call at a second look: most sends return without their receiver, and a job that always has one
 * message under way would otherwise be chased for ever. */
static void need(channel *c, int r, uint64_t number, int steady) {
    if (c->key.kind == SL_CHANNEL_COLLECTIVE)
        raise_to(&c->due, number);
    if (c->key.kind != SL_CHANNEL_POINT)
        return;
    if (c->key.destination == r)
        raise_to(&c->due_source, number);
    else if (steady)
        raise_to(&c->due_destination, number);
}

/* The number that a blocked call waits for. The library may match two threads of a rank in one channel in any
 * order, so a call of its own waits for all calls that the rank has made there. */
static uint64_t needed_number(const sl_gate_view *view, const sl_gate_view_entry *entry) {
    uint64_t entered = view->channel[entry->channel].entered;
    return !entry->need && entry->number < entered ? entered : entry->number;
}

/* A thread in a forbidden region cannot park, so a Test loop there counts as blocked, and is never steady. */
static void needs_of_blocked(sl_cut *cut, int r, const sl_gate_view *view) {
    for (uint32_t i = 0; i < view->threads; i++) {
        const sl_gate_view_thread *thread = &view->thread[i];
        int loops = thread->state == SL_GATE_OUTSIDE && thread->forbidden;
        for (uint32_t j = 0; (thread->state == SL_GATE_INSIDE || loops) && j < thread->entries; j++) {
            channel *c = channel_at(cut, r, thread->entry[j].channel);
            if (c)
                need(c, r, needed_number(view, &thread->entry[j]), cut->rank[r].steady[i] || loops);
        }
    }
}

/* A thread parked at a Wait or Test holds up no rank until its rank owes something that comes after it. Then
 * it counts immediately: its request was looked at, and a Test loop is never seen twice in the same call. */
static void needs_of_parked(sl_cut *cut, int r, const sl_gate_view *view) {
    for (uint32_t i = 0; i < view->threads; i++)
        for (uint32_t j = 0; view->thread[i].state == SL_GATE_PARKED && j < view->thread[i].entries; j++) {
            channel *c = channel_at(cut, r, view->thread[i].entry[j].channel);
            if (c && view->thread[i].entry[j].need)
                need(c, r, view->thread[i].entry[j].number, 1);
        }
}

static int rank_lags(sl_cut *cut, int r, const sl_gate_view *view) {
    for (uint32_t i = 0; i < view->channels; i++) {
        const channel *c = channel_at(cut, r, i);
        if (!c)
            continue;
        uint64_t entered = view->channel[i].entered;
        if (c->key.kind != SL_CHANNEL_COLLECTIVE && c->key.kind != SL_CHANNEL_POINT)
            continue;
        if (entered < c->due || (c->key.source == r && entered < c->due_source) ||
            (c->key.destination == r && entered < c->due_destination))
            return 1;
    }
    return 0;
}

static void owe(sl_cut *cut, int r, int *changed) {
    if (r < 0 || r >= cut->ranks || cut->rank[r].owes)
        return;
    cut->rank[r].owes = *changed = 1;
}

/* Ends of a message channel that have not used it yet owe it all the same. */
static void owe_unseen(sl_cut *cut, int *changed) {
    for (size_t g = 0; g < cut->channels; g++) {
        const channel *c = &cut->channel[g];
        if (c->key.kind != SL_CHANNEL_POINT)
            continue;
        if (!c->seen_source && (c->due || c->due_source))
            owe(cut, c->key.source, changed);
        if (!c->seen_destination && (c->due || c->due_destination))
            owe(cut, c->key.destination, changed);
    }
}

/* ---- wildcards ---- */

static int is_member(sl_cut *cut, int r, const sl_gate_view *view, uint64_t communicator) {
    for (uint32_t i = 0; i < view->channels; i++) {
        const channel *c = channel_at(cut, r, i);
        if (c && c->key.kind == SL_CHANNEL_COLLECTIVE && c->key.communicator == communicator)
            return 1;
    }
    return 0;
}

/* Whether rank s is parked at a send that the wildcard `w` of rank r would take. */
static int parked_at_match(sl_cut *cut, int s, const sl_gate_view *view, const sl_channel_key *w, int r) {
    for (uint32_t i = 0; i < view->threads; i++)
        for (uint32_t j = 0; view->thread[i].state == SL_GATE_PARKED && j < view->thread[i].entries; j++) {
            const channel *c = channel_at(cut, s, view->thread[i].entry[j].channel);
            if (c && !view->thread[i].entry[j].need && c->key.kind == SL_CHANNEL_POINT &&
                c->key.communicator == w->communicator && c->key.source == s && c->key.destination == r &&
                (w->source < 0 || w->source == s) && (w->tag < 0 || w->tag == c->key.tag))
                return 1;
        }
    return 0;
}

/* Whether the thread may be waiting for a message that its rank needs to continue. */
static int waits(const sl_cut *cut, int r, const sl_gate_view_thread *thread, int index) {
    if (thread->state == SL_GATE_PARKED || (thread->state == SL_GATE_OUTSIDE && thread->forbidden))
        return 1;
    return thread->state == SL_GATE_INSIDE && cut->rank[r].steady[index];
}

/* The channel of an entry whose message may come from a sender without a known number; else NULL. A receive
 * from a known sender is also such an entry while wildcards are posted: they may have taken its numbered
 * message. */
static const channel *wildcard_of(sl_cut *cut, int r, const sl_gate_view *view,
                                  const sl_gate_view_thread *thread, uint32_t entry) {
    const channel *c = channel_at(cut, r, thread->entry[entry].channel);
    if (!c || (thread->state == SL_GATE_PARKED && !thread->entry[entry].need))
        return NULL;
    if (c->key.kind == SL_CHANNEL_WILD ||
        (view->wild && c->key.kind == SL_CHANNEL_POINT && c->key.destination == r))
        return c;
    return NULL;
}

/* Picks one possible sender: one that is parked at exactly that send, else the next in turn. */
static void choose_sender(sl_cut *cut, int r, const sl_gate_view *const *views, const channel *w,
                          int *changed) {
    for (int s = 0; s < cut->ranks; s++)
        if (s != r && parked_at_match(cut, s, views[s], &w->key, r)) {
            owe(cut, s, changed);
            return;
        }
    for (int i = 0; i < cut->ranks; i++) {
        int s = (cut->rank[r].turn + i) % cut->ranks;
        if (s == r || views[s]->finished || cut->rank[s].moving ||
            (w->key.source >= 0 && w->key.source != s) || !is_member(cut, s, views[s], w->key.communicator))
            continue;
        owe(cut, s, changed);
        return;
    }
}

/* For a rank that owes and waits in wildcards, releases their possible senders, one call per look. Returns
 * the number of wildcards it waits in; `changed` NULL only counts. */
static int follow_wildcards(sl_cut *cut, int r, const sl_gate_view *const *views, int *changed) {
    const sl_gate_view *view = views[r];
    int found = 0;
    for (uint32_t i = 0; i < view->threads; i++)
        for (uint32_t j = 0; waits(cut, r, &view->thread[i], (int)i) && j < view->thread[i].entries; j++) {
            const channel *c = wildcard_of(cut, r, view, &view->thread[i], j);
            if (!c)
                continue;
            found++;
            if (changed)
                choose_sender(cut, r, views, c, changed);
        }
    if (changed && found)
        cut->rank[r].turn = (cut->rank[r].turn + 1) % cut->ranks;
    return found;
}

/* Whether a rank may not stay blocked: it waits for a known sender, whose number is in doubt while wildcards
 * are posted; it must leave a forbidden region; or it has work enqueued, and only a parked thread polls the
 * device, so it would never be seen idle. */
static int must_get_on(sl_cut *cut, int r, const sl_gate_view *const *views) {
    const sl_gate_view *view = views[r];
    int parked = 0, forbidden = 0, known = 0;
    for (uint32_t i = 0; i < view->threads; i++) {
        const sl_gate_view_thread *thread = &view->thread[i];
        for (uint32_t j = 0; thread->state == SL_GATE_INSIDE && j < thread->entries; j++) {
            const channel *c = wildcard_of(cut, r, view, thread, j);
            known |= c && c->key.kind == SL_CHANNEL_POINT;
        }
        parked |= view->thread[i].state == SL_GATE_PARKED;
        forbidden |= view->thread[i].state != SL_GATE_FREE && view->thread[i].forbidden;
    }
    return (forbidden || known || (!view->drained && !parked)) && follow_wildcards(cut, r, views, NULL) > 0;
}

/* ---- the step ---- */

/* Finds all that owe, to the end of the chain: a rank that owes and cannot continue makes others owe. */
static void find_debtors(sl_cut *cut, const sl_gate_view *const *views) {
    int changed = 1;
    while (changed) {
        changed = 0;
        owe_unseen(cut, &changed);
        for (int r = 0; r < cut->ranks; r++)
            if (!views[r]->finished && !cut->rank[r].owes &&
                (rank_lags(cut, r, views[r]) || must_get_on(cut, r, views)))
                owe(cut, r, &changed);
        for (int r = 0; r < cut->ranks; r++) {
            if (!cut->rank[r].owes || cut->rank[r].chosen)
                continue;
            cut->rank[r].chosen = changed = 1;
            needs_of_parked(cut, r, views[r]);
            follow_wildcards(cut, r, views, &changed);
        }
    }
}

static void raise_parked(sl_cut *cut, int r, const sl_gate_view *view) {
    for (uint32_t i = 0; i < view->threads; i++)
        for (uint32_t j = 0; view->thread[i].state == SL_GATE_PARKED && j < view->thread[i].entries; j++) {
            channel *c = channel_at(cut, r, view->thread[i].entry[j].channel);
            if (c && !view->thread[i].entry[j].need)
                raise_to(&c->target, view->thread[i].entry[j].number);
        }
}

static sl_status emit(sl_cut *cut, int r, const channel *c) {
    SL_TRY(sl_grow(&cut->raise, &cut->raise_size, cut->raises + 1, sizeof *cut->raise));
    cut->raise[cut->raises++] = (sl_cut_raise){.rank = r, .key = c->key, .target = c->target};
    return SL_OK;
}

static sl_status emit_raises(sl_cut *cut, const sl_gate_view *const *views) {
    cut->raises = 0;
    for (int r = 0; r < cut->ranks; r++)
        for (uint32_t i = 0; i < views[r]->channels; i++) {
            const channel *c = channel_at(cut, r, i);
            if (c && views[r]->channel[i].target < c->target)
                SL_TRY(emit(cut, r, c));
        }
    for (size_t g = 0; g < cut->channels; g++) {
        const channel *c = &cut->channel[g];
        if (c->key.kind != SL_CHANNEL_POINT || c->target == 0)
            continue;
        if (!c->seen_source && c->key.source >= 0 && c->key.source < cut->ranks)
            SL_TRY(emit(cut, c->key.source, c));
        if (!c->seen_destination && c->key.destination >= 0 && c->key.destination < cut->ranks)
            SL_TRY(emit(cut, c->key.destination, c));
    }
    return SL_OK;
}

/* Messages to rank r that were sent, that the wildcard would take, and that no receive of r has counted. */
static uint64_t under_way(const sl_cut *cut, int r, const sl_channel_key *w) {
    uint64_t sum = 0;
    for (size_t g = 0; g < cut->channels; g++) {
        const channel *c = &cut->channel[g];
        if (c->key.kind == SL_CHANNEL_POINT && c->key.destination == r &&
            c->key.communicator == w->communicator && (w->source < 0 || w->source == c->key.source) &&
            (w->tag < 0 || w->tag == c->key.tag) && c->made_source > c->made_destination)
            sum += c->made_source - c->made_destination;
    }
    return sum;
}

/* Whether a blocked thread may stay where it is: in a wildcard, which no particular rank owes, unless there
 * are messages for all posted wildcards, so that it is about to return. In any other call either a rank owes
 * or the call is about to return too. */
static int may_stay_blocked(sl_cut *cut, int r, const sl_gate_view *view, const sl_gate_view_thread *thread) {
    for (uint32_t j = 0; j < thread->entries; j++) {
        const sl_gate_view_channel *seen = &view->channel[thread->entry[j].channel];
        const channel *c = wildcard_of(cut, r, view, thread, j);
        if (c && c->key.kind == SL_CHANNEL_WILD && under_way(cut, r, &c->key) < seen->entered - seen->due)
            return 1;
    }
    return 0;
}

/* Whether a parked thread stays: one whose calls are all within the cut just has not woken yet. */
static int stays_parked(sl_cut *cut, int r, const sl_gate_view_thread *thread) {
    for (uint32_t j = 0; j < thread->entries; j++) {
        const channel *c = channel_at(cut, r, thread->entry[j].channel);
        if (c && !thread->entry[j].need && thread->entry[j].number > c->target)
            return 1;
    }
    return 0;
}

static int stands(sl_cut *cut, int r, const sl_gate_view *view) {
    if (view->finished)
        return 1;
    int standing = 0;
    if (cut->rank[r].owes || !view->drained)
        return 0;
    for (uint32_t i = 0; i < view->threads; i++) {
        const sl_gate_view_thread *thread = &view->thread[i];
        if (thread->state == SL_GATE_FREE)
            continue;
        if (thread->state == SL_GATE_MOVING || thread->forbidden || !cut->rank[r].steady[i])
            return 0;
        if (thread->state == SL_GATE_PARKED && !stays_parked(cut, r, thread))
            return 0;
        if (thread->state == SL_GATE_INSIDE && !may_stay_blocked(cut, r, view, thread))
            return 0;
        standing |= thread->state != SL_GATE_OUTSIDE;
    }
    return standing;
}

static sl_cut_verdict give_up(sl_cut *cut, const sl_gate_view *const *views, int64_t now) {
    for (int r = 0; r < cut->ranks; r++) {
        const sl_gate_view *view = views[r];
        if (view->overflow) {
            snprintf(cut->reason, sizeof cut->reason, "rank %d %s", r,
                     sl_gate_unfit_text((uint32_t)view->overflow));
            return SL_CUT_RELEASE;
        }
    }
    for (int r = 0; r < cut->ranks; r++) {
        const sl_gate_view *view = views[r];
        if (!view->held && !view->finished) {
            snprintf(cut->reason, sizeof cut->reason, "rank %d resumed: its deadline has passed", r);
            return SL_CUT_RELEASE;
        }
        if (cut->limits.calls && view->calls - cut->rank[r].first_calls > cut->limits.calls) {
            snprintf(cut->reason, sizeof cut->reason,
                     "no closure within 3 iterations (rank %d has made %llu calls)", r,
                     (unsigned long long)(view->calls - cut->rank[r].first_calls));
            return SL_CUT_RELEASE;
        }
    }
    if (now - cut->started > cut->limits.time) {
        snprintf(cut->reason, sizeof cut->reason, "no closure within %.3g s", (double)cut->limits.time / 1e9);
        return SL_CUT_RELEASE;
    }
    return SL_CUT_MOVING;
}

static sl_status read_views(sl_cut *cut, const sl_gate_view *const *views) {
    for (int r = 0; r < cut->ranks; r++) {
        if (views[r]->rank != r)
            return sl_error(SL_EINVAL, "view %d is of rank %d", r, views[r]->rank);
        SL_TRY(map_channels(cut, r, views[r]));
        if (cut->steps == 0)
            cut->rank[r].first_calls = views[r]->calls;
        cut->rank[r].owes = cut->rank[r].chosen = 0;
        note_steadiness(&cut->rank[r], views[r]);
    }
    for (size_t g = 0; g < cut->channels; g++) {
        channel *c = &cut->channel[g];
        c->due = c->due_source = c->due_destination = 0;
        c->seen_source = c->seen_destination = 0;
        c->made_source = c->made_destination = 0;
    }
    for (int r = 0; r < cut->ranks; r++)
        read_counters(cut, r, views[r]);
    for (int r = 0; r < cut->ranks; r++)
        needs_of_blocked(cut, r, views[r]);
    return SL_OK;
}

sl_status sl_cut_step(sl_cut *cut, const sl_gate_view *const *views, int64_t now, sl_cut_verdict *verdict,
                      const sl_cut_raise **raises, size_t *count) {
    *count = 0;
    if (cut->steps == 0)
        cut->started = now;
    SL_TRY(read_views(cut, views));
    find_debtors(cut, views);
    for (int r = 0; r < cut->ranks; r++)
        if (cut->rank[r].owes)
            raise_parked(cut, r, views[r]);
    SL_TRY(emit_raises(cut, views));
    cut->steps++;
    *raises = cut->raise;
    *count = cut->raises;
    *verdict = give_up(cut, views, now);
    if (*verdict != SL_CUT_MOVING)
        return SL_OK;
    int standing = cut->raises == 0, who = -1;
    for (int r = 0; r < cut->ranks; r++)
        if (!stands(cut, r, views[r])) {
            standing = 0;
            who = r;
        }
    cut->agreed = standing ? cut->agreed + 1 : 0;
    cut->reason[0] = 0;
    if (cut->agreed >= 2)
        *verdict = SL_CUT_CLOSED;
    else
        snprintf(cut->reason, sizeof cut->reason, "rank %d %s", who,
                 who >= 0 && cut->rank[who].owes ? "owes a call" : "moves");
    return SL_OK;
}
