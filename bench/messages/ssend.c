/* Runs one rank's row of bench/messages/backends.py over MPI: ops that last their time, and a thread for each
 * communicator that sends (MPI_Ssend) and receives in the order of issue.
 *
 * Usage: ssend FOLDER ITERATIONS, under mpirun. FOLDER/row.RANK has lines `op MICROSECONDS MESSAGE` (-1:
 * needs none), `send COMMUNICATOR PEER MESSAGE` and `receive` likewise. Rank 0 prints the longest time of
 * each iteration, in ms. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINES = 400, COMMUNICATORS = 8, BYTES = 32768 };

typedef struct line {
    char what;            /* o, s, r */
    int a, peer, message; /* a: microseconds, or communicator */
} line;

static line row[LINES];
static int lines, next_line, arrived[LINES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void fail(const char *what) {
    fprintf(stderr, "ssend: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void read_row(const char *folder, int rank) {
    char name[500], word[16];
    snprintf(name, sizeof name, "%s/row.%d", folder, rank);
    FILE *in = fopen(name, "r");
    if (!in)
        fail(name);
    while (lines < LINES && fscanf(in, "%15s", word) == 1) {
        line *l = &row[lines++];
        l->what = word[0];
        if (fscanf(in, "%d%d", &l->a, word[0] == 'o' ? &l->message : &l->peer) != 2 ||
            (word[0] != 'o' && fscanf(in, "%d", &l->message) != 1))
            fail("a line is wrong");
    }
    fclose(in);
}

static void note(int *word, int value) {
    pthread_mutex_lock(&mutex);
    *word = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

/* The ends of one communicator, each when the rank has come to it. */
static void *carry(void *object) {
    static char data[COMMUNICATORS][BYTES];
    int communicator = (int)(size_t)object;
    for (int i = 0; i < lines; i++) {
        line *l = &row[i];
        if (l->what == 'o' || l->a != communicator)
            continue;
        pthread_mutex_lock(&mutex);
        while (next_line <= i)
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        if (l->what == 's')
            MPI_Ssend(data[communicator], BYTES, MPI_BYTE, l->peer, l->message, MPI_COMM_WORLD);
        else
            MPI_Recv(data[communicator], BYTES, MPI_BYTE, l->peer, l->message, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (l->what == 'r')
            note(&arrived[l->message], 1);
    }
    return NULL;
}

static void run_ops(void) {
    for (int i = 0; i < lines; i++) {
        line *l = &row[i];
        struct timespec until;
        note(&next_line, i + 1);
        if (l->what != 'o')
            continue;
        pthread_mutex_lock(&mutex);
        while (l->message >= 0 && !arrived[l->message])
            pthread_cond_wait(&changed, &mutex);
        pthread_mutex_unlock(&mutex);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 1000L * l->a;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

int main(int argc, char **argv) {
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3 || provided < MPI_THREAD_MULTIPLE)
        fail("needs FOLDER ITERATIONS and MPI_THREAD_MULTIPLE");
    read_row(argv[1], rank);
    for (int iteration = 0; iteration < atoi(argv[2]); iteration++) {
        pthread_t thread[COMMUNICATORS];
        memset(arrived, 0, sizeof arrived);
        next_line = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime(), took, longest;
        for (size_t c = 0; c < COMMUNICATORS; c++)
            if (pthread_create(&thread[c], NULL, carry, (void *)c) != 0)
                fail("no thread");
        run_ops();
        took = MPI_Wtime() - begin;
        for (int c = 0; c < COMMUNICATORS; c++)
            pthread_join(thread[c], NULL);
        MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("%.3f\n", 1e3 * longest);
    }
    return MPI_Finalize();
}
