/* Hosts of a cluster file by name: a name, or several at once as prefix[first-last]suffix. */
#ifndef SL_ADAPT_TOPOLOGY_NAMES_H
#define SL_ADAPT_TOPOLOGY_NAMES_H

#include "adapt/topology/topology.h"

/** Calls `each` for every name that `node` (a scalar) writes, in order; at most SL_MAX_CLUSTER. SL_EINVAL
 * names file, line and key of `where`. */
sl_status sl_names_expand(const sl_node *where, const sl_node *node,
                          sl_status (*each)(const sl_node *where, const char *name, void *object),
                          void *object);

/** A list of names, or one: their hosts into host[capacity], *count of them. `all` ("*") allowed: every host.
 * SL_EINVAL: unknown, twice, too many. */
sl_status sl_names_hosts(const sl_cluster *cluster, const sl_node *where, const sl_node *node, int *host,
                         int *count);

/** The host of this name, or -1. */
int sl_names_find(const sl_cluster *cluster, const char *name);

#endif
