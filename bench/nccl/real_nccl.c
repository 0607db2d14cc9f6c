/* A program of N ranks (RANK, WORLD_SIZE) on one GPU that uses the real NCCL and knows nothing of slackline.
 * nccl_real ID_FILE MODE [ARGUMENT]: calls | loop SEED EVENTS | cost CALLS | hang | abort */
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CUDA(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); exit(9); } } while (0)
#define NCCL(x) do { ncclResult_t e_ = (x); if (e_ != ncclSuccess) { fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #x, ncclGetErrorString(e_), ncclGetLastError(NULL)); exit(8); } } while (0)

static int rank, size;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The ids of `count` communicators, made by rank 0. */
static void ids(const char *path, ncclUniqueId *id, int count) {
    char temporary[500];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    if (rank == 0) {
        for (int i = 0; i < count; i++)
            NCCL(ncclGetUniqueId(&id[i]));
        FILE *f = fopen(temporary, "wb");
        fwrite(id, sizeof *id, (size_t)count, f);
        fclose(f);
        rename(temporary, path);
        return;
    }
    FILE *f;
    for (int i = 0; !(f = fopen(path, "rb")) && i < 20000; i++)
        usleep(1000);
    if (!f || fread(id, sizeof *id, (size_t)count, f) != (size_t)count)
        exit(7);
    fclose(f);
}

static float *a, *b;
static cudaStream_t s1, s2;
static cudaEvent_t e0, e1;

/* One call and its time on the device by events around it. */
#define TIMED(text, peer, bytes, stream, ...) do { \
    CUDA(cudaEventRecord(e0, stream)); int64_t h0 = now(); \
    __VA_ARGS__; \
    int64_t h1 = now(); CUDA(cudaEventRecord(e1, stream)); CUDA(cudaStreamSynchronize(stream)); \
    float ms; CUDA(cudaEventElapsedTime(&ms, e0, e1)); \
    printf("truth %d %s %d %lld %.4f %.4f\n", rank, text, peer, (long long)(bytes), (double)ms, (double)(h1 - h0) / 1e6); fflush(stdout); } while (0)

