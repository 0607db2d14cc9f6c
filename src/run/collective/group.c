#include "base/build.h"
#include "base/memory.h"
#include "run/collective/group_inside.h"

#include <limits.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define PIECE_BYTES (INT_MAX / 2) /* of what MPI counts in ints */
#define YIELDS 200                /* tests of a short wait before its first nap */
#define PASS_PIECE ((size_t)1 << 20)

/* A waiting rank yields its core to those that compute: short naps first, then up to 200 us. */
void sl_group_nap(sl_group_wait wait, int *rounds, sl_time until) {
    int round = (*rounds)++;
    if (wait == SL_WAIT_SHORT) {
        if (round < YIELDS) {
            sched_yield();
            return;
        }
        round -= YIELDS;
    }
    sl_time most = (round < 20 ? 20 : round < 60 ? 50 : 200) * 1000;
    sl_time left = until - sl_now();
    if (left > 0)
        nanosleep(&(struct timespec){.tv_nsec = left < most ? left : most}, NULL);
}

static sl_status finish_as(sl_group_wait wait, MPI_Request *request, int count, const char *what) {
    int done = 0, rounds = 0;
    for (;;) {
        if (MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
            return sl_error(SL_EPEER, "%s between the ranks failed", what);
        if (done)
            return SL_OK;
        sl_group_nap(wait, &rounds, SL_TIME_NEVER);
    }
}

static sl_status finish(const sl_group *group, MPI_Request *request, int count, const char *what) {
    return finish_as(group->wait, request, count, what);
}

/* ---- opening and closing ---- */

static sl_status make(MPI_Comm communicator, int threads, sl_group_wait wait, sl_group **group) {
    sl_group *made;
    sl_status status;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    *made = (sl_group){.communicator = communicator, .threads = threads, .wait = wait};
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator, &made->rank);
    MPI_Comm_size(communicator, &made->size);
    SL_TRY_GOTO(err_close, status, sl_alloc(&made->link, (size_t)made->size, sizeof *made->link));
    SL_TRY_GOTO(err_close, status, sl_alloc(&made->counts, (size_t)made->size, sizeof *made->counts));
    SL_TRY_GOTO(err_close, status, sl_alloc(&made->starts, (size_t)made->size, sizeof *made->starts));
    SL_TRY_GOTO(err_close, status, sl_alloc(&made->sizes, (size_t)made->size, sizeof *made->sizes));
    SL_TRY_GOTO(err_close, status, sl_group_flight_open(made, &made->own));
    *group = made;
    return SL_OK;
err_close:
    sl_group_close(made);
    return status;
}

/* Each host may have its own installation. The size of the text is the same in every version. */
static sl_status compare_builds(sl_group *group) {
    char mine[SL_BUILD_WORDS] = "", (*all)[SL_BUILD_WORDS];
    size_t bytes = (size_t)sl_group_size(group) * sizeof mine;
    sl_build_words(mine);
    SL_TRY(sl_alloc(&all, bytes, 1));
    sl_status status = sl_group_gather_all(group, mine, sizeof mine, all, bytes, NULL);
    for (int rank = 1; rank < sl_group_size(group) && status == SL_OK; rank++)
        status = sl_build_compare(all[0], rank, all[rank]);
    sl_free(all);
    return status;
}

sl_status sl_group_open_world(int *argc, char ***argv, sl_group **group) {
    int provided = MPI_THREAD_SINGLE, running;
    MPI_Initialized(&running);
    if (!running && MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return sl_error(SL_ESYS, "MPI cannot be started");
    if (running)
        MPI_Query_thread(&provided);
    SL_TRY(make(MPI_COMM_WORLD, provided == MPI_THREAD_MULTIPLE, SL_WAIT_LONG, group));
    return compare_builds(*group);
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
    sl_group_flight_close(group->own);
    SL_FREE(group->held, group->link, group->counts, group->starts, group->sizes, group);
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

/* A large message moves only while both ranks poll, so little would arrive between two naps (50 MB in 210 ms
 * instead of 9). Therefore it is sent in pieces: after the first has been passed both ranks are present, and
 * neither naps during the rest. */
sl_status sl_group_pass(sl_group *group, int from, int to, void *data, size_t bytes) {
    if (from == to || (group->rank != from && group->rank != to))
        return SL_OK;
    const sl_time begin = sl_now(); /* all pieces take an emulated link from then on */
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < PASS_PIECE ? bytes - done : PASS_PIECE;
        sl_group_wait wait = done > 0 ? SL_WAIT_SHORT : group->wait;
        if (group->rank == from)
            sl_clock_sleep_until(sl_clock_real(), sl_group_due(group, to, begin, part));
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

/* Exchanges the sizes of all ranks into group->sizes, *sum; at a receiver they must fit into `capacity`. */
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
