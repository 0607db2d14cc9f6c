#include "adapt/balance/balance.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define FEW 512 /* candidates that are not worth another pass */

/* An unrounded product: high is the rounded one, low the rounding error (fma, exact for valid times). */
typedef struct exact {
    double high, low;
} exact;

/* A replica whose count is still open: at least `low` and at most `high`. */
typedef struct split_row {
    double time, fill, rate; /* rate: 1 / time */
    int replica, low, high, count;
} split_row;

/* A microbatch that may be the last one assigned: it ends at `time`, the previous one at `before`. */
typedef struct split_candidate {
    exact time, before;
} split_candidate;

typedef struct split_search {
    split_row *row;
    int rows;
    int64_t wanted;        /* microbatches for the open rows */
    int64_t below, above;  /* sums of low and of high: below < wanted <= above */
    double floor, ceiling; /* the thresholds that gave them */
    double at, slope;      /* the last threshold, and microbatches per unit of time there */
    int64_t reached;       /* counted there */
} split_search;

/* Counts plus fill stay below 2^32, so 20 fractional bits keep them exact. */
static double fill_of(const sl_replica_rate *replica) {
    return nearbyint(replica->fill * 0x1p20) * 0x1p-20;
}

static exact product(double time, double count) {
    double high = time * count;
    return (exact){high, fma(time, count, -high)};
}

/* Rounding is monotone, so the rounded products decide unless they are equal. */
static int compare(exact a, exact b) {
    if (a.high != b.high)
        return a.high < b.high ? -1 : 1;
    return (a.low > b.low) - (a.low < b.low);
}

static int is_within(const split_row *r, int count, double threshold) {
    double high = r->time * (count + r->fill);
    return high < threshold || (high == threshold && fma(r->time, count + r->fill, -high) <= 0);
}

/* The most microbatches, low to high, with a time within `threshold`: the quotient is off by at most one. */
static int count_within(const split_row *r, double threshold) {
    double quotient = threshold * r->rate - r->fill;
    if (!(quotient < r->high + 1.0))
        return r->high;
    int count = quotient > r->low ? (int)quotient : r->low;
    while (count < r->high && is_within(r, count + 1, threshold))
        count++;
    while (count > r->low && !is_within(r, count, threshold))
        count--;
    return count;
}

/* ---- thresholds ---- */

static void count_all(split_search *s, double threshold) {
    int64_t reached = 0;
    double slope = 0;
    for (int i = 0; i < s->rows; i++) {
        split_row *r = &s->row[i];
        r->count = count_within(r, threshold);
        reached += r->count;
        double quotient = threshold * r->rate - r->fill;
        if (quotient > 1 && quotient < r->high + 1.0)
            slope += r->rate;
    }
    s->at = threshold;
    s->reached = reached;
    s->slope = slope;
}

/* Applies the last threshold to each row; decided rows leave. */
static void close_in(split_search *s, int *split) {
    int enough = s->reached >= s->wanted, kept = 0;
    *(enough ? &s->ceiling : &s->floor) = s->at;
    s->below = s->above = 0;
    for (int i = 0; i < s->rows; i++) {
        split_row r = s->row[i];
        *(enough ? &r.high : &r.low) = r.count;
        if (r.low == r.high) {
            split[r.replica] = r.low;
            s->wanted -= r.low;
            s->reached -= r.low;
            continue;
        }
        s->below += r.low;
        s->above += r.high;
        s->row[kept++] = r;
    }
    s->rows = kept;
}

/* The double halfway between two, counted in doubles: bisection takes at most as many steps as a double has
 * bits, whatever the ratios. Equal to `low` if there is none between. */
static double middle(double low, double high) {
    uint64_t a, b;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    a += (b - a) / 2;
    memcpy(&low, &a, sizeof low);
    return low;
}

/* First Newton's step; then twice the miss of the sum, so that it brackets; and after another miss on the
 * same side one more per row, the most that rounding down to whole counts may hide. Every fourth step is a
 * bisection, once there are two sides. */
