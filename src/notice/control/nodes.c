#include "notice/control/nodes.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

/* Where the nodes of a name and of a rank are. Ranks are entered again at the next question after a node has
 * changed. */
struct sl_node_index {
    uint32_t *slot; /* [slots] open addressing: 1 + index of a node */
    size_t slots, slot_room;
    struct rank_owner {
        uint32_t node; /* 1 + index of the first living node that has this rank; 0: none */
        int pid;
    } * of_rank;
    size_t ranks;
    int stale;
};

void sl_nodes_close(sl_nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        sl_free(nodes->node[i].rank);
    if (nodes->lookup)
        SL_FREE(nodes->lookup->slot, nodes->lookup->of_rank);
    SL_FREE(nodes->node, nodes->lookup);
    nodes->node = NULL;
    nodes->lookup = NULL;
    nodes->count = nodes->capacity = 0;
}

/* ---- lookup ---- */

/* The slot of this name, or the empty one where it belongs. */
static uint32_t *slot_of(const sl_nodes *nodes, const char *name) {
    const struct sl_node_index *l = nodes->lookup;
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = name; *c; c++)
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    size_t at = (size_t)(h ^ h >> 32) & (l->slots - 1);
    while (l->slot[at] && strcmp(nodes->node[l->slot[at] - 1].name, name) != 0)
        at = (at + 1) & (l->slots - 1);
    return &l->slot[at];
}

/* Room for one node more, and for these ranks. */
static sl_status reserve(sl_nodes *nodes, size_t ranks) {
    if (!nodes->lookup)
        SL_TRY(sl_alloc(&nodes->lookup, 1, sizeof *nodes->lookup));
    struct sl_node_index *l = nodes->lookup;
    SL_TRY(sl_grow(&l->of_rank, &l->ranks, ranks, sizeof *l->of_rank));
    size_t slots = l->slots ? l->slots : 64;
    while (slots < 2 * (nodes->count + 1))
        slots *= 2;
    if (slots == l->slots)
        return SL_OK;
    SL_TRY(sl_grow(&l->slot, &l->slot_room, slots, sizeof *l->slot));
    l->slots = slots;
    memset(l->slot, 0, slots * sizeof *l->slot);
    for (size_t i = 0; i < nodes->count; i++)
        *slot_of(nodes, nodes->node[i].name) = (uint32_t)i + 1;
    return SL_OK;
}

static void enter_ranks(const sl_nodes *nodes) {
    struct sl_node_index *l = nodes->lookup;
    memset(l->of_rank, 0, l->ranks * sizeof *l->of_rank);
    for (size_t i = nodes->count; i-- > 0;)
        for (size_t j = nodes->node[i].alive ? nodes->node[i].ranks : 0; j-- > 0;) {
            const sl_node_rank *one = &nodes->node[i].rank[j];
            if (one->rank >= 0 && (size_t)one->rank < l->ranks)
                l->of_rank[one->rank] = (struct rank_owner){.node = (uint32_t)i + 1, .pid = one->pid};
        }
    l->stale = 0;
}

sl_job_node *sl_nodes_find(const sl_nodes *nodes, const char *name) {
    const uint32_t *slot = nodes->lookup && nodes->lookup->slots ? slot_of(nodes, name) : NULL;
    return slot && *slot ? &nodes->node[*slot - 1] : NULL;
}

static sl_status make(sl_nodes *nodes, const char *name, sl_job_node **node) {
    SL_TRY(sl_grow(&nodes->node, &nodes->capacity, nodes->count + 1, sizeof *nodes->node));
    uint32_t *slot = slot_of(nodes, name);
    *node = &nodes->node[nodes->count++];
    **node = (sl_job_node){.name = ""};
    snprintf((*node)->name, sizeof(*node)->name, "%s", name);
    *slot = (uint32_t)nodes->count;
    return SL_OK;
}

static sl_status read_ranks(sl_job_node *node, const json_t *ranks, int *changed) {
    size_t count = json_array_size(ranks), i;
    const json_t *row;
    *changed = count != node->ranks;
    SL_TRY(sl_grow(&node->rank, &node->capacity, count, sizeof *node->rank));
    node->ranks = count;
    node->size = 0;
    json_array_foreach(ranks, i, row) {
        sl_node_rank rank = {.rank = (int)sl_json_int(row, "rank", -1),
                             .pid = (int)sl_json_int(row, "pid", -1),
                             .period = (int)sl_json_int(row, "period", 0)};
        int size = (int)sl_json_int(row, "size", 0);
        node->size = size > node->size ? size : node->size;
        *changed |= rank.pid != node->rank[i].pid || rank.rank != node->rank[i].rank;
        node->rank[i] = rank;
    }
    return SL_OK;
}

static size_t highest_rank(const json_t *ranks) {
    int64_t highest = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(ranks, i, row) highest =
        sl_json_int(row, "rank", 0) > highest ? sl_json_int(row, "rank", 0) : highest;
    return (size_t)highest;
}

