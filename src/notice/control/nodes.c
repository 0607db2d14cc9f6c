#include "notice/control/nodes.h"

#include "base/memory.h"
#include <stdio.h>
#include <string.h>

void sl_nodes_close(sl_nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        sl_free(nodes->node[i].rank);
    sl_free(nodes->node);
    nodes->node = NULL;
    nodes->count = nodes->capacity = 0;
}

sl_job_node *sl_nodes_find(const sl_nodes *nodes, const char *name) {
    for (size_t i = 0; i < nodes->count; i++)
        if (strcmp(nodes->node[i].name, name) == 0)
            return &nodes->node[i];
    return NULL;
}

static sl_status make(sl_nodes *nodes, const char *name, sl_job_node **node) {
    SL_TRY(sl_grow(&nodes->node, &nodes->capacity, nodes->count + 1, sizeof *nodes->node));
    *node = &nodes->node[nodes->count++];
    **node = (sl_job_node){.name = ""};
    snprintf((*node)->name, sizeof(*node)->name, "%s", name);
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

sl_status sl_nodes_hear(sl_nodes *nodes, const json_t *beat, sl_time now, sl_job_node **node, int *change) {
    int changed = 0;
    *node = NULL;
    *change = 0;
    if (!sl_beat_is(beat))
        return SL_OK;
    const char *name = sl_json_text(beat, "node", ""), *clock = sl_json_text(beat, "clock", "");
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

const sl_job_node *sl_nodes_of_rank(const sl_nodes *nodes, int rank, int *pid) {
    for (size_t i = 0; i < nodes->count; i++)
        for (size_t j = 0; nodes->node[i].alive && j < nodes->node[i].ranks; j++)
            if (nodes->node[i].rank[j].rank == rank) {
                if (pid)
                    *pid = nodes->node[i].rank[j].pid;
                return &nodes->node[i];
            }
    return NULL;
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
        if (n->alive)
            json_object_set_new(times, n->name,
                                json_integer((json_int_t)(time + (n->same_clock ? 0 : n->offset.offset))));
    }
    return times;
}
