/* Rails: the peers on other hosts, one TCP connection each, served by one network thread.
 *
 * The network thread is to a remote peer what the communication thread is to a local one: it owns the
 * emulated link and sends each message when it is due. It also reads: payloads go straight into slots of a
 * private lane, which sl_transport_wait reads as it reads any other. A message counts as sent when the
 * receiver's acknowledgement is here.
 *
 * Bounded by construction: a sender has at most `slots` messages unacknowledged; the receiver publishes (and
 * acknowledges) up to `slots` messages that nobody has taken yet and holds up to `slots` more unacknowledged,
 * so its lane has 2 * slots places and nothing ever blocks the frames behind. Who sends more breaks the
 * protocol and is cut off.
 *
 * A peer is lost when its connection ends or breaks, when it breaks the protocol, or when it is silent for 10
 * s (each side says something every second). Then every wait on it ends with SL_EPEER and the reason. */
#ifndef SL_RUN_TRANSPORT_RAIL_H
#define SL_RUN_TRANSPORT_RAIL_H

#include "run/transport/peer.h"

/** Takes over the connected sockets (connections[ranks], -1 for none; set to -1 here) of the remote peers,
 * opens their private lanes and starts the network thread. On failure sl_rail_close still has to be called.
 */
sl_status sl_rail_open(sl_transport *t, int *connections);

/** Says goodbye (within 1 s), ends the thread, frees all. NULL is fine. t->closing must be set. */
void sl_rail_close(sl_rail *rail);

/** Wakes the network thread: there is a handover, or a slot that it wants. Any thread. */
void sl_rail_ring(sl_rail *rail);

const char *sl_rail_scheduling(const sl_rail *rail);

#endif
