/* Groups of ranks and what they do together: gather, broadcast, and sums in a fixed order.
 *
 * The only folder of run/ that knows MPI. Every wait tests and sleeps, because Open MPI's own waits spin and
 * starve the other ranks of a host where they outnumber its cores. Sums go in ascending logical rank
 * (all-to-all, add, all-gather), never through MPI_Allreduce, whose order changes with size and position
 * (docs/design.md, rules that keep every bit). */
#ifndef SL_RUN_COLLECTIVE_GROUP_H
#define SL_RUN_COLLECTIVE_GROUP_H

#include "base/status.h"
#include <stddef.h>

typedef struct sl_group sl_group;

/** Starts MPI (once a process) and opens the group of all ranks. SL_ESYS. */
sl_status sl_group_open_world(int *argc, char ***argv, sl_group **group);
/** Ends MPI; collective.  A failing rank exits without it, and the supervisor ends the others. */
void sl_group_close_world(sl_group *group);

int sl_group_rank(const sl_group *group);
int sl_group_size(const sl_group *group);

/** All ranks get rank `root`'s `bytes` bytes. */
sl_status sl_group_broadcast(sl_group *group, int root, void *data, size_t bytes);

/** Rank `root` gets everybody's bytes one after the other in rank order: received[sum of sizes]; sizes[size]
 * are filled on the root. `capacity` bytes fit at the root, more is SL_ENOMEM there (after the exchange of
 * sizes, on all ranks). */
sl_status sl_group_gather(sl_group *group, int root, const void *data, size_t bytes, void *received,
                          size_t capacity, size_t *sizes);

/** As gather, for all ranks. */
sl_status sl_group_gather_all(sl_group *group, const void *data, size_t bytes, void *received,
                              size_t capacity, size_t *sizes);

/** values[count] becomes the sum over all ranks, added in ascending rank to the first rank's value: the same
 * bits on every rank, whatever the number of hosts. `scratch` holds at least 2 * (count + size) floats. */
sl_status sl_group_sum(sl_group *group, float *values, size_t count, float *scratch);

/** One message from rank `from` to rank `to`; other ranks do nothing. from == to copies nothing. */
sl_status sl_group_pass(sl_group *group, int from, int to, void *data, size_t bytes);

sl_status sl_group_barrier(sl_group *group);

#endif
