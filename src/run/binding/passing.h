/* One message between two ranks of a group, under way beside the ops: a thread of its own sees it through, so
 * that MPI makes progress while the rank computes. Only where several threads may use MPI
 * (sl_group_threads). */
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

/** As sl_group_pass, which begins now and goes on beside the caller; one that was begun before is finished
 * first. `data` is not the caller's, and nobody else uses the group, until sl_passing_finish. SL_ESYS: no
 * thread; SL_EPEER: of the one before. */
sl_status sl_passing_start(sl_passing *passing, sl_group *group, int from, int to, void *data, size_t bytes);
/** Sleeps until it has been passed; nothing where none was begun. SL_EPEER. */
sl_status sl_passing_finish(sl_passing *passing);
/** 0: after a failure its thread waits for a rank that may never come, so it is left to the process' end, and
 * what it works on must stay. */
int sl_passing_close(sl_passing *passing);
