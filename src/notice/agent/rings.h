/* The rings of a node: finds the files PID-ID.THREAD.ring that the probe makes in the folder, maps them, and
 * reads the new records of each. Bytes from outside: a file that is not a ring is left alone, and one made by
 * another version of the probe is reported (sl_rings_trouble).
 *
 * A ring whose process has ended is forgotten once it has been read to its end: its file is removed, and the
 * process's gate with its last ring. So the state of a long watch depends on the number of current processes,
 * not of past ones. */
#pragma once

#include "base/status.h"
#include "notice/record/call.h"

typedef struct sl_rings sl_rings;

typedef struct sl_ring_source {
    sl_process_id process; /* that made the ring */
    int pid;               /* its process id in the agent's namespace; -1: none or unknown */
    int thread;
    int rank, size; /* in the program's world; -1: not yet known */
} sl_ring_source;

/** `folder` is copied, and need not exist yet. SL_ENOMEM. */
sl_status sl_rings_open(const char *folder, sl_rings **rings);
void sl_rings_close(sl_rings *rings);

/** Looks for new files and for processes that have ended. SL_ENOMEM. */
sl_status sl_rings_look(sl_rings *rings);

/** Up to `most` new calls of one ring, in order; rings take turns. 0: nothing new in any ring. *calls is
 * owned by the rings, valid until the next call. */
size_t sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls);

/** A process that has ended and whose rings were read to their end, each once; 0: none. */
int sl_rings_ended(sl_rings *rings, uint64_t *process);

/** Records read, and overwritten before they were read. */
void sl_rings_counts(const sl_rings *rings, uint64_t *calls, uint64_t *lost);

/** The fill level of the fullest ring at its last reading, as a share of its capacity: how urgent the next
 * reading is. */
double sl_rings_fullest(sl_rings *rings);

/** Why the calls of some process cannot be read: its probe is another version. "": no trouble. */
const char *sl_rings_trouble(const sl_rings *rings);
