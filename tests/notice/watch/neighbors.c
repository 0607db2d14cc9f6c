/* Loops of programs that exchange with neighbors, one rank of which does more work from some iteration on:
 * neighbors SHAPE MILLISECONDS RANK FACTOR FROM. Work is sleep, so that several ranks of a core do not share
 * it. Ends when it is ended. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 16384 };
static double out[2][WORDS], in[2][WORDS], sum;
static int rank, size, left, right;

static void work(double ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

/* Receives and sends posted before the work, waited for after it, and a sum now and then. */
static void ring(int step, double ms, int words) {
    MPI_Request request[4];
    MPI_Irecv(in[0], words, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(in[1], words, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &request[1]);
    MPI_Isend(out[0], words, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &request[2]);
    MPI_Isend(out[1], words, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &request[3]);
    work(ms);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    if (step % 5 == 0)
        MPI_Allreduce(&in[0][0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void shifts(double ms, int words) {
    work(ms / 2);
    MPI_Sendrecv(out[0], words, MPI_DOUBLE, right, 1, in[0], words, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    work(ms / 2);
    MPI_Sendrecv(out[1], words, MPI_DOUBLE, left, 2, in[1], words, MPI_DOUBLE, right, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Two microbatches down a pipeline and back. */
static void pipeline(double ms, int words) {
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < 2; i++) {
            int from = back ? rank + 1 : rank - 1, to = back ? rank - 1 : rank + 1;
            if (from >= 0 && from < size)
                MPI_Recv(in[0], words, MPI_DOUBLE, from, back, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            work(ms / 4);
            if (to >= 0 && to < size)
                MPI_Send(out[0], words, MPI_DOUBLE, to, back, MPI_COMM_WORLD);
        }
}

/* Even ranks send first, odd ones receive first. */
static void blocking(double ms, int words) {
    work(ms);
    for (int side = 0; side < 2; side++) {
        int other = (rank + side) % 2 == 0 ? rank + 1 : rank - 1;
        if (other < 0 || other >= size)
            continue;
        if (rank % 2 == 0)
            MPI_Send(out[0], words, MPI_DOUBLE, other, 3, MPI_COMM_WORLD);
        MPI_Recv(in[0], words, MPI_DOUBLE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank % 2 == 1)
            MPI_Send(out[0], words, MPI_DOUBLE, other, 3, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size, right = (rank + 1) % size;
    const char *shape = argv[1];
    double ms = atof(argv[2]), factor = rank == atoi(argv[3]) ? atof(argv[4]) : 1;
    for (int step = 0;; step++) {
        double time = step >= atoi(argv[5]) ? ms * factor : ms;
        if (strcmp(shape, "ring") == 0)
            ring(step, time, 8);
        else if (strcmp(shape, "long-ring") == 0)
            ring(step, time, WORDS);
        else if (strcmp(shape, "shifts") == 0)
            shifts(time, 8);
        else if (strcmp(shape, "long-shifts") == 0)
            shifts(time, WORDS);
        else if (strcmp(shape, "pipeline") == 0)
            pipeline(time, 4096);
        else if (strcmp(shape, "blocking") == 0)
            blocking(time, WORDS);
        else if (strcmp(shape, "allreduce") == 0) {
            work(time);
            MPI_Allreduce(out[0], in[0], 4096, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        } else {
            work(time);
            MPI_Alltoall(out[0], WORDS / size, MPI_DOUBLE, in[0], WORDS / size, MPI_DOUBLE, MPI_COMM_WORLD);
        }
    }
}
