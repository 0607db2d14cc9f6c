/* The hosts of a run, told from one attempt to the next: hosts.json in the run's folder, where the run was
 * given hosts.
 *
 *   supervisor  before every attempt: the hosts, their slots, which are left out and why, and when it begins
 *   leader      between two iterations, once there is a checkpoint: which hosts are to be left (`leave`);
 * then all ranks end supervisor  leaves them out and starts the next attempt (`move`) leader      after the
 * first iterations there: what all of it took (`last`), which the next decision uses
 *
 * One writes at a time: the supervisor only while no rank lives, of the ranks the leader alone. The file is
 * whole or absent. Times are of the emulator, because the two may be on different hosts; these agree on it to
 * some milliseconds, and no duration is taken for negative. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

typedef struct sl_roster_host {
    char name[256]; /* as it was given: an ssh name, an address, user@name */
    int slots;      /* ranks that it takes */
    char why[256];  /* its last test failed for this reason; empty: it did not */
    char slow[256]; /* it was left for this reason; empty: it was not */
    int leave;      /* the leader's order: left out from the next attempt on */
} sl_roster_host;

/* What leaving hosts took, and when. */
typedef struct sl_roster_move {
    int iteration;   /* the first without them; -1: there was none */
    sl_time began;   /* emulator: when it was decided to leave */
    sl_time ordered; /* the checkpoint was whole, and the order written */
    sl_time ended;   /* the attempt had ended */
    char why[256];
} sl_roster_move;

typedef struct sl_roster_cost {
    int iteration;                   /* of the last time; -1: never */
    sl_time save, end, start, first; /* `first`: by how much the first iteration took longer than the next */
    sl_time total;
} sl_roster_cost;

typedef struct sl_roster {
    sl_roster_host *host;
    int count;
    size_t capacity;
    char local[256];     /* how the supervisor's host calls itself: what localhost means in the list */
    sl_time started;     /* emulator: when this attempt began; 0: none has */
    sl_roster_move move; /* under way */
    sl_roster_cost last;
} sl_roster;

/** A roster without hosts. Free with sl_roster_free. */
sl_roster sl_roster_empty(void);
void sl_roster_free(sl_roster *roster);

/** Reads `folder`/hosts.json into an empty roster. SL_ENONE: there is none; SL_EINVAL names what is wrong.
 * Free with sl_roster_free, also on error. */
sl_status sl_roster_read(const char *folder, sl_roster *roster);
/** Writes it, whole or not at all. SL_ESYS, SL_ENOMEM. */
sl_status sl_roster_write(const char *folder, const sl_roster *roster);
/** Removes it; absent is no error. */
void sl_roster_remove(const char *folder);

/** Whether an attempt may use that host: it passed its test, and was not left. */
int sl_roster_uses(const sl_roster_host *host);
/** Slots of all that may be used. */
int sl_roster_slots(const sl_roster *roster);

/** Whether two names mean one host: they are equal but for a user@ and, where one of them is no address, for
 * the domain when only one has it. */
int sl_roster_same(const char *one, const char *other);
/** Whether an entry of a list of hosts may mean the host that somebody calls `name`: they are the same, or
 * one is an address or the loopback, which says nothing about names. */
int sl_roster_may_be(const char *entry, const char *name);
/** The entry that `name` means; -1: none. */
int sl_roster_find(const sl_roster *roster, const char *name);
/** The entry of the host on which this process runs and that calls itself `self`: by name, by localhost, or
 * by one of its addresses; -1: none. */
int sl_roster_here(const sl_roster *roster, const char *self);

/** The emulator's time, ns since 1970. */
sl_time sl_roster_now(void);
