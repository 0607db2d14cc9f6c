/* ns that the probe adds to a test that completes nothing (MPI_Test, MPI_Testany of four, MPI_Iprobe), on one
 * process: rounds of calls by the program's names and by the library's own, in turns, so that both meet the
 * same machine. Prints for each call its name, the median of the library's own and of the differences, and
 * the lower and upper quartile of the differences. tested LIBRARY (libmpi.so.40, libmpich.so.12). */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 20000, ROUNDS = 201 };

typedef int test(MPI_Request *request, int *flag, MPI_Status *status);
typedef int test_any(int count, MPI_Request *requests, int *which, int *flag, MPI_Status *status);
typedef int look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status);

static MPI_Request request[4];
static int flag, which;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double of_test(void *call) {
    test *one = (test *)call;
    double begun = now();
    for (int i = 0; i < CALLS; i++)
        one(&request[0], &flag, MPI_STATUS_IGNORE);
    return (now() - begun) / CALLS;
}

static double of_test_any(void *call) {
    test_any *one = (test_any *)call;
    double begun = now();
    for (int i = 0; i < CALLS; i++)
        one(4, request, &which, &flag, MPI_STATUS_IGNORE);
    return (now() - begun) / CALLS;
}

static double of_look(void *call) {
    look *one = (look *)call;
    double begun = now();
    for (int i = 0; i < CALLS; i++)
        one(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    return (now() - begun) / CALLS;
}

static void compare(const char *name, double measure(void *), void *seen, void *own) {
    static double bare[ROUNDS], added[ROUNDS];
    measure(seen), measure(own);
    for (int i = 0; i < ROUNDS; i++) {
        double first = measure(i % 2 ? seen : own), second = measure(i % 2 ? own : seen);
        bare[i] = i % 2 ? second : first;
        added[i] = (i % 2 ? first : second) - bare[i];
    }
    qsort(bare, ROUNDS, sizeof *bare, less);
    qsort(added, ROUNDS, sizeof *added, less);
    printf("%s %.2f %.2f %.2f %.2f\n", name, bare[ROUNDS / 2], added[ROUNDS / 2], added[ROUNDS / 4],
           added[3 * ROUNDS / 4]);
}

int main(int argc, char **argv) {
    double buffer[4];
    MPI_Init(&argc, &argv);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return 2;
    for (int i = 0; i < 4; i++)
        MPI_Irecv(&buffer[i], 1, MPI_DOUBLE, 0, i, MPI_COMM_SELF, &request[i]);
    compare("MPI_Test", of_test, (void *)MPI_Test, dlsym(library, "PMPI_Test"));
    compare("MPI_Testany", of_test_any, (void *)MPI_Testany, dlsym(library, "PMPI_Testany"));
    compare("MPI_Iprobe", of_look, (void *)MPI_Iprobe, dlsym(library, "PMPI_Iprobe"));
    for (int i = 0; i < 4; i++)
        MPI_Cancel(&request[i]), MPI_Wait(&request[i], MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
