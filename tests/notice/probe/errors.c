/* A program of one rank that asks for errors to be returned and makes many: outputs hold what a program may
 * have left in them, and MPI sets none of them. Prints the class of each error; with what stays behind, a
 * program goes on. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define POISON (1 << 20) /* as a count of requests, an index or a flag */

static void say(const char *what, int result) {
    int class = 0;
    if (result != MPI_SUCCESS)
        MPI_Error_class(result, &class);
    printf("%s: %s\n", what,
           class == 0                   ? "fine"
           : class == MPI_ERR_IN_STATUS ? "in status"
           : class == MPI_ERR_TRUNCATE  ? "truncated"
                                        : "refused");
}

/* Requests that are none, and no requests where some should be. */
static void wrong_requests(void) {
    MPI_Request bad[2];
    MPI_Status status[2];
    int done = POISON, index = 0, flag = 1, indices[2] = {POISON, POISON};
    memset(bad, 0, sizeof bad);
    memset(status, 0x7f, sizeof status);
    say("Waitsome", MPI_Waitsome(2, bad, &done, indices, MPI_STATUSES_IGNORE));
    say("Testsome", MPI_Testsome(2, bad, &done, indices, status));
    say("Waitsome of -1", MPI_Waitsome(-1, bad, &done, indices, status));
    say("Testsome of -1", MPI_Testsome(-1, bad, &done, indices, status));
    say("Waitany", MPI_Waitany(2, bad, &index, status));
    say("Testany", MPI_Testany(2, bad, &index, &flag, status));
    say("Testall", MPI_Testall(2, bad, &flag, status));
    say("Waitall", MPI_Waitall(2, bad, status));
#ifndef OPEN_MPI /* which looks into it */
    say("Test", MPI_Test(bad, &flag, status));
    say("Wait", MPI_Wait(bad, status));
#endif
    MPI_Request none = MPI_REQUEST_NULL;
    say("Start", MPI_Start(&none));
    say("Waitsome of NULL", MPI_Waitsome(2, NULL, &done, indices, status));
    say("Testsome of NULL", MPI_Testsome(2, NULL, &done, indices, status));
    say("Waitany of NULL", MPI_Waitany(2, NULL, &index, status));
    say("Testany of NULL", MPI_Testany(2, NULL, &index, &flag, status));
    say("Testall of NULL", MPI_Testall(2, NULL, &flag, status));
    say("Waitall of NULL", MPI_Waitall(2, NULL, status));
    say("Startall of NULL", MPI_Startall(2, NULL));
    say("Wait of NULL", MPI_Wait(NULL, status));
    say("Test of NULL", MPI_Test(NULL, &flag, status));
}

/* Nothing to wait for: counts and indices are MPI_UNDEFINED. */
static void nothing_to_wait_for(void) {
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int done = POISON, index = POISON, flag = 0, indices[2] = {POISON, POISON};
    say("Waitsome of none", MPI_Waitsome(2, none, &done, indices, MPI_STATUSES_IGNORE));
    say("Testany of none", MPI_Testany(2, none, &index, &flag, MPI_STATUS_IGNORE));
    printf("%d %d\n", done == MPI_UNDEFINED, index == MPI_UNDEFINED);
}

/* Two messages to oneself; the receives of `count` are too small for them. */
static void post(MPI_Request *request, int small) {
    static int in[4], out[4];
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&in[2 * i], small > i ? 1 : 2, MPI_INT, 0, 7 + i, MPI_COMM_SELF, &request[i]);
    for (int i = 0; i < 2; i++)
        MPI_Send(out, 2, MPI_INT, 0, 7 + i, MPI_COMM_SELF);
}

/* One of two receives fails, where the library minds. */
static void too_small(void) {
    MPI_Request request[2];
    MPI_Status status[2];
    int index, flag = 0;
    post(request, 1);
    int result = MPI_Waitall(2, request, status);
    say("Waitall, one too small", result);
    for (int i = 0; i < 2; i++)
        if (request[i] != MPI_REQUEST_NULL) /* MPICH gives up at the first error */
            say("Wait, for what Waitall has left", MPI_Wait(&request[i], MPI_STATUS_IGNORE));
    post(request, 1);
    say("Wait, too small", MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    say("Wait, of the other", MPI_Wait(&request[1], MPI_STATUS_IGNORE));
    post(request, 1);
    while (!flag && (result = MPI_Testall(2, request, &flag, status)) == MPI_SUCCESS)
        ;
    say("Testall, one too small", result);
    post(request, 2);
    say("Waitany, too small", MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE));
    say("Waitany, too small", MPI_Waitany(1, request + 1, &index, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    wrong_requests();
    nothing_to_wait_for();
    too_small();
    MPI_Comm created;
    say("Comm_dup", MPI_Comm_dup(MPI_COMM_NULL, &created));
    say("Probe", MPI_Probe(77, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    int flag = 1;
    say("Iprobe", MPI_Iprobe(77, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    say("Bcast", MPI_Bcast(&flag, -1, MPI_INT, 0, MPI_COMM_SELF));
    MPI_Request request;
    memset(&request, 0, sizeof request);
    say("Isend", MPI_Isend(&flag, 1, MPI_INT, 77, 0, MPI_COMM_SELF, &request));
    MPI_Finalize();
    return 0;
}
