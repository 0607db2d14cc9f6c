/* A program that knows nothing of slackline: 4 ranks, most kinds of calls, a result that depends on them,
 * exit code 7. Each rank says on standard output, as its last lines, which calls it makes, in the order made:
 *   made RANK CALL PLACE PEER TAG BYTES     PLACE is the program's own name of the communicator, - for none
 *   done RANK CALL ...                      a nonblocking call that was completed
 * test_probe.py compares that with the rings. Written by hand beside each call, not by a macro around it. */
#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char said[1 << 20];
static size_t length;
static int rank, size;

static void say(const char *what, const char *format, ...) {
    va_list arguments;
    length += (size_t)snprintf(said + length, sizeof said - length, "%s %d ", what, rank);
    va_start(arguments, format);
    length += (size_t)vsnprintf(said + length, sizeof said - length, format, arguments);
    va_end(arguments);
    length += (size_t)snprintf(said + length, sizeof said - length, "\n");
}

static double sum;

static void messages(void) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    double out[100], in[100];
    MPI_Request request[4];
    MPI_Status status;
    int flag = 0, index, indices[4], done;
    for (int i = 0; i < 100; i++)
        out[i] = rank + i;
    if (rank % 2 == 0) {
        MPI_Send(out, 100, MPI_DOUBLE, next, 5, MPI_COMM_WORLD);
        say("made", "MPI_Send world %d 5 800", next);
        MPI_Recv(in, 100, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        say("made", "MPI_Recv world -2 -2 800");
    } else {
        MPI_Probe(previous, 5, MPI_COMM_WORLD, &status);
        say("made", "MPI_Probe world %d 5 0", previous);
        MPI_Recv(in, 100, MPI_DOUBLE, previous, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        say("made", "MPI_Recv world %d 5 800", previous);
        MPI_Ssend(out, 100, MPI_DOUBLE, next, 6, MPI_COMM_WORLD);
        say("made", "MPI_Ssend world %d 6 800", next);
    }
    sum += in[7];
    MPI_Sendrecv(out, 3, MPI_DOUBLE, next, 1, in, 3, MPI_DOUBLE, previous, 1, MPI_COMM_WORLD, &status);
    say("made", "MPI_Sendrecv world %d 1 24", next);
    say("done", "MPI_Sendrecv world %d 1 24", previous);
    sum += in[2];
    /* small sends: a library may complete them at once and give both the same handle */
    MPI_Irecv(in, 2, MPI_INT, previous, 2, MPI_COMM_WORLD, &request[0]);
    say("made", "MPI_Irecv world %d 2 8", previous);
    MPI_Irecv(in + 10, 2, MPI_INT, next, 3, MPI_COMM_WORLD, &request[1]);
    say("made", "MPI_Irecv world %d 3 8", next);
    MPI_Isend(out, 2, MPI_INT, next, 2, MPI_COMM_WORLD, &request[2]);
    say("made", "MPI_Isend world %d 2 8", next);
    MPI_Isend(out, 2, MPI_INT, previous, 3, MPI_COMM_WORLD, &request[3]);
    say("made", "MPI_Isend world %d 3 8", previous);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    say("made", "MPI_Waitall - -1 4 0");
    say("done", "MPI_Irecv world %d 2 8", previous);
    say("done", "MPI_Irecv world %d 3 8", next);
    say("done", "MPI_Isend world %d 2 8", next);
    say("done", "MPI_Isend world %d 3 8", previous);
    /* one each by Wait, Test, Waitany, Waitsome */
    MPI_Irecv(in, 1, MPI_DOUBLE, previous, 9, MPI_COMM_WORLD, &request[0]);
    say("made", "MPI_Irecv world %d 9 8", previous);
    MPI_Issend(out, 1, MPI_DOUBLE, next, 9, MPI_COMM_WORLD, &request[1]);
    say("made", "MPI_Issend world %d 9 8", next);
    while (!flag)
        MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
    say("made", "MPI_Test - -1 1 0");
    say("done", "MPI_Irecv world %d 9 8", previous);
    MPI_Wait(&request[1], MPI_STATUS_IGNORE);
    say("made", "MPI_Wait - -1 1 0");
    say("done", "MPI_Issend world %d 9 8", next);
    sum += in[0];
    request[0] = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request[1]);
    say("made", "MPI_Ibarrier world -1 -1 0");
    MPI_Waitany(2, request, &index, MPI_STATUS_IGNORE);
    say("made", "MPI_Waitany - -1 1 0");
    say("done", "MPI_Ibarrier world -1 -1 0");
    MPI_Iallreduce(out, in, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request[0]);
    say("made", "MPI_Iallreduce world -1 -1 32");
    MPI_Waitsome(1, request, &done, indices, MPI_STATUSES_IGNORE);
    say("made", "MPI_Waitsome - -1 1 0");
    say("done", "MPI_Iallreduce world -1 -1 32");
    sum += in[3];
    /* persistent, twice */
    MPI_Send_init(out, 5, MPI_DOUBLE, next, 4, MPI_COMM_WORLD, &request[0]);
    say("made", "MPI_Send_init world %d 4 40", next);
    MPI_Recv_init(in, 5, MPI_DOUBLE, previous, 4, MPI_COMM_WORLD, &request[1]);
    say("made", "MPI_Recv_init world %d 4 40", previous);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, request);
        say("made", "MPI_Startall world %d 4 40", next);
        say("made", "MPI_Startall world %d 4 40", previous);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        say("made", "MPI_Waitall - -1 2 0");
        say("done", "MPI_Send_init world %d 4 40", next);
        say("done", "MPI_Recv_init world %d 4 40", previous);
    }
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
    MPI_Isend(out, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request[0]);
    say("made", "MPI_Isend world -4 0 4");
    MPI_Wait(request, MPI_STATUS_IGNORE);
    say("made", "MPI_Wait - -1 1 0");
    say("done", "MPI_Isend world -4 0 4");
}

