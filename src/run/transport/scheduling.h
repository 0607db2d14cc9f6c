/* The scheduling class of a thread that must wake on time. Waking late is what makes an emulated link arrive
 * late; on a machine with more threads than cores a class above the ordinary one, or a short slice, is what
 * helps. */
#pragma once

#include "run/rail/endpoint.h"
#include "run/transport/transport.h"

/** Gives the calling thread the first class from `wanted` on that the system permits, and a timer slack of 1
 * ns. Returns its name, a constant. Never fails: the last class is the one that every thread has. */
const char *sl_scheduling_obtain(sl_transport_class wanted);

/** The same for a thread that carries rails over UCX, if any of rail[rails] is one: never real-time, because
 * UCX spins until threads of its own, which are not, have let go: a real-time thread would keep them from
 * running. */
sl_transport_class sl_scheduling_for(sl_transport_class wanted, const sl_rail_address *rail, int rails);
