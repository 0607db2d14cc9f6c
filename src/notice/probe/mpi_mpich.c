/* MPICH and libraries with its binary interface (MVAPICH, Intel MPI, Cray MPICH): handles are integers. */
#define SL_FAMILY SL_FAMILY_MPICH
#define SL_WRAPPERS sl_wrappers_mpich
#define SL_HANDLE int
#define SL_KEY(handle) ((uint64_t)(uint32_t)(handle))
#define SL_CONSTANT(variable, value) (value)
#define SL_IN_PLACE ((void *)-1)
#define SL_PROC_NULL (-1)
#define SL_ANY_SOURCE (-2)
#define SL_ROOT (-3)
#define SL_NO_PRECEDE 8192 /* MPI_MODE_NOPRECEDE */
#define SL_EXCLUSIVE 234   /* MPI_LOCK_EXCLUSIVE */
#define SL_IGNORE ((void *)1)
#define SL_STATUS_SIZE 20 /* of an MPI_Status; source and tag are its words 2 and 3 */
#define SL_STATUS_SOURCE 2
#define SL_STATUS_TAG 3
#include "notice/probe/mpi_shim.h"
