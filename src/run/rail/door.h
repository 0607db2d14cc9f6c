/* The door of receiving couriers: listens, greets who connects and hands proven connections to the courier of
 * the conduit that they name. Several couriers may share one door (the ranks of other hosts connect to one
 * address per rail).
 *
 * Strangers (garbage, another key, a replayed greeting, silence, port scanners, floods) are dropped, counted
 * and told, at most one line a second. Who is not yet proven sits in a table of fixed size in which the
 * oldest makes room, and for 2 s at most: strangers cannot keep a peer out, who tries again. Connections that
 * are proven do not notice. */
#ifndef SL_RUN_TRANSPORT_DOOR_H
#define SL_RUN_TRANSPORT_DOOR_H

#include "base/loop.h"
#include "run/rail/greeting.h"

typedef struct sl_door sl_door;

/** A stranger was dropped. */
typedef void (*sl_door_tell)(void *object, const char *text);

/* A courier that receives; the caller keeps it while it is admitted. */
typedef struct sl_door_guest {
    int from, to, number;
    sl_greeting_answer answer;
    /** `socket` is proven and nonblocking; it belongs to the guest from now on. `took`: how long the greeting
     * lasted, at least one and a half round trips. */
    void (*take)(void *object, int socket, const sl_greeting *greeting, sl_time took);
    void *object;
} sl_door_guest;

sl_status sl_door_open(sl_loop *loop, const uint8_t key[32], sl_door_tell tell, void *object, sl_door **door);
void sl_door_close(sl_door *door);

/** Accepts on `listening`, which stays the caller's (nonblocking, open until the door is closed). */
sl_status sl_door_listen(sl_door *door, int listening);
sl_status sl_door_admit(sl_door *door, const sl_door_guest *guest);
void sl_door_dismiss(sl_door *door, const sl_door_guest *guest);

/** Dropped so far. Any thread. */
uint64_t sl_door_strangers(const sl_door *door);

#endif
