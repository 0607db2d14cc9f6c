/* Started by test_sum.sh under mpirun: sums in a fixed order against a sum that each rank makes for itself, and how
 * long messages take on emulated links. With an argument only the sums, whatever the ranks share. */
#include "base/clock.h"
#include "run/collective/group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float value(int rank, size_t i) {
    unsigned x = (unsigned)rank * 2654435761u + (unsigned)i * 40503u + 12345u;
    x ^= x >> 13;
    x *= 1274126177u;
    /* magnitudes from 1e-4 to 1e4, so that the order of addition shows in the bits */
    static const float scale[] = {1e-4f, 1e-2f, 1.0f, 1e2f, 1e4f};
    return ((float)(x % 2000001u) / 1000000.0f - 1.0f) * scale[x / 7u % 5u];
}

static int check_sum(sl_group *group, size_t count) {
    int size = sl_group_size(group), wrong = 0;
    float *values = calloc(count, sizeof *values),
          *scratch = calloc(2 * (count + (size_t)size), sizeof *scratch);
    for (size_t i = 0; i < count; i++)
        values[i] = value(sl_group_rank(group), i);
    if (sl_group_sum(group, values, count, scratch) != SL_OK)
        wrong = 1;
    for (size_t i = 0; i < count; i++) {
        float expected = value(0, i);
        for (int r = 1; r < size; r++)
            expected += value(r, i);
        wrong |= memcmp(&expected, &values[i], sizeof expected) != 0;
    }
    free(values);
    free(scratch);
    return wrong;
}

static int check_gather(sl_group *group) {
    int rank = sl_group_rank(group), size = sl_group_size(group), wrong = 0;
    char mine[16], all[16 * 16];
    size_t sizes[16];
    memset(mine, 'a' + rank, sizeof mine);
    wrong |= sl_group_gather_all(group, mine, (size_t)rank, all, sizeof all, sizes) !=
             SL_OK; /* rank 0 gives nothing */
    for (int r = 0, at = 0; r < size; at += r, r++)
        for (int i = 0; i < r; i++)
            wrong |= all[at + i] != 'a' + r || sizes[r] != (size_t)r;
    wrong |= size > 2 && sl_group_gather_all(group, mine, 16, all, 8, sizes) != SL_ENOMEM;
    int passed = rank == 0 ? 42 : 0;
    wrong |= sl_group_pass(group, 0, size - 1, &passed, sizeof passed) != SL_OK;
    wrong |= rank == size - 1 && passed != 42;
    return wrong;
}

/* Around the size of a piece, and several of them: nothing is lost, doubled or out of place, and two messages
 * that follow each other are not mixed up. */
static int check_passes(sl_group *group) {
    static const size_t counts[] = {0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 * (1 << 20) + 12345};
    int rank = sl_group_rank(group), last = sl_group_size(group) - 1, wrong = 0;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        unsigned char *data = calloc(counts[c] + 1, 1), after = (unsigned char)(rank == 0 ? 200 + c : 0);
        for (size_t i = 0; i < counts[c] && rank == 0; i++)
            data[i] = (unsigned char)(i * 2654435761u >> 13);
        wrong |= sl_group_pass(group, 0, last, data, counts[c]) != SL_OK;
        wrong |= sl_group_pass(group, 0, last, &after, 1) != SL_OK;
        for (size_t i = 0; i < counts[c] && rank == last; i++)
            wrong |= data[i] != (unsigned char)(i * 2654435761u >> 13);
        wrong |= rank == last && after != 200 + c;
        free(data);
    }
    return wrong;
}

static unsigned char byte_of(int rank, size_t block, size_t i) {
    return (unsigned char)((i + 977 * block + 7919 * (size_t)rank) * 2654435761u >> 13);
}

/* Each gives to the next and takes from the one before, around the size of a piece and with more pieces than
 * are under way at once; then only the first one gives, to the last. */
