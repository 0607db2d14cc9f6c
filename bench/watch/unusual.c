/* Programs of kinds that neighbors.c (tests/notice/watch) and foreign.c lack. */
#include "shapes.h"

#include <pthread.h>

enum { BLOCK = 1 << 14 };
static double field[8][BLOCK];

/* Rank 0 hands out tasks of 1 to 3 lengths to whoever answers, with MPI_ANY_SOURCE and MPI_ANY_TAG, and works
 * on each answer. */
static void farm(int step, double ms) {
    enum { TASKS = 9 };
    MPI_Status status;
    if (rank == 0) {
        int next = 0, busy = 0;
        for (int i = 1; i < size; i++, next++, busy++)
            MPI_Send(&next, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
        while (busy > 0) {
            MPI_Recv(field[0], BLOCK, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            compute(ms * 0.02);
            int task = next < TASKS ? next++ : -1;
            busy -= task < 0;
            MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, 1, MPI_COMM_WORLD);
        }
        return;
    }
    for (int task = 0;;) {
        MPI_Recv(&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task < 0)
            return;
        compute(ms / 6 * (1 + (step + task) % 3));
        MPI_Send(field[1], 256 << (task % 3), MPI_DOUBLE, 0, 2 + task % 3, MPI_COMM_WORLD);
    }
}

/* A 2 x 2 halo of persistent requests, taken by Waitsome as they come, with work on each border. */
static void borders(int step, double ms) {
    static MPI_Request request[8];
    static MPI_Comm torus;
    int done = 0, index[8], count;
    if (step == 0) {
        int to[4];
        MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, size / 2}, (int[]){1, 1}, 0, &torus);
        MPI_Cart_shift(torus, 0, 1, &to[0], &to[1]);
        MPI_Cart_shift(torus, 1, 1, &to[2], &to[3]);
        for (int i = 0; i < 4; i++) {
            MPI_Recv_init(field[i], BLOCK / 4, MPI_DOUBLE, to[i], i ^ 1, torus, &request[i]);
            MPI_Send_init(field[4 + i], BLOCK / 4, MPI_DOUBLE, to[i], i, torus, &request[4 + i]);
        }
    }
    MPI_Startall(8, request);
    compute(ms * 0.8);
    while (done < 8) {
        MPI_Waitsome(8, request, &count, index, MPI_STATUSES_IGNORE);
        if (count == MPI_UNDEFINED)
            break;
        for (int i = 0; i < count; i++)
            if (index[i] < 4)
                compute(ms * 0.05);
        done += count;
    }
}

/* Panels are broadcast along rows while the last is worked on, pivots reduced along columns, as in a
 * factorization. */
static void panels(int step, double ms) {
    static MPI_Comm row, column;
    MPI_Request request[2];
    if (step == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    }
    for (int panel = 0; panel < 4; panel++) {
        MPI_Ibcast(field[0], BLOCK, MPI_DOUBLE, panel % 2, row, &request[0]);
        MPI_Ireduce(field[1], field[2], 512, MPI_DOUBLE, MPI_MAX, panel / 2, column, &request[1]);
        compute(ms / 4);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    }
}

/* A graph: rank r sends r + 1 parts to the next and, if even, one to the rank after it. */
static void graph(int step, double ms) {
    static MPI_Comm net;
    static int in[2], out[2], ins, outs, give[2], take[2], at[2] = {0, BLOCK / 2};
    static const int weight[2] = {1, 1};
    if (step == 0) {
        for (int from = 0; from < size; from++)
            for (int hop = 1; hop <= 1 + (from % 2 == 0); hop++) {
                if (from == rank)
                    out[outs] = (from + hop) % size, give[outs++] = hop == 1 ? (from + 1) * 512 : 256;
                if ((from + hop) % size == rank)
                    in[ins] = from, take[ins++] = hop == 1 ? (from + 1) * 512 : 256;
            }
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ins, in, weight, outs, out, weight, MPI_INFO_NULL, 0,
                                       &net);
    }
    compute(ms);
    MPI_Neighbor_alltoallv(field[0], give, at, MPI_DOUBLE, field[1], take, at, MPI_DOUBLE, net);
    if (step % 8 == 0)
        MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

/* Keys are exchanged with counts that differ in every step, after the counts. */
static void keys(int step, double ms) {
    static int give[64], take[64], from[64], to[64];
    unsigned seed = (unsigned)(step * 64 + rank);
    for (int i = 0; i < size; i++) {
        give[i] = 128 + (int)((seed = seed * 1103515245u + 12345u) >> 16) % 1500;
        to[i] = i * 2048;
        from[i] = i * 2048;
    }
    compute(ms * 0.6);
    MPI_Alltoall(give, 1, MPI_INT, take, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(field[0], give, to, MPI_DOUBLE, field[1], take, from, MPI_DOUBLE, MPI_COMM_WORLD);
    compute(ms * 0.4);
}

/* A wave over the ranks: what came from the last one is added to, and handed on, by MPI_Scan; then back by
 * send and receive. */
static void wave(int step, double ms) {
    (void)step;
    compute(ms / 2);
    MPI_Scan(field[0], field[1], 1024, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    compute(ms / 2);
    if (rank < size - 1)
        MPI_Recv(field[2], 1024, MPI_DOUBLE, rank + 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > 0)
        MPI_Send(field[2], 1024, MPI_DOUBLE, rank - 1, 3, MPI_COMM_WORLD);
}

/* A thread communicates, the other computes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static long wanted, done;

static void *talk(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (wanted == done)
            pthread_cond_wait(&turn, &lock);
        pthread_mutex_unlock(&lock);
        MPI_Sendrecv(field[0], 1024, MPI_DOUBLE, (rank + 1) % size, 1, field[1], 1024, MPI_DOUBLE,
                     (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(MPI_IN_PLACE, field[2], 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        pthread_mutex_lock(&lock);
        done++;
        pthread_cond_broadcast(&turn);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void threaded(int step, double ms) {
    static pthread_t thread;
    if (step == 0)
        pthread_create(&thread, NULL, talk, NULL);
    compute(ms);
    pthread_mutex_lock(&lock);
    wanted++;
    pthread_cond_broadcast(&turn);
    while (done < wanted - 1)
        pthread_cond_wait(&turn, &lock);
    pthread_mutex_unlock(&lock);
}

/* Domains that are refined in turn: in every 40 steps another rank has 1.8 times the work, and a file is
 * written by rank 0. */
static void refined(int step, double ms) {
    compute(ms * (step / 40 % size == rank ? 1.8 : 1));
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (step % 40 == 39) {
        MPI_Gather(field[0], 1024, MPI_DOUBLE, field[1], 1024, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (rank == 0)
            compute(4 * ms);
    }
}

static const shape shapes[] = {{"farm", farm},         {"borders", borders}, {"panels", panels},
                               {"graph", graph},       {"keys", keys},       {"wave", wave},
                               {"threaded", threaded}, {"refined", refined}};

int main(int argc, char **argv) {
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    return repeat(argc, argv, shapes, sizeof shapes / sizeof *shapes);
}
