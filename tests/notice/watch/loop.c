/* Iterations of a sum and a ring: loop ITERATIONS MICROSECONDS [EXIT CODE]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, size;
    double mine = 1, sum = 0, other = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int iterations = argc > 1 ? atoi(argv[1]) : 100, pause = argc > 2 ? atoi(argv[2]) : 1000;
    for (int i = 0; i < iterations; i++) {
        usleep((useconds_t)pause);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Sendrecv(&sum, 1, MPI_DOUBLE, (rank + 1) % size, 7, &other, 1, MPI_DOUBLE,
                     (rank + size - 1) % size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mine = other / size + 1e-3 * rank;
    }
    if (rank == 0)
        printf("ranks %d result %.17g\n", size, mine);
    MPI_Finalize();
    return argc > 3 ? atoi(argv[3]) : 0;
}
