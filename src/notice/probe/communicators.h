/* Communicators: what the wrappers know of each, by its handle. A name is made of the parent's name, the
 * number of the creation on it and the members, which distinguish the colors of a split; so the name is equal
 * on all members and contains no handle or address. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "notice/gate/gate.h"

/* Between MPI_Win_start and _complete, or MPI_Win_post and _wait: a rank of the group. */
typedef struct sl_window_pair {
    sl_gate_channel *awaited; /* its call, which the end waits for; NULL: no room, or this rank itself */
    uint64_t number;
    sl_gate_channel *own; /* where this rank's call for it counts */
} sl_window_pair;

typedef struct sl_window_pairs {
    sl_window_pair *pair;
    int count;
} sl_window_pairs;

typedef struct sl_communicator {
    uint64_t name;
    int rank;                  /* own, as in records */
    int size;                  /* members; of an intercommunicator, those of the own side */
    int peers;                 /* members of the side that the ranks of a call refer to */
    int *world;                /* [peers] their ranks as in records; NULL: the same */
    _Atomic uint32_t children; /* communicators made from it so far */
    _Atomic uint32_t pending;  /* wildcard requests that will need `world`: it outlives the communicator */
    sl_gate_channel *channel;  /* of its collectives; NULL: no other member, or no gate */
    sl_window_pairs access, exposure; /* of a window; one thread at a time opens and ends them */
} sl_communicator;

/** Entry for calls without a communicator: name 0, no members. */
extern sl_communicator sl_nowhere __attribute__((visibility("hidden")));

/** The entry of a handle or NULL. No lock: entries are published complete, and to free a communicator while
 * it is in use is an error of the program. */
sl_communicator *sl_communicator_find(uint64_t handle);

/** Adds an entry, which the table then owns. An older entry of this handle is removed if the communicator is
 * `fresh`; otherwise (two threads met it for the first time) it stays. Returns the current entry, or
 * &sl_nowhere if the table is full. */
sl_communicator *sl_communicator_add(uint64_t handle, sl_communicator *communicator, int fresh);

void sl_communicator_remove(uint64_t handle);

/** Mixes a value into a name. */
uint64_t sl_name_mix(uint64_t name, uint64_t value);

/** A name from a text. */
uint64_t sl_name_text(const char *text);

/** How often this key was requested before (0, 1, ...): distinguishes creations that no common parent counts.
 */
uint32_t sl_name_repeat(uint64_t key);
