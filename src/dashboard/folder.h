/* A run's folder, followed: metrics.jsonl, events.jsonl and decisions.txt as they grow, run.yaml and the end;
 * or that of a watch: watch.json as it is renewed, events, and the report at the end. Whether somebody is
 * still at work there is what the lock of a run's folder says (launch/folder.h); it is only tried, for an
 * instant and shared. Nothing is written there, ever. */
#ifndef SL_DASHBOARD_FOLDER_H
#define SL_DASHBOARD_FOLDER_H

#include "dashboard/board.h"

#include <pthread.h>

typedef struct sl_folder sl_folder;

/** The folder need not be there. SL_EINVAL: it is no folder. SL_ENOMEM. */
sl_status sl_folder_open(const char *path, sl_folder **folder);
void sl_folder_close(sl_folder *folder);

/** Reads what has come, some megabytes at most; *more: there is more at once. `lock` is taken around each
 * change of the board. SL_ENOMEM. */
sl_status sl_folder_step(sl_folder *folder, sl_board *board, pthread_mutex_t *lock, int *more);

#endif
