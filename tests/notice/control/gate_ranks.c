/* An MPI program and, beside it in one file, wrappers of the calls that it makes: what a preloaded shim does
 * with a gate. Started under mpirun by test_gate_ranks.c, with a folder for the gates in SL_GATES. Arguments:
 * seed, events.
 *
 * The program draws one sequence of events that all ranks know and each does its part of: collectives on
 * overlapping communicators, messages that wait and that do not, Sendrecv, nonblocking calls with Waitall and
 * Test loops, and receives from anybody. Every rank writes a hash of all that it received to
 * <folder>/result.<rank>. */
#include "base/random.h"
#include "notice/gate/gate.h"
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COMMS 16
#define PENDING 256

/* ---- the wrappers ---- */

typedef struct known {
    MPI_Comm handle;
    uint64_t name, children;
    int world[64];
    sl_gate_channel *collective;
} known;

typedef struct pending {
    MPI_Request handle;
    sl_gate_channel *channel;
    uint64_t number;
    const known *wild; /* a wildcard receive of this communicator */
} pending;

static sl_gate *gate;
static sl_gate_caller caller;
static sl_gate_channel *local;
static known comms[COMMS];
static int comm_count;
static pending requests[PENDING];

static MPI_Comm quiet; /* nobody sends here: a probe that finds something need not move anything else */

static void progress(void *context) {
    (void)context;
    int flag;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, quiet, &flag, MPI_STATUS_IGNORE);
}

static const sl_gate_shim shim = {.progress = progress};

static sl_gate_channel *channel(uint64_t comm, int source, int destination, int tag, uint32_t kind) {
    sl_channel_key key = {comm, source, destination, tag, kind};
    return sl_gate_channel_of(gate, &key);
}

static known *learn(MPI_Comm handle, uint64_t name) {
    known *own = &comms[comm_count++];
    *own = (known){.handle = handle, .name = name};
    MPI_Group members, world;
    int size, ranks[64];
    PMPI_Comm_group(handle, &members);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(members, &size);
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    PMPI_Group_translate_ranks(members, size, ranks, world, own->world);
    PMPI_Group_free(&members);
    PMPI_Group_free(&world);
    own->collective = channel(name, -1, -1, -1, SL_CHANNEL_COLLECTIVE);
    return own;
}

static known *comm_of(MPI_Comm handle) {
    for (int i = 0; i < comm_count; i++)
        if (comms[i].handle == handle)
            return &comms[i];
    abort();
}

static sl_gate_channel *send_channel(const known *comm, int to, int tag) {
    return channel(comm->name, gate->rank, comm->world[to], tag, SL_CHANNEL_POINT);
}

static sl_gate_channel *receive_channel(const known *comm, int from, int tag) {
    int source = from == MPI_ANY_SOURCE ? -1 : comm->world[from];
    int wild = source < 0 || tag == MPI_ANY_TAG;
    return channel(comm->name, source, gate->rank, tag == MPI_ANY_TAG ? -1 : tag,
                   wild ? SL_CHANNEL_WILD : SL_CHANNEL_POINT);
}

static void matched(const known *comm, sl_gate_channel *wild, const MPI_Status *status) {
    sl_gate_wild_matched(
        gate, wild,
        channel(comm->name, comm->world[status->MPI_SOURCE], gate->rank, status->MPI_TAG, SL_CHANNEL_POINT));
}

int MPI_Init(int *argc, char ***argv) {
    int result = PMPI_Init(argc, argv), rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char path[512];
    snprintf(path, sizeof path, "%s/gate.%d", getenv("SL_GATES"), rank);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(sl_gate)) != 0)
        abort();
    gate = mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    sl_gate_init(gate, rank, NULL);
    sl_gate_join(&caller, gate, &shim);
    local = channel(0, -1, rank, -1, SL_CHANNEL_LOCAL);
    learn(MPI_COMM_WORLD, 1);
    PMPI_Comm_dup(MPI_COMM_SELF, &quiet);
    return result;
}

int MPI_Finalize(void) {
    sl_gate_part(&caller);
    sl_gate_finish(gate);
    PMPI_Comm_free(&quiet);
    return PMPI_Finalize();
}

static void collective(MPI_Comm comm) {
    sl_gate_enter(&caller, comm_of(comm)->collective, SL_GATE_BLOCK);
}

