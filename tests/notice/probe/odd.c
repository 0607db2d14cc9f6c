/* What a program may do that a probe must survive: threads that call at the same time, children of fork, an
 * errno that is watched. Usage: odd threads|fork|errno */
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define MESSAGES 500
static int rank;

/* each thread talks to the same thread of the other rank, and to itself */
static void *talk(void *number) {
    int tag = (int)(long)number, in[2];
    MPI_Request request[2];
    for (int i = 0; i < MESSAGES; i++) {
        int out[2] = {i, tag};
        MPI_Irecv(in, 2, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(out, 2, MPI_INT, 1 - rank, tag, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        if (in[0] != i || in[1] != tag)
            exit(1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "threads") == 0) {
        pthread_t thread[THREADS];
        for (int turn = 0; turn < 2; turn++) { /* the second four take up the rings of the first */
            for (long i = 0; i < THREADS; i++)
                pthread_create(&thread[i], NULL, talk, (void *)i);
            for (int i = 0; i < THREADS; i++)
                pthread_join(thread[i], NULL);
        }
        printf("provided %d\n", provided == MPI_THREAD_MULTIPLE);
    } else if (strcmp(argv[1], "fork") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        pid_t child = fork();
        if (child == 0)
            _exit(system("true") == 0 ? 9 : 1);
        int status;
        waitpid(child, &status, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("child %d\n", WEXITSTATUS(status));
    } else {
        errno = 77;
        MPI_Barrier(MPI_COMM_SELF); /* the first call: rings and communicators are made here */
        int first = errno;
        errno = 78;
        MPI_Barrier(MPI_COMM_SELF);
        printf("errno %d %d\n", first, errno);
    }
    MPI_Finalize();
    return 4;
}
