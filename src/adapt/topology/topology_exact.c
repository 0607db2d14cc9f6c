/* Branch and bound: positions are filled replica by replica. The filled part, with the best around it, bounds
 * all continuations, and a full replica is replayed. Hosts of one class are one choice. Replicas may be
 * rotated around their rings, and tensor ranks around theirs, so a host of the rarest class is fixed in the
 * first replica at the first tensor rank. Decisions use the replay: a finished search is a proof. */
#include "adapt/topology/topology_inside.h"
#include "base/memory.h"

#include <string.h>

typedef struct exact_search {
    sl_rank_map bound; /* partly filled */
    const sl_cluster *cluster;
    sl_frame *frame;
    const int *class_of;
    int *left;           /* [classes] hosts not placed */
    int *member, *first; /* hosts by class: member[first[k] .. first[k + 1]) */
    int classes, rarest, ties;
    sl_time floor; /* of the whole cluster */
    long long budget, nodes, spent;
    int *host;
    sl_time *time, *spread;
} exact_search;

/* Order of filling: tensor rank fastest, then stage, then replica. */
static int position_at(const sl_cluster *c, int depth) {
    int t = depth % c->tensor, p = depth / c->tensor % c->pipeline, d = depth / c->tensor / c->pipeline;
    return sl_position(c, t, d, p);
}

/* Whether the filled part can no longer become shorter than the best. */
static int hopeless(const exact_search *e) {
    sl_time time = sl_rank_map_time(&e->bound, NULL, NULL);
    if (time < *e->time)
        return 0;
    return time > *e->time || !e->ties || sl_rank_map_spread(&e->bound) >= *e->spread;
}

/* The class of the rarest host must be in the first replica at the first tensor rank. */
static int breaks_symmetry(const exact_search *e, int depth) {
    const sl_cluster *c = e->cluster;
    if (depth != c->tensor * c->pipeline)
        return 0;
    for (int p = 0; p < c->pipeline; p++)
        if (e->class_of[e->bound.host[sl_position(c, 0, 0, p)]] == e->rarest)
            return 0;
    return 1;
}

/* Replaces the ends of a full replica by those of its replay. */
static void replay(exact_search *e, int replica) {
    size_t row = (size_t)replica * (size_t)e->cluster->pipeline;
    long long before = e->frame->replayed;
    sl_frame_replay(e->frame, &e->bound.cell[row], &e->bound.hop[row], &e->bound.end[row]);
    e->spent += 40 * (e->frame->replayed - before);
}

static void fill(exact_search *e, int depth) {
    const sl_cluster *c = e->cluster;
    if (breaks_symmetry(e, depth) || hopeless(e))
        return;
    if (depth == c->hosts) {
        *e->time = sl_rank_map_time(&e->bound, NULL, NULL);
        *e->spread = sl_rank_map_spread(&e->bound);
        memcpy(e->host, e->bound.host, (size_t)c->hosts * sizeof *e->host);
        return;
    }
    int position = position_at(c, depth), replica = sl_position_replica(c, position);
    int full = (depth + 1) % (c->tensor * c->pipeline) == 0;
    for (int k = 0; k < e->classes && e->spent < e->budget; k++) {
        if (e->left[k] == 0 || (!e->ties && *e->time <= e->floor))
            continue;
        int host = e->member[e->first[k + 1] - e->left[k]--];
        e->nodes++;
        e->spent += 100 + 60 * c->pipeline + 10 * c->data * c->tensor + c->data * c->pipeline;
        sl_rank_map_put(&e->bound, position, host);
        if (full && !hopeless(e))
            replay(e, replica);
        fill(e, depth + 1);
        e->left[k]++;
        sl_rank_map_put(&e->bound, position, SL_NO_HOST);
    }
}

static void sort_classes(exact_search *e) {
    int n = 0;
    for (int k = 0; k < e->classes; k++) {
        e->first[k] = n;
        for (int i = 0; i < e->cluster->hosts; i++)
            if (e->class_of[i] == k)
                e->member[n++] = i;
        e->left[k] = n - e->first[k];
        if (e->left[k] < e->left[e->rarest])
            e->rarest = k;
    }
    e->first[e->classes] = n;
}

/* First the least time, proven; then the least spread among those that take as long. */
static void search(exact_search *e, int *finished) {
    *finished = *e->time <= e->floor;
    if (!*finished) {
        fill(e, 0);
        *finished = e->spent < e->budget;
    }
    if (*finished) {
        e->ties = 1;
        fill(e, 0);
    }
}

sl_status sl_topology_exact(const sl_cluster *c, const sl_best *best, sl_frame *frame, sl_time bound,
                            long long budget, int *host, sl_time *time, sl_time *spread, int *finished,
                            long long *looked_at) {
    size_t n = (size_t)c->hosts;
    exact_search e = {.cluster = c,
                      .frame = frame,
                      .floor = bound,
                      .budget = budget,
                      .host = host,
                      .time = time,
                      .spread = spread,
                      .class_of = best->class_of,
                      .classes = best->classes};
    int *room = NULL;
    *finished = 0;
    sl_status status = sl_rank_map_make(c, best, frame, NULL, 0, &e.bound);
    SL_THEN(status, sl_alloc(&room, 3 * n + 1, sizeof *room));
    if (status == SL_OK) {
        e.left = room;
        e.member = room + n;
        e.first = room + 2 * n;
        sort_classes(&e);
        search(&e, finished);
        *looked_at += e.nodes;
    }
    sl_free(room);
    sl_rank_map_free(&e.bound);
    return status;
}