static int check_exchange(sl_group *group) {
    static const size_t counts[] = {1, 0, (4 << 20) - 1, (4 << 20) + 1, 21 * (1 << 20) + 12345};
    enum { BLOCKS = sizeof counts / sizeof counts[0] };
    int rank = sl_group_rank(group), size = sl_group_size(group), wrong = 0;
    for (int ring = 1; ring >= 0; ring--) {
        sl_block give[BLOCKS], take[BLOCKS];
        int to = ring ? (rank + 1) % size : size - 1, from = ring ? (rank + size - 1) % size : 0;
        int gives = ring || rank == 0 ? BLOCKS : 0, takes = ring || rank == size - 1 ? BLOCKS : 0;
        for (int b = 0; b < BLOCKS; b++) {
            give[b] = (sl_block){calloc(counts[b] + 1, 1), counts[b]};
            take[b] = (sl_block){calloc(counts[b] + 1, 1), counts[b]};
            for (size_t i = 0; i < counts[b]; i++)
                ((unsigned char *)give[b].data)[i] = byte_of(rank, (size_t)b, i);
        }
        wrong |= sl_group_exchange(group, give, gives, to, take, takes, from) != SL_OK;
        for (int b = 0; b < BLOCKS; b++) {
            const unsigned char *data = take[b].data;
            for (size_t i = 0; i < counts[b] && takes; i++)
                wrong |= data[i] != byte_of(from, (size_t)b, i);
            wrong |= data[counts[b]] != 0;
            free(give[b].data);
            free(take[b].data);
        }
    }
    return wrong;
}

/* Groups that are ended make room for others: more of them than MPI libraries have at once. */
static int check_many_groups(sl_group *group) {
    int wrong = 0;
    for (int i = 0; i < 3000 && !wrong; i++) {
        sl_group *other;
        wrong |= sl_group_split(group, 0, -sl_group_rank(group), SL_WAIT_SHORT, &other) != SL_OK;
        wrong |= !wrong && sl_group_rank(other) != sl_group_size(group) - 1 - sl_group_rank(group);
        wrong |= !wrong && sl_group_end(other) != SL_OK;
    }
    return wrong;
}

static float expected_sum(int size, size_t i) {
    float expected = value(0, i);
    for (int r = 1; r < size; r++)
        expected += value(r, i);
    return expected;
}

static sl_status sum_shares(sl_group *group, const float *values, size_t count, float *out, float *scratch) {
    sl_group_flight *flight;
    SL_TRY(sl_group_flight_open(group, &flight));
    sl_status status = sl_group_start_sum(flight, values, count, scratch);
    SL_THEN(status, sl_group_finish_sum(flight, out));
    sl_group_flight_close(flight);
    return status;
}

/* The two halves of a sum by themselves. */
static int check_shares(sl_group *group, size_t count) {
    int rank = sl_group_rank(group), wrong = 0;
    size_t size = (size_t)sl_group_size(group);
    float *values = calloc(size * count + 1, sizeof *values), *all = calloc(size * count + 1, sizeof *all);
    float *mine = calloc(count + 1, sizeof *mine), *scratch = calloc(size * count + 1, sizeof *scratch);
    for (size_t i = 0; i < size * count; i++)
        values[i] = value(rank, i);
    wrong |= sum_shares(group, values, count, mine, scratch) != SL_OK;
    for (size_t i = 0; i < count; i++) {
        float expected = expected_sum((int)size, (size_t)rank * count + i);
        wrong |= memcmp(&expected, &mine[i], sizeof expected) != 0;
    }
    wrong |= sl_group_gather_shares(group, mine, count, all) != SL_OK;
    for (size_t i = 0; i < size * count; i++) {
        float expected = expected_sum((int)size, i);
        wrong |= memcmp(&expected, &all[i], sizeof expected) != 0;
    }
    free(values);
    free(all);
    free(mine);
    free(scratch);
    return wrong;
}

/* More than one piece: 2 * SL_GROUP_PIECE + 5 values with scratch for one. */
static int check_pieces(sl_group *group) {
    size_t count = 2 * SL_GROUP_PIECE + 5;
    int wrong = 0, size = sl_group_size(group);
    float *values = calloc(count, sizeof *values),
          *scratch = calloc(sl_group_scratch(group, count) + 1, sizeof *scratch);
    for (size_t i = 0; i < count; i++)
        values[i] = value(sl_group_rank(group), i);
    wrong |= sl_group_scratch(group, count) > 2 * (SL_GROUP_PIECE + (size_t)size);
    wrong |= sl_group_sum(group, values, count, scratch) != SL_OK;
    for (size_t i = 0; i < count; i += 4099) {
        float expected = expected_sum(size, i);
        wrong |= memcmp(&expected, &values[i], sizeof expected) != 0;
    }
    free(values);
    free(scratch);
    return wrong;
}

