/* Compiled, never run: the probe's table against a real header, which must be found first. A row that differs
 * from the library's own declaration is an error of the compiler. -DSL_CHECK_NCCL: nccl.h, otherwise mpi.h.
 */
#include <limits.h>
#include <stddef.h>

#ifdef SL_CHECK_NCCL
#include <nccl.h>
#define SL_NCCL_COMM ncclComm_t
#define SL_STREAM cudaStream_t
#define SL_NCCL_TYPE ncclDataType_t
#define SL_NCCL_OP ncclRedOp_t
#define SL_UNIQUE_ID ncclUniqueId
#define SL_NCCL_CONFIG ncclConfig_t
#if NCCL_VERSION_CODE >= 23200
#define SL_NCCL_CALL_CONFIG ncclCollConfig_t
#else
#define SL_NCCL_CALL_CONFIG void
#endif
_Static_assert(sizeof(ncclComm_t) == sizeof(void *) && sizeof(cudaStream_t) == sizeof(void *), "handles");
_Static_assert(sizeof(ncclDataType_t) == sizeof(int) && sizeof(ncclRedOp_t) == sizeof(int), "enumerations");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclUniqueId) == 128, "results and ids");
_Static_assert(ncclSuccess == 0 && ncclInProgress == 7 && ncclInvalidUsage == 5, "results");
_Static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 && ncclInt64 == 4 &&
                   ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8 &&
                   ncclBfloat16 == 9,
               "types, whose sizes the probe knows by number");
_Static_assert(NCCL_SPLIT_NOCOLOR == -1, "no color");
#define SL_NCCL(name, as, params, ...) extern ncclResult_t name params;
#define SL_NCCL_HAND(name, params, ...) extern ncclResult_t name params;
#define SL_NCCL_BRACKET(name, body) extern ncclResult_t name(void);
#include "notice/probe/nccl_table.h"

#else
#include <mpi.h>
#define SL_COMM MPI_Comm
#define SL_TYPE MPI_Datatype
#define SL_REQUEST MPI_Request
#define SL_OP MPI_Op
#define SL_INFO MPI_Info
#define SL_MPI_GROUP MPI_Group
#define SL_MESSAGE MPI_Message
#define SL_WIN MPI_Win
#define SL_FILE MPI_File
#define SL_OFFSET MPI_Offset
#define SL_STATUS MPI_Status
#define SL_AINT MPI_Aint
#define SL_LARGE_COUNT MPI_Count
#define SL_LIST(...) __VA_ARGS__
#define SL_JOIN(a, b) a##b
#define SL_CAT(a, b) SL_JOIN(a, b)
#define SL_CALL(name, params, ...)                                                                           \
    extern int SL_CAT(MPI_, SL_S(name)) params, SL_CAT(PMPI_, SL_S(name)) params;
#define SL_TAKE(name, params, ...) SL_CALL(name, params)
#define SL_EXCHANGE(name, params, ...) SL_CALL(name, params)
#define SL_WINDOW(name, params, ...) SL_CALL(name, params)
#define SL_FILE_CALL(name, params, ...) SL_CALL(name, params)
#define SL_BRACKET(name, body) SL_CALL(name, (void))
#define SL_POST(name, params, ...) SL_CALL(name, params)
#define SL_INIT(name, params, ...) SL_CALL(name, params)
#define SL_CREATE(name, params, ...) SL_CALL(name, params)
#define SL_HAND(name, params, ...) SL_CALL(name, params)
#define SL_GROUP(name, iname, params, ...)                                                                   \
    SL_CALL(name, params) SL_CALL(iname, (SL_LIST params, MPI_Request * request))
#define SL_S(name) name
#include "notice/probe/mpi_table.h"
#if MPI_VERSION >= 4
#undef SL_S
#define SL_S(name) name##_c
#define SL_LARGE
#include "notice/probe/mpi_table.h"
#endif

_Static_assert(MPI_SUCCESS == 0 && MPI_ANY_TAG == -1, "both families");
_Static_assert(MPI_THREAD_SERIALIZED == 2 && MPI_THREAD_MULTIPLE == 3, "both families");
_Static_assert(sizeof(MPI_File) == sizeof(void *) && sizeof(MPI_Offset) == sizeof(long long),
               "both families");
_Static_assert(sizeof(MPI_Aint) == sizeof(long) && sizeof(MPI_Count) == sizeof(long long), "widths");
#ifdef OPEN_MPI
_Static_assert(sizeof(MPI_Comm) == sizeof(void *) && sizeof(MPI_Request) == sizeof(void *) &&
                   sizeof(MPI_Message) == sizeof(void *),
               "handles");
_Static_assert(MPI_ANY_SOURCE == -1 && MPI_PROC_NULL == -2 && MPI_ROOT == -4, "constants");
_Static_assert(MPI_LOCK_EXCLUSIVE == 1 && MPI_MODE_NOPRECEDE == 2, "constants");
_Static_assert((long)MPI_IN_PLACE == 1, "constants");
_Static_assert(sizeof(MPI_Win) == sizeof(void *), "handles");
_Static_assert(sizeof(MPI_Status) == 24 && offsetof(MPI_Status, MPI_SOURCE) == 0 &&
                   offsetof(MPI_Status, MPI_TAG) == 4,
               "statuses");
_Static_assert((long)MPI_STATUS_IGNORE == 0 && (long)MPI_STATUSES_IGNORE == 0, "constants");
/* the variables whose addresses are the constant handles */
const void *const handles[] = {&ompi_mpi_comm_world, &ompi_mpi_comm_self,     &ompi_mpi_comm_null,
                               &ompi_request_null,   &ompi_mpi_datatype_null, &ompi_mpi_byte};
#else
_Static_assert(sizeof(MPI_Comm) == sizeof(int) && sizeof(MPI_Request) == sizeof(int) &&
                   sizeof(MPI_Message) == sizeof(int),
               "handles");
_Static_assert(MPI_ANY_SOURCE == -2 && MPI_PROC_NULL == -1 && MPI_ROOT == -3, "constants");
_Static_assert(MPI_LOCK_EXCLUSIVE == 234 && MPI_MODE_NOPRECEDE == 8192, "constants");
_Static_assert((long)MPI_IN_PLACE == -1, "constants");
_Static_assert(sizeof(MPI_Win) == sizeof(int), "handles");
_Static_assert(sizeof(MPI_Status) == 20 && offsetof(MPI_Status, MPI_SOURCE) == 8 &&
                   offsetof(MPI_Status, MPI_TAG) == 12,
               "statuses");
_Static_assert((long)MPI_STATUS_IGNORE == 1 && (long)MPI_STATUSES_IGNORE == 1, "constants");
_Static_assert(MPI_COMM_WORLD == 0x44000000 && MPI_COMM_SELF == 0x44000001 && MPI_COMM_NULL == 0x04000000,
               "handles");
_Static_assert(MPI_REQUEST_NULL == 0x2c000000 && MPI_DATATYPE_NULL == 0x0c000000 && MPI_BYTE == 0x4c00010d,
               "handles");
#endif
#endif
