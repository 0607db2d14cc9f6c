/* The hosts that a run may use, when it is told: read from a list (a:2,b:2) or from a file as Open MPI reads
 * it, tested after an attempt that failed, and left out when they fail the test.
 *
 * A test starts `slackline-worker --self-test SEED` on the host through mpirun, the way a run's ranks are
 * started, and compares what it computed with what this host computes from the same seed (selftest.h). All
 * hosts are tested at once; one that does not answer within the limit has failed. */
#pragma once

#include "launch/attempt.h"
#include "run/file/roster.h"

typedef sl_roster_host sl_launch_host;
typedef sl_roster sl_launch_hosts; /* as a run's ranks are told of them (roster.h) */

/** Reads `text`: a file when it has a '/' in it or is the name of one, else a list. A host that is named
 * again gets the sum of its slots; without a number it is one slot. SL_EINVAL names the file and line, or the
 * entry. Free with sl_launch_hosts_free, also on error. */
sl_status sl_launch_hosts_read(const char *text, sl_launch_hosts *hosts);
void sl_launch_hosts_free(sl_launch_hosts *hosts);

/** The hosts that may be used, as mpirun --host takes them. Free with sl_free. */
sl_status sl_launch_hosts_text(const sl_launch_hosts *hosts, char **text);

typedef enum sl_launch_which {
    SL_LAUNCH_NOT_LEFT, /* all but those that were left because they are slow */
    SL_LAUNCH_LEFT_ONES /* those */
} sl_launch_which;

/** Tests hosts, `limit` each, and fills `why`. `program` is argv up to --self-test. Fails only when no
 * test could be made; *signal is the one that cut them short (then nothing is filled), else 0. */
sl_status sl_launch_hosts_test(sl_launch_hosts *hosts, sl_launch_which which, char *program,
                               const sl_launch_folder *folder, const sl_launch_signals *signals,
                               sl_time limit, int *signal);
