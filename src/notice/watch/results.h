/* The folder that a watch writes its results to. */
#pragma once

#include "notice/watch/launch_position.h"
#include "notice/watch/watch.h"

/** Fills directory[size]: the one that was asked for, else runs/watch-<program>, or where that holds a
 * finished run the next free number, which is said; and `place`, which names its job by the folder where the
 * launcher names none. SL_EINVAL: a finished run in a folder that was asked for, or is to be shared with
 * others. */
sl_status sl_results_choose(const sl_watch_request *request, sl_launch_position *place, char *directory,
                            size_t size);
