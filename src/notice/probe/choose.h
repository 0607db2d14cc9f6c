/* Which family of MPI libraries the program uses. The names that a program calls jump through slots; the
 * first call of any looks at the library that the program has, by name, and fills the slots with the wrappers
 * of its family, or with the library's own functions when nothing is recorded or the family is not known. */
#pragma once

#include "notice/record/call.h"

/** The wrappers of a family in the order of the table, MPI_ and PMPI_ of each row in turn. */
extern void *const sl_wrappers_openmpi[] __attribute__((visibility("hidden")));
extern void *const sl_wrappers_mpich[] __attribute__((visibility("hidden")));
