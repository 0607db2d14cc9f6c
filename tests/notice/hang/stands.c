/* A program that comes to stand in the given way: stands KIND RANK [ITERATIONS [PAUSE_MS [LONG_S]]]. RANK
 * makes the mistake in the middle of a loop of a Sendrecv in a ring, an Allreduce and a Barrier; of kinds
 * "window-...", with one-sided calls before the Barrier. */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static int rank, size;
static const char *kind;
static double *large, *sum_of;

static int is(const char *name) {
    return strcmp(kind, name) == 0;
}

__attribute__((noinline)) static void spin_forever(void) {
    volatile unsigned long n = 0;
    for (;;)
        n = n + 1;
}

__attribute__((noinline)) static void lock_twice(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&lock);
}

__attribute__((noinline)) static void read_nothing(void) {
    char name[64], byte;
    snprintf(name, sizeof name, "/tmp/stands-%d.fifo", (int)getpid());
    mkfifo(name, 0600);
    int file = open(name, O_RDWR);
    unlink(name);
    (void)!read(file, &byte, 1);
}

static int next_of(int of) {
    return (of + 1) % size;
}

/* What the wrong rank does, instead of or before its barrier; 1: it leaves the barrier out. */
static int mistake(int wrong, double seconds) {
    int next = (rank + 1) % size, mine = rank == wrong;
    double value = 1, sum;
    MPI_Request request;
    if (is("skip-barrier"))
        return mine;
    if (is("other-collective") && mine)
        return MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1;
    if (is("other-root"))
        MPI_Bcast(large, LARGE, MPI_DOUBLE, mine ? wrong : (wrong + 1) % size, MPI_COMM_WORLD);
    if (is("other-size"))
        MPI_Allreduce(large, sum_of, mine ? 0 : LARGE, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (is("receive-without-send") && mine)
        MPI_Recv(&value, 1, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("posted-receive") && mine) {
        MPI_Irecv(&value, 1, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if ((is("poll-receive") && mine) || (is("poll-away") && rank == next_of(wrong))) {
        int from = is("poll-away") ? wrong : next, done = 0;
        for (MPI_Irecv(&value, 1, MPI_DOUBLE, from, 7, MPI_COMM_WORLD, &request); !done;)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    if (is("poll-away") && mine)
        spin_forever();
    if (is("any-receive") && mine)
        MPI_Recv(&value, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("wrong-tag") && mine)
        MPI_Send(&value, 1, MPI_DOUBLE, next, 8, MPI_COMM_WORLD);
    if (is("wrong-tag") && rank == (wrong + 1) % size)
        MPI_Recv(&value, 1, MPI_DOUBLE, wrong, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("sends"))
        MPI_Send(large, LARGE, MPI_DOUBLE, rank ^ 1, 3, MPI_COMM_WORLD);
    if (is("receives"))
        MPI_Recv(large, 1, MPI_DOUBLE, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("stopped") && mine)
        raise(SIGSTOP);
    if (is("loop") && mine)
        spin_forever();
    if (is("lock") && mine)
        lock_twice();
    if (is("read") && mine)
        read_nothing();
    if (is("finalize") && mine) {
        MPI_Finalize();
        exit(0);
    }
    if (is("long") && mine)
        for (double end = MPI_Wtime() + seconds; MPI_Wtime() < end;)
            continue;
    if (is("sleep") && mine)
        usleep((useconds_t)(seconds * 1e6));
    return 0;
}

static MPI_Win window;
static double *exposed;
static MPI_Group ring[2]; /* the ranks before and after this one */

static void make_window(void) {
    const int at[2] = {(rank + size - 1) % size, next_of(rank)};
    MPI_Group world;
    MPI_Win_allocate(sizeof *exposed, sizeof *exposed, MPI_INFO_NULL, MPI_COMM_WORLD, &exposed, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 2; i++)
        MPI_Group_incl(world, 1, &at[i], &ring[i]);
}

static void put(int to) {
    static double value = 1;
    MPI_Put(&value, 1, MPI_DOUBLE, to, 0, 1, MPI_DOUBLE, window);
}

/* To the next rank, by groups. */
static void put_in_ring(int mine) {
    const int posts = !(is("window-post") && mine);
    if (is("window-late-post") && mine)
        spin_forever();
    if (posts)
        MPI_Win_post(ring[0], 0, window);
    MPI_Win_start(ring[1], 0, window);
    put(next_of(rank));
    if (is("window-late-complete") && mine)
        spin_forever();
    if (!(is("window-complete") && mine))
        MPI_Win_complete(window);
    if (posts)
        MPI_Win_wait(window);
}

/* All into the window of one rank, one after the other. */
static void put_with_lock(int now, int mine, int to) {
    if (now && mine)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
    if (now)
        MPI_Barrier(MPI_COMM_WORLD);
    if (now && mine && is("window-late-unlock"))
        spin_forever();
    if (now && mine)
        return;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window);
    put(to);
    MPI_Win_unlock(to, window);
}

static void use_window(int now, int wrong) {
    const int mine = now && rank == wrong;
    if (is("window-fence")) {
        if (!mine)
            MPI_Win_fence(0, window);
    } else if (is("window-unlock") || is("window-late-unlock"))
        put_with_lock(now, mine, next_of(wrong));
    else if (is("window-starts") && now) {
        MPI_Win_start(ring[1], 0, window);
        put(next_of(rank));
        MPI_Win_complete(window);
    } else
        put_in_ring(mine);
}

static void cross(int wrong, MPI_Comm a, MPI_Comm b) {
    MPI_Barrier(rank == wrong ? b : a);
    MPI_Barrier(rank == wrong ? a : b);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    kind = argv[1];
    const int wrong = atoi(argv[2]), iterations = argc > 3 ? atoi(argv[3]) : 40;
    const int pause = argc > 4 ? atoi(argv[4]) : 10;
    MPI_Comm a, b, half;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_dup(MPI_COMM_WORLD, &b);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    const int windows = strncmp(kind, "window-", 7) == 0;
    if (windows)
        make_window();
    large = calloc(LARGE, sizeof *large);
    sum_of = calloc(LARGE, sizeof *sum_of);
    for (int i = 0; i < iterations; i++) {
        double out = rank, in, sum;
        usleep((useconds_t)pause * 1000);
        MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 1, &in, 1, MPI_DOUBLE, (rank + size - 1) % size,
                     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&out, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(&out, &sum, 1, MPI_DOUBLE, MPI_SUM, half);
        if (windows)
            use_window(i == iterations / 2, wrong);
        if (i == iterations / 2 && is("cross"))
            cross(wrong, a, b);
        if (i != iterations / 2 || !mistake(wrong, argc > 5 ? atof(argv[5]) : 5))
            MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
