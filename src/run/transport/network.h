/* The peers on other hosts: two endpoints each, one per direction, all on the loop of one network thread.
 *
 * The network thread copies a message handed over for such a peer into the outgoing queue (in memory of this
 * process), ahead of its due time, and marks the record done after the endpoint has learned of its arrival.
 * The compute side takes arrived messages straight from the incoming queue. Broken rails are reconnected
 * (endpoint.h); connections come in through one listener, which listens until the transport is closed.
 *
 * A peer is lost if an endpoint gives its conduit up (no rail for `outage`, no listener for 1 s, i.e. its
 * process has exited, or repeated protocol violations by the peer), or after its goodbye has arrived in both
 * directions. Then every wait on it ends with SL_EPEER and the reason. */
#pragma once

#include "run/transport/peer.h"

/** Starts the network thread and waits until each remote peer is connected both ways. SL_EPEER names the
 * first one that is not connected at `deadline`. Ownership of listening[SL_TRANSPORT_RAILS] (-1: none)
 * passes here and they are set to -1. On failure sl_network_close must still be called. */
sl_status sl_network_open(sl_transport *t, const sl_transport_config *config, int *listening,
                          sl_time deadline);

/** Sends a goodbye, ends the thread, frees all. NULL is fine. */
void sl_network_close(sl_network *network);

/** Wakes the network thread: there is a handover, or a slot is free. Any thread. */
void sl_network_ring(sl_network *network);

/** Compute side: takes the posted message if it has arrived; SL_ENONE: not yet. SL_EPEER: its size
 * differs. */
sl_status sl_network_take(sl_transport *t, sl_peer *peer, const sl_posted *posted, sl_time *arrived);
/** Compute side: a clearance to or from a peer, as sl_lane_clear and sl_lane_next_cleared. SL_EPEER also if
 * the peer is gone, or the transport was opened without clearances. */
sl_status sl_network_clear(sl_transport *t, sl_peer *peer, const sl_clearance *clearance);
sl_status sl_network_next_cleared(sl_transport *t, sl_peer *peer, uint32_t iteration,
                                  sl_clearance *clearance);
/** Changes after a message has arrived. */
_Atomic uint32_t *sl_network_bell(sl_peer *peer);

/** Compute side: the next event of its rails; 0: none. */
int sl_network_next_event(sl_network *network, sl_transport_event *happened);

const char *sl_network_scheduling(const sl_network *network);
/** Connections dropped so far. Any thread. */
int sl_network_strangers(const sl_network *network);
