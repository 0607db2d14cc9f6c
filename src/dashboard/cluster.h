/* A watched job, followed through its Redis server: the messages of its agents (heartbeats, iterations, the
 * calls of profiles; notice/message/messages.h), and the reports of the watch in charge
 * (notice/watch/published.h). It never writes there. It waits for a server that does not answer. */
#pragma once

#include "dashboard/board.h"

#include <pthread.h>

typedef struct sl_watched_cluster sl_watched_cluster;

/** `job` NULL: the existing one, of several the first by name. Does not connect yet. SL_EINVAL (wrong URL),
 * SL_ENOMEM. */
sl_status sl_cluster_open(const char *url, const char *job, sl_watched_cluster **cluster);
void sl_cluster_close(sl_watched_cluster *cluster);

/** The server as a readable name, without a password, in text[size]. */
sl_status sl_cluster_name(const char *url, char *text, size_t size);

/** Reads new data; waits for the server at most about a second. SL_ENOMEM. */
sl_status sl_cluster_step(sl_watched_cluster *cluster, sl_board *board, pthread_mutex_t *lock, int *more);