static void collectives(MPI_Comm comm, const char *name, int root_in_world) {
    int members, own;
    double out[64], in[64];
    int counts[4] = {1, 2, 3, 4}, at[4] = {0, 1, 3, 6};
    MPI_Comm_size(comm, &members);
    MPI_Comm_rank(comm, &own);
    for (int i = 0; i < 64; i++)
        out[i] = rank * 2 + i;
    MPI_Barrier(comm);
    say("made", "MPI_Barrier %s -1 -1 0", name);
    MPI_Bcast(out, 8, MPI_DOUBLE, 0, comm);
    say("made", "MPI_Bcast %s %d -1 64", name, root_in_world);
    MPI_Allreduce(MPI_IN_PLACE, out, 8, MPI_DOUBLE, MPI_SUM, comm);
    say("made", "MPI_Allreduce %s -1 -1 64", name);
    MPI_Reduce(out, in, 3, MPI_DOUBLE, MPI_MAX, 0, comm);
    say("made", "MPI_Reduce %s %d -1 24", name, root_in_world);
    /* what a rank that is no root says of the root's buffer does not count */
    MPI_Gather(out, 2, MPI_DOUBLE, in, own == 0 ? 2 : 0, own == 0 ? MPI_DOUBLE : MPI_DATATYPE_NULL, 0, comm);
    say("made", "MPI_Gather %s %d -1 16", name, root_in_world);
    MPI_Scatter(out, own == 0 ? 3 : 0, own == 0 ? MPI_DOUBLE : MPI_DATATYPE_NULL, in, 3, MPI_DOUBLE, 0, comm);
    say("made", "MPI_Scatter %s %d -1 24", name, root_in_world);
    MPI_Allgatherv(out, counts[own], MPI_FLOAT, in, counts, at, MPI_FLOAT, comm);
    say("made", "MPI_Allgatherv %s -1 -1 %d", name, 4 * (own + 1));
    MPI_Alltoall(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, comm);
    say("made", "MPI_Alltoall %s -1 -1 %d", name, 16 * members);
    MPI_Alltoallv(out, counts, at, MPI_CHAR, in, counts, at, MPI_CHAR, members == 1 ? comm : MPI_COMM_SELF);
    say("made", "MPI_Alltoallv self -1 -1 1");
    MPI_Reduce_scatter_block(out, in, 2, MPI_DOUBLE, MPI_SUM, comm);
    say("made", "MPI_Reduce_scatter_block %s -1 -1 %d", name, 16 * members);
    MPI_Scan(out, in, 1, MPI_INT, MPI_SUM, comm);
    say("made", "MPI_Scan %s -1 -1 4", name);
    sum += out[1] + in[0];
}

