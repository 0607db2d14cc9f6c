/* One process that waits by tests for a nonblocking barrier of a communicator whose other member comes late:
 * polled PAUSE_NS. Rank 1 comes 60 ms after rank 0, which tests every PAUSE_NS, or without a pause. Then
 * three fences of a window, of which the first ends no region. */
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static void rest(long ns) {
    struct timespec time = {.tv_nsec = ns};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    int rank, done = 0;
    long pause = argc > 1 ? atol(argv[1]) : 0;
    double *memory;
    MPI_Request request;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        rest(60000000);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done && pause)
            rest(pause);
    }
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Win_fence(0, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
