/* An MPI program of four ranks that knows nothing of slackline: one sequence of events that all ranks know
 * and each does its part of. Collectives on overlapping communicators none of which spans the job, messages
 * that block and that do not, persistent requests, wildcards, probes, windows, communicators that come and
 * go. What it prints depends on the seed alone. Arguments: seed, events, threads (each thread on
 * communicators of its own). */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LONG 3000 /* words of long messages: beyond what is sent without the receiver */

typedef struct context {
    uint64_t state, hash, seed;
    MPI_Comm all; /* for messages; a collective on it only to make communicators */
    MPI_Comm part[3];
    MPI_Win window; /* on part[0] */
    uint64_t *exposed;
    MPI_Request ring[2];
    uint64_t ring_out, ring_in;
    uint64_t data[LONG], answer[LONG];
    int events;
} context;

static int rank, threads = 1;

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t draw(context *c) {
    c->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(c->state);
}

static void take(context *c, uint64_t value) {
    c->hash = mix(c->hash ^ value);
}

static void message(context *c) {
    int a = (int)(draw(c) % 4), b = (int)((uint64_t)a + 1 + draw(c) % 3) % 4, tag = (int)(draw(c) % 5);
    uint64_t payload = draw(c), kind = draw(c) % 5;
    int count = draw(c) % 8 == 0 ? LONG : 1, peer = rank == a ? b : a;
    if (rank != a && rank != b)
        return;
    c->data[0] = payload ^ (uint64_t)rank;
    c->answer[0] = c->data[0];
    if (kind == 2)
        MPI_Sendrecv(c->data, count, MPI_UINT64_T, peer, tag, c->answer, count, MPI_UINT64_T, peer, tag,
                     c->all, MPI_STATUS_IGNORE);
    else if (kind == 3)
        MPI_Sendrecv_replace(c->answer, count, MPI_UINT64_T, peer, tag, peer, tag, c->all, MPI_STATUS_IGNORE);
    else if (rank == a && kind == 4) { /* with a neighbour that is nobody */
        MPI_Sendrecv(c->data, count, MPI_UINT64_T, peer, tag, c->answer, 1, MPI_UINT64_T, MPI_PROC_NULL, 0,
                     c->all, MPI_STATUS_IGNORE);
        return;
    } else if (rank == a) {
        (kind ? MPI_Send : MPI_Ssend)(c->data, count, MPI_UINT64_T, b, tag, c->all);
        return;
    } else
        MPI_Recv(c->answer, count, MPI_UINT64_T, a, tag, c->all, MPI_STATUS_IGNORE);
    take(c, c->answer[0]);
}

/* Completes three requests in one of the library's ways; `from_anybody` learns who sent the first. */
static void wait_for(context *c, MPI_Request request[3], uint64_t way) {
    int left = 3, flag = 0, index, done, indices[3];
    MPI_Status status;
    if (way == 0)
        MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    for (; way == 1 && left > 0; left--)
        MPI_Waitany(3, request, &index, MPI_STATUS_IGNORE);
    while (way == 2) {
        MPI_Waitsome(3, request, &done, indices, MPI_STATUSES_IGNORE);
        if (done == MPI_UNDEFINED)
            break;
    }
    while (way == 3 && !flag)
        MPI_Testall(3, request, &flag, MPI_STATUSES_IGNORE);
    for (int i = 0; way == 4 && i < 3; i++)
        for (flag = 0; !flag; usleep(20))
            MPI_Test(&request[i], &flag, MPI_STATUS_IGNORE);
    for (; way == 5 && left > 0; left -= flag && index != MPI_UNDEFINED)
        MPI_Testany(3, request, &index, &flag, &status);
    for (int i = 0; way == 6 && i < 3; i++) {
        for (flag = 0; request[i] != MPI_REQUEST_NULL && !flag;)
            MPI_Request_get_status(request[i], &flag, MPI_STATUS_IGNORE);
        MPI_Wait(&request[i], &status);
    }
    while (way == 7) {
        MPI_Testsome(3, request, &done, indices, MPI_STATUSES_IGNORE);
        if (done == MPI_UNDEFINED)
            break;
    }
    (void)c;
}

