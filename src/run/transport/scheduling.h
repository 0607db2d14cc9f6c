/* The scheduling class of a thread that must wake on time. Late wake-ups make an emulated link deliver late.
 * On a machine with more threads than cores, a class above the normal one, or a short slice, helps. */
#pragma once

#include "run/rail/endpoint.h"
#include "run/transport/transport.h"

/** Gives the calling thread the first class, starting with `wanted`, that the system permits, and a timer
 * slack of 1 ns. Returns its name, a constant. Never fails: every thread is allowed the last class. */
const char *sl_scheduling_obtain(sl_transport_class wanted);

/** The class to try for a thread that carries rails over UCX, if any of rail[rails] is one: never real-time,
 * because UCX spins until its own threads, which are not real-time, have released something, and a real-time
 * thread would keep them from running. */
sl_transport_class sl_scheduling_for(sl_transport_class wanted, const sl_rail_address *rail, int rails);
