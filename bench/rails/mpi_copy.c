/* The same messages through Open MPI: rank 0 sends, rank 1 receives; 8 MB of them under way at a time, 2 to
 * 16 messages.
 *
 *   mpirun -n 2 bench_mpi_copy BYTES COUNT
 *
 * Rank 1 prints what bench_copy prints: seconds from the first message's arrival to the last one's, and the
 * bytes in between. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WINDOW_MAX 16

int main(int argc, char **argv) {
    int rank;
    if (argc != 3)
        return 2;
    long bytes = atol(argv[1]), count = atol(argv[2]);
    long window = 8000000 / (bytes > 0 ? bytes : 1);
    window = window < 2 ? 2 : window > WINDOW_MAX ? WINDOW_MAX : window;
    MPI_Request request[WINDOW_MAX];
    if (bytes < 1 || bytes > 1 << 30 || count < window)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *buffer = calloc((size_t)window, (size_t)bytes);
    double first = 0, last = 0;
    if (!buffer)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < count + window; i++) {
        long slot = i % window;
        if (i >= window) {
            MPI_Wait(&request[slot], MPI_STATUS_IGNORE);
            last = MPI_Wtime();
            first = i == window ? last : first;
        }
        if (i >= count)
            request[slot] = MPI_REQUEST_NULL;
        else if (rank == 0)
            MPI_Isend(buffer + slot * bytes, (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request[slot]);
        else
            MPI_Irecv(buffer + slot * bytes, (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request[slot]);
    }
    if (rank == 1)
        printf("%.6f %ld\n", last - first, (count - 1) * bytes);
    free(buffer);
    MPI_Finalize();
    return 0;
}