sl_status sl_nodes_hear(sl_nodes *nodes, const json_t *beat, sl_time now, sl_job_node **node, int *change) {
    int changed = 0;
    *node = NULL;
    *change = 0;
    if (!sl_beat_is(beat))
        return SL_OK;
    const char *name = sl_json_text(beat, "node", ""), *clock = sl_json_text(beat, "clock", "");
    SL_TRY(reserve(nodes, highest_rank(json_object_get(beat, "ranks")) + 1));
    sl_job_node *n = sl_nodes_find(nodes, name);
    if (!n && nodes->count >= SL_MAX_WATCHED_RANKS)
        return SL_OK;
    if (!n)
        SL_TRY(make(nodes, name, &n));
    if (strcmp(n->clock, clock) != 0) { /* another start of that machine has another clock */
        n->offset = (sl_offset){0};
        n->asked = 0;
    }
    snprintf(n->clock, sizeof n->clock, "%s", clock);
    n->same_clock = clock[0] && strcmp(clock, nodes->clock) == 0;
    SL_TRY(read_ranks(n, json_object_get(beat, "ranks"), &changed));
    const char *trouble = sl_json_text(beat, "trouble", "");
    n->troubled |= trouble[0] && strncmp(trouble, n->trouble, sizeof n->trouble - 1) != 0;
    snprintf(n->trouble, sizeof n->trouble, "%s", trouble);
    *change = !n->alive ? 1 : changed ? 2 : 0;
    nodes->lookup->stale |= *change;
    n->alive = 1;
    n->heard = now;
    n->validate = (int)sl_json_int(beat, "validate", 0);
    n->calls = sl_json_int(beat, "calls", 0);
    n->lost = sl_json_int(beat, "lost", 0);
    *node = n;
    return SL_OK;
}

sl_job_node *sl_nodes_expired(sl_nodes *nodes, sl_time now) {
    for (size_t i = 0; i < nodes->count; i++) {
        sl_job_node *n = &nodes->node[i];
        if (n->alive && now - n->heard > SL_NODE_LASTS) {
            n->alive = 0;
            nodes->lookup->stale = 1;
            return n;
        }
    }
    return NULL;
}

void sl_nodes_forgive(sl_nodes *nodes, sl_time now) {
    for (size_t i = 0; i < nodes->count; i++)
        nodes->node[i].heard = now;
}

int sl_nodes_alive(const sl_nodes *nodes) {
    int count = 0;
    for (size_t i = 0; i < nodes->count; i++)
        count += nodes->node[i].alive;
    return count;
}

int sl_nodes_world(const sl_nodes *nodes) {
    int world = 0;
    for (size_t i = 0; i < nodes->count; i++)
        world = nodes->node[i].size > world ? nodes->node[i].size : world;
    return world;
}

int sl_nodes_whole(const sl_nodes *nodes) {
    int world = sl_nodes_world(nodes);
    size_t processes = 0;
    for (size_t i = 0; i < nodes->count; i++)
        processes += nodes->node[i].alive ? nodes->node[i].ranks : 0;
    for (int rank = 0; rank < world; rank++)
        if (!sl_nodes_of_rank(nodes, rank, NULL))
            return 0;
    return world > 0 && processes == (size_t)world;
}

int sl_nodes_timed(const sl_nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->node[i].alive && !nodes->node[i].same_clock && nodes->node[i].offset.trips == 0)
            return 0;
    return 1;
}

int sl_nodes_asked(const sl_nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->node[i].alive && !nodes->node[i].same_clock && !nodes->node[i].asked)
            return 0;
    return 1;
}

const sl_job_node *sl_nodes_of_rank(const sl_nodes *nodes, int rank, int *pid) {
    const struct sl_node_index *l = nodes->lookup;
    if (l && l->stale)
        enter_ranks(nodes);
    if (!l || rank < 0 || (size_t)rank >= l->ranks || !l->of_rank[rank].node)
        return NULL;
    if (pid)
        *pid = l->of_rank[rank].pid;
    return &nodes->node[l->of_rank[rank].node - 1];
}

int64_t sl_node_time(const sl_job_node *node, int64_t theirs) {
    return node->same_clock ? theirs : theirs - node->offset.offset;
}

int64_t sl_nodes_clock_error(const sl_nodes *nodes) {
    int64_t first = 0, second = 0; /* the two largest: two nodes may be wrong in opposite directions */
    for (size_t i = 0; i < nodes->count; i++) {
        const sl_job_node *n = &nodes->node[i];
        int64_t error = n->alive && !n->same_clock ? n->offset.error : 0;
        if (error > first) {
            second = first;
            first = error;
        } else if (error > second) {
            second = error;
        }
    }
    return first + second;
}

json_t *sl_nodes_times(const sl_nodes *nodes, sl_time time) {
    json_t *times = json_object();
    for (size_t i = 0; times && i < nodes->count; i++) {
        const sl_job_node *n = &nodes->node[i];
        if (n->alive && !n->same_clock && n->offset.trips > 0)
            json_object_set_new(times, n->name, json_integer((json_int_t)(time + n->offset.offset)));
    }
    if (times && nodes->clock[0])
        json_object_set_new(times, nodes->clock, json_integer((json_int_t)time));
    return times;
}
