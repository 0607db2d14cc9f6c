/* Programs of two ranks that cannot be held, or only seem so. Argument: what it does. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, value = 0, count = 5000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request request;
    MPI_Status status;
    if (strcmp(argv[1], "cancel") == 0) {
        MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "cancel anybody's") == 0) {
        MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "cancel too late") == 0) {
        MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request);
        MPI_Send(&rank, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD);
        for (int done = 0; !done;)
            MPI_Request_get_status(request, &done, &status);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "many tags") == 0) {
        for (int tag = 0; tag < count; tag++)
            MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, tag, &value, 1, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD,
                         &status);
    } else if (strcmp(argv[1], "many communicators") == 0) {
        for (int i = 0; i < count; i++) {
            MPI_Comm made;
            MPI_Comm_dup(MPI_COMM_WORLD, &made);
            MPI_Comm_free(&made);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
