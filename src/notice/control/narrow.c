#include "notice/control/narrow.h"

#include <stdio.h>
#include <string.h>

static int there(const sl_suspect *s, int node, const int *node_of, int ranks) {
    return s->component == SL_COMPONENT_DEVICE && s->rank >= 0 && s->rank < ranks && node_of[s->rank] == node;
}

/* The contended node of a verdict, whose cause says so (notice/validate/causes.h); -1: it is of something
 * else.
 */
static int contended(const sl_suspect *v, const int *node_of, int ranks) {
    int is = v->component == SL_COMPONENT_HOST && strstr(v->cause, "contention") && v->rank >= 0 &&
             v->rank < ranks;
    return is ? node_of[v->rank] : -1;
}

static int node(int rank, const int *node_of, int ranks) {
    return rank >= 0 && rank < ranks ? node_of[rank] : -1;
}

/* Whether two directions are one, or go between the same two nodes: over the same cards and wires. */
static int is_way(int from, int to, int other_from, int other_to, const int *node_of, int ranks) {
    int here = node(from, node_of, ranks), there = node(to, node_of, ranks);
    return (from == other_from && to == other_to) ||
           (here >= 0 && there >= 0 && here != there && here == node(other_from, node_of, ranks) &&
            there == node(other_to, node_of, ranks));
}

/* Whether the profile points there: at this direction, or at the node of an end of it. */
static int points_at(const sl_suspect *s, const sl_suspect *doubt, const int *node_of, int ranks) {
    if (s->component == SL_COMPONENT_HOST) {
        int end = node(s->rank, node_of, ranks);
        return end >= 0 &&
               (end == node(doubt->from, node_of, ranks) || end == node(doubt->to, node_of, ranks)) &&
               node(doubt->from, node_of, ranks) != node(doubt->to, node_of, ranks);
    }
    return s->component == SL_COMPONENT_LINK &&
           (is_way(s->from, s->to, doubt->from, doubt->to, node_of, ranks) ||
            (s->both && is_way(s->to, s->from, doubt->from, doubt->to, node_of, ranks)));
}

/* Tests found a direction slower than others, too few to judge by; the profile knows what it was. */
static void settle_doubt(sl_suspect *verdict, const sl_suspect *suspect, int suspects, const int *node_of,
                         int ranks) {
    const sl_suspect doubt = *verdict;
    if (doubt.component != SL_COMPONENT_UNKNOWN || doubt.from < 0)
        return;
    for (int i = 0; i < suspects; i++) {
        if (!points_at(&suspect[i], &doubt, node_of, ranks))
            continue;
        *verdict = suspect[i].component == SL_COMPONENT_HOST ? doubt : suspect[i];
        verdict->component = SL_COMPONENT_LINK;
        snprintf(verdict->why, sizeof verdict->why,
                 "%.130s; tested: %d -> %d has %.3g GB/s, the fastest %.3g", suspect[i].why, doubt.from,
                 doubt.to, doubt.measured, doubt.expected);
        return;
    }
}

int sl_verdict_narrow(sl_suspect *verdict, int count, int most, const sl_suspect *suspect, int suspects,
                      const int *node_of, int ranks) {
    for (int i = 0; i < count; i++)
        settle_doubt(&verdict[i], suspect, suspects, node_of, ranks);
    for (int i = 0; i < count; i++) {
        const sl_suspect host = verdict[i];
        int node = contended(&host, node_of, ranks), devices = 0, all = 0;
        for (int s = 0; node >= 0 && s < suspects; s++)
            devices += there(&suspect[s], node, node_of, ranks);
        for (int r = 0; r < ranks; r++)
            all += node_of[r] == node;
        if (devices == 0 || devices == all || count + devices - 1 > most)
            continue;
        memmove(&verdict[i + devices], &verdict[i + 1], (size_t)(count - i - 1) * sizeof *verdict);
        for (int s = 0, at = i; s < suspects; s++) {
            if (!there(&suspect[s], node, node_of, ranks))
                continue;
            sl_suspect *v = &verdict[at++];
            *v = suspect[s];
            snprintf(v->cause, sizeof v->cause, "%s", host.cause);
            snprintf(v->why, sizeof v->why, "%.120s; %.130s", suspect[s].why, host.why);
        }
        count += devices - 1;
        i += devices - 1;
    }
    return count;
}
