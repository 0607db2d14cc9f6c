/* ns a call of a call that does nothing in the library (a send of 8 bytes to nobody), on one process: with
 * the probe loaded and without it, the difference is the probe's. Prints the least of ROUNDS rounds' means,
 * and their median. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 200000
#define ROUNDS 31

static int less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    double value = 0, ns[ROUNDS];
    MPI_Init(&argc, &argv);
    for (int round = -1; round < ROUNDS; round++) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < CALLS; i++)
            MPI_Send(&value, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (round >= 0)
            ns[round] =
                ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / CALLS;
    }
    qsort(ns, ROUNDS, sizeof ns[0], less);
    printf("%.2f %.2f\n", ns[0], ns[ROUNDS / 2]);
    MPI_Finalize();
    return 0;
}
