/* The hosts of a run, passed from one attempt to the next: hosts.json in the run's folder, if the run was
 * given hosts.
 *
 *   supervisor  before every attempt: hosts, slots, the hosts left out and why, and the time of its begin
 *   leader      between two iterations, after a checkpoint: the hosts to leave (`leave`); then all ranks end
 *   supervisor  leaves them out and starts the next attempt (`move`)
 *   leader      after the first iterations there: the total time (`last`), which the next decision uses
 *
 * One writes at a time: the supervisor only while no rank lives; of the ranks only the leader. The file is
 * complete or absent. Times are wall-clock, because the two may be on different hosts, whose clocks agree to
 * some milliseconds; no duration is taken as negative. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

typedef struct sl_roster_host {
    char name[256]; /* as given: an ssh name, an address, user@name */
    int slots;      /* number of ranks */
    char why[256];  /* reason of the failure of its last test; empty: it passed */
    char slow[256]; /* reason why it was left; empty: it was not */
    int leave;      /* the leader's order: leave it out from the next attempt on */
} sl_roster_host;

/* The times of leaving hosts, or of a change of an elastic run's layout (run_layout.h). */
typedef struct sl_roster_move {
    int iteration;   /* the first without them, or that was not complete before the change; -1: none */
    sl_time began;   /* wall clock: decision to leave */
    sl_time ordered; /* the checkpoint was complete, and the order written */
    sl_time ended;   /* the attempt had ended */
    char why[256];
    int grow;        /* the leader's word: the ranks have saved themselves for a larger layout */
    char layout[96]; /* the new layout, for people; empty: the same */
} sl_roster_move;

typedef struct sl_roster_cost {
    int iteration;                   /* of the latest move; -1: never */
    sl_time save, end, start, first; /* `first`: extra time of the first iteration over the next ones */
    sl_time total;
} sl_roster_cost;

typedef struct sl_roster {
    sl_roster_host *host;
    int count;
    size_t capacity;
    char local[256];     /* own name of the supervisor's host, which is localhost in the list */
    sl_time started;     /* wall clock: start of this attempt; 0: none has */
    sl_roster_move move; /* under way */
    sl_roster_cost last;
} sl_roster;

/** A roster without hosts. Free with sl_roster_free. */
sl_roster sl_roster_empty(void);
void sl_roster_free(sl_roster *roster);

/** Reads `folder`/hosts.json into an empty roster. SL_ENONE: there is none; SL_EINVAL names the error. Free
 * with sl_roster_free, also on error. */
sl_status sl_roster_read(const char *folder, sl_roster *roster);
/** Writes it, completely or not at all. SL_ESYS, SL_ENOMEM. */
sl_status sl_roster_write(const char *folder, const sl_roster *roster);
/** Removes it; absent is no error. */
void sl_roster_remove(const char *folder);

/** The supervisor's order to save and end for a larger layout, an empty file in `folder` that the leader
 * looks for when it is warned. SL_ESYS. */
sl_status sl_roster_order_growth(const char *folder);
void sl_roster_cancel_growth(const char *folder);
int sl_roster_growth_is_ordered(const char *folder);

/** Whether an attempt may use that host: it passed its test, and was not left. */
int sl_roster_uses(const sl_roster_host *host);
/** Slots of all usable hosts. */
int sl_roster_slots(const sl_roster *roster);

/** Whether two names mean the same host: they are equal except for a user@ and, if one of them is not an
 * address, for the domain if only one has it. */
int sl_roster_same(const char *one, const char *other);
/** Whether an entry of a list of hosts may mean the host that is called `name` elsewhere: they are the same,
 * or one is an address or the loopback, which does not reveal a name. */
int sl_roster_may_be(const char *entry, const char *name);
/** The entry that `name` means; -1: none. */
int sl_roster_find(const sl_roster *roster, const char *name);
/** The entry of this process's host, whose own name is `self`: found by name, by localhost, or by one of its
 * addresses; -1: none. */
int sl_roster_here(const sl_roster *roster, const char *self);

/** The wall-clock time, ns since 1970. */
sl_time sl_roster_now(void);