static void communicators(void) {
    MPI_Comm row, copy, column, cart, line, some, late;
    MPI_Request request;
    MPI_Group all, pair;
    int members[2] = {1, 3}, extents[2] = {2, 2}, periods[2] = {0, 0}, remain[2] = {0, 1}, value = rank;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &row);
    say("made", "MPI_Comm_split world -1 -1 0");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &column); /* ranks run backwards */
    say("made", "MPI_Comm_split world -1 -1 0");
    MPI_Comm_dup(row, &copy);
    say("made", "MPI_Comm_dup row%d -1 -1 0", rank / 2);
    char name[32];
    snprintf(name, sizeof name, "row%d", rank / 2);
    collectives(row, name, rank / 2 * 2);
    snprintf(name, sizeof name, "copy%d", rank / 2);
    collectives(copy, name, rank / 2 * 2);
    snprintf(name, sizeof name, "column%d", rank % 2);
    collectives(column, name, rank % 2 + 2);
    MPI_Cart_create(MPI_COMM_WORLD, 2, extents, periods, 0, &cart);
    say("made", "MPI_Cart_create world -1 -1 0");
    MPI_Cart_sub(cart, remain, &line);
    say("made", "MPI_Cart_sub cart -1 -1 0");
    MPI_Bcast(&value, 1, MPI_INT, 1, line);
    say("made", "MPI_Bcast line%d %d -1 4", rank / 2, rank / 2 * 2 + 1);
    sum += value;
    /* a communicator that some of the world make without the others' knowledge */
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 2, members, &pair);
    if (rank % 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, pair, 17, &some);
        say("made", "MPI_Comm_create_group world -1 -1 0");
        MPI_Send_init(&value, 1, MPI_INT, 0, 0, some, &request);
        say("made", "MPI_Send_init some 1 0 4");
        MPI_Request_free(&request);
        MPI_Allreduce(&rank, &value, 1, MPI_INT, MPI_SUM, some);
        say("made", "MPI_Allreduce some -1 -1 4");
        MPI_Comm_free(&some);
    }
    MPI_Group_free(&pair);
    MPI_Group_free(&all);
    MPI_Comm_idup(MPI_COMM_WORLD, &late, &request);
    say("made", "MPI_Comm_idup world -1 -1 0");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    say("made", "MPI_Wait - -1 1 0");
    say("done", "MPI_Comm_idup world -1 -1 0");
    MPI_Barrier(late);
    say("made", "MPI_Barrier late -1 -1 0");
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &row); /* its handle may be the old one, its name is not */
    say("made", "MPI_Comm_split world -1 -1 0");
    MPI_Barrier(row);
    say("made", "MPI_Barrier again%d -1 -1 0", rank / 2);
    /* an intercommunicator of the two rows, and what it becomes */
    MPI_Comm between, merged;
    MPI_Intercomm_create(row, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 11, &between);
    say("made", "MPI_Intercomm_create again%d -1 -1 0", rank / 2);
    MPI_Barrier(between);
    say("made", "MPI_Barrier between -1 -1 0");
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 8, between), say("made", "MPI_Send between 3 8 4");
    if (rank == 3)
        MPI_Recv(&value, 1, MPI_INT, 0, 8, between, MPI_STATUS_IGNORE), say("made", "MPI_Recv between 0 8 4");
    MPI_Intercomm_merge(between, rank >= 2, &merged);
    say("made", "MPI_Intercomm_merge between -1 -1 0");
    MPI_Barrier(merged);
    say("made", "MPI_Barrier merged -1 -1 0");
    PMPI_Barrier(merged); /* the profiling name is a call as well */
    say("made", "MPI_Barrier merged -1 -1 0");
}

int main(int argc, char **argv) {
    int bad;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 4)
        return 1;
    for (int i = 0; i < 3; i++)
        messages();
    collectives(MPI_COMM_WORLD, "world", 0);
    communicators();
    /* an error that the program handles itself comes back as it is */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    errno = 33;
    bad = MPI_Send(&sum, 1, MPI_DOUBLE, 99, 0, MPI_COMM_WORLD);
    say("made", "MPI_Send world -3 0 0");
    int class = 0;
    MPI_Error_class(bad, &class);
    for (int i = 0; i < 4; i++) { /* in order, so that outputs can be compared */
        MPI_Barrier(MPI_COMM_WORLD);
        say("made", "MPI_Barrier world -1 -1 0");
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/rank%d.txt", argv[1], rank);
    FILE *file = fopen(path, "w");
    fprintf(file, "%sresult %.17g error %d\n", said, sum, class == MPI_ERR_RANK);
    fclose(file);
    if (rank == 0)
        printf("result %.17g error %d\n", sum, class == MPI_ERR_RANK);
    MPI_Finalize();
    return 7;
}