int MPI_Comm_split(MPI_Comm parent, int color, int key, MPI_Comm *made) {
    known *from = comm_of(parent);
    collective(parent);
    int result = PMPI_Comm_split(parent, color, key, made);
    uint64_t name =
        sl_random_mix(from->name ^ sl_random_mix(++from->children * 1000 + (uint64_t)(color + 1)));
    if (*made != MPI_COMM_NULL)
        learn(*made, name);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    collective(comm);
    int result = PMPI_Allreduce(in, out, count, type, op, comm);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    collective(comm);
    int result = PMPI_Bcast(data, count, type, root, comm);
    sl_gate_leave(&caller);
    return result;
}

static void remember(MPI_Request handle, sl_gate_channel *c, uint64_t number, const known *wild) {
    for (int i = 0; i < PENDING; i++)
        if (!requests[i].channel) {
            requests[i] = (pending){handle, c, number, wild};
            return;
        }
    abort();
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
    uint64_t number = sl_gate_enter(&caller, comm_of(comm)->collective, SL_GATE_POST);
    int result = PMPI_Iallreduce(in, out, count, type, op, comm, request);
    remember(*request, comm_of(comm)->collective, number, NULL);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Send(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    sl_gate_enter(&caller, send_channel(comm_of(comm), to, tag), SL_GATE_BLOCK);
    int result = PMPI_Send(data, count, type, to, tag, comm);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Ssend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
    sl_gate_enter(&caller, send_channel(comm_of(comm), to, tag), SL_GATE_BLOCK);
    int result = PMPI_Ssend(data, count, type, to, tag, comm);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    int wild = from == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
    if (wild)
        sl_gate_wild_posted(gate);
    sl_gate_enter(&caller, receive_channel(comm_of(comm), from, tag), SL_GATE_BLOCK);
    int result = PMPI_Recv(data, count, type, from, tag, comm, &own);
    if (wild)
        matched(comm_of(comm), receive_channel(comm_of(comm), from, tag), &own);
    sl_gate_leave(&caller);
    if (status != MPI_STATUS_IGNORE)
        *status = own;
    return result;
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in,
                 int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status *status) {
    sl_gate_announce(&caller, send_channel(comm_of(comm), to, out_tag));
    sl_gate_announce(&caller, receive_channel(comm_of(comm), from, in_tag));
    sl_gate_pass(&caller, SL_GATE_BLOCK);
    int result = PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
                               comm, status);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    sl_gate_channel *c = send_channel(comm_of(comm), to, tag);
    uint64_t number = sl_gate_enter(&caller, c, SL_GATE_POST);
    int result = PMPI_Isend(data, count, type, to, tag, comm, request);
    remember(*request, c, number, NULL);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    sl_gate_channel *c = receive_channel(comm_of(comm), from, tag);
    int wild = from == MPI_ANY_SOURCE || tag == MPI_ANY_TAG;
    uint64_t number = sl_gate_enter(&caller, c, SL_GATE_POST);
    if (wild)
        sl_gate_wild_posted(gate);
    int result = PMPI_Irecv(data, count, type, from, tag, comm, request);
    remember(*request, c, number, wild ? comm_of(comm) : NULL);
    sl_gate_leave(&caller);
    return result;
}

static pending *pending_of(MPI_Request handle) {
    for (int i = 0; i < PENDING; i++)
        if (requests[i].channel && requests[i].handle == handle)
            return &requests[i];
    return NULL;
}

static void need_incomplete(MPI_Request handle) {
    int done;
    const pending *own = handle == MPI_REQUEST_NULL ? NULL : pending_of(handle);
    if (!own)
        return;
    PMPI_Request_get_status(handle, &done, MPI_STATUS_IGNORE);
    if (!done)
        sl_gate_need(&caller, own->channel, own->number);
}

static void forget(MPI_Request handle, const MPI_Status *status) {
    pending *own = pending_of(handle);
    if (own && own->wild)
        matched(own->wild, own->channel, status);
    if (own)
        own->channel = NULL;
}

int MPI_Waitall(int count, MPI_Request *list, MPI_Status *statuses) {
    MPI_Request before[PENDING];
    MPI_Status own[PENDING];
    (void)statuses;
    memcpy(before, list, (size_t)count * sizeof *list);
    sl_gate_announce(&caller, local);
    for (int i = 0; i < count; i++)
        need_incomplete(list[i]);
    sl_gate_pass(&caller, SL_GATE_BLOCK);
    int result = PMPI_Waitall(count, list, own);
    for (int i = 0; i < count; i++)
        forget(before[i], &own[i]);
    sl_gate_leave(&caller);
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Request before = *request;
    MPI_Status own;
    (void)status;
    sl_gate_announce(&caller, local);
    need_incomplete(before);
    sl_gate_pass(&caller, SL_GATE_POST);
    int result = PMPI_Test(request, flag, &own);
    if (*flag)
        forget(before, &own);
    sl_gate_leave(&caller);
    return result;
}

