/* Iterations of a sum and a ring, in which one rank works longer for as long as a file is there; they end
 * when another file is there: steered SLOW_FILE END_FILE RANK EXTRA_MS EXIT_CODE. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    double mine[64] = {0}, total[64] = {0}, received[64] = {0};
    long iterations = 0;
    if (argc != 6)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (; total[0] == 0 && iterations < 100000; iterations++) {
        int slow = rank == atoi(argv[3]) && access(argv[1], F_OK) == 0;
        usleep((useconds_t)(12000 + (slow ? 1000 * atoi(argv[4]) : 0)));
        mine[0] = rank == 0 && access(argv[2], F_OK) == 0;
        mine[1] = rank;
        MPI_Allreduce(mine, total, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        usleep(10000);
        MPI_Sendrecv(mine, 64, MPI_DOUBLE, (rank + 1) % size, 0, received, 64, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("ranks %d sum %g\n", size, total[1]);
    MPI_Finalize();
    return atoi(argv[5]);
}
