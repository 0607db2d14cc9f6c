/* Recorded calls: one call of a communication library, in the same 64 bytes and the same ring as every
 * record.
 *
 * Two kinds share the layout. SL_RECORD_CALL is written when a call returns; the period is searched in the
 * series of one thread's calls. SL_RECORD_COMPLETION is written when a call of the Wait or Test family (or
 * the device's event) completes something posted earlier: `call`, communicator, peer, tag and bytes are those
 * of the posting, start is the time of posting and end the time when it was seen complete. MPI_Sendrecv
 * writes one for what it received.
 *
 * A ring is in its own file after an sl_ring_file; every writer on the node reads `control` in the same
 * folder (making such files: probe_folder.h). libc only. */
#pragma once

#include "notice/record/probe_folder.h"
#include "notice/record/record.h"

#define SL_RECORD_CALL 6
#define SL_RECORD_COMPLETION 7

#define SL_PEER_NONE (-1)    /* the call has none (a collective without a root, a wait) */
#define SL_PEER_ANY (-2)     /* MPI_ANY_SOURCE */
#define SL_PEER_UNKNOWN (-3) /* outside MPI_COMM_WORLD (spawned, connected) */
#define SL_PEER_NULL (-4)    /* MPI_PROC_NULL */
#define SL_TAG_NONE (-1)     /* none; */
#define SL_TAG_ANY (-2)      /* MPI_ANY_TAG */

typedef struct sl_call {
    uint8_t kind, call; /* SL_RECORD_CALL or _COMPLETION; sl_call_name */
    uint16_t thread;    /* of the process, from 0: the number of its ring */
    int32_t tag;        /* SL_TAG_...; Wait and Test: number of requests they completed */
    int32_t rank,
        peer; /* MPI, Gloo: in the world, a collective's peer is its root; NCCL: in the communicator */
    uint64_t communicator; /* its name, equal on all members; 0: none */
    uint64_t bytes;        /* as in src/notice/probe/README.md */
    int64_t start, end;    /* ns, CLOCK_MONOTONIC; 0 when timing is off */
    int64_t device;        /* ns on the device, or of waiting (notice/plugin/README.md); -1: none */
    uint64_t sequence;     /* filled by the ring */
} sl_call;
_Static_assert(sizeof(sl_call) == sizeof(sl_record), "calls go through the ring of records");
_Static_assert(offsetof(sl_call, sequence) == offsetof(sl_record, sequence), "the ring fills the sequence");

/* Every call that can be recorded. The number of a call is its position here, from 1: append, never insert.
 * Calls with large counts (MPI_Send_c) are recorded as those without. */
/* clang-format off */
#define SL_CALLS(X) \
    X(MPI_Send) X(MPI_Bsend) X(MPI_Ssend) X(MPI_Rsend) X(MPI_Recv) X(MPI_Sendrecv) X(MPI_Sendrecv_replace) \
    X(MPI_Isend) X(MPI_Ibsend) X(MPI_Issend) X(MPI_Irsend) X(MPI_Irecv) \
    X(MPI_Send_init) X(MPI_Bsend_init) X(MPI_Ssend_init) X(MPI_Rsend_init) X(MPI_Recv_init) \
    X(MPI_Start) X(MPI_Startall) X(MPI_Probe) X(MPI_Iprobe) X(MPI_Mprobe) X(MPI_Improbe) X(MPI_Mrecv) X(MPI_Imrecv) \
    X(MPI_Wait) X(MPI_Waitall) X(MPI_Waitany) X(MPI_Waitsome) X(MPI_Test) X(MPI_Testall) X(MPI_Testany) X(MPI_Testsome) \
    X(MPI_Barrier) X(MPI_Bcast) X(MPI_Gather) X(MPI_Gatherv) X(MPI_Scatter) X(MPI_Scatterv) X(MPI_Allgather) \
    X(MPI_Allgatherv) X(MPI_Alltoall) X(MPI_Alltoallv) X(MPI_Alltoallw) X(MPI_Reduce) X(MPI_Allreduce) \
    X(MPI_Reduce_scatter) X(MPI_Reduce_scatter_block) X(MPI_Scan) X(MPI_Exscan) \
    X(MPI_Ibarrier) X(MPI_Ibcast) X(MPI_Igather) X(MPI_Igatherv) X(MPI_Iscatter) X(MPI_Iscatterv) X(MPI_Iallgather) \
    X(MPI_Iallgatherv) X(MPI_Ialltoall) X(MPI_Ialltoallv) X(MPI_Ialltoallw) X(MPI_Ireduce) X(MPI_Iallreduce) \
    X(MPI_Ireduce_scatter) X(MPI_Ireduce_scatter_block) X(MPI_Iscan) X(MPI_Iexscan) \
    X(MPI_Neighbor_allgather) X(MPI_Neighbor_allgatherv) X(MPI_Neighbor_alltoall) X(MPI_Neighbor_alltoallv) \
    X(MPI_Neighbor_alltoallw) X(MPI_Ineighbor_allgather) X(MPI_Ineighbor_allgatherv) X(MPI_Ineighbor_alltoall) \
    X(MPI_Ineighbor_alltoallv) X(MPI_Ineighbor_alltoallw) \
    X(MPI_Comm_dup) X(MPI_Comm_idup) X(MPI_Comm_dup_with_info) X(MPI_Comm_split) X(MPI_Comm_split_type) \
    X(MPI_Comm_create) X(MPI_Comm_create_group) X(MPI_Cart_create) X(MPI_Cart_sub) X(MPI_Graph_create) \
    X(MPI_Dist_graph_create) X(MPI_Dist_graph_create_adjacent) X(MPI_Intercomm_create) X(MPI_Intercomm_merge) \
    X(ncclSend) X(ncclRecv) X(ncclAllReduce) X(ncclBroadcast) X(ncclBcast) X(ncclReduce) X(ncclAllGather) \
    X(ncclReduceScatter) X(ncclAlltoAll) X(ncclGather) X(ncclScatter) X(ncclGroupStart) X(ncclGroupEnd) \
    X(ncclCommInitRank) X(ncclCommInitAll) X(ncclCommInitRankConfig) X(ncclCommInitRankScalable) X(ncclCommSplit) \
    X(ncclCommFinalize) X(ncclCommDestroy) X(ncclCommAbort) \
    X(glooSend) X(glooRecv) X(glooBarrier) X(glooAllreduce) X(glooAllgather) X(glooReduceScatter) X(glooAlltoall) \
    X(glooBroadcast) X(glooReduce) X(glooGather) X(glooScatter) X(glooWait) \
    X(glooIsend) X(glooIrecv) X(glooIbarrier) X(glooIallreduce) X(glooIallgather) X(glooIreduceScatter) \
    X(glooIalltoall) X(glooIbroadcast) X(glooIreduce) X(glooIgather) X(glooIscatter) \
    X(MPI_Win_fence) \
    X(ncclProxySend) X(ncclProxyRecv) X(ncclProxyGpuWait) X(ncclProxyPeerWait) \
    X(MPI_Comm_free) X(MPI_Comm_disconnect) X(MPI_Win_create) X(MPI_Win_allocate) X(MPI_Win_allocate_shared) X(MPI_Win_create_dynamic) \
    X(MPI_Win_free) X(MPI_Win_start) X(MPI_Win_complete) X(MPI_Win_post) X(MPI_Win_wait) X(MPI_Win_lock) X(MPI_Win_unlock) \
    X(MPI_Win_lock_all) X(MPI_Win_unlock_all) X(MPI_Win_flush) X(MPI_Win_flush_all) X(MPI_Win_flush_local) X(MPI_Win_flush_local_all) \
    X(MPI_File_open) X(MPI_File_close) X(MPI_File_set_size) X(MPI_File_preallocate) X(MPI_File_set_view) X(MPI_File_sync) \
    X(MPI_File_read_all) X(MPI_File_write_all) X(MPI_File_read_at_all) X(MPI_File_write_at_all) X(MPI_File_read_ordered) \
    X(MPI_File_write_ordered)
