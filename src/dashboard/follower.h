/* A run's folder on the board: writes the rows from folder/follow.h there, and the run's state. */
#pragma once

#include "dashboard/board.h"

#include <pthread.h>

typedef struct sl_follower sl_follower;

/** The folder may be absent. `lock` is held during each change of the board. SL_EINVAL: not a folder.
 * SL_ENOMEM. */
sl_status sl_follower_open(const char *path, sl_board *board, pthread_mutex_t *lock, sl_follower **follower);
void sl_follower_close(sl_follower *follower);

/** Reads new data, some megabytes at most; *more: more is available at once. SL_ENOMEM. */
sl_status sl_follower_step(sl_follower *follower, int *more);
