/* bench_balance REPLICAS..: what dividing microbatches among so many replicas takes, beside a heap that gives
 * one microbatch after the other. 16 microbatches a replica; times of 10 ms within 2 %, one in ten slower by
 * up to 4 times. Prints a line a size: replicas, microbatches, then microseconds (least, median, most) of
 * both over the rounds, each with times of its own, and in how many the splits differ. */
#include "adapt/balance/balance.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EACH 16
#define ROUNDS 31

static double unit(uint64_t *state) {
    return sl_random_unit(sl_random_mix(*state += SL_RANDOM_STEP));
}

/* Of the processor: neighbours on the machine do not count. */
static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void draw(uint64_t *state, int replicas, sl_replica_rate *replica) {
    for (int i = 0; i < replicas; i++) {
        double slow = unit(state) < 0.1 ? 1 + 3 * unit(state) : 1;
        replica[i] = (sl_replica_rate){.time = 10 * slow * (0.98 + 0.04 * unit(state))};
    }
}

/* ---- the heap: the replica that is done first with one more is on top; the lower index of two ---- */

typedef struct next {
    double time;
    int replica;
} next;

static int is_before(const next *a, const next *b) {
    return a->time < b->time || (a->time == b->time && a->replica < b->replica);
}

static void sink(next *heap, int count, int at) {
    for (;;) {
        int least = at, left = 2 * at + 1;
        for (int child = left; child <= left + 1 && child < count; child++)
            least = is_before(&heap[child], &heap[least]) ? child : least;
        if (least == at)
            return;
        next kept = heap[at];
        heap[at] = heap[least];
        heap[least] = kept;
        at = least;
    }
}

static int give_by_heap(const sl_replica_rate *replica, int replicas, int microbatches, int *split) {
    next *heap = malloc((size_t)replicas * sizeof *heap);
    if (!heap)
        return 0;
    for (int i = 0; i < replicas; i++) {
        split[i] = 1;
        heap[i] = (next){.time = 2 * replica[i].time, .replica = i};
    }
    for (int i = replicas / 2; i >= 0; i--)
        sink(heap, replicas, i);
    for (int given = replicas; given < microbatches; given++) {
        int to = heap[0].replica;
        split[to]++;
        heap[0].time = replica[to].time * (split[to] + 1);
        sink(heap, replicas, 0);
    }
    free(heap);
    return 1;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(double *took) {
    qsort(took, ROUNDS, sizeof *took, ascending);
    printf(" %.2f %.2f %.2f", took[0], took[ROUNDS / 2], took[ROUNDS - 1]);
}

static int measure(int replicas) {
    static double ours[ROUNDS], heaps[ROUNDS];
    sl_replica_rate *replica = calloc((size_t)replicas, sizeof *replica);
    int *split = calloc((size_t)replicas, sizeof *split), *other = calloc((size_t)replicas, sizeof *other);
    uint64_t state = (uint64_t)replicas;
    int works = replica && split && other, differ = 0;
    for (int round = 0; round < ROUNDS && works; round++) {
        double makespan;
        draw(&state, replicas, replica);
        double begin = microseconds();
        works &= sl_balance(replica, replicas, EACH * replicas, split, &makespan) == SL_OK;
        double middle = microseconds();
        works &= give_by_heap(replica, replicas, EACH * replicas, other);
        double end = microseconds();
        ours[round] = middle - begin;
        heaps[round] = end - middle;
        differ += memcmp(split, other, (size_t)replicas * sizeof *split) != 0;
    }
    if (works) {
        printf("%d %d", replicas, EACH * replicas);
        print_times(ours);
        print_times(heaps);
        printf(" %d\n", differ);
    }
    free(replica);
    free(split);
    free(other);
    return works;
}

/* The times of one round, for other programs: with `print REPLICAS`. */
static int print_instance(int replicas) {
    sl_replica_rate *replica = calloc((size_t)replicas, sizeof *replica);
    uint64_t state = (uint64_t)replicas;
    if (!replica)
        return 0;
    draw(&state, replicas, replica);
    for (int i = 0; i < replicas; i++)
        printf("%.17g\n", replica[i].time);
    free(replica);
    return 1;
}

int main(int argc, char **argv) {
    int prints = argc > 1 && strcmp(argv[1], "print") == 0;
    for (int i = 1 + prints; i < argc; i++) {
        int replicas = atoi(argv[i]);
        if (replicas < 1 || replicas > SL_MAX_REPLICAS || !(prints ? print_instance : measure)(replicas))
            return 1;
    }
    return 0;
}