#define SL_CALL_ENUM(name) SL_CALL_##name,
typedef enum sl_call_kind { SL_CALL_NOTHING = 0, SL_CALLS(SL_CALL_ENUM) SL_CALL_COUNT } sl_call_kind;
/* clang-format on */
_Static_assert(SL_CALL_COUNT <= 256, "a call is a byte");

/** Whether a call is NCCL's: enqueued on a device, with ranks of its communicator. */
static inline int sl_call_is_nccl(int call) {
    return (call >= SL_CALL_ncclSend && call <= SL_CALL_ncclCommAbort) ||
           (call >= SL_CALL_ncclProxySend && call <= SL_CALL_ncclProxyPeerWait);
}

/** Whether it is a message that NCCL itself sends or receives for a call of the program (notice/plugin). */
static inline int sl_call_is_proxy(int call) {
    return call == SL_CALL_ncclProxySend || call == SL_CALL_ncclProxyRecv;
}

/** "MPI_Send" from its number; "?" for an unknown number. */
const char *sl_call_name(int call);

/** The number of a name, SL_CALL_NOTHING for an unknown name. */
int sl_call_of(const char *name);

/** sl_record_write for a call. sl_record_read may return any record: check `kind`. */
void sl_call_write(sl_record_ring *ring, uint32_t capacity, const sl_call *call);

typedef enum sl_timing { SL_TIMING_OFF = 0, SL_TIMING_ON = 1, SL_TIMING_DEVICE = 2 } sl_timing;

#define SL_CONTROL_MAGIC 0x736c6374u   /* "slct" */
#define SL_RING_FILE_MAGIC 0x736c7266u /* "slrf" */
#define SL_PROBE_LAYOUT 2

/* The file `control` of the folder, made by the first process. */
typedef struct sl_control {
    sl_file_head head;
    /* sl_timing. Written by the agent, read by every wrapper; relaxed: one call more or less is fine. */
    _Atomic uint32_t timing;
    uint8_t pad[52];
} sl_control;
_Static_assert(sizeof(sl_control) == 128, "the layout is part of the version");

typedef enum sl_mpi_family { SL_FAMILY_NONE = 0, SL_FAMILY_OPENMPI = 1, SL_FAMILY_MPICH = 2 } sl_mpi_family;

/* Head of a file PID-ID.THREAD.ring, followed by its sl_record_ring. Written by the process, read by the
 * agent; words that change later are atomic and relaxed: each is independent of the others. */
typedef struct sl_ring_file {
    sl_file_head head;
    int32_t thread;
    _Atomic int32_t rank, size; /* in MPI_COMM_WORLD; -1 before the first recorded MPI call */
    _Atomic uint32_t family;    /* sl_family */
    _Atomic uint32_t closed;    /* 1: its thread has ended, another may reuse it */
    uint32_t pad;
    _Atomic uint64_t untracked; /* requests and communicators that did not fit into a table */
    char program[64];           /* last part of its path */
    uint8_t pad2[24];
} sl_ring_file;
_Static_assert(sizeof(sl_ring_file) == 192, "the layout is part of the version");

/** The names of a process's files: "123-0123456789abcdef.0.ring" and "123-0123456789abcdef.gate". */
#define SL_FILE_NAME 64
void sl_ring_name(const sl_process_id *process, int thread, char name[SL_FILE_NAME]);
void sl_gate_name(const sl_process_id *process, char name[SL_FILE_NAME]);