static void calls(ncclUniqueId *id) {
    ncclComm_t world, more, part;
    int other = (rank + 1) % size, before = (rank + size - 1) % size;
    NCCL(ncclCommInitRank(&world, size, id[0], rank));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    NCCL(ncclCommInitRankConfig(&more, size, id[1], rank, &config));
    NCCL(ncclCommSplit(world, rank % 2, rank, &part, NULL));
    /* connections are made at the first call */
    NCCL(ncclAllReduce(a, b, 1024, ncclFloat, ncclSum, world, s1));
    NCCL(ncclAllReduce(a, b, 1024, ncclFloat, ncclSum, more, s1));
    CUDA(cudaStreamSynchronize(s1));
    for (size_t n = 256; n <= 4 << 20; n *= 128)
        TIMED("ncclAllReduce", -1, 4 * n, s1, NCCL(ncclAllReduce(a, b, n, ncclFloat, ncclSum, world, s1)));
    size_t n = 1 << 18;
    TIMED("ncclBroadcast", 0, 4 * n, s1, NCCL(ncclBroadcast(a, b, n, ncclFloat, 0, world, s1)));
    TIMED("ncclReduce", 1, 2 * n, s1, NCCL(ncclReduce(a, b, n, ncclBfloat16, ncclSum, 1, world, s1)));
    TIMED("ncclAllGather", -1, 4 * n, s1, NCCL(ncclAllGather(a, b, n, ncclFloat, world, s1)));
    TIMED("ncclReduceScatter", -1, 4 * n * (size_t)size, s1, NCCL(ncclReduceScatter(a, b, n, ncclFloat, ncclSum, world, s1)));
    TIMED("ncclAlltoAll", -1, 4 * n * (size_t)size, s1, NCCL(ncclAlltoAll(a, b, n, ncclFloat, world, s1)));
    TIMED("ncclGather", 0, 4 * n, s1, NCCL(ncclGather(a, b, n, ncclFloat, 0, world, s1)));
    TIMED("ncclScatter", 1, 4 * n, s1, NCCL(ncclScatter(a, b, n, ncclFloat, 1, world, s1)));
    for (int i = 0; i < 3; i++) { /* a chain: 0 to 1 to 2 ... */
        if (rank > 0)
            TIMED("ncclRecv", rank - 1, 4 * n, s1, NCCL(ncclRecv(b, n, ncclFloat, rank - 1, world, s1)));
        if (rank < size - 1)
            TIMED("ncclSend", rank + 1, 4 * n, s1, NCCL(ncclSend(a, n, ncclFloat, rank + 1, world, s1)));
    }
    TIMED("ring", other, 4 * n, s1, NCCL(ncclGroupStart()); NCCL(ncclSend(a, n, ncclFloat, other, world, s1));
          NCCL(ncclRecv(b, n, ncclFloat, before, world, s1)); NCCL(ncclGroupEnd()));
    TIMED("three", -1, 4 * n, s1, NCCL(ncclGroupStart());
          for (int i = 0; i < 3; i++) NCCL(ncclAllReduce(a + n * i, b + n * i, n, ncclFloat, ncclSum, world, s1)); NCCL(ncclGroupEnd()));
    /* two communicators on two streams, each its own size */
    NCCL(ncclAllReduce(a, b, n, ncclFloat, ncclSum, world, s1));
    NCCL(ncclAllReduce(a + 2 * n, b + 2 * n, 2 * n, ncclFloat, ncclMax, more, s2));
    CUDA(cudaStreamSynchronize(s1));
    CUDA(cudaStreamSynchronize(s2));
    TIMED("part", -1, 8, s1, NCCL(ncclAllReduce(a, b, 2, ncclFloat, ncclSum, part, s1)));
    /* a graph */
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaStreamBeginCapture(s2, cudaStreamCaptureModeThreadLocal));
    NCCL(ncclAllReduce(a, b, 4096, ncclFloat, ncclSum, more, s2));
    CUDA(cudaStreamEndCapture(s2, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CUDA(cudaGraphLaunch(exec, s2));
    CUDA(cudaStreamSynchronize(s2));
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    int version;
    NCCL(ncclGetVersion(&version));
    printf("done %d nccl %d cuda-error %d\n", rank, version, (int)cudaPeekAtLastError());
    NCCL(ncclCommDestroy(part));
    NCCL(ncclCommFinalize(more));
    NCCL(ncclCommDestroy(more));
    NCCL(ncclCommAbort(world));
}

static uint64_t state;
static uint64_t draw(void) {
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Calls drawn from a seed, the same on all ranks, whose results depend on their order. */
static void loop(ncclUniqueId *id, uint64_t seed, int events) {
    ncclComm_t world, more;
    NCCL(ncclCommInitRank(&world, size, id[0], rank));
    NCCL(ncclCommInitRank(&more, size, id[1], rank));
    state = seed;
    int other = (rank + 1) % size, before = (rank + size - 1) % size;
    float *c = a + (1 << 16);
    float first[16];
    for (int i = 0; i < 16; i++)
        first[i] = (float)(rank + i);
    CUDA(cudaMemcpy(a, first, sizeof first, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(c, first, sizeof first, cudaMemcpyHostToDevice));
    for (int e = 0; e < events; e++) {
        uint64_t what = draw() % 8;
        if (what < 3)
            NCCL(ncclAllReduce(a, a, 16, ncclFloat, ncclAvg, world, s1));
        else if (what < 5)
            NCCL(ncclAllReduce(c, c, 16, ncclFloat, ncclAvg, more, s2));
        else if (what < 7) {
            NCCL(ncclGroupStart());
            NCCL(ncclSend(a, 16, ncclFloat, other, world, s1));
            NCCL(ncclRecv(a + 16, 16, ncclFloat, before, world, s1));
            NCCL(ncclGroupEnd());
            CUDA(cudaMemcpyAsync(a, a + 16, 32, cudaMemcpyDeviceToDevice, s1));
        } else {
            CUDA(cudaStreamSynchronize(s1));
            CUDA(cudaStreamSynchronize(s2));
        }
        uint64_t pause = draw() % 2000;
        if (draw() % 4 == (uint64_t)rank)
            usleep((unsigned)pause);
    }
    CUDA(cudaStreamSynchronize(s1));
    CUDA(cudaStreamSynchronize(s2));
    float last[32];
    CUDA(cudaMemcpy(last, a, 64, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(last + 16, c, 64, cudaMemcpyDeviceToHost));
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof last; i++)
        hash = (hash ^ ((unsigned char *)last)[i]) * UINT64_C(1099511628211);
    printf("rank %d %016llx\n", rank, (unsigned long long)hash);
    NCCL(ncclCommDestroy(world));
    NCCL(ncclCommDestroy(more));
}

static int by_size(const void *x, const void *y) {
    double p = *(const double *)x, q = *(const double *)y;
    return p < q ? -1 : p > q;
}

/* Host time per call, in us: the median over blocks of 50 calls that do not wait for the device. */
static void cost(ncclUniqueId *id, int blocks) {
    ncclComm_t world;
    static double took[3][1000];
    NCCL(ncclCommInitRank(&world, size, id[0], rank));
    for (int i = 0; i < 20; i++)
        NCCL(ncclAllReduce(a, b, 4, ncclFloat, ncclSum, world, s1));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(a, 4, ncclFloat, (rank + 1) % size, world, s1));
    NCCL(ncclRecv(b, 4, ncclFloat, (rank + size - 1) % size, world, s1));
    NCCL(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(s1));
    for (int k = 0; k < blocks; k++) {
        int64_t t0 = now();
        for (int i = 0; i < 50; i++)
            NCCL(ncclAllReduce(a, b, 4, ncclFloat, ncclSum, world, s1));
        int64_t t1 = now();
        CUDA(cudaStreamSynchronize(s1));
        int64_t t2 = now();
        for (int i = 0; i < 20; i++) {
            NCCL(ncclGroupStart());
            NCCL(ncclSend(a, 4, ncclFloat, (rank + 1) % size, world, s1));
            NCCL(ncclRecv(b, 4, ncclFloat, (rank + size - 1) % size, world, s1));
            NCCL(ncclGroupEnd());
        }
        int64_t t3 = now();
        CUDA(cudaStreamSynchronize(s1));
        took[0][k] = (double)(t1 - t0) / 50e3;
        took[1][k] = (double)(t3 - t2) / 20e3;
        took[2][k] = (double)(t2 - t0) / 50e3;
    }
    for (int i = 0; i < 3; i++)
        qsort(took[i], (size_t)blocks, sizeof took[i][0], by_size);
    printf("cost rank %d: allreduce %.3f us per call on the host (min %.3f), a group of send and receive %.3f (min %.3f); %.3f us per allreduce with its device\n", rank,
           took[0][blocks / 2], took[0][0], took[1][blocks / 2], took[1][0], took[2][blocks / 2]);
    NCCL(ncclCommDestroy(world));
}

/* The last rank does not come to the 4th allreduce for `seconds`. */
static void hang(ncclUniqueId *id, int seconds) {
    ncclComm_t world;
    NCCL(ncclCommInitRank(&world, size, id[0], rank));
    for (int i = 0; i < 3; i++)
        NCCL(ncclAllReduce(a, b, 1024, ncclFloat, ncclSum, world, s1));
    NCCL(ncclBroadcast(a, b, 1024, ncclFloat, 0, world, s1));
    CUDA(cudaStreamSynchronize(s1));
    printf("rank %d pid %d before the hang\n", rank, (int)getpid());
    fflush(stdout);
    if (rank == size - 1)
        sleep((unsigned)seconds);
    NCCL(ncclAllReduce(a, b, 1024, ncclFloat, ncclSum, world, s1));
    CUDA(cudaStreamSynchronize(s1));
    printf("rank %d after the hang\n", rank);
    NCCL(ncclCommDestroy(world));
}

int main(int argc, char **argv) {
    char host[40];
    ncclUniqueId id[2];
    if (argc < 3 || !getenv("RANK") || !getenv("WORLD_SIZE"))
        return 2;
    rank = atoi(getenv("RANK"));
    size = atoi(getenv("WORLD_SIZE"));
    snprintf(host, sizeof host, "gpuhost%d", rank);
    setenv("NCCL_HOSTID", host, 1); /* several ranks on one GPU, as if each had a host of its own */
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
    CUDA(cudaSetDevice(0));
    CUDA(cudaMalloc((void **)&a, 128 << 20));
    CUDA(cudaMalloc((void **)&b, 128 << 20));
    CUDA(cudaMemset(a, 0, 128 << 20));
    CUDA(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&s2, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&e0));
    CUDA(cudaEventCreate(&e1));
    ids(argv[1], id, 2);
    if (strcmp(argv[2], "calls") == 0)
        calls(id);
    else if (strcmp(argv[2], "loop") == 0)
        loop(id, strtoull(argv[3], NULL, 10), atoi(argv[4]));
    else if (strcmp(argv[2], "cost") == 0)
        cost(id, atoi(argv[3]));
    else if (strcmp(argv[2], "hang") == 0)
        hang(id, atoi(argv[3]));
    return 0;
}
