/* The agent's side of a hold: holds, raises, views and releases the gates of its node's processes. The
 * deadline is in the gates: whatever happens to agent, controller and store, each rank resumes at the
 * deadline by its own clock. A gate is a file PID-ID.gate that the probe makes at the first call of a
 * process. */
#pragma once

#include "base/status.h"
#include "notice/message/messages.h"

/* A later deadline is rejected: the clock would be misunderstood. */
#define SL_HOLD_LONGEST (60 * SL_SECOND)

typedef struct sl_holds {
    const char *folder;
    struct sl_held_gate {
        sl_gate *gate;
    } * gate; /* [gates] of the hold under way */
    size_t gates, capacity;
    int64_t round; /* 0: no hold */
    sl_gate_view *view;
    char *bytes;
    size_t bytes_capacity;
} sl_holds;

/** Maps the gates of these processes and holds them until `deadline` (this node's CLOCK_MONOTONIC). *trouble
 * is "" or why one of them cannot be held (then none is). SL_ENOMEM. */
sl_status sl_holds_begin(sl_holds *holds, int64_t round, const sl_process_id *process, size_t processes,
                         sl_time deadline, char *trouble, size_t trouble_size);

/** Raises targets: an array of [rank, communicator, source, destination, tag, kind, target]; ignores those of
 * other nodes' ranks. Parked threads look again. 0; -1: not such an array, and nothing is done. */
int sl_holds_raise(sl_holds *holds, const json_t *raises);

/** Takes one view of each gate and appends it to the log of views, of which `keep` are kept. SL_EPEER,
 * SL_ENOMEM. */
sl_status sl_holds_look(sl_holds *holds, sl_store *store, const char *node, int look, size_t keep);

/** Ends the hold, if there is one. */
void sl_holds_end(sl_holds *holds);

/** Ends the hold and frees its memory. */
void sl_holds_close(sl_holds *holds);