/* ---- the program ---- */

static uint64_t state, hash;
static int rank;

static uint64_t draw(void) {
    state += SL_RANDOM_STEP;
    return sl_random_mix(state);
}

static void take(uint64_t value) {
    hash = sl_random_mix(hash ^ value);
}

#define LENGTH 3000 /* of long messages, in words: beyond what is sent without the receiver */

static void message_event(int large) {
    static uint64_t data[LENGTH], answer[LENGTH];
    int a = (int)(draw() % 4), b = (int)((uint64_t)a + 1 + draw() % 3) % 4, tag = (int)(draw() % 5);
    uint64_t payload = draw(), kind = draw() % 3;
    int count = large ? LENGTH : 1;
    if (rank != a && rank != b)
        return;
    data[0] = payload ^ (uint64_t)rank;
    int peer = rank == a ? b : a;
    if (kind == 2) {
        MPI_Sendrecv(data, count, MPI_UINT64_T, peer, tag, answer, count, MPI_UINT64_T, peer, tag,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        take(answer[0]);
    } else if (rank == a)
        (kind ? MPI_Send : MPI_Ssend)(data, count, MPI_UINT64_T, b, tag, MPI_COMM_WORLD);
    else {
        MPI_Recv(answer, count, MPI_UINT64_T, a, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        take(answer[0]);
    }
}

/* A ring of nonblocking messages with something else between posting and waiting. */
static void ring_event(const MPI_Comm *list, int comm_id) {
    uint64_t out = draw() ^ (uint64_t)rank, in = 0, one = draw() & 1, sum = 0, mine = draw() ^ (uint64_t)rank;
    MPI_Request request[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Irecv(&in, 1, MPI_UINT64_T, (rank + 3) % 4, 7, MPI_COMM_WORLD, &request[0]);
    if (list[comm_id] != MPI_COMM_NULL)
        MPI_Iallreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_BXOR, list[comm_id], &request[2]);
    MPI_Isend(&out, 1, MPI_UINT64_T, (rank + 1) % 4, 7, MPI_COMM_WORLD, &request[1]);
    for (int flag = 0; one && !flag;) {
        MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
        usleep(20);
    }
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    take(in);
    take(sum);
}

static void anybody_event(int event) {
    int root = (int)(draw() % 4), later = (int)(draw() % 2), tag = 1000 + event % 1000;
    uint64_t payload = draw() ^ (uint64_t)rank, sum = 0, got[3];
    if (rank != root) {
        MPI_Send(&payload, 1, MPI_UINT64_T, root, tag, MPI_COMM_WORLD);
        return;
    }
    MPI_Request request[3];
    for (int i = 0; i < 3; i++)
        if (later)
            MPI_Irecv(&got[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &request[i]);
        else
            MPI_Recv(&got[i], 1, MPI_UINT64_T, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (later)
        MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++)
        sum += sl_random_mix(got[i]);
    take(sum);
}

static void collective_event(const MPI_Comm *list, int comm_id) {
    uint64_t mine = draw() ^ (uint64_t)rank, sum = draw() % 2;
    if (list[comm_id] == MPI_COMM_NULL)
        return;
    if (sum == 0) {
        MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_BXOR, list[comm_id]);
        take(sum);
    } else {
        MPI_Bcast(&mine, 1, MPI_UINT64_T, 0, list[comm_id]);
        take(mine);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    state = strtoull(argv[1], NULL, 10);
    int events = atoi(argv[2]);
    /* Halves, halves across, three of four, and all, which is used now and then. */
    static const int color[4][4] = {{0, 0, 1, 1}, {0, 1, 0, 1}, {MPI_UNDEFINED, 0, 0, 0}, {0, 0, 0, 0}};
    MPI_Comm list[4];
    for (int i = 0; i < 4; i++)
        MPI_Comm_split(MPI_COMM_WORLD, color[i][rank], rank, &list[i]);
    for (int e = 0; e < events; e++) {
        uint64_t what = draw() % 16;
        int comm_id = (int)(draw() % 13) / 4;
        if (what < 6)
            collective_event(list, comm_id);
        else if (what < 13)
            message_event(what == 12);
        else if (what < 15)
            ring_event(list, comm_id);
        else
            anybody_event(e);
        if (draw() % 16 == (uint64_t)rank)
            usleep(100);
    }
    char path[512];
    snprintf(path, sizeof path, "%s/result.%d", getenv("SL_GATES"), rank);
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "%016llx\n", (unsigned long long)hash);
    fclose(file);
    MPI_Finalize();
    return 0;
}
