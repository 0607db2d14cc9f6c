/* Restart without the slow host (Falcon, section 5.1, S4; the last step of the ladder): the run saves itself
 * and ends on all ranks, and its supervisor restarts it on the other hosts of its list, in the same layout.
 *
 *   before      the leader knows hosts, slots and excluded hosts (roster.h), so its decisions are possible
 *   leaving     a checkpoint of the completed iterations, the order in hosts.json, the end of the attempt
 *   afterwards  the resumed run measures the total time (event `left`); the next decision uses it
 *
 * An elastic run (run/file/run_layout.h) ends in the same way to grow, when lost slots are back, and measures
 * how long a change of its layout took, in either direction (event `resized`).
 *
 * Nothing is lost and no bit changes: the next attempt begins with the next iteration. */
#pragma once

#include "run/arrange/trainer.h"
/* The host of a process. */
typedef struct sl_process_host {
    char host[256];   /* its own host name */
    char listed[256]; /* its name in the run's list of hosts; empty: not in it */
    int32_t entry;    /* in that list; -1: none */
} sl_process_host;

typedef struct sl_departure sl_departure;

/** Determines the host of each process, and whether the run can leave one. Collective. Close with
 * sl_departure_close, also on error. SL_ENOMEM, SL_EPEER. */
sl_status sl_departure_open(sl_trainer *t);
void sl_departure_close(sl_trainer *t);

/** The host of process `home` (its initial world rank in the attempt), named as in the list of hosts or,
 * without a list, by its own host name. On every rank; lives as long as the trainer. */
const char *sl_departure_host(const sl_trainer *t, int home);

/** Whether process `home` (its initial world rank in the attempt) is on `host`, named as in the list of hosts
 * or by its own host name. On every rank. */
int sl_departure_is_on(const sl_trainer *t, int home, const char *host);

/** Leader: whether leaving a host is possible in this run at all. */
int sl_departure_is_possible(const sl_trainer *t);
/** Leader: SL_OK if the run can leave these hosts together; else SL_ENONE and the reason as error text: no
 * supervisor restarts it, it has no list of hosts, writes no checkpoints, does not use the host, or too few
 * slots are left. */
sl_status sl_departure_check(const sl_trainer *t, const char *const *hosts, int count);
/** Leader: whether it can leave one host (NULL: any host); if not, the error text is the reason. */
int sl_can_leave(const sl_trainer *t, const char *host);

/** Leader: the cost of leaving a host: as measured the last time, else the last checkpoint and the start of
 * this attempt. Known from its second iteration on. */
sl_time sl_leave_cost(const sl_trainer *t);

/** Collective, between two iterations: leaves `hosts[count]` because of `why`, with `done` iterations
 * complete. Only the leader's hosts and `why` are used. t->departed is set on all ranks if the attempt must
 * end now. If leaving is impossible (sl_departure_check, or the checkpoint or the order could not be
 * written), there is an event and a warning, and training continues. Fails only if ranks or the journal
 * do. */
sl_status sl_leave_hosts(sl_trainer *t, int done, const char *const *hosts, int count, const char *why);

/** Leader, after a warning: whether it is the supervisor's order to grow (roster.h), not a scheduler's. */
int sl_departure_may_grow(const sl_trainer *t);
/** Collective: like sl_leave_hosts, but leaves no host: the supervisor has regained slots, and restarts the
 * run in a larger layout (event `grow`). */
sl_status sl_departure_grow(sl_trainer *t, int done);

/** Collective, before iteration `next`: carries out the run file's arrangements with `without`, and records
 * the cost of the last departure once it is known. */
sl_status sl_departure_step(sl_trainer *t, int next);