static double next_threshold(const split_search *s, int pass, int same_side) {
    double missing = (double)(s->wanted - s->reached), sign = missing > 0 ? 1 : -1;
    double more = pass == 1 ? 0 : same_side ? sign * s->rows : missing + sign;
    double step = s->at + (missing + more) / s->slope;
    if (step > s->floor && step < s->ceiling && (pass % 4 != 3 || s->floor == 0 || isinf(s->ceiling)))
        return step;
    return isinf(s->ceiling) ? 2 * s->at : middle(s->floor, s->ceiling);
}

static double first_threshold(const split_search *s) {
    double slope = 0, fill = 0;
    for (int i = 0; i < s->rows; i++) {
        slope += s->row[i].rate;
        fill += s->row[i].fill;
    }
    double start = ((double)s->wanted + fill) / slope;
    return start > s->floor && start < s->ceiling ? start : middle(s->floor, s->ceiling);
}

/* Until few microbatches end between floor and ceiling, or a row has about one and no threshold separates
 * them any further (they end together, or nearly), or there is no double between. */
static void narrow(split_search *s, int *split) {
    double threshold = first_threshold(s);
    int side = 0;
    for (int pass = 1; threshold > s->floor; pass++) {
        int64_t before = s->above - s->below;
        int last = side;
        count_all(s, threshold);
        side = s->reached < s->wanted ? -1 : 1;
        close_in(s, split);
        int64_t open = s->above - s->below;
        if (open <= FEW || (open <= 2 * (int64_t)s->rows && (pass >= 6 || open > before - before / 4)))
            return;
        threshold = next_threshold(s, pass, side == last);
    }
}

/* ---- choosing among the remaining ones ---- */

/* The order of assignment: the microbatch that ends earlier; if equal, the one lifting its replica less. */
static int by_order(const split_candidate *a, const split_candidate *b) {
    int order = compare(a->time, b->time);
    return order ? order : compare(b->before, a->before);
}

static void swap(split_candidate *a, split_candidate *b) {
    split_candidate kept = *a;
    *a = *b;
    *b = kept;
}

/* The last of the first `wanted` ones, and how many of those are equal to it: quickselect with random pivots,
 * so that no input is a bad one. */
static split_candidate find_last(split_candidate *c, int64_t count, int64_t wanted, int64_t *alike) {
    for (uint64_t state = 0;;) {
        split_candidate pivot = c[sl_random_mix(state += SL_RANDOM_STEP) % (uint64_t)count];
        int64_t before = 0, after = count;
        for (int64_t i = 0; i < after;) {
            int order = by_order(&c[i], &pivot);
            if (order < 0)
                swap(&c[i++], &c[before++]);
            else if (order > 0)
                swap(&c[i], &c[--after]);
            else
                i++;
        }
        if (wanted > before && wanted <= after) {
            *alike = wanted - before;
            return pivot;
        }
        if (wanted <= before) {
            count = before;
        } else {
            c += after;
            count -= after;
            wanted -= after;
        }
    }
}

static split_candidate candidate_of(const split_row *r, int count) {
    return (split_candidate){.time = product(r->time, count + r->fill),
                             .before = product(r->time, count - 1 + r->fill)};
}

static void list(const split_search *s, split_candidate *c) {
    for (int i = 0; i < s->rows; i++)
        for (int count = s->row[i].low + 1; count <= s->row[i].high; count++)
            *c++ = candidate_of(&s->row[i], count);
}

/* Assigns all before `last`, and of those equal to it the first in the order of replicas. */
static void give(const split_search *s, const split_candidate *last, int64_t alike, int *split) {
    for (int i = 0; i < s->rows; i++) {
        const split_row *r = &s->row[i];
        int count = r->low;
        for (int order = -1; count < r->high && order < 0; count += order < 0) {
            split_candidate c = candidate_of(r, count + 1);
            order = by_order(&c, last);
            if (order == 0 && alike > 0) {
                alike--;
                order = -1;
            }
        }
        split[r->replica] = count;
    }
}

static sl_status choose(split_search *s, int *split) {
    split_candidate *c;
    int64_t alike;
    SL_TRY(sl_alloc(&c, (size_t)(s->above - s->below), sizeof *c));
    list(s, c);
    split_candidate last = find_last(c, s->above - s->below, s->wanted - s->below, &alike);
    give(s, &last, alike, split);
    sl_free(c);
    return SL_OK;
}

