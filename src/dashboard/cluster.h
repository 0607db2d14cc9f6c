/* A watched job, followed through its Redis server: what its agents say (heartbeats, iterations, the calls of
 * profiles; notice/message/messages.h), and what the watch in charge tells (notice/watch/published.h).
 * Nothing is written there. A server that does not answer is waited for. */
#pragma once

#include "dashboard/board.h"

#include <pthread.h>

typedef struct sl_watched_cluster sl_watched_cluster;

/** `job` NULL: the one that is there, of several the first by name. Does not connect yet. SL_EINVAL (wrong
 * URL), SL_ENOMEM. */
sl_status sl_cluster_open(const char *url, const char *job, sl_watched_cluster **cluster);
void sl_cluster_close(sl_watched_cluster *cluster);

/** The server as a person may read it, without a password, in text[size]. */
sl_status sl_cluster_name(const char *url, char *text, size_t size);

/** Reads what has come; waits for the server at most about a second. SL_ENOMEM. */
sl_status sl_cluster_step(sl_watched_cluster *cluster, sl_board *board, pthread_mutex_t *lock, int *more);
