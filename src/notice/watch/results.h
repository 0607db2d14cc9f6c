/* The folder for the results of a watch. */
#pragma once

#include "base/status.h"
#include "notice/watch/launch_position.h"

/** Fills directory[size]: the `requested` one (NULL: none), else runs/watch-<program of the command>, or, if
 * that holds a finished run, the next free number, which is reported; and `position`, which names its job by
 * the folder if the launcher gives no name. SL_EINVAL: a finished run, which `overwrite` replaces, in a
 * folder that was requested, or is to be shared with others. */
sl_status sl_results_choose(char *const *command, const char *requested, int overwrite,
                            sl_launch_position *position, char *directory, size_t size);
