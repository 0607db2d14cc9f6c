#include "base/memory.h"
#include "run/collective/group_inside.h"

#include <limits.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define PIECE_BYTES (INT_MAX / 2) /* of what MPI counts in ints */
#define YIELDS 200                /* tests of a short wait before its first nap */
#define PASS_PIECE ((size_t)1 << 20)

void sl_group_nap(sl_group_wait wait, int *rounds) {
    int round = (*rounds)++;
    if (wait == SL_WAIT_SHORT) {
        if (round < YIELDS) {
            sched_yield();
            return;
        }
        round -= YIELDS;
    }
    long us = round < 20 ? 20 : round < 60 ? 50 : 200;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static sl_status finish_as(sl_group_wait wait, MPI_Request *request, int count, const char *what) {
    int done = 0, rounds = 0;
    for (;;) {
        if (MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return sl_error(SL_EPEER, "%s between the ranks failed", what);
        if (done)
            return SL_OK;
        sl_group_nap(wait, &rounds);
    }
}

static sl_status finish(const sl_group *group, MPI_Request *request, int count, const char *what) {
    return finish_as(group->wait, request, count, what);
}

/* ---- opening and closing ---- */

static sl_status make(MPI_Comm communicator, int threads, sl_group_wait wait, sl_group **group) {
    sl_group *made;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    *made = (sl_group){.communicator = communicator, .threads = threads, .wait = wait};
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator, &made->rank);
    MPI_Comm_size(communicator, &made->size);
    sl_status status = sl_alloc(&made->counts, (size_t)made->size, sizeof *made->counts);
    if (status == SL_OK)
        status = sl_alloc(&made->starts, (size_t)made->size, sizeof *made->starts);
    if (status == SL_OK)
        status = sl_alloc(&made->sizes, (size_t)made->size, sizeof *made->sizes);
    if (status == SL_OK)
        *group = made;
    else
        sl_group_close(made);
    return status;
}

sl_status sl_group_open_world(int *argc, char ***argv, sl_group **group) {
    int provided = MPI_THREAD_SINGLE, running;
    MPI_Initialized(&running);
    if (!running && MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return sl_error(SL_ESYS, "MPI cannot be started");
    if (running)
        MPI_Query_thread(&provided);
    return make(MPI_COMM_WORLD, provided == MPI_THREAD_MULTIPLE, SL_WAIT_LONG, group);
}

void sl_group_close_world(sl_group *group) {
    if (!group)
        return;
    sl_group_barrier(group); /* sleeps; MPI_Finalize's own barrier would spin */
    MPI_Finalize();
    sl_group_close(group);
}

sl_status sl_group_split(sl_group *parent, int colour, int key, sl_group_wait wait, sl_group **group) {
    MPI_Comm communicator;
    SL_TRY(sl_group_barrier(parent)); /* sleeps; the split itself would spin for the last one */
    if (MPI_Comm_split(parent->communicator, colour, key, &communicator) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a group of ranks cannot be made");
    return make(communicator, parent->threads, wait, group);
}

sl_status sl_group_end(sl_group *group) {
    SL_TRY(sl_group_barrier(group)); /* sleeps, as above */
    int code = MPI_Comm_free(&group->communicator);
    sl_group_close(group);
    return code == MPI_SUCCESS ? SL_OK : sl_error(SL_EPEER, "a group of ranks cannot be ended");
}

/* MPI_Comm_free is collective: MPI_Finalize does it. */
void sl_group_close(sl_group *group) {
    if (!group)
        return;
    sl_free(group->counts);
    sl_free(group->starts);
    sl_free(group->sizes);
    sl_free(group);
}

int sl_group_threads(const sl_group *group) {
    return group->threads;
}

int sl_group_rank(const sl_group *group) {
    return group->rank;
}

int sl_group_size(const sl_group *group) {
    return group->size;
}

/* ---- bytes ---- */

sl_status sl_group_barrier(sl_group *group) {
    MPI_Request request;
    if (MPI_Ibarrier(group->communicator, &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "the barrier failed");
    return finish(group, &request, 1, "the barrier");
}

sl_status sl_group_broadcast(sl_group *group, int root, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) { /* MPI counts are ints */
        size_t part = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        MPI_Request request;
        if (MPI_Ibcast((char *)data + done, (int)part, MPI_BYTE, root, group->communicator, &request) !=
            MPI_SUCCESS)
            return sl_error(SL_EPEER, "a broadcast from rank %d failed", root);
        SL_TRY(finish(group, &request, 1, "a broadcast"));
        done += part;
    }
    return SL_OK;
}

/* A large message moves only while both ranks look after it, so between two naps of theirs little would
 * arrive (50 MB in 210 ms instead of 9). Therefore in pieces: once the first has been passed both are there,
 * and nobody naps over the rest. */
sl_status sl_group_pass(sl_group *group, int from, int to, void *data, size_t bytes) {
    if (from == to || (group->rank != from && group->rank != to))
        return SL_OK;
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < PASS_PIECE ? bytes - done : PASS_PIECE;
        sl_group_wait wait = done > 0 ? SL_WAIT_SHORT : group->wait;
        MPI_Request request;
        int code = group->rank == from ? MPI_Isend((char *)data + done, (int)part, MPI_BYTE, to, SL_TAG_PASS,
                                                   group->communicator, &request)
                                       : MPI_Irecv((char *)data + done, (int)part, MPI_BYTE, from,
                                                   SL_TAG_PASS, group->communicator, &request);
        if (code != MPI_SUCCESS)
            return sl_error(SL_EPEER, "a message from rank %d to rank %d failed", from, to);
        SL_TRY(finish_as(wait, &request, 1, "a message"));
        done += part;
    }
    return SL_OK;
}

/* ---- gathering ---- */

/* Sizes of all ranks into group->sizes, *sum; where it is received it must fit into `capacity`. */
static sl_status exchange_sizes(sl_group *group, size_t bytes, size_t capacity, int receives, size_t *sizes,
                                size_t *sum) {
    uint64_t mine = bytes;
    MPI_Request request;
    if (MPI_Iallgather(&mine, 1, MPI_UINT64_T, group->sizes, 1, MPI_UINT64_T, group->communicator,
                       &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a gather failed");
    SL_TRY(finish(group, &request, 1, "a gather"));
    *sum = 0;
    for (int r = 0; r < group->size; r++) {
        group->counts[r] = (int)(group->sizes[r] < INT_MAX ? group->sizes[r] : INT_MAX);
        group->starts[r] = (int)(*sum < INT_MAX ? *sum : INT_MAX);
        *sum += group->sizes[r];
        if (receives && sizes)
            sizes[r] = group->sizes[r];
    }
    if (receives && *sum > capacity)
        return sl_error(SL_ENOMEM, "a gather of %zu bytes into %zu", *sum, capacity);
    return SL_OK;
}

/* More than MPI's ints count: rank by rank. */
static sl_status gather_in_turn(sl_group *group, int root, const void *data, size_t bytes, char *received) {
    for (int r = 0; r < group->size; r++) {
        void *at = group->rank == r && group->rank != root ? (void *)(uintptr_t)data : received;
        if (r != root)
            SL_TRY(sl_group_pass(group, r, root, at, group->sizes[r]));
        else if (group->rank == root)
            memcpy(received, data, bytes);
        if (group->rank == root)
            received += group->sizes[r];
    }
    return SL_OK;
}

sl_status sl_group_gather(sl_group *group, int root, const void *data, size_t bytes, void *received,
                          size_t capacity, size_t *sizes) {
    size_t sum;
    SL_TRY(exchange_sizes(group, bytes, capacity, group->rank == root, sizes, &sum));
    if (sum > INT_MAX)
        return gather_in_turn(group, root, data, bytes, received);
    MPI_Request request;
    if (MPI_Igatherv(data, (int)bytes, MPI_BYTE, received, group->counts, group->starts, MPI_BYTE, root,
                     group->communicator, &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a gather at rank %d failed", root);
    return finish(group, &request, 1, "a gather");
}

sl_status sl_group_gather_all(sl_group *group, const void *data, size_t bytes, void *received,
                              size_t capacity, size_t *sizes) {
    size_t sum;
    SL_TRY(exchange_sizes(group, bytes, capacity, 1, sizes, &sum));
    if (sum > INT_MAX) {
        char *at = received;
        for (int r = 0; r < group->size; r++) {
            if (r == group->rank)
                memcpy(at, data, bytes);
            SL_TRY(sl_group_broadcast(group, r, at, group->sizes[r]));
            at += group->sizes[r];
        }
        return SL_OK;
    }
    MPI_Request request;
    if (MPI_Iallgatherv(data, (int)bytes, MPI_BYTE, received, group->counts, group->starts, MPI_BYTE,
                        group->communicator, &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a gather failed");
    return finish(group, &request, 1, "a gather");
}

/* ---- sums and maxima ---- */

typedef void (*joiner)(float *restrict into, const float *restrict other, size_t count);

static void add(float *restrict into, const float *restrict other, size_t count) {
    for (size_t i = 0; i < count; i++)
        into[i] += other[i];
}

static void take_larger(float *restrict into, const float *restrict other, size_t count) {
    for (size_t i = 0; i < count; i++)
        into[i] = into[i] > other[i] || into[i] != into[i] ? into[i] : other[i]; /* a NaN stays one */
}

/* Everybody's version of this rank's part, joined in ascending rank into the first. */
static sl_status join_shares(sl_group *group, const float *values, size_t count, float *versions,
                             joiner join) {
    MPI_Request request;
    if (MPI_Ialltoall(values, (int)count, MPI_FLOAT, versions, (int)count, MPI_FLOAT, group->communicator,
                      &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a sum failed");
    SL_TRY(finish(group, &request, 1, "a sum"));
    for (size_t r = 1; r < (size_t)group->size; r++)
        join(versions, versions + r * count, count);
    return SL_OK;
}

/* Two ranks swap all they have: one exchange, and a + b is b + a. */
static sl_status join_two(sl_group *group, float *values, size_t count, float *scratch, joiner join) {
    MPI_Request request[2];
    int peer = 1 - group->rank;
    if (MPI_Irecv(scratch, (int)count, MPI_FLOAT, peer, SL_TAG_SUM, group->communicator, &request[0]) !=
            MPI_SUCCESS ||
        MPI_Isend(values, (int)count, MPI_FLOAT, peer, SL_TAG_SUM, group->communicator, &request[1]) !=
            MPI_SUCCESS)
        return sl_error(SL_EPEER, "a sum failed");
    SL_TRY(finish(group, request, 2, "a sum"));
    join(values, scratch, count);
    return SL_OK;
}

/* scratch: the values padded to size * share, then everybody's version of this rank's share */
static sl_status join_piece(sl_group *group, float *values, size_t count, float *scratch, joiner join) {
    size_t size = (size_t)group->size, share = (count + size - 1) / size;
    if (group->size == 2)
        return join_two(group, values, count, scratch, join);
    float *padded = values, *mine = scratch;
    if (share * size != count) {
        padded = scratch;
        mine = scratch + share * size;
        memcpy(padded, values, count * sizeof *values);
        memset(padded + count, 0, (share * size - count) * sizeof *values);
    }
    SL_TRY(join_shares(group, padded, share, mine, join));
    SL_TRY(sl_group_gather_shares(group, mine, share, padded));
    if (padded != values)
        memcpy(values, padded, count * sizeof *values);
    return SL_OK;
}

static sl_status join_all(sl_group *group, float *values, size_t count, float *scratch, joiner join) {
    for (size_t at = 0; at < count && group->size > 1; at += SL_GROUP_PIECE) {
        size_t piece = count - at < SL_GROUP_PIECE ? count - at : SL_GROUP_PIECE;
        SL_TRY(join_piece(group, values + at, piece, scratch, join));
    }
    return SL_OK;
}

size_t sl_group_scratch(const sl_group *group, size_t count) {
    size_t piece = count < SL_GROUP_PIECE ? count : SL_GROUP_PIECE;
    return group->size == 1 ? 0 : 2 * (piece + (size_t)group->size);
}

sl_status sl_group_sum(sl_group *group, float *values, size_t count, float *scratch) {
    return join_all(group, values, count, scratch, add);
}

sl_status sl_group_max(sl_group *group, float *values, size_t count, float *scratch) {
    return join_all(group, values, count, scratch, take_larger);
}

sl_status sl_group_sum_shares(sl_group *group, const float *values, size_t count, float *out,
                              float *scratch) {
    if (count > INT_MAX)
        return sl_error(SL_ENOMEM, "a sum of %zu values for each rank at once", count);
    SL_TRY(join_shares(group, values, count, scratch, add));
    memcpy(out, scratch, count * sizeof *out);
    return SL_OK;
}

sl_status sl_group_gather_shares(sl_group *group, const float *part, size_t count, float *all) {
    MPI_Request request;
    if (count > INT_MAX)
        return sl_error(SL_ENOMEM, "a gather of %zu values of each rank at once", count);
    if (MPI_Iallgather(part, (int)count, MPI_FLOAT, all, (int)count, MPI_FLOAT, group->communicator,
                       &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a sum failed");
    return finish(group, &request, 1, "a sum");
}
