/* The folder for the results of a watch. */
#pragma once

#include "notice/watch/launch_position.h"
#include "notice/watch/watch.h"

/** Fills directory[size]: the requested one, else runs/watch-<program>, or, if that holds a finished run, the
 * next free number, which is reported; and `place`, which names its job by the folder if the launcher gives
 * no name. SL_EINVAL: a finished run in a folder that was requested, or is to be shared with others. */
sl_status sl_results_choose(const sl_watch_request *request, sl_launch_position *place, char *directory,
                            size_t size);
