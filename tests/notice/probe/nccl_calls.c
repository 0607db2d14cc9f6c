/* A program that uses NCCL and knows nothing of slackline: rank ARGV[1] of 2. Prints how many calls its
 * library saw. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct id {
    char internal[128];
} id;
typedef void *comm;
int ncclCommInitRank(comm *, int, id, int), ncclCommInitRankConfig(comm *, int, id, int, void *),
    ncclCommInitAll(comm *, int, const int *);
int ncclCommSplit(comm, int, int, comm *, void *), ncclCommFinalize(comm), ncclCommDestroy(comm),
    ncclCommAbort(comm);
int ncclSend(const void *, size_t, int, int, comm, void *), ncclRecv(void *, size_t, int, int, comm, void *);
int ncclBcast(void *, size_t, int, int, comm, void *),
    ncclBroadcast(const void *, void *, size_t, int, int, comm, void *);
int ncclAllReduce(const void *, void *, size_t, int, int, comm, void *),
    ncclReduce(const void *, void *, size_t, int, int, int, comm, void *);
int ncclAllGather(const void *, void *, size_t, int, comm, void *),
    ncclReduceScatter(const void *, void *, size_t, int, int, comm, void *);
int ncclAlltoAll(const void *, void *, size_t, int, comm, void *),
    ncclGather(const void *, void *, size_t, int, int, comm, void *);
int ncclScatter(const void *, void *, size_t, int, int, comm, void *);
int ncclAllReduceConfig(const void *, void *, size_t, int, int, comm, void *, const void *);
int ncclGroupStart(void), ncclGroupEnd(void);
extern long standin_calls;

int main(int argc, char **argv) {
    int rank = atoi(argv[1]), other = 1 - rank, devices[2] = {0, 1};
    void *stream = (void *)5, *captured = (void *)9;
    char a[64], b[64];
    id first, second;
    comm world, more, all[2], part, none;
    (void)argc;
    memset(&first, 3, sizeof first);
    memset(&second, 7, sizeof second);
    int wrong = ncclCommInitRank(&world, 2, first, rank);
    wrong |= ncclCommInitRankConfig(&more, 2, second, rank, NULL);
    wrong |= ncclCommInitAll(all, 2, devices);
    wrong |= ncclCommSplit(world, rank, 0, &part, NULL);
    wrong |= ncclCommSplit(world, rank ? 1 : -1, 0, &none, NULL);
    wrong |= ncclAllReduce(a, b, 100, 7, 0, world, stream);
    wrong |= ncclBroadcast(a, b, 10, 8, 1, world, stream);
    wrong |= ncclBcast(a, 10, 9, 0, more, stream);
    wrong |= ncclReduce(a, b, 3, 4, 0, 1, more, stream);
    wrong |= ncclAllGather(a, b, 5, 0, world, stream);
    wrong |= ncclReduceScatter(a, b, 5, 2, 0, world, stream);
    wrong |= ncclAlltoAll(a, b, 4, 11, world, stream);
    wrong |= ncclGather(a, b, 4, 6, 0, world, stream);
    wrong |= ncclScatter(a, b, 4, 6, 1, world, stream);
    wrong |= ncclAllReduceConfig(a, b, 2, 7, 0, part, stream, NULL);
    wrong |= ncclGroupStart();
    wrong |= ncclSend(a, 8, 7, other, world, stream);
    wrong |= ncclRecv(b, 8, 7, other, world, stream);
    wrong |= ncclGroupEnd();
    wrong |= ncclAllReduce(a, b, 1, 7, 0, all[1], captured);
    int error = ncclAllReduce(a, b, 12345, 7, 0, world, stream);
    wrong |= ncclCommFinalize(more) | ncclCommDestroy(more) | ncclCommAbort(part);
    printf("%ld calls, wrong %d, error %d\n", standin_calls, wrong, error);
    return 3;
}
