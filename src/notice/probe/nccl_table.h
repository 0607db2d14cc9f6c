/* The one table of NCCL's prototypes; included with the row macros defined:
 *   SL_NCCL(name, as, params, args, peer, bytes)   a call on `comm` and `stream`, recorded as `as`
 *   SL_NCCL_HAND(name, params, args, body)         body(real, args...) is written by hand
 *   SL_NCCL_BRACKET(name, body)                    same, for a call without arguments
 * A test compares every row with the real nccl.h, and the header's calls that take a stream with the rows.
 * n(count, type) are the bytes of a buffer, `members` the communicator's size. */
/* clang-format off */
#define SL_ONE_BUFFER(x) (x void *buffer, size_t count, SL_NCCL_TYPE type, int peer, SL_NCCL_COMM comm, SL_STREAM stream)
#define SL_BUFFERS const void *send, void *receive, size_t count, SL_NCCL_TYPE type
#define SL_END SL_NCCL_COMM comm, SL_STREAM stream
#define SL_CONFIGURED SL_NCCL_COMM comm, SL_STREAM stream, const SL_NCCL_CALL_CONFIG *config
SL_NCCL(ncclSend, ncclSend, SL_ONE_BUFFER(const), (buffer, count, type, peer, comm, stream), peer, n(count, type))
SL_NCCL(ncclRecv, ncclRecv, SL_ONE_BUFFER(), (buffer, count, type, peer, comm, stream), peer, n(count, type))
SL_NCCL(ncclBcast, ncclBcast, SL_ONE_BUFFER(), (buffer, count, type, peer, comm, stream), peer, n(count, type))
SL_NCCL(ncclAllReduce, ncclAllReduce, (SL_BUFFERS, SL_NCCL_OP op, SL_END), (send, receive, count, type, op, comm, stream), SL_PEER_NONE, n(count, type))
SL_NCCL(ncclBroadcast, ncclBroadcast, (SL_BUFFERS, int root, SL_END), (send, receive, count, type, root, comm, stream), root, n(count, type))
SL_NCCL(ncclReduce, ncclReduce, (SL_BUFFERS, SL_NCCL_OP op, int root, SL_END), (send, receive, count, type, op, root, comm, stream), root, n(count, type))
SL_NCCL(ncclAllGather, ncclAllGather, (SL_BUFFERS, SL_END), (send, receive, count, type, comm, stream), SL_PEER_NONE, n(count, type))
SL_NCCL(ncclReduceScatter, ncclReduceScatter, (SL_BUFFERS, SL_NCCL_OP op, SL_END), (send, receive, count, type, op, comm, stream), SL_PEER_NONE, members * n(count, type))
SL_NCCL(ncclAlltoAll, ncclAlltoAll, (SL_BUFFERS, SL_END), (send, receive, count, type, comm, stream), SL_PEER_NONE, members * n(count, type))
SL_NCCL(ncclGather, ncclGather, (SL_BUFFERS, int root, SL_END), (send, receive, count, type, root, comm, stream), root, n(count, type))
SL_NCCL(ncclScatter, ncclScatter, (SL_BUFFERS, int root, SL_END), (send, receive, count, type, root, comm, stream), root, n(count, type))
/* NCCL 2.32 on */
SL_NCCL(ncclAllReduceConfig, ncclAllReduce, (SL_BUFFERS, SL_NCCL_OP op, SL_CONFIGURED), (send, receive, count, type, op, comm, stream, config), SL_PEER_NONE, n(count, type))
SL_NCCL(ncclBroadcastConfig, ncclBroadcast, (SL_BUFFERS, int root, SL_CONFIGURED), (send, receive, count, type, root, comm, stream, config), root, n(count, type))
SL_NCCL(ncclReduceConfig, ncclReduce, (SL_BUFFERS, SL_NCCL_OP op, int root, SL_CONFIGURED), (send, receive, count, type, op, root, comm, stream, config), root, n(count, type))
SL_NCCL(ncclAllGatherConfig, ncclAllGather, (SL_BUFFERS, SL_CONFIGURED), (send, receive, count, type, comm, stream, config), SL_PEER_NONE, n(count, type))
SL_NCCL(ncclReduceScatterConfig, ncclReduceScatter, (SL_BUFFERS, SL_NCCL_OP op, SL_CONFIGURED), (send, receive, count, type, op, comm, stream, config), SL_PEER_NONE, members * n(count, type))
SL_NCCL(ncclAlltoAllConfig, ncclAlltoAll, (SL_BUFFERS, SL_CONFIGURED), (send, receive, count, type, comm, stream, config), SL_PEER_NONE, members * n(count, type))
SL_NCCL(ncclGatherConfig, ncclGather, (SL_BUFFERS, int root, SL_CONFIGURED), (send, receive, count, type, root, comm, stream, config), root, n(count, type))
SL_NCCL(ncclScatterConfig, ncclScatter, (SL_BUFFERS, int root, SL_CONFIGURED), (send, receive, count, type, root, comm, stream, config), root, n(count, type))

SL_NCCL_BRACKET(ncclGroupStart, group_start)
SL_NCCL_BRACKET(ncclGroupEnd, group_end)
SL_NCCL_HAND(ncclCommInitRank, (SL_NCCL_COMM *comm, int size, SL_UNIQUE_ID id, int rank), (comm, size, id, rank), init_rank)
SL_NCCL_HAND(ncclCommInitRankConfig, (SL_NCCL_COMM *comm, int size, SL_UNIQUE_ID id, int rank, SL_NCCL_CONFIG *config), (comm, size, id, rank, config), init_rank_config)
SL_NCCL_HAND(ncclCommInitRankScalable, (SL_NCCL_COMM *comm, int size, int rank, int ids, SL_UNIQUE_ID *id, SL_NCCL_CONFIG *config), (comm, size, rank, ids, id, config), init_rank_scalable)
SL_NCCL_HAND(ncclCommInitAll, (SL_NCCL_COMM *comms, int devices, const int *device), (comms, devices, device), init_all)
SL_NCCL_HAND(ncclCommSplit, (SL_NCCL_COMM comm, int color, int key, SL_NCCL_COMM *created, SL_NCCL_CONFIG *config), (comm, color, key, created, config), split)
SL_NCCL_HAND(ncclCommFinalize, (SL_NCCL_COMM comm), (comm), finalize)
SL_NCCL_HAND(ncclCommDestroy, (SL_NCCL_COMM comm), (comm), destroy)
SL_NCCL_HAND(ncclCommAbort, (SL_NCCL_COMM comm), (comm), abort_communicator)
#undef SL_ONE_BUFFER
#undef SL_BUFFERS
#undef SL_END
#undef SL_CONFIGURED
/* clang-format on */
