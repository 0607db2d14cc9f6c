/* A view of a gate (notice/gate/gate.h) in plain values, as the controller gets it from each rank's agent. It
 * is taken while the rank runs: a thread that moved meanwhile is reported as moving. */
#pragma once

#include "base/status.h"
#include "notice/gate/gate.h"

typedef struct sl_gate_view_entry {
    uint32_t channel; /* index in channel[] */
    uint32_t need;    /* waited for, announced earlier; else a call */
    uint64_t number;
} sl_gate_view_entry;

typedef struct sl_gate_view_thread {
    sl_gate_state state;
    int forbidden;
    uint64_t serial;  /* changes with every change of state */
    uint32_t entries; /* inside, parked; outside in a forbidden region: the needs of its last Test */
    sl_gate_view_entry entry[SL_GATE_ENTRIES];
} sl_gate_view_thread;

typedef struct sl_gate_view_channel {
    sl_channel_key key;
    int ready; /* 0: an index without a channel */
    uint64_t announced;
    uint64_t entered; /* announced, minus the calls that parked threads have not made */
    uint64_t due, target;
} sl_gate_view_channel;

typedef struct sl_gate_view {
    int rank;
    int held, finished, overflow;
    uint32_t wild;  /* wildcard receives posted whose message is unknown: numbers of receives may lag */
    int drained;    /* everything enqueued on a device was seen done */
    uint64_t calls; /* announced in total */
    uint32_t threads, channels;
    sl_gate_view_thread thread[SL_GATE_THREADS];
    sl_gate_view_channel channel[SL_GATE_CHANNELS];
} sl_gate_view;

/** Fills `view` from `gate`; the gate may be in use. Values from outside are clamped to the view's limits. */
void sl_gate_look(const sl_gate *gate, sl_gate_view *view);
