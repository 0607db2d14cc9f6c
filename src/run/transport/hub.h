/* A hub: regions of several ranks in one process, so that threads can be ranks. */
#ifndef SL_RUN_TRANSPORT_HUB_H
#define SL_RUN_TRANSPORT_HUB_H

#include "run/transport/lane.h"
#include "run/transport/transport.h"
#include "run/transport/wires.h"

struct sl_transport_hub {
    int ranks, slots;
    size_t message_bytes;
    sl_wires wires;
    sl_region **region; /* [ranks], each with a lane towards every other rank; pages untouched cost nothing */
};

#endif
