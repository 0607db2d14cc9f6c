/* Slow devices gathered in as few replicas as can be: a replica with one slow device is as slow as with
 * several, and gets fewer microbatches then (Falcon, section 5.3). The search of adapt/topology/topology.h,
 * which gives all replicas the same number, does not look for that. */
#include "run/remedy/remedy_inside.h"

#include <string.h>

#define SLOW 1.1

static int is_slow(const sl_trainer *t, const int *home, int rank, int replica) {
    return sl_remedy_slowness(t, home, rank, replica) > SLOW;
}

static int count_slow(const sl_trainer *t, const int *home, int replica) {
    int count = 0;
    for (int rank = 0; rank < t->ranks; rank++)
        count += is_slow(t, home, rank, replica);
    return count;
}

/* All tensor ranks of both places. */
static void swap(const sl_trainer *t, int *home, int rank, int replica, int other_rank, int other) {
    for (int k = 0; k < t->run->parallel.tensor; k++) {
        int a = sl_run_world_rank(t->run, (sl_seat){rank, replica, k});
        int b = sl_run_world_rank(t->run, (sl_seat){other_rank, other, k});
        int kept = home[a];
        home[a] = home[b];
        home[b] = kept;
    }
}

/* Where replica `into` takes the slow device of `rank`: the same stage if it is healthy there, for then no
 * weights move. -1: it is slow everywhere. */
static int place_for(const sl_trainer *t, const int *home, int into, int rank) {
    if (!is_slow(t, home, rank, into))
        return rank;
    for (int other = 0; other < t->ranks; other++)
        if (!is_slow(t, home, other, into))
            return other;
    return -1;
}

/* The replica with most slow devices that has a healthy place left, and has more than `least`. */
static int fullest(const sl_trainer *t, const int *home, int least) {
    int best = -1, most = least;
    for (int r = 0; r < t->run->parallel.data; r++) {
        int slow = count_slow(t, home, r);
        if (slow > most && slow < t->ranks) {
            most = slow;
            best = r;
        }
    }
    return best;
}

/* From the replica with fewest slow devices, at least one, other than `into`. */
static int emptiest(const sl_trainer *t, const int *home, int into) {
    int best = -1, least = 0;
    for (int r = 0; r < t->run->parallel.data; r++) {
        int slow = count_slow(t, home, r);
        if (r != into && slow > 0 && (best < 0 || slow < least)) {
            least = slow;
            best = r;
        }
    }
    return best;
}

int sl_remedy_gather(const sl_trainer *t, int *home) {
    int moved = 0;
    memcpy(home, t->home, (size_t)t->world * sizeof *home);
    for (;;) {
        int into = fullest(t, home, 0), from = into < 0 ? -1 : emptiest(t, home, into);
        if (from < 0 || count_slow(t, home, from) > count_slow(t, home, into))
            return moved;
        for (int rank = 0; rank < t->ranks; rank++) {
            int place = is_slow(t, home, rank, from) ? place_for(t, home, into, rank) : -1;
            if (place < 0)
                continue;
            swap(t, home, rank, from, place, into);
            moved++;
        }
    }
}