static int check_max(sl_group *group, size_t count) {
    int size = sl_group_size(group), rank = sl_group_rank(group), wrong = 0;
    float *values = calloc(count + 1, sizeof *values), *scratch = calloc(2 * (count + 8), sizeof *scratch);
    for (size_t i = 0; i < count; i++)
        values[i] = value(rank, i);
    if (rank == size - 1)
        values[0] = (float)NAN;
    wrong |= sl_group_max(group, values, count, scratch) != SL_OK;
    wrong |= !isnan(values[0]);
    for (size_t i = 1; i < count; i++) {
        float expected = value(0, i);
        for (int r = 1; r < size; r++)
            expected = value(r, i) > expected ? value(r, i) : expected;
        wrong |= values[i] != expected;
    }
    free(values);
    free(scratch);
    return wrong;
}

/* Even and odd ranks apart, the highest first: a sum over each goes by the order of the keys. */
static int check_split(sl_group *world) {
    int size = sl_group_size(world), rank = sl_group_rank(world), wrong = 0;
    sl_group *part = NULL;
    if (sl_group_split(world, rank % 2, -rank, SL_WAIT_SHORT, &part) != SL_OK)
        return 1;
    int members = (size + 1 - rank % 2) / 2;
    wrong |= sl_group_size(part) != members || sl_group_rank(part) != members - 1 - rank / 2;
    float scratch[2 * (3 + 8)], values[3] = {value(rank, 0), value(rank, 1), value(rank, 2)};
    wrong |= sl_group_sum(part, values, 3, scratch) != SL_OK;
    for (size_t i = 0; i < 3; i++) {
        int highest = rank % 2 + 2 * (members - 1);
        float expected = value(highest, i);
        for (int r = highest - 2; r >= 0; r -= 2)
            expected += value(r, i);
        wrong |= memcmp(&expected, &values[i], sizeof expected) != 0;
    }
    sl_group_close(part);
    return wrong;
}

/* ---- emulated links: rank 0's way to rank 1 ---- */

#define LATENCY (40 * SL_MS)
#define RATE 20e6 /* bytes/s */
#define MANY 6

static void slow(sl_group *group, sl_time latency, double rate) {
    sl_link_emulation link = {.latency = latency, .bytes_per_second = rate};
    if (sl_group_rank(group) == 0)
        sl_group_emulate(group, 1, link);
}

static sl_time now(void) {
    return sl_clock_now(sl_clock_real());
}

/* How long a message takes from when the rank is ready for it. */
static sl_time pass_time(sl_group *group, int from, int to, void *data, size_t bytes) {
    sl_time begin = now(); /* before any rank sends, for they wait for this one */
    sl_group_barrier(group);
    sl_group_pass(group, from, to, data, bytes);
    return now() - begin;
}

/* Whether some rank says so. Times have upper limits, too, but a machine that others use is often late: such a
 * measurement is repeated while a rank is above its limit, TRIES times at most. */
enum { TRIES = 40 };

static int some(sl_group *group, int late, int *wrong) {
    float any = (float)late, scratch[2 * (1 + 8)];
    *wrong |= sl_group_max(group, &any, 1, scratch) != SL_OK;
    return any > 0;
}

static sl_time least_of(sl_time a, sl_time b) {
    return a < b ? a : b;
}

/* A message of 2.5 MB takes 125 ms and the latency, once, though it goes in pieces; the way back and other
 * pairs do not wait for it. */
static int check_slow_pass(sl_group *group) {
    const size_t bytes = 2500000;
    int rank = sl_group_rank(group), size = sl_group_size(group), wrong = 0, late = 1;
    char *data = calloc(bytes, 1);
    sl_time back = SL_SECOND, other = SL_SECOND, least = LATENCY + 125 * SL_MS;
    slow(group, LATENCY, RATE);
    for (int i = 0; i < TRIES && late; i++) {
        sl_time there = pass_time(group, 0, 1, data, bytes);
        wrong |= (rank == 0 || rank == 1) && there < least;
        late = some(group, rank == 1 && there > least + LATENCY * 3 / 2, &wrong); /* three pieces, one latency */
    }
    wrong |= late;
    late = 1;
    for (int i = 0; i < TRIES && late; i++) {
        back = least_of(back, pass_time(group, 1, 0, data, bytes));
        other = least_of(other, pass_time(group, 0, size - 1, data, size > 2 ? bytes : 0));
        late = some(group, back > least / 2 || (size > 2 && other > least / 2), &wrong);
    }
    wrong |= late;
    slow(group, 0, 0);
    back = SL_SECOND;
    late = 1;
    for (int i = 0; i < TRIES && late; i++) {
        back = least_of(back, pass_time(group, 0, 1, data, bytes));
        late = some(group, back > least / 2, &wrong);
    }
    wrong |= late;
    free(data);
    return wrong;
}

