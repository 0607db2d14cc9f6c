/* A model of a Redis server on a virtual clock, in the place of the connection of a store
 * (notice/store/store_link.h): the requests of notice/store reach it word by word, and its answers are
 * hiredis's. Values expire, logs are trimmed by blocks as Redis does, and positions are times.
 *
 * Its faults: unreachable for all or for one node; a lost connection, after which the request may or may not
 * have been done; late answers; a full memory, which refuses writes; entries that are in the log twice; and a
 * restart, with the data of up to a second before, or without. */
#pragma once

#include "base/time.h"
#include <stdint.h>

enum { STORE_MODEL_NODES = 1 << 14 };

typedef struct store_model {
    /* faults, set by the simulation at any time */
    int down, full;
    double lose;      /* chance that a request loses its connection */
    double twice;     /* chance that an entry is appended twice */
    sl_time delay;    /* of each answer */
    char *cut;        /* [nodes] 1: unreachable from this node */
    int client;       /* the node that asks now; set before each step */
    uint64_t *random; /* of the simulation */
    /* counted */
    int64_t requests, bytes_in, bytes_out, refused;
    struct store_item **bucket;
} store_model;

/** The one that the stores of this process reach: their functions have no other way to it. NULL: none. */
extern store_model *store_model_current;

void store_model_open(store_model *store, int nodes, uint64_t *random);
void store_model_close(store_model *store);

/** The server has been restarted at `now`; `kept`: with the data of a second ago. */
void store_model_restart(store_model *store, int kept, sl_time now);

/** The time of the process that runs now, and its waiting: given by the simulation. */
sl_time model_now(void);
void model_pass(sl_time time);
/** A reader waits for the first entry of a log: the simulation may let others write it. */
void model_await(const char *log);
