/* The hosts that a run may use, if given: read from a list (a:2,b:2) or from a file in Open MPI's format,
 * tested after a failed attempt, and left out if they fail the test.
 *
 * A test starts `slackline-worker --self-test SEED` on the host through mpirun, like a run's ranks, and
 * compares its result with this host's for the same seed (selftest.h). All hosts are tested at once; one that
 * does not answer within the limit has failed. */
#pragma once

#include "launch/attempt.h"
#include "run/file/roster.h"

typedef sl_roster_host sl_launch_host;
typedef sl_roster sl_launch_hosts; /* in the form passed to a run's ranks (roster.h) */

/** Reads `text`: a file if it contains a '/' or is the name of a file, else a list. The slots of a repeated
 * host are added; without a number it is one slot. SL_EINVAL names the file and line, or the entry. Free
 * with sl_launch_hosts_free, also on error. */
sl_status sl_launch_hosts_read(const char *text, sl_launch_hosts *hosts);
void sl_launch_hosts_free(sl_launch_hosts *hosts);

/** The usable hosts, in the format of mpirun --host. Free with sl_free. */
sl_status sl_launch_hosts_text(const sl_launch_hosts *hosts, char **text);

typedef enum sl_launch_which {
    SL_LAUNCH_NOT_LEFT,  /* all except those left because they are slow */
    SL_LAUNCH_LEFT_ONES, /* only those */
    SL_LAUNCH_LOST       /* of the first, only those that failed their last test */
} sl_launch_which;

/** Tests hosts, `limit` each, and fills `why`. `program` is argv up to --self-test. Fails only if no test
 * could be made; *signal is the one that interrupted them (then nothing is filled), else 0. */
sl_status sl_launch_hosts_test(sl_launch_hosts *hosts, sl_launch_which which, char *program,
                               const sl_launch_folder *folder, const sl_launch_signals *signals,
                               sl_time limit, int *signal);
