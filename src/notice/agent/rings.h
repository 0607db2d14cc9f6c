/* The rings of a node: finds the files PID-ID.THREAD.ring that the probe makes in the folder, maps them, and
 * reads what is new in each. Bytes from outside: a file that is not a ring is left alone, and one that another
 * version of the probe made is reported (sl_rings_trouble).
 *
 * A ring whose process has ended is forgotten once it has been read to its end: its file is removed, and with
 * the last ring of a process its gate. So what a long watch keeps depends on how many processes there are, not
 * on how many there were. */
#pragma once

#include "base/status.h"
#include "notice/record/call.h"

typedef struct sl_rings sl_rings;

typedef struct sl_ring_source {
    sl_process_id process; /* whose ring it is */
    int pid;            /* its process id here, in the agent's namespace; -1: it has none, or it is not known */
    int thread;
    int rank, size; /* in the program's world; -1: not known yet */
} sl_ring_source;

/** `folder` is copied, and need not exist yet. SL_ENOMEM. */
sl_status sl_rings_open(const char *folder, sl_rings **rings);
void sl_rings_close(sl_rings *rings);

/** Looks for new files and for processes that have ended. SL_ENOMEM. */
sl_status sl_rings_look(sl_rings *rings);

/** Up to `most` new calls of one ring, in order; rings take turns. 0: nothing is new anywhere. *calls is the
 * rings', until the next call. */
size_t sl_rings_read(sl_rings *rings, size_t most, sl_ring_source *source, const sl_call **calls);

/** A process that has ended and whose rings were read to their end, each once; 0: there is none. */
int sl_rings_ended(sl_rings *rings, uint64_t *process);

/** Records read, and overwritten before they were read. */
void sl_rings_counts(const sl_rings *rings, uint64_t *calls, uint64_t *lost);

/** The fullest that a ring was when it was read last, as a share of its room: how urgent the next reading is.
 */
double sl_rings_fullest(sl_rings *rings);

/** Why the calls of some process cannot be read: its probe is of another version. "" while there is none. */
const char *sl_rings_trouble(const sl_rings *rings);
