#include "run/collective/group.h"
#include "base/memory.h"

#include <limits.h>
#include <mpi.h>
#include <string.h>
#include <time.h>

struct sl_group {
    MPI_Comm communicator;
    int rank, size;
    int *counts, *starts; /* [size], of the collective under way */
};

/* A rank that waits gives its core to those that compute: short naps first, then up to 200 us. */
static void nap(int *rounds) {
    long us = *rounds < 20 ? 20 : *rounds < 60 ? 50 : 200;
    ++*rounds;
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static sl_status finish(MPI_Request *request, const char *what) {
    int done = 0, rounds = 0;
    for (;;) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return sl_error(SL_EPEER, "%s between the ranks failed", what);
        if (done)
            return SL_OK;
        nap(&rounds);
    }
}

sl_status sl_group_open_world(int *argc, char ***argv, sl_group **group) {
    int provided, running;
    MPI_Initialized(&running);
    if (!running && MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return sl_error(SL_ESYS, "MPI cannot be started");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    sl_group *made;
    SL_TRY(sl_alloc(&made, 1, sizeof *made));
    made->communicator = MPI_COMM_WORLD;
    MPI_Comm_rank(made->communicator, &made->rank);
    MPI_Comm_size(made->communicator, &made->size);
    sl_status status = sl_alloc(&made->counts, (size_t)made->size, sizeof *made->counts);
    if (status == SL_OK)
        status = sl_alloc(&made->starts, (size_t)made->size, sizeof *made->starts);
    if (status != SL_OK) {
        sl_free(made->counts);
        sl_free(made);
        return status;
    }
    *group = made;
    return SL_OK;
}

void sl_group_close_world(sl_group *group) {
    if (!group)
        return;
    sl_group_barrier(group); /* sleeps; MPI_Finalize's own barrier would spin */
    MPI_Finalize();
    sl_free(group->counts);
    sl_free(group->starts);
    sl_free(group);
}

int sl_group_rank(const sl_group *group) {
    return group->rank;
}

int sl_group_size(const sl_group *group) {
    return group->size;
}

sl_status sl_group_barrier(sl_group *group) {
    MPI_Request request;
    if (MPI_Ibarrier(group->communicator, &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "the barrier failed");
    return finish(&request, "the barrier");
}

sl_status sl_group_broadcast(sl_group *group, int root, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) { /* MPI counts are ints */
        size_t part = bytes - done < INT_MAX / 2 ? bytes - done : INT_MAX / 2;
        MPI_Request request;
        if (MPI_Ibcast((char *)data + done, (int)part, MPI_BYTE, root, group->communicator, &request) !=
            MPI_SUCCESS)
            return sl_error(SL_EPEER, "a broadcast from rank %d failed", root);
        SL_TRY(finish(&request, "a broadcast"));
        done += part;
    }
    return SL_OK;
}

/* Sizes of all ranks into counts and starts; the sum must fit an int and, where it is received, `capacity`.
 */
static sl_status exchange_sizes(sl_group *group, size_t bytes, size_t capacity, int receives, size_t *sizes) {
    int mine = bytes <= INT_MAX ? (int)bytes : -1;
    MPI_Request request;
    if (MPI_Iallgather(&mine, 1, MPI_INT, group->counts, 1, MPI_INT, group->communicator, &request) !=
        MPI_SUCCESS)
        return sl_error(SL_EPEER, "a gather failed");
    SL_TRY(finish(&request, "a gather"));
    size_t sum = 0;
    for (int r = 0; r < group->size; r++) {
        if (group->counts[r] < 0 || sum + (size_t)group->counts[r] > INT_MAX)
            return sl_error(SL_ENOMEM, "a gather of more than 2 GiB");
        group->starts[r] = (int)sum;
        sum += (size_t)group->counts[r];
        if (receives && sizes)
            sizes[r] = (size_t)group->counts[r];
    }
    if (receives && sum > capacity)
        return sl_error(SL_ENOMEM, "a gather of %zu bytes into %zu", sum, capacity);
    return SL_OK;
}

sl_status sl_group_gather(sl_group *group, int root, const void *data, size_t bytes, void *received,
                          size_t capacity, size_t *sizes) {
    SL_TRY(exchange_sizes(group, bytes, capacity, group->rank == root, sizes));
    MPI_Request request;
    if (MPI_Igatherv(data, (int)bytes, MPI_BYTE, received, group->counts, group->starts, MPI_BYTE, root,
                     group->communicator, &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a gather at rank %d failed", root);
    return finish(&request, "a gather");
}

sl_status sl_group_gather_all(sl_group *group, const void *data, size_t bytes, void *received,
                              size_t capacity, size_t *sizes) {
    SL_TRY(exchange_sizes(group, bytes, capacity, 1, sizes));
    MPI_Request request;
    if (MPI_Iallgatherv(data, (int)bytes, MPI_BYTE, received, group->counts, group->starts, MPI_BYTE,
                        group->communicator, &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a gather failed");
    return finish(&request, "a gather");
}

sl_status sl_group_sum(sl_group *group, float *values, size_t count, float *scratch) {
    size_t size = (size_t)group->size, share = (count + size - 1) / size;
    if (group->size == 1)
        return SL_OK;
    if (share * size > INT_MAX)
        return sl_error(SL_ENOMEM, "a sum over %zu values at once", count);
    /* scratch: the values padded to size*share, then everybody's version of this rank's share */
    float *padded = values, *mine = scratch;
    if (share * size != count) {
        padded = scratch;
        mine = scratch + share * size;
        memcpy(padded, values, count * sizeof *values);
        memset(padded + count, 0, (share * size - count) * sizeof *values);
    }
    MPI_Request request;
    if (MPI_Ialltoall(padded, (int)share, MPI_FLOAT, mine, (int)share, MPI_FLOAT, group->communicator,
                      &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a sum failed");
    SL_TRY(finish(&request, "a sum"));
    for (size_t r = 1; r < size; r++)
        for (size_t i = 0; i < share; i++)
            mine[i] += mine[r * share + i];
    if (MPI_Iallgather(mine, (int)share, MPI_FLOAT, padded, (int)share, MPI_FLOAT, group->communicator,
                       &request) != MPI_SUCCESS)
        return sl_error(SL_EPEER, "a sum failed");
    SL_TRY(finish(&request, "a sum"));
    if (padded != values)
        memcpy(values, padded, count * sizeof *values);
    return SL_OK;
}

sl_status sl_group_pass(sl_group *group, int from, int to, void *data, size_t bytes) {
    if (from == to || (group->rank != from && group->rank != to))
        return SL_OK;
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < INT_MAX / 2 ? bytes - done : INT_MAX / 2;
        MPI_Request request;
        int code =
            group->rank == from
                ? MPI_Isend((char *)data + done, (int)part, MPI_BYTE, to, 1, group->communicator, &request)
                : MPI_Irecv((char *)data + done, (int)part, MPI_BYTE, from, 1, group->communicator, &request);
        if (code != MPI_SUCCESS)
            return sl_error(SL_EPEER, "a message from rank %d to rank %d failed", from, to);
        SL_TRY(finish(&request, "a message"));
        done += part;
    }
    return SL_OK;
}
