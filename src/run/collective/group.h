/* Groups of ranks and their collectives: gather, broadcast, and sums in a fixed order.
 *
 * The only folder of run/ that uses MPI. Every wait tests and sleeps, because Open MPI's own waits spin and
 * starve the other ranks of a host with fewer cores than ranks. Sums go in ascending logical rank
 * (all-to-all, add, all-gather), never through MPI_Allreduce, whose order changes with size and position
 * (docs/design.md, rules that keep every bit). Every two ranks exchange their parts directly, V / D in each
 * direction in either half of a sum of V bytes over D ranks. A half can be started, and finished later, so
 * that sums in chunks do not wait for each other's latency.
 *
 * Links can be slowed down (sl_group_emulate) for experiments.
 *
 * A group is all ranks, or a part of another group. Different groups may be used by different threads at the
 * same time if sl_group_threads allows it; one group by one thread at a time. Counts are size_t everywhere:
 * sizes beyond MPI's ints, or a modest amount of memory, are split into pieces, which changes no bit of a
 * sum. */
#pragma once

#include "base/status.h"
#include "run/transport/transport.h"

#include <stddef.h>

typedef struct sl_group sl_group;

/* Max. values of a sum in flight at the same time. */
#define SL_GROUP_PIECE ((size_t)1 << 22)

/** Starts MPI (once per process) and opens the group of all ranks. SL_ESYS; SL_ENONE: a rank has another
 * version of slackline (base/build.h). */
sl_status sl_group_open_world(int *argc, char ***argv, sl_group **group);
/** Ends MPI; collective. A failing rank exits without it, and the supervisor ends the others. */
void sl_group_close_world(sl_group *group);

/* How a group waits. A wait that occurs once per iteration naps immediately. Operations with many small
 * steps, such as the sum inside every op or a reduction in chunks, first yield the core briefly, because
 * their partners are about to arrive. */
typedef enum sl_group_wait { SL_WAIT_LONG, SL_WAIT_SHORT } sl_group_wait;

/** Creates a group of the ranks of `parent` with the same `colour` >= 0, ordered by `key`. Collective over
 * `parent`. Close it with sl_group_close before the world. SL_EPEER, SL_ENOMEM. */
sl_status sl_group_split(sl_group *parent, int colour, int key, sl_group_wait wait, sl_group **group);
/** Collective: ends a group that was split off, so that any number of groups can follow. SL_EPEER. */
sl_status sl_group_end(sl_group *group);
/** Frees the group locally, without communication, so it may be called after a failure. NULL is fine. */
void sl_group_close(sl_group *group);

/** Whether several threads may each use a group of their own at the same time. */
int sl_group_threads(const sl_group *group);

int sl_group_rank(const sl_group *group);
int sl_group_size(const sl_group *group);

/** Sends rank `root`'s `bytes` bytes to all ranks. */
sl_status sl_group_broadcast(sl_group *group, int root, void *data, size_t bytes);

/** Rank `root` gets all ranks' bytes, concatenated in rank order: received[sum of sizes]; sizes[size] are
 * filled on the root. `capacity` bytes fit at the root; more is SL_ENOMEM there (after the exchange of
 * sizes, on all ranks). */
sl_status sl_group_gather(sl_group *group, int root, const void *data, size_t bytes, void *received,
                          size_t capacity, size_t *sizes);

/** Like gather, for all ranks. */
sl_status sl_group_gather_all(sl_group *group, const void *data, size_t bytes, void *received,
                              size_t capacity, size_t *sizes);

/** Replaces values[count] by the sum over all ranks, added in ascending rank to the first rank's value:
 * bit-identical on every rank, for any number of hosts. `scratch` holds at least 2 * (count + size) floats,
 * or the number given by sl_group_scratch. */
sl_status sl_group_sum(sl_group *group, float *values, size_t count, float *scratch);
/** Floats of scratch for a sum or maximum of `count` values: no more than for one piece. */
size_t sl_group_scratch(const sl_group *group, size_t count);

/** Replaces values[count] by the largest over all ranks, element by element, on all of them; scratch as for
 * sum. */
sl_status sl_group_max(sl_group *group, float *values, size_t count, float *scratch);

/** The second half of a sum: all ranks' part[count], concatenated, into all[size][count]. */
sl_status sl_group_gather_shares(sl_group *group, const float *part, size_t count, float *all);

/* ---- halves of sums under way ----
 *
 * A flight holds one half at a time. Several flights of a group may be under way: first halves started in the
 * same order on all ranks, and second halves; how far a rank runs ahead is up to it. All by the thread that
 * uses the group. */
typedef struct sl_group_flight sl_group_flight;

/** Close it with sl_group_flight_close before its group; NULL is fine. SL_ENOMEM. */
sl_status sl_group_flight_open(sl_group *group, sl_group_flight **flight);
void sl_group_flight_close(sl_group_flight *flight);

/** The first half of a sum (reduce-scatter): of values[size][count] each rank gets the sum of all ranks' part
 * with its own number, bit-identical to sl_group_sum. Starts and returns immediately. values and
 * scratch[size][count] must stay unchanged until it is finished, which returns the sum. */
sl_status sl_group_start_sum(sl_group_flight *flight, const float *values, size_t count, float *scratch);
/** `out` may be this rank's own part of the scratch. */
sl_status sl_group_finish_sum(sl_group_flight *flight, float *out);
/** Like sl_group_gather_shares. `part` may be this rank's own part of `all`. */
sl_status sl_group_start_gather(sl_group_flight *flight, const float *part, size_t count, float *all);
sl_status sl_group_finish_gather(sl_group_flight *flight);
/** Sleeps until one of flights[count] has completed, whose number goes to *which (finishing it takes no
 * time), or until `until`: -1. */
sl_status sl_group_first(sl_group_flight *const *flights, int count, sl_time until, int *which);

/** One message from rank `from` to rank `to`; does nothing on other ranks. from == to copies nothing. */
sl_status sl_group_pass(sl_group *group, int from, int to, void *data, size_t bytes);

/* A piece of memory that one rank sends and another receives. */
typedef struct sl_block {
    void *data;
    size_t bytes;
} sl_block;

/** Sends give[gives] to rank `to` and receives take[takes] from rank `from`, at the same time and with
 * several pieces of each under way, so that both directions of a link and the copying on either side
 * overlap. The receiver's blocks have the same sizes as the sender's. No blocks: nothing happens in that
 * direction. SL_EPEER, SL_ENOMEM. */
sl_status sl_group_exchange(sl_group *group, const sl_block *give, int gives, int to, const sl_block *take,
                            int takes, int from);

sl_status sl_group_barrier(sl_group *group);

/** Emulates the directed link from this rank to `peer` from now on, for the messages of sums, maxima and
 * sl_group_pass: they take at least this long. All other messages of a group are small and unaffected.
 * Zeros: no emulation.
 *
 * This rank's messages to `peer` take the link one after the other, each for bytes / bytes_per_second from
 * its handover or the time the link is free, and are sent a latency later (the emulator of run/transport,
 * which also delays messages between stages). So in a sum of V bytes over D ranks 2 V / D bytes take the
 * link, and two latencies. A ring sends 2 (D - 1) V / D over each of its links and takes 2 (D - 1)
 * latencies: the same for 2 ranks, and D - 1 times as much for D. Other pairs are unaffected, although no
 * rank has a sum before its slowest part has arrived. Only between two uses of the group; changes no bit.
 * per_queue is ignored: a group has no queues. Wires of the emulation are shared with all other users,
 * including messages between stages. */
void sl_group_emulate(sl_group *group, int peer, sl_link_emulation emulation);
