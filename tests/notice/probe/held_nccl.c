/* A program of four ranks that uses NCCL alone and knows nothing of slackline: calls on overlapping
 * communicators and two streams, messages in groups, and a host that runs ahead of its device. Arguments:
 * seed, events. Prints the order in which its device worked. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct id {
    char internal[128];
} id;
typedef void *comm;
int ncclCommInitRank(comm *, int, id, int), ncclCommDestroy(comm), ncclGroupStart(void), ncclGroupEnd(void);
int ncclAllReduce(const void *, void *, size_t, int, int, comm, void *);
int ncclSend(const void *, size_t, int, int, comm, void *), ncclRecv(void *, size_t, int, int, comm, void *);
int cudaStreamSynchronize(void *);
uint64_t standin_order(void *);

static uint64_t state;

static uint64_t draw(void) {
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static comm make(int number, int size, int own) {
    comm made;
    id name;
    memset(&name, 0, sizeof name);
    name.internal[0] = (char)number;
    if (ncclCommInitRank(&made, size, name, own) != 0)
        abort();
    return made;
}

int main(int argc, char **argv) {
    static float in[16], out[16];
    int rank = atoi(getenv("RANK")), events = argc > 2 ? atoi(argv[2]) : 1000;
    state = strtoull(argv[1], NULL, 10);
    void *streams[2] = {(void *)5, (void *)6};
    comm all = make(1, 4, rank);
    comm part[3] = {make(2 + rank / 2, 2, rank % 2), make(4 + rank % 2, 2, rank / 2),
                    rank == 0 ? NULL : make(6, 3, rank - 1)};
    for (int e = 0; e < events; e++) {
        uint64_t what = draw() % 16, which = draw() % 3;
        void *stream = streams[draw() % 2];
        if (what < 2)
            ncclAllReduce(in, out, 16, 7, 0, all, stream);
        else if (what < 9 && part[which])
            ncclAllReduce(in, out, 16, 7, 0, part[which], stream);
        else if (what >= 9 && what < 13) {
            ncclGroupStart();
            ncclSend(in, 16, 7, (rank + 1) % 4, all, stream);
            ncclRecv(out, 16, 7, (rank + 3) % 4, all, stream);
            ncclGroupEnd();
        } else if (what == 13)
            cudaStreamSynchronize(stream);
        if (draw() % 4 == (uint64_t)rank)
            usleep((unsigned)(draw() % 400));
        else
            draw();
    }
    for (int i = 0; i < 2; i++)
        cudaStreamSynchronize(streams[i]);
    printf("rank %d %016llx %016llx\n", rank, (unsigned long long)standin_order(streams[0]),
           (unsigned long long)standin_order(streams[1]));
    ncclCommDestroy(all);
    return 0;
}
