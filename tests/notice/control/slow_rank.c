/* A small iterative program of MPI that knows nothing of being watched; one of its ranks works longer from an
 * iteration on, until another. Compiled by test_controller_mpi.c with the MPI that is tried.
 * Usage: slow_rank ITERATIONS FROM UNTIL RANK EXTRA_MS */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void work(long ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

int main(int argc, char **argv) {
    int rank, size;
    double mine[256], total[256], received[64], check = 0;
    if (argc != 6)
        return 2;
    long iterations = atol(argv[1]), begin = atol(argv[2]), end = atol(argv[3]), slow = atol(argv[4]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 256; i++)
        mine[i] = rank;
    for (long i = 0; i < iterations; i++) {
        work(12 + (rank == slow && i >= begin && i < end ? atol(argv[5]) : 0));
        MPI_Allreduce(mine, total, 256, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check += total[0];
        work(10);
        MPI_Sendrecv(mine, 64, MPI_DOUBLE, (rank + 1) % size, 0, received, 64, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return check == (double)iterations * size * (size - 1) / 2 ? 0 : 7;
}