/* Either half of a sum waits for what takes the slow link; the bits are those of before. */
static int check_slow_sum(sl_group *group) {
    const size_t share = 50000, size = (size_t)sl_group_size(group), count = share * size;
    const sl_time least = LATENCY + 10 * SL_MS; /* of 200 kB */
    int rank = sl_group_rank(group), wrong = 0;
    float *values = calloc(count, sizeof *values), *mine = calloc(share, sizeof *mine),
          *scratch = calloc(2 * (count + size), sizeof *scratch);
    for (size_t i = 0; i < count; i++)
        values[i] = value(rank, i);
    slow(group, LATENCY, RATE);
    sl_time begin = now();
    sl_group_barrier(group);
    wrong |= sum_shares(group, values, share, mine, scratch) != SL_OK;
    wrong |= rank == 1 && now() - begin < least;
    for (size_t i = 0; i < share; i++) {
        float expected = expected_sum((int)size, (size_t)rank * share + i);
        wrong |= memcmp(&expected, &mine[i], sizeof expected) != 0;
    }
    begin = now();
    sl_group_barrier(group);
    wrong |= sl_group_gather_shares(group, mine, share, scratch) != SL_OK;
    wrong |= rank == 1 && now() - begin < least;
    wrong |= check_sum(group, count);
    wrong |= rank == 1 && now() - begin < 2 * least;
    slow(group, 0, 0);
    free(values);
    free(mine);
    free(scratch);
    return wrong;
}

static int fly_together(sl_group *group, sl_time *took) {
    const size_t share = 10000, size = (size_t)sl_group_size(group), count = share * size;
    int rank = sl_group_rank(group), wrong = 0;
    sl_group_flight *flight[MANY] = {0};
    float *values = calloc(MANY * count, sizeof *values), *scratch = calloc(MANY * count, sizeof *scratch);
    for (size_t i = 0; i < MANY * count; i++)
        values[i] = value(rank, i);
    slow(group, 4 * LATENCY, RATE);
    sl_time begin = now();
    sl_group_barrier(group);
    for (size_t k = 0; k < MANY; k++) {
        wrong |= sl_group_flight_open(group, &flight[k]) != SL_OK;
        wrong |= sl_group_start_sum(flight[k], values + k * count, share, scratch + k * count) != SL_OK;
    }
    for (size_t k = 0; k < MANY; k++) {
        float *mine = scratch + k * count + (size_t)rank * share;
        wrong |= sl_group_finish_sum(flight[k], mine) != SL_OK;
        for (size_t i = 0; i < share; i++) {
            float expected = expected_sum((int)size, k * count + (size_t)rank * share + i);
            wrong |= memcmp(&expected, &mine[i], sizeof expected) != 0;
        }
    }
    *took = now() - begin;
    slow(group, 0, 0);
    for (size_t k = 0; k < MANY; k++)
        sl_group_flight_close(flight[k]);
    free(values);
    free(scratch);
    return wrong;
}

/* Chunks that are under way together pay the latency once, and the link's time one after the other. */
static int check_flights(sl_group *group) {
    int wrong = 0, late = 1, rank = sl_group_rank(group);
    for (int i = 0; i < TRIES && late; i++) {
        sl_time took;
        wrong |= fly_together(group, &took);
        wrong |= rank == 1 && took < 4 * LATENCY + MANY * 2 * SL_MS;
        late = some(group, rank == 1 && took > MANY * 4 * LATENCY, &wrong);
    }
    return wrong | late;
}

int main(int argc, char **argv) {
    sl_group *group;
    if (sl_group_open_world(&argc, &argv, &group) != SL_OK)
        return 1;
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 1000, 100003};
    int wrong = check_gather(group) | check_split(group) | check_pieces(group) | check_passes(group) |
                check_exchange(group);
    if (sl_group_size(group) == 2)
        wrong |= check_many_groups(group);
    for (size_t count = 1; count < 5000; count = 3 * count + 1)
        wrong |= check_shares(group, count) | check_max(group, count);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        wrong |= check_sum(group, counts[i]);
    if (sl_group_size(group) > 1 && argc < 2)
        wrong |= check_slow_pass(group) | check_slow_sum(group) << 1 | check_flights(group) << 2;
    if (wrong)
        printf("rank %d of %d: wrong (%d)\n", sl_group_rank(group), sl_group_size(group), wrong);
    sl_group_close_world(group);
    return wrong != 0;
}
