/* Loops of many kinds of programs, some ranks of which do more work from some moment on.
 *
 *   neighbors SHAPE MILLISECONDS RANK FACTOR FROM     this rank works FACTOR times as long, from iteration
 * FROM on neighbors SHAPE MILLISECONDS FILE [burn]          while FILE exists: the ranks of its lines "RANK
 * FACTOR"
 *
 * Work is sleep, so that several ranks of a core do not share it, or with `burn` a fixed amount of computing.
 * A shape with "long-" in front sends 128 KiB instead of 64 bytes. Ends when it is ended. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LONG = 16384, SHORT = 8, BUCKETS = 6, TASKS = 12 };
static double out[8][LONG], in[8][LONG], sum;
static int rank, size, left, right, words, burns;
static double rounds_per_ms;

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static double turn(double rounds) {
    double x = 1;
    for (long i = 0; i < (long)rounds; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}

static void work(double ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1e3), .tv_nsec = (long)(ms * 1e6) % 1000000000};
    if (burns)
        sum += 1e-30 * turn(ms * rounds_per_ms);
    else
        nanosleep(&time, NULL);
}

static void to(int side, int tag, MPI_Request *request) {
    MPI_Isend(out[tag], words, MPI_DOUBLE, side, tag, MPI_COMM_WORLD, request);
}

static void from(int side, int tag, MPI_Request *request) {
    MPI_Irecv(in[tag], words, MPI_DOUBLE, side, tag, MPI_COMM_WORLD, request);
}

static void add(void) {
    double mine = 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void post_ring(MPI_Request *request) {
    from(left, 1, &request[0]);
    from(right, 2, &request[1]);
    to(right, 1, &request[2]);
    to(left, 2, &request[3]);
}

/* Receives and sends posted before the work, waited for after it, and a sum now and then. */
static void ring(int step, double ms) {
    MPI_Request request[4];
    post_ring(request);
    work(ms);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    if (step % 5 == 0)
        add();
}

/* Work, then an exchange with both neighbors whose end is waited for by tests alone. */
static void polled(int step, double ms) {
    MPI_Request request[4];
    (void)step;
    work(ms);
    post_ring(request);
    for (int i = 0, done = 0; i < 4; i += done)
        MPI_Test(&request[i], &done, MPI_STATUS_IGNORE);
}

static void polled_any(int step, double ms) {
    MPI_Request request[4];
    (void)step;
    work(ms);
    post_ring(request);
    for (int left_over = 4, which, done; left_over > 0; left_over -= done)
        MPI_Testany(4, request, &which, &done, MPI_STATUS_IGNORE);
}

