/* The family of MPI libraries that the program uses. The names that a program calls jump through slots. The
 * first call of any name finds the program's library by name, and fills the slots with the wrappers of its
 * family, or with the library's own functions if nothing is recorded or the family is unknown. */
#pragma once

#include "notice/record/call.h"

/** The wrappers of a family in table order, MPI_ and PMPI_ of each row in turn. */
extern void *const sl_wrappers_openmpi[] __attribute__((visibility("hidden")));
extern void *const sl_wrappers_mpich[] __attribute__((visibility("hidden")));