/* Nonblocking messages around the ring, with a nonblocking collective between posting and waiting. */
static void ring(context *c) {
    uint64_t out = draw(c) ^ (uint64_t)rank, in = 0, sum = 0, mine = draw(c) ^ (uint64_t)rank,
             way = draw(c) % 8;
    MPI_Comm part = c->part[draw(c) % 3];
    MPI_Request request[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Irecv(&in, 1, MPI_UINT64_T, (rank + 3) % 4, 7, c->all, &request[0]);
    if (part != MPI_COMM_NULL)
        MPI_Iallreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_BXOR, part, &request[2]);
    else
        MPI_Irecv(&mine, 1, MPI_UINT64_T, MPI_PROC_NULL, 7, c->all, &request[2]);
    MPI_Isend(&out, 1, MPI_UINT64_T, (rank + 1) % 4, 7, c->all, &request[1]);
    wait_for(c, request, way);
    take(c, in);
    take(c, sum);
}

static void persistent(context *c) {
    c->ring_out = draw(c) ^ (uint64_t)rank;
    if (draw(c) & 1)
        MPI_Startall(2, c->ring);
    else {
        MPI_Start(&c->ring[1]);
        MPI_Start(&c->ring[0]);
    }
    MPI_Waitall(2, c->ring, MPI_STATUSES_IGNORE);
    take(c, c->ring_in);
}

/* One receives from each other, whoever comes first, and thanks each. */
static void receive_from_anybody(context *c, uint64_t way, uint64_t *got, int *from) {
    int flag = 0;
    MPI_Status status;
    MPI_Message found;
    MPI_Request request;
    if (way == 0) {
        MPI_Recv(got, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 11, c->all, &status);
    } else if (way == 1) {
        MPI_Probe(MPI_ANY_SOURCE, 11, c->all, &status);
        MPI_Recv(got, 1, MPI_UINT64_T, status.MPI_SOURCE, 11, c->all, MPI_STATUS_IGNORE);
    } else if (way == 2) {
        while (!flag)
            MPI_Iprobe(MPI_ANY_SOURCE, 11, c->all, &flag, &status);
        MPI_Recv(got, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, c->all, MPI_STATUS_IGNORE);
    } else if (way == 3) {
        MPI_Mprobe(MPI_ANY_SOURCE, 11, c->all, &found, &status);
        MPI_Mrecv(got, 1, MPI_UINT64_T, &found, MPI_STATUS_IGNORE);
    } else if (way == 4) {
        while (!flag)
            MPI_Improbe(MPI_ANY_SOURCE, 11, c->all, &flag, &found, &status);
        MPI_Imrecv(got, 1, MPI_UINT64_T, &found, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(got, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 11, c->all, &request);
        if (way == 5)
            MPI_Wait(&request, &status);
        else
            for (flag = 0; !flag; usleep(20))
                MPI_Test(&request, &flag, &status);
    }
    *from = status.MPI_SOURCE;
}

static void anybody(context *c) {
    int root = (int)(draw(c) % 4), from[3];
    uint64_t way = draw(c) % 8, waits = draw(c) % 6, payload = draw(c) ^ (uint64_t)rank, sum = 0, got[3];
    if (rank != root) {
        (payload & 1 ? MPI_Ssend : MPI_Send)(&payload, 1, MPI_UINT64_T, root, 11, c->all);
        MPI_Recv(&sum, 1, MPI_UINT64_T, root, 12, c->all, MPI_STATUS_IGNORE);
        take(c, sum);
        return;
    }
    if (way == 7) { /* all at once, and nobody asks who sent them */
        MPI_Request request[3];
        for (int i = 0; i < 3; i++)
            MPI_Irecv(&got[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, 11, c->all, &request[i]);
        wait_for(c, request, waits);
        for (int i = 0, other = 0; i < 3; i++, other++)
            from[i] = other += other == root;
    } else
        for (int i = 0; i < 3; i++)
            receive_from_anybody(c, way, &got[i], &from[i]);
    for (int i = 0; i < 3; i++)
        sum += mix(got[i]);
    for (int i = 0; i < 3; i++)
        MPI_Send(&sum, 1, MPI_UINT64_T, from[i], 12, c->all);
    take(c, sum);
}

static void collective(context *c) {
    uint64_t kind = draw(c) % 5, mine = draw(c) ^ (uint64_t)rank, sum = 0, all[4] = {0};
    MPI_Comm part = c->part[draw(c) % 3];
    if (part == MPI_COMM_NULL)
        return;
    if (kind == 0)
        MPI_Bcast(&mine, 1, MPI_UINT64_T, 0, part), sum = mine;
    else if (kind == 1)
        MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, part), sum = all[0] ^ mix(all[1]);
    else if (kind == 2)
        MPI_Barrier(part);
    else
        MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_BXOR, part);
    take(c, sum);
}