static void shifts(int step, double ms) {
    (void)step;
    for (int side = 0; side < 2; side++) {
        work(ms / 2);
        MPI_Sendrecv(out[0], words, MPI_DOUBLE, side ? left : right, 1 + side, in[0], words, MPI_DOUBLE,
                     side ? right : left, 1 + side, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Two microbatches down a pipeline and back. */
static void pipeline(int step, double ms) {
    (void)step;
    for (int back = 0; back < 2; back++)
        for (int i = 0; i < 2; i++) {
            int source = back ? rank + 1 : rank - 1, next = back ? rank - 1 : rank + 1;
            if (source >= 0 && source < size)
                MPI_Recv(in[0], words, MPI_DOUBLE, source, back, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            work(ms / 4);
            if (next >= 0 && next < size)
                MPI_Send(out[0], words, MPI_DOUBLE, next, back, MPI_COMM_WORLD);
        }
}

/* Even ranks send first, odd ones receive first. */
static void blocking(int step, double ms) {
    (void)step;
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

static void allreduce(int step, double ms) {
    (void)step;
    work(ms);
    MPI_Allreduce(out[0], in[0], words, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(int step, double ms) {
    (void)step;
    work(ms);
    MPI_Alltoall(out[0], words / size, MPI_DOUBLE, in[0], words / size, MPI_DOUBLE, MPI_COMM_WORLD);
}

/* A backward pass: each bucket's sum is posted while the next is computed. */
static void buckets(int step, double ms) {
    MPI_Request request[BUCKETS];
    (void)step;
    for (int i = 0; i < BUCKETS; i++) {
        work(ms / BUCKETS);
        MPI_Iallreduce(out[i], in[i], words, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Waitall(BUCKETS, request, MPI_STATUSES_IGNORE);
}

/* Parameters are gathered before each layer and gradients scattered after it. */
static void sharded(int step, double ms) {
    (void)step;
    for (int layer = 0; layer < 4; layer++) {
        MPI_Allgather(out[0], words / size, MPI_DOUBLE, in[0], words / size, MPI_DOUBLE, MPI_COMM_WORLD);
        work(ms / 4);
        MPI_Reduce_scatter_block(out[1], in[1], words / size, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* All ranks hand in to rank 0, which hands out again. */
static void gathered(int step, double ms) {
    (void)step;
    work(ms);
    MPI_Gather(out[0], words / size, MPI_DOUBLE, in[0], words / size, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Bcast(out[1], words, MPI_DOUBLE, 0, MPI_COMM_WORLD);
}

/* A grid of two columns: sums along rows and columns, with communicators of their own. */
static void grid(int step, double ms) {
    static MPI_Comm row, column;
    if (step == 0) {
        MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &column);
    }
    work(ms / 2);
    MPI_Allreduce(out[0], in[0], words, MPI_DOUBLE, MPI_SUM, row);
    work(ms / 2);
    MPI_Allreduce(out[1], in[1], words, MPI_DOUBLE, MPI_SUM, column);
}

/* Persistent requests, started before the inner part and waited for before the border. */
static void persistent(int step, double ms) {
    static MPI_Request request[4];
    if (step == 0) {
        MPI_Recv_init(in[1], words, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &request[0]);
        MPI_Recv_init(in[2], words, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &request[1]);
        MPI_Send_init(out[1], words, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &request[2]);
        MPI_Send_init(out[2], words, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &request[3]);
    }
    MPI_Startall(4, request);
    work(ms / 2);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    work(ms / 2);
}

/* Rank 0 hands tasks to whoever is done; a round ends when all have heard so. */
static void master(int step, double ms) {
    int stop = -1, task = 0;
    MPI_Status status;
    (void)step;
    if (rank == 0) {
        for (int sent = 0, running = size - 1; running > 0; sent++) {
            MPI_Recv(in[0], words, MPI_DOUBLE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
            MPI_Send(sent < TASKS ? &sent : &stop, 1, MPI_INT, status.MPI_SOURCE, 6, MPI_COMM_WORLD);
            running -= sent >= TASKS;
        }
    }
    while (rank > 0 && task >= 0) {
        MPI_Send(out[0], words, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD);
        MPI_Recv(&task, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (task >= 0)
            work(ms / 4);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Other neighbors in every step, found by probing until nobody sends any more. */
static void sparse(int step, double ms) {
    MPI_Request request[2], all = MPI_REQUEST_NULL;
    work(ms);
    for (int i = 0; i < 2; i++)
        MPI_Issend(out[i], words, MPI_DOUBLE, (rank + 1 + (step * (i + 3) + i) % (size - 1)) % size, 7,
                   MPI_COMM_WORLD, &request[i]);
    for (int done = 0, sent = 0, here; !done;) {
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &here, &status);
        if (here)
            MPI_Recv(in[0], words, MPI_DOUBLE, status.MPI_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (sent) {
            MPI_Test(&all, &done, MPI_STATUS_IGNORE);
            continue;
        }
        MPI_Testall(2, request, &sent, MPI_STATUSES_IGNORE);
        if (sent)
            MPI_Ibarrier(MPI_COMM_WORLD, &all);
    }
}

/* A halo written into the neighbors' windows, between two fences. */
static void onesided(int step, double ms) {
    static MPI_Win window;
    if (step == 0)
        MPI_Win_create(in, sizeof in, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    work(ms);
    MPI_Win_fence(0, window);
    MPI_Put(out[0], words, MPI_DOUBLE, right, 0, words, MPI_DOUBLE, window);
    MPI_Put(out[1], words, MPI_DOUBLE, left, LONG, words, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
}

/* Levels of a multigrid: work and messages shrink, then grow again. */
static void levels(int step, double ms) {
    int all = words;
    for (int level = 0; level<3; level++, words = words> 8 ? words / 4 : words)
        ring(1, ms / (2 << level));
    words = all;
    if (step % 2 == 0)
        add();
}

typedef void shape(int step, double ms);
static const struct {
    const char *name;
    shape *run;
} shapes[] = {{"ring", ring},
              {"shifts", shifts},
              {"pipeline", pipeline},
              {"blocking", blocking},
              {"allreduce", allreduce},
              {"alltoall", alltoall},
              {"polled", polled},
              {"polled-any", polled_any},
              {"buckets", buckets},
              {"sharded", sharded},
              {"gathered", gathered},
              {"grid", grid},
              {"persistent", persistent},
              {"master", master},
              {"sparse", sparse},
              {"onesided", onesided},
              {"levels", levels}};

static shape *shape_of(const char *name) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return shapes[i].run;
    fprintf(stderr, "neighbors: no shape '%s'\n", name);
    exit(2);
}

/* What the file says of this rank; 1 without it. */
static double factor_in(const char *name) {
    double factor = 1, value;
    int who;
    FILE *file = fopen(name, "r");
    while (file && fscanf(file, "%d %lf", &who, &value) == 2)
        factor = who == rank ? value : factor;
    if (file)
        fclose(file);
    return factor;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size, right = (rank + 1) % size;
    int is_long = strncmp(argv[1], "long-", 5) == 0, numbers = argc == 6;
    shape *run = shape_of(argv[1] + (is_long ? 5 : 0));
    double ms = atof(argv[2]), factor = numbers && rank == atoi(argv[3]) ? atof(argv[4]) : 1,
           begun = now_ms();
    words = is_long ? LONG : SHORT;
    burns = argc == 5;
    sum += 1e-30 * turn(2e7);
    rounds_per_ms = 2e7 / (now_ms() - begun);
    for (int step = 0;; step++) {
        double times = numbers ? (step >= atoi(argv[5]) ? factor : 1) : factor_in(argv[3]);
        run(step, ms * times);
    }
}
