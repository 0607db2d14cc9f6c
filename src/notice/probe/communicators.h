/* Communicators: what the wrappers know of each, by its handle. Names are made of the parent's name, the
 * number of the creation on it and the members, which is what distinguishes the colours of a split; so all
 * members say the same name and no handle or address is part of it. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "notice/gate/gate.h"

typedef struct sl_communicator {
    uint64_t name;
    int rank;                  /* own, as records say it */
    int size;                  /* members, those of the own side of an intercommunicator */
    int peers;                 /* members of the side that ranks of a call mean */
    int *world;                /* [peers] their ranks as records say them; NULL: the same */
    _Atomic uint32_t children; /* communicators made from it so far */
    _Atomic uint32_t pending;  /* wildcard requests that will ask for `world`: it outlives the communicator */
    sl_gate_channel *channel;  /* of its collectives; NULL: no other member, or no gate */
} sl_communicator;

/** Place for calls without a communicator: name 0, nobody. */
extern sl_communicator sl_nowhere __attribute__((visibility("hidden")));

/** The place of a handle or NULL. No lock: entries are published complete, and a communicator that is freed
 * while it is used is an error of the program. */
sl_communicator *sl_communicator_find(uint64_t handle);

/** Enters a place, which the table owns from then on. One that had this handle goes when the communicator is
 * `fresh`, otherwise (two threads met it for the first time) it stays. Returns the place that is now there,
 * or &sl_nowhere when the table is full. */
sl_communicator *sl_communicator_add(uint64_t handle, sl_communicator *place, int fresh);

void sl_communicator_remove(uint64_t handle);

/** Mixes a value into a name. */
uint64_t sl_name_mix(uint64_t name, uint64_t value);

/** A name from a text. */
uint64_t sl_name_text(const char *text);

/** How often this key was asked for before (0, 1, ...): tells apart creations that no common parent counts.
 */
uint32_t sl_name_repeat(uint64_t key);
