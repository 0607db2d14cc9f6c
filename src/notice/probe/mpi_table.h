/* clang-format off */
/* The one table of MPI's prototypes; included several times (no guard) with the row macros defined:
 *   SL_CALL(name, params, args, comm, peer, tag, bytes)      a blocking call, recorded
 *   SL_TAKE(name, params, args, comm, peer, tag, bytes)      one that finds a message and fills `status`
 *   SL_EXCHANGE(name, params, args, comm, peer, tag, bytes)  one that sends too (`source`, `receive_tag`)
 *   SL_POST(name, params, args, comm, peer, tag, bytes)      posts `request`
 *   SL_INIT(name, params, args, comm, peer, tag, bytes)      makes a persistent `request`
 *   SL_GROUP(name, iname, params, args, peer, bytes)         a collective on `comm` and its nonblocking twin
 *   SL_CREATE(name, params, args, parent, created, key)      a collective on `parent` that makes a communicator
 *   SL_HAND(name, params, args, body)                        body(real, args...) is written by hand
 *   SL_BRACKET(name, body)                                   the same, for a call without arguments
 *   SL_WINDOW(name, params, args)                            a collective on `comm` that makes `win`
 *   SL_FILE_CALL(name, params, args)                         a collective of all ranks that opened `file`; not recorded
 * SL_LARGE makes the variants of MPI 4 with large counts. Handles are SL_..., and differ between families. `bytes` is
 * computed after a successful call; b(count, type) are the bytes of a buffer, `members` the communicator's peers. */
#ifdef SL_LARGE
#define SL_COUNT SL_LARGE_COUNT
#define SL_DISPLACEMENT SL_AINT
#else
#define SL_COUNT int
#define SL_DISPLACEMENT int
#endif

/* ---- point to point ---- */
#define SL_SENDS (const void *buffer, SL_COUNT count, SL_TYPE type, int peer, int tag, SL_COMM comm)
#define SL_SENDS_REQUEST (const void *buffer, SL_COUNT count, SL_TYPE type, int peer, int tag, SL_COMM comm, SL_REQUEST *request)
#define SL_RECEIVES_REQUEST (void *buffer, SL_COUNT count, SL_TYPE type, int peer, int tag, SL_COMM comm, SL_REQUEST *request)
#define SL_ARGS (buffer, count, type, peer, tag, comm)
#define SL_ARGS_REQUEST (buffer, count, type, peer, tag, comm, request)
SL_CALL(Send, SL_SENDS, SL_ARGS, comm, peer, tag, b(count, type))
SL_CALL(Bsend, SL_SENDS, SL_ARGS, comm, peer, tag, b(count, type))
SL_CALL(Ssend, SL_SENDS, SL_ARGS, comm, peer, tag, b(count, type))
SL_CALL(Rsend, SL_SENDS, SL_ARGS, comm, peer, tag, b(count, type))
SL_TAKE(Recv, (void *buffer, SL_COUNT count, SL_TYPE type, int peer, int tag, SL_COMM comm, SL_STATUS *status),
        (buffer, count, type, peer, tag, comm, status), comm, peer, tag, b(count, type))
SL_EXCHANGE(Sendrecv, (const void *buffer, SL_COUNT count, SL_TYPE type, int peer, int tag, void *receive, SL_COUNT receives,
                   SL_TYPE receive_type, int source, int receive_tag, SL_COMM comm, SL_STATUS *status),
        (buffer, count, type, peer, tag, receive, receives, receive_type, source, receive_tag, comm, status), comm, peer, tag, b(count, type),
        b(receives, receive_type))
SL_EXCHANGE(Sendrecv_replace, (void *buffer, SL_COUNT count, SL_TYPE type, int peer, int tag, int source, int receive_tag, SL_COMM comm, SL_STATUS *status),
        (buffer, count, type, peer, tag, source, receive_tag, comm, status), comm, peer, tag, b(count, type), b(count, type))
