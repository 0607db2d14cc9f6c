/* The replicas considered, and slow devices gathered in as few of them as possible: a replica with one slow
 * device is as slow as with several, and then gets fewer microbatches (Falcon, section 5.3). The search of
 * adapt/topology/topology.h gives all replicas the same number and misses this. */
#include "adapt/model/model_inside.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>

#define MAX_SEARCHED 64 /* processes; but at least 4 replicas */
#define HEALTHY_ADDED 2 /* minimum number of healthy replicas, if there are enough */
#define SLOW 1.1        /* slowdown factor */

/* ---- the excerpt ---- */

typedef struct weighed {
    double time; /* of the replica, plus the delay of sums by its links */
    int replica;
} weighed;

static int by_weight(const void *a, const void *b) {
    const weighed *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? 1 : -1;
    return (x->replica > y->replica) - (x->replica < y->replica);
}

/* The delay of sums by a replica's links. */
static double held_up(const sl_model *m, int replica) {
    double most = 0;
    for (int rank = 0; rank < m->job.ranks; rank++)
        for (int k = 0; k < m->job.tensor; k++)
            for (int end = m->first[m->process[sl_job_position(&m->job, rank, replica, k)]]; end;
                 end = m->next[end - 1])
                for (int stage = 0; stage < m->stages; stage++)
                    most = fmax(most, sl_model_sum_growth(m, &m->part[(end - 1) / 2], stage));
    return most;
}

static sl_status choose(sl_model *m, const int *split, int wanted, weighed *slow, sl_excerpt *excerpt) {
    for (int i = 0; i < m->touches; i++) {
        slow[i].replica = m->touched[i];
        if (wanted == m->job.replicas)
            continue; /* all are considered */
        SL_TRY(sl_model_ask(m, &m->group[m->of[slow[i].replica]], split[slow[i].replica], &slow[i].time));
        slow[i].time += held_up(m, slow[i].replica);
    }
    if (m->touches)
        qsort(slow, (size_t)m->touches, sizeof *slow, by_weight);
    int healthy = m->job.replicas - m->touches < HEALTHY_ADDED ? m->job.replicas - m->touches : HEALTHY_ADDED;
    for (int i = 0; i < m->touches && excerpt->count < wanted - healthy; i++)
        excerpt->replica[excerpt->count++] = slow[i].replica;
    for (int r = 0; r < m->job.replicas && excerpt->count < wanted; r++)
        if (!m->is_touched[r])
            excerpt->replica[excerpt->count++] = r;
    qsort(excerpt->replica, (size_t)excerpt->count, sizeof *excerpt->replica, sl_ascending_ints);
    return SL_OK;
}

sl_status sl_model_excerpt(sl_model *m, const int *split, sl_excerpt *excerpt) {
    int most = MAX_SEARCHED / (m->job.ranks * m->job.tensor), wanted = m->touches + HEALTHY_ADDED;
    weighed *slow;
    most = most < 4 ? 4 : most;
    wanted = wanted < 4 ? 4 : wanted < most ? wanted : most;
    wanted = m->job.replicas <= most ? m->job.replicas : wanted;
    *excerpt = (sl_excerpt){0};
    SL_TRY(sl_alloc(&excerpt->replica, (size_t)wanted, sizeof *excerpt->replica));
    sl_status status = sl_alloc(&slow, (size_t)m->touches, sizeof *slow);
    if (status == SL_OK)
        status = choose(m, split, wanted, slow, excerpt);
    sl_free(slow);
    return status;
}

/* ---- gathering ---- */

static int is_slow(const sl_model *m, int rank, int replica) {
    return sl_model_slowness(m, rank, replica) > SLOW;
}

static int count_slow(const sl_model *m, int replica) {
    int count = 0;
    for (int rank = 0; rank < m->job.ranks; rank++)
        count += is_slow(m, rank, replica);
    return count;
}

/* The position in replica `into` for the slow device of `rank`: the same stage if that is healthy, since then
 * no weights move. -1: it is slow everywhere. */
static int target_for(const sl_model *m, int into, int rank) {
    if (!is_slow(m, rank, into))
        return rank;
    for (int other = 0; other < m->job.ranks; other++)
        if (!is_slow(m, other, into))
            return other;
    return -1;
}

/* The replica with the most slow devices and a healthy position left; -1: none. */
static int fullest(const sl_model *m, const sl_excerpt *e) {
    int best = -1, most = 0;
    for (int i = 0; i < e->count; i++) {
        int slow = count_slow(m, e->replica[i]);
        if (slow > most && slow < m->job.ranks) {
            most = slow;
            best = e->replica[i];
        }
    }
    return best;
}

/* The replica with the fewest slow devices, at least one, other than `into`. */
static int emptiest(const sl_model *m, const sl_excerpt *e, int into) {
    int best = -1, least = 0;
    for (int i = 0; i < e->count; i++) {
        int slow = count_slow(m, e->replica[i]);
        if (e->replica[i] != into && slow > 0 && (best < 0 || slow < least)) {
            least = slow;
            best = e->replica[i];
        }
    }
    return best;
}

/* All tensor ranks of a position move together. */
int sl_model_gather(sl_model *m, const sl_excerpt *excerpt, sl_job_layout *layout) {
    for (int moved = 0;;) {
        int into = fullest(m, excerpt), from = into < 0 ? -1 : emptiest(m, excerpt, into);
        if (from < 0 || count_slow(m, from) > count_slow(m, into))
            return moved;
        for (int rank = 0; rank < m->job.ranks; rank++) {
            int target = is_slow(m, rank, from) ? target_for(m, into, rank) : -1;
            moved |= target >= 0;
            for (int k = 0; k < m->job.tensor && target >= 0; k++)
                sl_model_swap(m, layout, sl_job_position(&m->job, rank, from, k),
                              sl_job_position(&m->job, target, into, k));
        }
    }
}
