/* Restart without the bad host (Falcon, section 5.1, S4; the last rung of the ladder): the run saves itself,
 * ends on all ranks, and its supervisor starts it again on the other hosts of its list, in the same layout.
 *
 *   before      the leader knows hosts, slots and what was left out (roster.h), so that it never decides
 *               what is not possible
 *   to leave    a checkpoint of what is done, the order in hosts.json, the end of the attempt
 *   afterwards  the resumed run measures what all of it took (event `left`); the next decision counts on that
 *
 * Nothing is lost and no bit changes: the next attempt begins with the iteration that would have come next.
 */
#pragma once

#include "run/arrange/trainer_state.h"
#include "run/file/roster.h"

typedef struct sl_departure {
    char never[256];  /* leader: why this run can leave no host; empty: it can */
    sl_roster roster; /* leader */
    sl_time begun[4]; /* leader, emulator: when the first iterations of the attempt began */
} sl_departure;

/** Who is on which host, and whether the run can leave one. Collective, before sl_trainer_open. Close with
 * sl_departure_close, also on error. SL_ENOMEM, SL_EPEER. */
sl_status sl_departure_open(sl_trainer *t);
void sl_departure_close(sl_trainer *t);

/** The host of process `home` (its world rank when the attempt began), as the list of hosts names it, or,
 * where there is no list, as it calls itself. On every rank; lives as long as the trainer. */
const char *sl_departure_host(const sl_trainer *t, int home);

/** Whether process `home` (its world rank when the attempt began) is on `host`, named as in the list of hosts
 * or as the host calls itself. On every rank. */
int sl_departure_is_on(const sl_trainer *t, int home, const char *host);

/** Leader: SL_OK when the run can leave these hosts together; else SL_ENONE and the reason as error text:
 * nobody starts it again, it has no list of hosts, writes no checkpoints, does not use the host, or too few
 * slots are left. */
sl_status sl_departure_check(const sl_trainer *t, const char *const *hosts, int count);
/** Leader: whether it can leave one host (NULL: any at all); if not, the error text says why. */
int sl_can_leave(const sl_trainer *t, const char *host);

/** Leader: what leaving a host takes: what it took the last time, else the last checkpoint and the start of
 * this attempt. Counts from its second iteration on. */
sl_time sl_leave_cost(const sl_trainer *t);

/** Collective, between two iterations: leaves `hosts[count]` because of `why`, with `done` iterations
 * complete. The hosts and `why` count at the leader. t->departed is set on all ranks when the attempt is to
 * end now; else it could not be (sl_departure_check, or the checkpoint or the order could not be written): an
 * event and a warning, and training goes on. Fails only when ranks or the journal do. */
sl_status sl_leave_hosts(sl_trainer *t, int done, const char *const *hosts, int count, const char *why);

/** Collective, before iteration `next`: carries out what the run file says about it (arrangements with
 * `without`), and writes down what the last departure took once that is known. */
sl_status sl_departure_step(sl_trainer *t, int next);