/* A communicator for a while, windows with fences and locks, a file. */
static void rare(context *c) {
    MPI_Comm made;
    uint64_t kind = draw(c) % 4, value = draw(c) ^ (uint64_t)rank, sum = 0;
    int own, size;
    if (kind == 2 &&
        threads > 1) /* MPICH holds one lock for all files while it waits for the others of one */
        kind = 0;
    MPI_Comm_rank(c->part[0], &own);
    MPI_Comm_size(c->part[0], &size);
    if (kind == 0) {
        MPI_Comm_dup(c->part[1], &made);
        MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, made);
        MPI_Comm_free(&made);
        take(c, sum);
    } else if (kind == 1) {
        MPI_Win_fence(0, c->window);
        MPI_Put(&value, 1, MPI_UINT64_T, (own + 1) % size, 0, 1, MPI_UINT64_T, c->window);
        MPI_Win_fence(0, c->window);
        take(c, c->exposed[0]);
    } else if (kind == 2) {
        char path[64];
        MPI_File file;
        snprintf(path, sizeof path, "held.%d.%llu", rank / 2, (unsigned long long)c->seed);
        MPI_File_open(c->part[0], path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                      MPI_INFO_NULL, &file);
        MPI_File_write_at_all(file, own * 8, &value, 1, MPI_UINT64_T, MPI_STATUS_IGNORE);
        MPI_File_sync(file);
        MPI_Barrier(c->part[0]);
        MPI_File_read_at_all(file, (own + 1) % size * 8, &sum, 1, MPI_UINT64_T, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
        take(c, sum);
    } else {
        uint64_t one = 1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (own + 1) % size, 0, c->window);
        MPI_Accumulate(&one, 1, MPI_UINT64_T, (own + 1) % size, 1, 1, MPI_UINT64_T, MPI_SUM, c->window);
        MPI_Win_unlock((own + 1) % size, c->window);
    }
}

static void *run(void *argument) {
    context *c = argument;
    for (int e = 0; e < c->events; e++) {
        uint64_t what = draw(c) % 32;
        if (what < 11)
            collective(c);
        else if (what < 21)
            message(c);
        else if (what < 26)
            ring(c);
        else if (what < 28)
            persistent(c);
        else if (what < 31)
            anybody(c);
        else
            rare(c);
        if (draw(c) % 16 == (uint64_t)rank)
            usleep(100);
    }
    return NULL;
}

static context *make(uint64_t seed, int events) {
    /* Halves, halves across, three of four: none spans the job. */
    static const int color[3][4] = {{0, 0, 1, 1}, {0, 1, 0, 1}, {MPI_UNDEFINED, 0, 0, 0}};
    context *c = calloc(1, sizeof *c);
    c->state = c->seed = seed;
    c->events = events;
    MPI_Comm_dup(MPI_COMM_WORLD, &c->all);
    for (int i = 0; i < 3; i++)
        MPI_Comm_split(c->all, color[i][rank], rank, &c->part[i]);
    MPI_Win_allocate(4 * sizeof(uint64_t), sizeof(uint64_t), MPI_INFO_NULL, c->part[0], &c->exposed,
                     &c->window);
    c->exposed[0] = c->exposed[1] = 0;
    MPI_Barrier(c->part[0]);
    MPI_Recv_init(&c->ring_in, 1, MPI_UINT64_T, (rank + 3) % 4, 9, c->all, &c->ring[0]);
    MPI_Send_init(&c->ring_out, 1, MPI_UINT64_T, (rank + 1) % 4, 9, c->all, &c->ring[1]);
    return c;
}

static uint64_t unmake(context *c) {
    MPI_Win_fence(0, c->window);
    take(c, c->exposed[1]);
    uint64_t hash = c->hash;
    MPI_Win_free(&c->window);
    for (int i = 0; i < 2; i++)
        MPI_Request_free(&c->ring[i]);
    free(c);
    return hash;
}

int main(int argc, char **argv) {
    int level;
    threads = argc > 3 ? atoi(argv[3]) : 1;
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (threads > 1 && level < MPI_THREAD_MULTIPLE) {
        if (rank == 0)
            puts("no threads");
        MPI_Finalize();
        return 0;
    }
    uint64_t seed = strtoull(argv[1], NULL, 10), hash = 0, all[4];
    context *each[8];
    pthread_t thread[8];
    for (int i = 0; i < threads; i++)
        each[i] = make(seed + 1000 * (uint64_t)i, atoi(argv[2]));
    for (int i = 1; i < threads; i++)
        pthread_create(&thread[i], NULL, run, each[i]);
    run(each[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < threads; i++)
        hash = mix(hash ^ unmake(each[i]));
    MPI_Gather(&hash, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < 4; i++)
        printf("rank %d %016llx\n", i, (unsigned long long)all[i]);
    MPI_Finalize();
    return 0;
}
