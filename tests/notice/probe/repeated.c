/* A program that makes the same call of NCCL again and again: rank ARGV[1] of 2, ARGV[2] calls, ARGV[3] us
 * apart. ARGV[4] may say: "exec", it becomes itself once more; "timer", a signal comes each 200 us from
 * before the first call on. Prints nothing, ends with 0. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct id {
    char internal[128];
} id;
typedef void *comm;
int ncclCommInitRank(comm *, int, id, int);
int ncclAllReduce(const void *, void *, size_t, int, int, comm, void *);

static void tick(int signal) {
    (void)signal;
}

int main(int argc, char **argv) {
    int calls = atoi(argv[2]), us = atoi(argv[3]);
    const char *what = argc > 4 ? argv[4] : "";
    char a[8] = "", b[8];
    comm world;
    id unique;
    memset(&unique, 3, sizeof unique);
    if (strcmp(what, "timer") == 0) {
        struct sigaction action = {.sa_handler = tick}; /* without SA_RESTART */
        struct itimerval often = {{0, 200}, {0, 200}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    if (ncclCommInitRank(&world, 2, unique, atoi(argv[1])) != 0)
        return 1;
    for (int i = 0; i < calls; i++) {
        ncclAllReduce(a, b, 2, 7, 0, world, NULL);
        if (us > 0)
            usleep((useconds_t)us);
    }
    if (strcmp(what, "exec") == 0) {
        argv[4] = NULL;
        execv(argv[0], argv);
        return 2;
    }
    return 0;
}
