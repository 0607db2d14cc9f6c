/* Why a job hangs or stalls (pure: what all ranks do, in; a verdict, out).
 *
 * A rank waits if its thread is in a call whose partners have not made theirs: a collective that members have
 * not entered, a receive whose message was not sent, a send that was not received. This gives a graph of who
 * waits for whom. A rank can move if it does not wait, or if one of those it waits for (MPI_Waitany) or all
 * of them (any other call) can move. Ranks that have ended cannot. What then remains can never move: a
 * hang, whatever the others do. If every rank that waits waits in the end for one that could move, the job
 * only stalls, and the verdict names that rank and what it does: a loop without an end looks like a long
 * computation.
 *
 * Before that, the collectives of each communicator are compared by their numbers: a rank that entered
 * another collective, or the same with another root or size, is named. */
#pragma once

#include "notice/hang/job.h"

typedef enum sl_hang_cause {
    SL_HANG_NOTHING = 0,
    SL_HANG_COLLECTIVE, /* another collective */
    SL_HANG_ROOT,       /* another root */
    SL_HANG_SIZE,       /* another size */
    SL_HANG_ENDED,      /* a peer that ended */
    SL_HANG_TAG,        /* a message with another tag or on another communicator */
    SL_HANG_MISSING,    /* a collective that a rank has left out */
    SL_HANG_MESSAGE,    /* a message that is never sent */
    SL_HANG_WINDOW,     /* a call at a window that a rank has left out */
    SL_HANG_LOCK,       /* a lock whose holder waits itself */
    SL_HANG_CIRCLE,     /* ranks that wait for each other */
    SL_HANG_AWAY,       /* a rank that is elsewhere, and might come */
    SL_HANG_INSIDE,     /* all are inside, and nothing moves */
    SL_HANG_CAUSES
} sl_hang_cause;

/** "another collective": for events and JSON. */
const char *sl_hang_cause_name(sl_hang_cause cause);

typedef struct sl_hang_verdict {
    sl_hang_cause cause;
    int certain;    /* it cannot move again */
    int rank;       /* named; -1: none, or several */
    int peer;       /* the other end of a message; -1: none */
    double for_s;   /* of the longest wait */
    char seen[256]; /* what hangs, and who is named */
    char why[768];  /* what the named ranks do, and where */
} sl_hang_verdict;

/** The verdict on calls that have lasted `least_s` seconds or longer. Cause SL_HANG_NOTHING: no rank waits
 * that long, or another rank still moves, so that nothing is certain. SL_ENOMEM. */
sl_status sl_hang_diagnose(const sl_hang_job *job, double least_s, sl_hang_verdict *verdict);