/* ---- the whole search ---- */

static sl_status check(const sl_replica_rate *replica, int replicas) {
    for (int i = 0; i < replicas; i++) {
        const sl_replica_rate *r = &replica[i];
        if (!(r->time >= SL_BALANCE_MIN && r->time <= SL_BALANCE_MAX))
            return sl_error(SL_EINVAL, "the time of replica %d must be from %g to %g, got %g", i,
                            SL_BALANCE_MIN, SL_BALANCE_MAX, r->time);
        if (!(r->fill >= 0 && r->fill <= SL_BALANCE_FILL))
            return sl_error(SL_EINVAL, "the fill of replica %d must be from 0 to %g microbatches, got %g", i,
                            SL_BALANCE_FILL, r->fill);
    }
    return SL_OK;
}

sl_status sl_balance_room(int replicas, int microbatches, int *room) {
    int64_t all = 0;
    int left = microbatches - replicas + 1; /* if the others take one each */
    if (microbatches < replicas)
        return sl_error(SL_ENONE,
                        "%d microbatches cannot be divided among %d replicas: each takes at least one",
                        microbatches, replicas);
    for (int i = 0; i < replicas; i++) {
        if (room[i] < 0)
            return sl_error(SL_EINVAL, "the limit of replica %d must be at least 1, or 0 for none, got %d", i,
                            room[i]);
        room[i] = room[i] > 0 && room[i] < left ? room[i] : left;
        all += room[i];
    }
    if (all < microbatches)
        return sl_error(SL_ENONE, "the limits of all replicas add up to %lld microbatches, but there are %d",
                        (long long)all, microbatches);
    return SL_OK;
}

/* Every replica has one microbatch at threshold 0 and its maximum at infinity. On entry `split` holds the
 * maximum of each. */
static sl_status divide(const sl_replica_rate *replica, int replicas, int microbatches, split_row *rows,
                        int *split) {
    split_search s = {.row = rows, .wanted = microbatches, .ceiling = INFINITY};
    for (int i = 0; i < replicas; i++) {
        int room = split[i];
        split[i] = 1;
        if (room == 1) {
            s.wanted--;
            continue;
        }
        rows[s.rows++] = (split_row){.time = replica[i].time,
                                     .fill = fill_of(&replica[i]),
                                     .rate = 1 / replica[i].time,
                                     .replica = i,
                                     .low = 1,
                                     .high = room};
        s.below += 1;
        s.above += room;
    }
    if (s.wanted == s.below)
        return SL_OK;
    if (s.above - s.below > FEW)
        narrow(&s, split);
    return choose(&s, split);
}

double sl_replica_time(const sl_replica_rate *replica, int microbatches) {
    return replica->time * (microbatches + fill_of(replica));
}

static double largest(const sl_replica_rate *replica, int replicas, const int *split) {
    double most = 0;
    for (int i = 0; i < replicas; i++)
        most = fmax(most, sl_replica_time(&replica[i], split[i]));
    return most;
}

sl_status sl_balance(const sl_replica_rate *replica, int replicas, int microbatches, int *split,
                     double *makespan) {
    split_row *rows;
    if (replicas < 1 || replicas > SL_MAX_REPLICAS)
        return sl_error(SL_EINVAL, "replicas must be from 1 to %d, got %d", SL_MAX_REPLICAS, replicas);
    SL_TRY(check(replica, replicas));
    for (int i = 0; i < replicas; i++)
        split[i] = replica[i].limit;
    SL_TRY(sl_balance_room(replicas, microbatches, split));
    SL_TRY(sl_alloc(&rows, (size_t)replicas, sizeof *rows));
    sl_status status = divide(replica, replicas, microbatches, rows, split);
    if (status == SL_OK)
        *makespan = largest(replica, replicas, split);
    sl_free(rows);
    return status;
}

void sl_split_evenly(int replicas, int microbatches, int *split) {
    for (int i = 0; i < replicas; i++)
        split[i] = microbatches / replicas + (i < microbatches % replicas ? 1 : 0);
}
