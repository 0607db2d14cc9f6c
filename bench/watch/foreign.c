/* Programs of kinds that neighbors.c (tests/notice/watch) lacks, each with its own way to communicate. */
#include "shapes.h"

enum { SIDE = 256, BLOCK = SIDE * SIDE };
static double field[SIDE + 2][SIDE + 2], block[2][BLOCK];

/* The borders of a field on a 2 x 2 torus: rows are contiguous, columns of a derived type; then the residual.
 */
static void halo(int step, double ms) {
    static MPI_Comm torus;
    static MPI_Datatype column;
    static int north, south, west, east;
    MPI_Request request[8];
    if (step == 0) {
        MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){2, size / 2}, (int[]){1, 1}, 0, &torus);
        MPI_Cart_shift(torus, 0, 1, &north, &south);
        MPI_Cart_shift(torus, 1, 1, &west, &east);
        MPI_Type_vector(SIDE, 1, SIDE + 2, MPI_DOUBLE, &column);
        MPI_Type_commit(&column);
    }
    MPI_Irecv(&field[0][1], SIDE, MPI_DOUBLE, north, 0, torus, &request[0]);
    MPI_Irecv(&field[SIDE + 1][1], SIDE, MPI_DOUBLE, south, 1, torus, &request[1]);
    MPI_Irecv(&field[1][0], 1, column, west, 2, torus, &request[2]);
    MPI_Irecv(&field[1][SIDE + 1], 1, column, east, 3, torus, &request[3]);
    MPI_Isend(&field[SIDE][1], SIDE, MPI_DOUBLE, south, 0, torus, &request[4]);
    MPI_Isend(&field[1][1], SIDE, MPI_DOUBLE, north, 1, torus, &request[5]);
    MPI_Isend(&field[1][SIDE], 1, column, east, 2, torus, &request[6]);
    MPI_Isend(&field[1][1], 1, column, west, 3, torus, &request[7]);
    compute(ms * 0.7);
    MPI_Waitall(8, request, MPI_STATUSES_IGNORE);
    compute(ms * 0.3);
    if (step % 10 == 9)
        MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_DOUBLE, MPI_MAX, torus);
}

/* Rank 0 has a receive posted for every worker and serves whoever is first, with shares of equal number. */
static void waitany(int step, double ms) {
    MPI_Request request[64];
    double answer[64];
    int which, shares = 3;
    (void)step;
    if (rank > 0) {
        for (int i = 0; i < shares; i++) {
            double task;
            MPI_Recv(&task, 1, MPI_DOUBLE, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            compute(ms / shares);
            MPI_Send(&task, 1, MPI_DOUBLE, 0, 12, MPI_COMM_WORLD);
        }
        return;
    }
    int sent[64] = {0};
    for (int i = 1; i < size; i++) {
        MPI_Irecv(&answer[i - 1], 1, MPI_DOUBLE, i, 12, MPI_COMM_WORLD, &request[i - 1]);
        MPI_Send(&total, 1, MPI_DOUBLE, i, 11, MPI_COMM_WORLD);
        sent[i - 1] = 1;
    }
    for (;;) {
        MPI_Waitany(size - 1, request, &which, MPI_STATUS_IGNORE);
        if (which == MPI_UNDEFINED)
            return;
        if (sent[which]++ == shares)
            continue;
        MPI_Irecv(&answer[which], 1, MPI_DOUBLE, which + 1, 12, MPI_COMM_WORLD, &request[which]);
        MPI_Send(&total, 1, MPI_DOUBLE, which + 1, 11, MPI_COMM_WORLD);
    }
}

/* Each rank puts into the next one's window under a lock, and a barrier ends the step. */
static void locked(int step, double ms) {
    static MPI_Win window;
    static double *memory;
    int next = (rank + 1) % size;
    if (step == 0)
        MPI_Win_allocate(BLOCK * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                         &window);
    compute(ms);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window);
    MPI_Put(block[0], BLOCK / 8, MPI_DOUBLE, next, 0, BLOCK / 8, MPI_DOUBLE, window);
    MPI_Win_unlock(next, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank r contributes r + 1 parts, as uneven domains do. */
static void uneven(int step, double ms) {
    static int counts[64], at[64];
    const int part = BLOCK / 64;
    for (int i = 0; i < size; i++) {
        counts[i] = part * (i + 1);
        at[i] = i > 0 ? at[i - 1] + counts[i - 1] : 0;
    }
    (void)step;
    compute(ms);
    MPI_Allgatherv(block[0], counts[rank], MPI_DOUBLE, block[1], counts, at, MPI_DOUBLE, MPI_COMM_WORLD);
}

/* Four microbatches down a pipeline of persistent requests, double-buffered; rank 0 hears when the last is
 * through. */
static void stream(int step, double ms) {
    static MPI_Request receive[2], send[2], last;
    static double through;
    if (step == 0)
        for (int i = 0; i < 2; i++) {
            MPI_Recv_init(block[i], BLOCK / 4, MPI_DOUBLE, rank > 0 ? rank - 1 : MPI_PROC_NULL, i,
                          MPI_COMM_WORLD, &receive[i]);
            MPI_Send_init(block[i], BLOCK / 4, MPI_DOUBLE, rank + 1 < size ? rank + 1 : MPI_PROC_NULL, i,
                          MPI_COMM_WORLD, &send[i]);
        }
    for (int i = 0; i < 4; i++) {
        if (i >= 2)
            MPI_Wait(&send[i % 2], MPI_STATUS_IGNORE);
        MPI_Start(&receive[i % 2]);
        MPI_Wait(&receive[i % 2], MPI_STATUS_IGNORE);
        compute(ms / 4);
        MPI_Start(&send[i % 2]);
    }
    MPI_Waitall(2, send, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Irecv(&through, 1, MPI_DOUBLE, size - 1, 9, MPI_COMM_WORLD, &last);
    if (rank == size - 1)
        MPI_Send(&total, 1, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Wait(&last, MPI_STATUS_IGNORE);
}

static const shape shapes[] = {
    {"halo", halo}, {"waitany", waitany}, {"locked", locked}, {"uneven", uneven}, {"stream", stream}};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    return repeat(argc, argv, shapes, sizeof shapes / sizeof *shapes);
}
