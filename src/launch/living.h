/* The hosts of a run's next attempt, and its layout: an elastic run takes the largest one that fits into
 * their slots. Hosts are out of those given: not those that failed a test, and not those that its
 * ranks have left because they are slow. Ranks and supervisor communicate through hosts.json
 * (run/file/roster.h). Each decision here is an event (kind host) and a line on standard error.
 *
 * A host that was left stays out for the rest of the run, even if the command is repeated with --resume,
 * unless too few slots are left: a slow host is better than none. */
#pragma once

#include "launch/hosts.h"

typedef struct sl_living {
    const sl_launch_config *config;
    const sl_launch_folder *folder;
    sl_time started; /* start of the command, for events */
    sl_launch_hosts hosts;
    char *text;              /* in mpirun's format; NULL: config->hosts */
    int found;               /* hosts.json existed before this command */
    sl_launch_layout layout; /* of the next attempt */
    sl_time ended;           /* wall clock: end of the last attempt */
    char *lost;              /* [hosts.count] it failed its last test */
    char *back;              /* [hosts.count] it has passed one since, while the others ran */
} sl_living;

/** Reads config->hosts (NULL: nothing to choose from, and all functions below do nothing). SL_EINVAL also if
 * they have fewer slots than the run has ranks. Close with sl_living_close, also on error. */
sl_status sl_living_open(sl_living *living, const sl_launch_config *config, const sl_launch_folder *folder,
                         sl_time started);
void sl_living_close(sl_living *living);

/** After the folder is open: an earlier command's hosts.json is kept for one that continues the run, else
 * removed. SL_ENOMEM. */
sl_status sl_living_continue(sl_living *living);

/** Whether the next attempt (or the one that runs) has fewer ranks than the run. */
int sl_living_is_reduced(const sl_living *living);
/** Whether the layout would be larger with the lost hosts in `back` ([hosts.count]). */
int sl_living_would_grow(const sl_living *living, const char *back);
/** The ranks have ended to grow, at `iteration`: uses the hosts that are back, and takes the larger layout.
 */
void sl_living_regain(sl_living *living, int iteration);

/** Before an attempt: writes hosts.json. */
void sl_living_begin(sl_living *living);

/** After an attempt: leaves out the hosts that its ranks ordered to leave, or regains those that are back if
 * they ended to grow. Nonzero if they did one of these: the attempt has not failed, and the next follows. The
 * error text may change. */
int sl_living_left(sl_living *living);

/** After a failed attempt, before iteration `iteration`: tests the hosts, leaves out those that fail, and
 * chooses the layout. SL_ENONE: too few slots are left, with the reasons. *signal as in sl_launch_hosts_test.
 */
sl_status sl_living_test(sl_living *living, const sl_launch_signals *signals, int iteration, int *signal);

/** Removes hosts.json if this command created it. */
void sl_living_forget(sl_living *living);

/** Adds an event of the supervisor; prints it if that fails: a full disk is no reason to give up. */
void sl_living_report(const sl_living *living, const sl_event *event);
