/* Open MPI: handles are pointers, constant ones the addresses of variables of the library. */
#define SL_FAMILY SL_FAMILY_OPENMPI
#define SL_WRAPPERS sl_wrappers_openmpi
typedef void *sl_openmpi_handle;
#define SL_HANDLE sl_openmpi_handle
#define SL_KEY(handle) ((uint64_t)(uintptr_t)(handle))
#define SL_CONSTANT(variable, value) sl_probe_variable(variable)
#define SL_IN_PLACE ((void *)1)
#define SL_PROC_NULL (-2)
#define SL_ANY_SOURCE (-1)
#define SL_ROOT (-4)
#define SL_NO_PRECEDE 2 /* MPI_MODE_NOPRECEDE */
#define SL_EXCLUSIVE 1  /* MPI_LOCK_EXCLUSIVE */
#define SL_IGNORE ((void *)0)
#define SL_STATUS_SIZE 24 /* of an MPI_Status; source and tag are its words 0 and 1 */
#define SL_STATUS_SOURCE 0
#define SL_STATUS_TAG 1
#include "notice/probe/mpi_shim.h"
