/* A run's folder on the board: what folder/follow.h hands out is written there, and how the run stands. */
#pragma once

#include "dashboard/board.h"

#include <pthread.h>

typedef struct sl_follower sl_follower;

/** The folder need not be there. `lock` is taken around each change of the board. SL_EINVAL: it is no folder.
 * SL_ENOMEM. */
sl_status sl_follower_open(const char *path, sl_board *board, pthread_mutex_t *lock, sl_follower **follower);
void sl_follower_close(sl_follower *follower);

/** Reads what has come, some megabytes at most; *more: there is more at once. SL_ENOMEM. */
sl_status sl_follower_step(sl_follower *follower, int *more);
