/* Stands in for libnccl.so.2 and libcudart where there is no GPU: every call succeeds and counts,
 * communicators are small structs, an event takes 1.5 ms per call between its start and its end. Not the
 * thing itself: only its surface. */
#include <stddef.h>
#include <stdlib.h>

typedef struct comm {
    int rank, size;
} comm;
typedef struct id {
    char internal[128];
} id;

long standin_calls;          /* of the library, not of CUDA */
static int work;             /* on the one stream */
static int grouped, waiting; /* depth of groups; their calls reach the stream when the last one ends */

#define COLLECTIVE(name, ...)                                                                                \
    int name(__VA_ARGS__) {                                                                                  \
        standin_calls++;                                                                                     \
        *(grouped ? &waiting : &work) += 1;                                                                  \
        return 0;                                                                                            \
    }
COLLECTIVE(ncclSend, const void *b, size_t n, int t, int p, comm *c, void *s)
COLLECTIVE(ncclRecv, void *b, size_t n, int t, int p, comm *c, void *s)
COLLECTIVE(ncclBcast, void *b, size_t n, int t, int p, comm *c, void *s)
COLLECTIVE(ncclBroadcast, const void *a, void *b, size_t n, int t, int r, comm *c, void *s)
COLLECTIVE(ncclReduce, const void *a, void *b, size_t n, int t, int o, int r, comm *c, void *s)
COLLECTIVE(ncclAllGather, const void *a, void *b, size_t n, int t, comm *c, void *s)
COLLECTIVE(ncclReduceScatter, const void *a, void *b, size_t n, int t, int o, comm *c, void *s)
COLLECTIVE(ncclAlltoAll, const void *a, void *b, size_t n, int t, comm *c, void *s)
COLLECTIVE(ncclGather, const void *a, void *b, size_t n, int t, int r, comm *c, void *s)
COLLECTIVE(ncclScatter, const void *a, void *b, size_t n, int t, int r, comm *c, void *s)
COLLECTIVE(ncclAllReduceConfig, const void *a, void *b, size_t n, int t, int o, comm *c, void *s,
           const void *f)

/* calls that the library makes of itself must not be recorded */
int ncclGroupStart(void) {
    standin_calls++;
    grouped++;
    return 0;
}
int ncclGroupEnd(void) {
    standin_calls++;
    if (--grouped == 0) {
        work += waiting;
        waiting = 0;
    }
    return 0;
}
int ncclAllReduce(const void *a, void *b, size_t n, int t, int o, comm *c, void *s) {
    (void)a, (void)b, (void)t, (void)o, (void)s;
    ncclGroupStart();
    ncclGroupEnd();
    standin_calls -= 1;
    work++;
    return n == 12345 || !c ? 4 : 0; /* ncclInvalidArgument comes back as it is */
}
static int make(comm **c, int size, int rank) {
    standin_calls++;
    *c = malloc(sizeof **c);
    **c = (comm){rank, size};
    return 0;
}
int ncclCommInitRank(comm **c, int size, id i, int rank) {
    return i.internal[5] ? make(c, size, rank) : 4;
}
int ncclCommInitRankConfig(comm **c, int size, id i, int rank, void *f) {
    (void)f;
    return i.internal[127] == 7 ? make(c, size, rank) : 4; /* the id came through whole */
}
int ncclCommInitAll(comm **c, int n, const int *d) {
    (void)d;
    for (int i = 0; i < n; i++)
        make(&c[i], n, i);
    standin_calls -= n - 1;
    return 0;
}
int ncclCommSplit(comm *c, int color, int key, comm **made, void *f) {
    (void)key, (void)f;
    *made = NULL;
    if (color >= 0)
        return make(made, 1, 0), (void)c, 0;
    standin_calls++;
    return 0;
}
int ncclCommUserRank(comm *c, int *r) {
    *r = c->rank;
    return 0;
}
int ncclCommCount(comm *c, int *n) {
    *n = c->size;
    return 0;
}
int ncclCommFinalize(comm *c) {
    (void)c;
    standin_calls++;
    return 0;
}
int ncclCommDestroy(comm *c) {
    free(c);
    standin_calls++;
    return 0;
}
int ncclCommAbort(comm *c) {
    free(c);
    standin_calls++;
    return 0;
}

#ifdef WITH_CUDA
static int last_error, capturing;
int cudaEventCreate(void **e) {
    *e = calloc(1, sizeof(int));
    return 0;
}
int cudaEventRecord(void *e, void *s) {
    (void)s;
    if (capturing)
        return last_error = 900;
    *(int *)e = work;
    return 0;
}
int cudaEventQuery(void *e) { /* done when something younger is enqueued */
    return *(int *)e < work ? 0 : (last_error = 600);
}
int cudaStreamIsCapturing(void *s, int *c) {
    *c = capturing = s == (void *)9;
    capturing = 0;
    return 0;
}
int cudaGetDevice(int *device) {
    *device = 0;
    return 0;
}
int cudaSetDevice(int device) {
    return device;
}
int cudaPeekAtLastError(void) {
    return last_error;
}
int cudaGetLastError(void) {
    int e = last_error;
    last_error = 0;
    return e;
}
#endif