SL_POST(Isend, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_POST(Ibsend, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_POST(Issend, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_POST(Irsend, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_POST(Irecv, SL_RECEIVES_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_INIT(Send_init, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_INIT(Bsend_init, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_INIT(Ssend_init, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_INIT(Rsend_init, SL_SENDS_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_INIT(Recv_init, SL_RECEIVES_REQUEST, SL_ARGS_REQUEST, comm, peer, tag, b(count, type))
SL_CALL(Mrecv, (void *buffer, SL_COUNT count, SL_TYPE type, SL_MESSAGE *message, SL_STATUS *status), (buffer, count, type, message, status),
        SL_COMM_NULL, SL_NO_RANK, SL_NO_TAG, b(count, type))
SL_POST(Imrecv, (void *buffer, SL_COUNT count, SL_TYPE type, SL_MESSAGE *message, SL_REQUEST *request), (buffer, count, type, message, request),
        SL_COMM_NULL, SL_NO_RANK, SL_NO_TAG, b(count, type))

/* ---- collectives ---- */
#define SL_TWO const void *send, SL_COUNT sends, SL_TYPE send_type, void *receive, SL_COUNT receives, SL_TYPE receive_type
#define SL_ALL_VECTORS (const void *send, const SL_COUNT *sends, const SL_DISPLACEMENT *send_at, SL_TYPE send_type, void *receive, \
                        const SL_COUNT *receives, const SL_DISPLACEMENT *receive_at, SL_TYPE receive_type, SL_COMM comm)
#define SL_ALL_VECTORS_ARGS (send, sends, send_at, send_type, receive, receives, receive_at, receive_type, comm)
#define SL_GATHER_VECTORS const void *send, SL_COUNT sends, SL_TYPE send_type, void *receive, const SL_COUNT *receives, \
                          const SL_DISPLACEMENT *at, SL_TYPE receive_type
SL_GROUP(Bcast, Ibcast, (void *buffer, SL_COUNT count, SL_TYPE type, int root, SL_COMM comm), (buffer, count, type, root, comm),
         root, root == SL_PROC_NULL ? 0 : b(count, type))
SL_GROUP(Gather, Igather, (SL_TWO, int root, SL_COMM comm), (send, sends, send_type, receive, receives, receive_type, root, comm),
         root, root == SL_PROC_NULL ? 0 : root == SL_ROOT || send == SL_IN_PLACE ? b(receives, receive_type) : b(sends, send_type))
SL_GROUP(Gatherv, Igatherv, (SL_GATHER_VECTORS, int root, SL_COMM comm), (send, sends, send_type, receive, receives, at, receive_type, root, comm),
         root, root == SL_PROC_NULL || root == SL_ROOT ? 0 : send == SL_IN_PLACE ? b(receives[root], receive_type) : b(sends, send_type))
SL_GROUP(Scatter, Iscatter, (SL_TWO, int root, SL_COMM comm), (send, sends, send_type, receive, receives, receive_type, root, comm),
         root, root == SL_PROC_NULL ? 0 : root == SL_ROOT || receive == SL_IN_PLACE ? b(sends, send_type) : b(receives, receive_type))
SL_GROUP(Scatterv, Iscatterv, (const void *send, const SL_COUNT *sends, const SL_DISPLACEMENT *at, SL_TYPE send_type, void *receive, SL_COUNT receives,
                    SL_TYPE receive_type, int root, SL_COMM comm), (send, sends, at, send_type, receive, receives, receive_type, root, comm),
         root, root == SL_PROC_NULL || root == SL_ROOT ? 0 : receive == SL_IN_PLACE ? b(sends[root], send_type) : b(receives, receive_type))
SL_GROUP(Allgather, Iallgather, (SL_TWO, SL_COMM comm), (send, sends, send_type, receive, receives, receive_type, comm),
         SL_NO_RANK, send == SL_IN_PLACE ? b(receives, receive_type) : b(sends, send_type))
SL_GROUP(Allgatherv, Iallgatherv, (SL_GATHER_VECTORS, SL_COMM comm), (send, sends, send_type, receive, receives, at, receive_type, comm),
         SL_NO_RANK, send == SL_IN_PLACE ? b(receives[own_rank(comm)], receive_type) : b(sends, send_type))
SL_GROUP(Alltoall, Ialltoall, (SL_TWO, SL_COMM comm), (send, sends, send_type, receive, receives, receive_type, comm),
         SL_NO_RANK, members * (send == SL_IN_PLACE ? b(receives, receive_type) : b(sends, send_type)))
SL_GROUP(Alltoallv, Ialltoallv, SL_ALL_VECTORS, SL_ALL_VECTORS_ARGS,
         SL_NO_RANK, send == SL_IN_PLACE ? b(SL_SUM(receives, members), receive_type) : b(SL_SUM(sends, members), send_type))
SL_GROUP(Alltoallw, Ialltoallw, (const void *send, const SL_COUNT *sends, const SL_DISPLACEMENT *send_at, const SL_TYPE *send_types, void *receive,
                     const SL_COUNT *receives, const SL_DISPLACEMENT *receive_at, const SL_TYPE *receive_types, SL_COMM comm),
         (send, sends, send_at, send_types, receive, receives, receive_at, receive_types, comm),
         SL_NO_RANK, send == SL_IN_PLACE ? SL_SUM_TYPES(receives, receive_types, members) : SL_SUM_TYPES(sends, send_types, members))
SL_GROUP(Reduce, Ireduce, (const void *send, void *receive, SL_COUNT count, SL_TYPE type, SL_OP op, int root, SL_COMM comm), (send, receive, count, type, op, root, comm),
         root, root == SL_PROC_NULL ? 0 : b(count, type))
SL_GROUP(Allreduce, Iallreduce, (const void *send, void *receive, SL_COUNT count, SL_TYPE type, SL_OP op, SL_COMM comm), (send, receive, count, type, op, comm),
         SL_NO_RANK, b(count, type))
SL_GROUP(Reduce_scatter, Ireduce_scatter, (const void *send, void *receive, const SL_COUNT *counts, SL_TYPE type, SL_OP op, SL_COMM comm),
         (send, receive, counts, type, op, comm), SL_NO_RANK, b(SL_SUM(counts, (uint64_t)communicator->size), type))
SL_GROUP(Reduce_scatter_block, Ireduce_scatter_block, (const void *send, void *receive, SL_COUNT count, SL_TYPE type, SL_OP op, SL_COMM comm),
         (send, receive, count, type, op, comm), SL_NO_RANK, (uint64_t)communicator->size * b(count, type))
SL_GROUP(Scan, Iscan, (const void *send, void *receive, SL_COUNT count, SL_TYPE type, SL_OP op, SL_COMM comm), (send, receive, count, type, op, comm),
         SL_NO_RANK, b(count, type))
SL_GROUP(Exscan, Iexscan, (const void *send, void *receive, SL_COUNT count, SL_TYPE type, SL_OP op, SL_COMM comm), (send, receive, count, type, op, comm),
         SL_NO_RANK, b(count, type))
SL_GROUP(Neighbor_allgather, Ineighbor_allgather, (SL_TWO, SL_COMM comm), (send, sends, send_type, receive, receives, receive_type, comm), SL_NO_RANK, b(sends, send_type))
SL_GROUP(Neighbor_alltoall, Ineighbor_alltoall, (SL_TWO, SL_COMM comm), (send, sends, send_type, receive, receives, receive_type, comm), SL_NO_RANK, b(sends, send_type))

#ifndef SL_LARGE /* calls without a count, and (see README.md) with one per neighbor */
SL_GROUP(Neighbor_allgatherv, Ineighbor_allgatherv, (SL_GATHER_VECTORS, SL_COMM comm), (send, sends, send_type, receive, receives, at, receive_type, comm),
         SL_NO_RANK, b(sends, send_type))
SL_GROUP(Neighbor_alltoallv, Ineighbor_alltoallv, SL_ALL_VECTORS, SL_ALL_VECTORS_ARGS, SL_NO_RANK, 0)
SL_GROUP(Neighbor_alltoallw, Ineighbor_alltoallw, (const void *send, const SL_COUNT *sends, const SL_AINT *send_at, const SL_TYPE *send_types, void *receive,
                     const SL_COUNT *receives, const SL_AINT *receive_at, const SL_TYPE *receive_types, SL_COMM comm),
         (send, sends, send_at, send_types, receive, receives, receive_at, receive_types, comm), SL_NO_RANK, 0)
SL_GROUP(Barrier, Ibarrier, (SL_COMM comm), (comm), SL_NO_RANK, 0)
SL_TAKE(Probe, (int peer, int tag, SL_COMM comm, SL_STATUS *status), (peer, tag, comm, status), comm, peer, tag, 0)
SL_TAKE(Mprobe, (int peer, int tag, SL_COMM comm, SL_MESSAGE *message, SL_STATUS *status), (peer, tag, comm, message, status), comm, peer, tag, 0)
SL_HAND(Iprobe, (int peer, int tag, SL_COMM comm, int *flag, SL_STATUS *status), (peer, tag, comm, flag, status), probe_now)
SL_HAND(Improbe, (int peer, int tag, SL_COMM comm, int *flag, SL_MESSAGE *message, SL_STATUS *status), (peer, tag, comm, flag, message, status), probe_message_now)
SL_HAND(Start, (SL_REQUEST *request), (request), start_one)
SL_HAND(Startall, (int count, SL_REQUEST *requests), (count, requests), start_all)
SL_HAND(Wait, (SL_REQUEST *request, SL_STATUS *status), (request, status), wait_one)
SL_HAND(Waitall, (int count, SL_REQUEST *requests, SL_STATUS *statuses), (count, requests, statuses), wait_all)
SL_HAND(Waitany, (int count, SL_REQUEST *requests, int *index, SL_STATUS *status), (count, requests, index, status), wait_any)
SL_HAND(Waitsome, (int count, SL_REQUEST *requests, int *done, int *indices, SL_STATUS *statuses), (count, requests, done, indices, statuses), wait_some)
SL_HAND(Test, (SL_REQUEST *request, int *flag, SL_STATUS *status), (request, flag, status), test_one)
SL_HAND(Testall, (int count, SL_REQUEST *requests, int *flag, SL_STATUS *statuses), (count, requests, flag, statuses), test_all)
SL_HAND(Testany, (int count, SL_REQUEST *requests, int *index, int *flag, SL_STATUS *status), (count, requests, index, flag, status), test_any)
SL_HAND(Testsome, (int count, SL_REQUEST *requests, int *done, int *indices, SL_STATUS *statuses), (count, requests, done, indices, statuses), test_some)
SL_HAND(Request_get_status, (SL_REQUEST request, int *flag, SL_STATUS *status), (request, flag, status), look_at_request)
SL_HAND(Cancel, (SL_REQUEST *request), (request), cancel_request)
SL_HAND(Request_free, (SL_REQUEST *request), (request), free_request)
SL_HAND(Comm_free, (SL_COMM *comm), (comm), free_communicator)
SL_HAND(Comm_disconnect, (SL_COMM *comm), (comm), disconnect_communicator)
SL_HAND(Comm_idup, (SL_COMM comm, SL_COMM *created, SL_REQUEST *request), (comm, created, request), post_duplicate)
SL_CREATE(Comm_dup, (SL_COMM comm, SL_COMM *created), (comm, created), comm, created, SL_NUMBERED)
SL_CREATE(Comm_dup_with_info, (SL_COMM comm, SL_INFO info, SL_COMM *created), (comm, info, created), comm, created, SL_NUMBERED)
SL_CREATE(Comm_split, (SL_COMM comm, int color, int key, SL_COMM *created), (comm, color, key, created), comm, created, SL_NUMBERED)
SL_CREATE(Comm_split_type, (SL_COMM comm, int kind, int key, SL_INFO info, SL_COMM *created), (comm, kind, key, info, created), comm, created, SL_NUMBERED)
SL_CREATE(Comm_create, (SL_COMM comm, SL_MPI_GROUP group, SL_COMM *created), (comm, group, created), comm, created, SL_NUMBERED)
SL_CREATE(Comm_create_group, (SL_COMM comm, SL_MPI_GROUP group, int tag, SL_COMM *created), (comm, group, tag, created), comm, created, tag)
SL_CREATE(Cart_create, (SL_COMM comm, int dimensions, const int *extents, const int *periods, int reorder, SL_COMM *created),
          (comm, dimensions, extents, periods, reorder, created), comm, created, SL_NUMBERED)
SL_CREATE(Cart_sub, (SL_COMM comm, const int *remain, SL_COMM *created), (comm, remain, created), comm, created, SL_NUMBERED)
SL_CREATE(Graph_create, (SL_COMM comm, int nodes, const int *index, const int *edges, int reorder, SL_COMM *created),
          (comm, nodes, index, edges, reorder, created), comm, created, SL_NUMBERED)
SL_CREATE(Dist_graph_create, (SL_COMM comm, int n, const int *nodes, const int *degrees, const int *targets, const int *weights, SL_INFO info, int reorder, SL_COMM *created),
          (comm, n, nodes, degrees, targets, weights, info, reorder, created), comm, created, SL_NUMBERED)
SL_CREATE(Dist_graph_create_adjacent, (SL_COMM comm, int in, const int *sources, const int *source_weights, int out, const int *targets, const int *target_weights,
                                       SL_INFO info, int reorder, SL_COMM *created),
          (comm, in, sources, source_weights, out, targets, target_weights, info, reorder, created), comm, created, SL_NUMBERED)
SL_CREATE(Intercomm_create, (SL_COMM comm, int leader, SL_COMM bridge, int remote, int tag, SL_COMM *created), (comm, leader, bridge, remote, tag, created), comm, created, tag)
SL_CREATE(Intercomm_merge, (SL_COMM comm, int high, SL_COMM *created), (comm, high, created), comm, created, SL_NUMBERED)

/* ---- windows ---- */
SL_WINDOW(Win_create, (void *base, SL_AINT size, int step, SL_INFO info, SL_COMM comm, SL_WIN *win), (base, size, step, info, comm, win))
SL_WINDOW(Win_allocate, (SL_AINT size, int step, SL_INFO info, SL_COMM comm, void *base, SL_WIN *win), (size, step, info, comm, base, win))
SL_WINDOW(Win_allocate_shared, (SL_AINT size, int step, SL_INFO info, SL_COMM comm, void *base, SL_WIN *win), (size, step, info, comm, base, win))
SL_WINDOW(Win_create_dynamic, (SL_INFO info, SL_COMM comm, SL_WIN *win), (info, comm, win))
SL_HAND(Win_free, (SL_WIN *win), (win), free_window)
SL_HAND(Win_fence, (int assertion, SL_WIN win), (assertion, win), fence_window)
SL_HAND(Win_lock, (int type, int rank, int assertion, SL_WIN win), (type, rank, assertion, win), lock_window)
SL_HAND(Win_unlock, (int rank, SL_WIN win), (rank, win), unlock_window)
SL_HAND(Win_lock_all, (int assertion, SL_WIN win), (assertion, win), lock_all_window)
SL_HAND(Win_unlock_all, (SL_WIN win), (win), unlock_all_window)
SL_HAND(Win_flush, (int rank, SL_WIN win), (rank, win), flush_window)
SL_HAND(Win_flush_all, (SL_WIN win), (win), flush_all_window)
SL_HAND(Win_flush_local, (int rank, SL_WIN win), (rank, win), flush_local_window)
SL_HAND(Win_flush_local_all, (SL_WIN win), (win), flush_local_all_window)
SL_HAND(Win_start, (SL_MPI_GROUP group, int assertion, SL_WIN win), (group, assertion, win), start_window)
SL_HAND(Win_complete, (SL_WIN win), (win), complete_window)
SL_HAND(Win_post, (SL_MPI_GROUP group, int assertion, SL_WIN win), (group, assertion, win), post_window)
SL_HAND(Win_wait, (SL_WIN win), (win), wait_window)
SL_HAND(Win_test, (SL_WIN win, int *flag), (win, flag), test_window)

/* ---- files: the joint calls of all ranks that opened one; not recorded ---- */
#define SL_ALL_OF_FILE(x) (SL_FILE file, x void *buffer, int count, SL_TYPE type, SL_STATUS *status)
#define SL_ALL_AT(x) (SL_FILE file, SL_OFFSET at, x void *buffer, int count, SL_TYPE type, SL_STATUS *status)
SL_HAND(File_open, (SL_COMM comm, const char *name, int mode, SL_INFO info, SL_FILE *file), (comm, name, mode, info, file), open_file)
SL_HAND(File_close, (SL_FILE *file), (file), close_file)
SL_FILE_CALL(File_set_size, (SL_FILE file, SL_OFFSET size), (file, size))
SL_FILE_CALL(File_preallocate, (SL_FILE file, SL_OFFSET size), (file, size))
SL_FILE_CALL(File_set_view, (SL_FILE file, SL_OFFSET at, SL_TYPE type, SL_TYPE seen, const char *representation, SL_INFO info), (file, at, type, seen, representation, info))
SL_FILE_CALL(File_sync, (SL_FILE file), (file))
SL_FILE_CALL(File_read_all, SL_ALL_OF_FILE(), (file, buffer, count, type, status))
SL_FILE_CALL(File_write_all, SL_ALL_OF_FILE(const), (file, buffer, count, type, status))
SL_FILE_CALL(File_read_at_all, SL_ALL_AT(), (file, at, buffer, count, type, status))
SL_FILE_CALL(File_write_at_all, SL_ALL_AT(const), (file, at, buffer, count, type, status))
SL_FILE_CALL(File_read_ordered, SL_ALL_OF_FILE(), (file, buffer, count, type, status))
SL_FILE_CALL(File_write_ordered, SL_ALL_OF_FILE(const), (file, buffer, count, type, status))
#undef SL_ALL_OF_FILE
#undef SL_ALL_AT

SL_BRACKET(Finalize, finalize)
#endif

#undef SL_COUNT
#undef SL_DISPLACEMENT
#undef SL_SENDS
#undef SL_SENDS_REQUEST
#undef SL_RECEIVES_REQUEST
#undef SL_ARGS
#undef SL_ARGS_REQUEST
#undef SL_TWO
#undef SL_ALL_VECTORS
#undef SL_ALL_VECTORS_ARGS
#undef SL_GATHER_VECTORS
/* clang-format on */
