/* The hosts that a run's next attempt gets, out of those it was given: not those that failed a test, and not
 * those that its ranks have left because they are slow. Ranks and supervisor tell each other through
 * hosts.json (run/file/roster.h). What is decided here is an event (kind host) and a line on standard error.
 *
 * A host that was left stays out for the rest of the run, also when the command is given again with --resume,
 * unless too few slots are left: a slow host is better than none. */
#pragma once

#include "launch/hosts.h"

typedef struct sl_living {
    const sl_launch_config *config;
    const sl_launch_folder *folder;
    sl_time started; /* the command, for events */
    sl_launch_hosts hosts;
    char *text; /* as mpirun takes them; NULL: config->hosts */
    int found;  /* hosts.json was there before this command */
} sl_living;

/** Reads config->hosts (NULL: nothing to choose from, and all below does nothing). SL_EINVAL also where they
 * have fewer slots than the run has ranks. Close with sl_living_close, also on error. */
sl_status sl_living_open(sl_living *living, const sl_launch_config *config, const sl_launch_folder *folder,
                         sl_time started);
void sl_living_close(sl_living *living);

/** Once the folder is open: what an earlier command has written there holds for one that continues the run,
 * else it is removed. SL_ENOMEM. */
sl_status sl_living_continue(sl_living *living);

/** Before an attempt: writes hosts.json. */
void sl_living_begin(sl_living *living);

/** After an attempt: leaves out the hosts that its ranks ordered to be left. Nonzero when they did: the
 * attempt has not failed, and the next follows without them. The error text may be another afterwards. */
int sl_living_left(sl_living *living);

/** After an attempt that failed, before iteration `iteration`: tests the hosts and leaves out those that
 * fail. SL_ENONE: too few slots are left, with the reasons. *signal as of sl_launch_hosts_test. */
sl_status sl_living_test(sl_living *living, const sl_launch_signals *signals, int iteration, int *signal);

/** Removes hosts.json where this command made it. */
void sl_living_forget(sl_living *living);

/** Adds an event of the supervisor; says it where that fails: a full disk is no reason to give up. */
void sl_living_tell(const sl_living *living, const sl_event *event);
