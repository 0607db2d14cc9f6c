/* Shared by the files of the diagnosis.
 *
 *   diagnosis          the graph of waiting, and what can never move
 *   diagnosis_compare  collectives of a communicator by their numbers
 *   diagnosis_windows  one-sided calls
 *   diagnosis_words    the sentences */
#pragma once

#include "notice/hang/diagnosis.h"

#define SL_WINDOW_TARGET 0 /* a tag of WINDOW channels in the graph only: the target takes part in a call */

/* A rank in the graph; its index is its number. */
typedef struct sl_hang_node {
    const sl_hang_rank *rank;     /* NULL: it has made no call yet, or is unknown */
    const sl_hang_thread *thread; /* the one that waits; NULL: it does not wait */
    int waits;                    /* for others; the ranks are in `awaits` */
    int any;                      /* one of them is enough */
    int can_move;
    int waiters;            /* ranks that wait for it directly */
    const sl_hang_wait *on; /* what it waits for first */
    sl_hang_wait target;    /* tag SL_WINDOW_TARGET: for a rank that is in no call */
} sl_hang_node;

typedef struct sl_hang_graph {
    const sl_hang_job *job;
    sl_hang_node *node;    /* [size] */
    unsigned char *awaits; /* [size][size]: the row's rank waits for the column's */
    int size;
    double least_s;
} sl_hang_graph;

static inline int sl_hang_awaits(const sl_hang_graph *g, int from, int to) {
    return g->awaits[(size_t)from * (size_t)g->size + (size_t)to];
}

/** Whether the rank is a member of the communicator, as far as is known. */
int sl_hang_is_member(const sl_hang_graph *g, int rank, uint64_t communicator);

/** A communicator on which a rank waits and whose members made different calls. 1: *verdict is filled. */
int sl_hang_compare(const sl_hang_graph *g, sl_hang_verdict *verdict);

/** The rank waits for `to`, by `wait`, which stays. */
void sl_hang_add_edge(sl_hang_graph *g, int from, int to, const sl_hang_wait *wait);

void sl_hang_begin(sl_hang_verdict *verdict, sl_hang_cause cause, int certain, int rank);

/* ---- one-sided calls ---- */

/** Whether the call may wait for the window of its peer, though it lists nothing that is missing. */
int sl_hang_waits_at_target(const sl_hang_thread *thread);

/** Adds what a call waits for on a WINDOW channel; and, if a rank waits for nothing else, the targets of its
 * call that are in no call themselves. */
void sl_hang_add_window(sl_hang_graph *g, int rank, const sl_hang_wait *wait);
void sl_hang_add_targets(sl_hang_graph *g, int rank);

/** A circle through a window, whose culprit is known by other rules than a message's. 1: *verdict is filled.
 */
int sl_hang_window_circle(const sl_hang_graph *g, const int *order, int length, sl_hang_verdict *verdict);

/* ---- words ---- */

typedef struct sl_hang_text {
    char *text;
    size_t size, used;
} sl_hang_text;

void sl_hang_add_text(sl_hang_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** "rank 3", "ranks 0-2,5", of those with chosen[i] set. */
void sl_hang_say_ranks(sl_hang_text *t, const unsigned char *chosen, int size);

/** "MPI_Barrier (number 7 of all ranks)", "message 3 from rank 1 to rank 0 (tag 7)". */
void sl_hang_say_wait(sl_hang_text *t, const sl_hang_graph *g, const sl_hang_wait *wait, const char *call);

/** "rank 2's MPI_Win_post (number 3 for rank 0)", "the lock on rank 1's window". */
void sl_hang_say_window(sl_hang_text *t, const sl_hang_wait *wait);

/** "ranks 0,1,3 wait in MPI_Barrier (collective 7 of all ranks) for 20 s", of the first that waits for
 * `rank`. */
void sl_hang_say_waiters(sl_hang_text *t, const sl_hang_graph *g, int rank);

/** Into `why`: the ranks of a circle with what they do. */
void sl_hang_say_circle(const sl_hang_graph *g, const int *order, int length, sl_hang_verdict *verdict);

/** "of all ranks", "of ranks 0,2". */
void sl_hang_say_members(sl_hang_text *t, const sl_hang_graph *g, uint64_t communicator);

/** "computes in spin < main", "is in MPI_Recv, message 3 from ...". */
void sl_hang_say_doing(sl_hang_text *t, const sl_hang_graph *g, int rank);

/** The call of the wait: of the thread, or of the posted collective that it waits for. */
const char *sl_hang_wait_call(const sl_hang_graph *g, int rank, const sl_hang_wait *wait);
