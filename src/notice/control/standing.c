#include "notice/control/standing.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

void sl_standing_close(sl_standing *s) {
    SL_FREE(s->rank, s->point);
    sl_traffic_close(&s->traffic);
    sl_call_excerpt_close(&s->excerpt);
    *s = (sl_standing){0};
}

static sl_status need_ranks(sl_standing *s, size_t ranks) {
    SL_TRY(sl_grow(&s->rank, &s->room, ranks, sizeof *s->rank));
    for (; s->ranks < ranks; s->ranks++)
        s->rank[s->ranks] = (sl_standing_rank){.ms = NAN, .node = -1};
    return SL_OK;
}

sl_status sl_standing_positions(sl_standing *s, const sl_nodes *nodes) {
    int world = sl_nodes_world(nodes);
    if (world > 0 && world <= SL_MAX_WATCHED_RANKS)
        SL_TRY(need_ranks(s, (size_t)world));
    for (size_t i = 0; i < s->ranks; i++)
        s->rank[i].gone = s->rank[i].node >= 0;
    for (size_t i = 0; i < nodes->count; i++)
        for (size_t j = 0; nodes->node[i].alive && j < nodes->node[i].ranks; j++) {
            const sl_node_rank *one = &nodes->node[i].rank[j];
            if (one->rank >= 0 && (size_t)one->rank < s->ranks) {
                sl_standing_rank *r = &s->rank[one->rank];
                *r = (sl_standing_rank){.ms = r->ms, .node = (int)i, .pid = one->pid};
            }
        }
    return SL_OK;
}

sl_status sl_standing_block(sl_standing *s, const sl_message_block *block) {
    if (block->rank < 0 || block->rank >= SL_MAX_WATCHED_RANKS || block->count < 1 || block->time < 0)
        return SL_OK;
    SL_TRY(need_ranks(s, (size_t)block->rank + 1 > s->ranks ? (size_t)block->rank + 1 : s->ranks));
    s->rank[block->rank].ms = (float)((double)block->time / 1e6 / block->count);
    return SL_OK;
}

/* The older half becomes a quarter. */
static void downsample(sl_standing *s) {
    int half = s->points / 2, kept = 0;
    for (int i = 0; i < half; i += 4) {
        int end = i + 4 < half ? i + 4 : half, low = i, high = i;
        while (low < end - 1 && s->point[low].held)
            high = ++low;
        for (int k = low; k < end; k++) {
            if (s->point[k].held)
                continue;
            low = s->point[k].ms < s->point[low].ms ? k : low;
            high = s->point[k].ms > s->point[high].ms ? k : high;
        }
        int first = low < high ? low : high, second = low < high ? high : low;
        s->point[kept++] = s->point[first];
        if (second != first)
            s->point[kept++] = s->point[second];
    }
    memmove(s->point + kept, s->point + half, (size_t)(s->points - half) * sizeof *s->point);
    s->points += kept - half;
}

sl_status sl_standing_iteration(sl_standing *s, int64_t iteration, double ms, int held) {
    if (!s->point)
        SL_TRY(sl_alloc(&s->point, SL_STANDING_POINTS, sizeof *s->point));
    if (s->points == SL_STANDING_POINTS)
        downsample(s);
    s->point[s->points++] = (sl_standing_point){iteration, ms, held};
    return SL_OK;
}
