/* One message between two ranks of a group, sent during the ops by a separate thread, so that MPI makes
 * progress while the rank computes. Only if several threads may use MPI (sl_group_threads). */
#pragma once

#include "run/collective/group.h"

#include <pthread.h>

typedef struct sl_passing {
    sl_group *group;
    int from, to;
    void *data;
    size_t bytes;
    int started;
    _Atomic int done; /* the thread has ended */
    pthread_t thread;
    sl_status status;
    char error[256];
} sl_passing;

/** Starts sl_group_pass in the background; first finishes an earlier one. Until sl_passing_finish, `data`
 * must not be used, nor the group. SL_ESYS: no thread; SL_EPEER: of the earlier one. */
sl_status sl_passing_start(sl_passing *passing, sl_group *group, int from, int to, void *data, size_t bytes);
/** Sleeps until it has been passed; does nothing if none was started. SL_EPEER. */
sl_status sl_passing_finish(sl_passing *passing);
/** 0: after a failure its thread waits for a rank that may never respond, so it is left running until the
 * process ends, and its memory must stay. */
int sl_passing_close(sl_passing *passing);
