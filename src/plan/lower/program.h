/* Lowering: from an order to each rank's program. The validator, the timing model, csv-comms and the engine
 * all use this structure, so the checked and predicted program is the one that runs.
 *
 * A program has the ranks' compute steps in order; the messages between ranks, each with its producing and
 * consuming step; four communication queues per rank (send and receive, to the next and the previous rank on
 * the ring), receives in the order of the peer's sends; the lifetime of every buffer as a pair of steps; and,
 * if the problem has host memory, the moves that keep the rank within its limit. */
#pragma once

#include "plan/pipeline/order.h"

typedef enum sl_queue_kind {
    SL_SEND_NEXT,
    SL_SEND_PREVIOUS,
    SL_RECEIVE_NEXT,
    SL_RECEIVE_PREVIOUS,
    SL_QUEUES
} sl_queue_kind;

typedef struct sl_message {
    int32_t from, to; /* ranks */
    sl_op op; /* the op that produces it: F: activation for the next stage; I or B: gradient for the one
                 before */
    int32_t producer; /* step index on `from` */
    int32_t consumer; /* step index on `to` */
} sl_message;

/* A move of a microbatch's activations between device and host memory (plan/lower/offload.h). */
typedef struct sl_move {
    int32_t stage, microbatch;
    int32_t kind;   /* SL_OFFLOAD or SL_FETCH */
    int32_t half;   /* 0: between F and I or B, 1: between I and W */
    int32_t after;  /* step that must have ended before it starts; -1: none */
    int32_t before; /* step that starts only after it; fetch: the user of the data; offload: the user of the
                       room, -1: none */
} sl_move;

typedef struct sl_step {
    sl_op op;
    int32_t
        after; /* local step that must be done before (same rank data dependency), always smaller; -1: none */
    int32_t receive; /* consumed message; -1: none */
    int32_t send;    /* produced message; -1: none */
} sl_step;

/* The activation that F keeps for I and W of the same microbatch: allocated at the start of step `acquire`,
 * free after step `release`. */
typedef struct sl_lifetime {
    int32_t stage, microbatch;
    int32_t acquire, release;
} sl_lifetime;

/* One end of a message, in the order in which its rank issues them. */
typedef struct sl_message_issue {
    int32_t message;
    int32_t receive; /* 0: its send */
    int32_t step;    /* follows all steps before this one, and precedes it */
    int32_t cell;    /* likewise in the rank's row (plan/lower/cells.h); an issuer's issues have it */
} sl_message_issue;

typedef struct sl_rank_program {
    int steps;
    sl_step *step;
    int queued[SL_QUEUES];
    int32_t *queue[SL_QUEUES]; /* message indices, in issue order */
    int issues;
    sl_message_issue *issue; /* the order's own; NULL: as PyTorch adds them (plan/lower/issue.h) */
    int lifetimes;
    sl_lifetime *lifetime; /* in order of acquire */
    int buffers;           /* maximum of overlapping lifetimes */
    int moves;
    sl_move *move; /* in the order of the rank's copy engine; room: 4 * lifetimes. NULL if the problem has no
                      host memory */
    int32_t *awaited; /* [steps] move that must have ended before a step starts, and with it all earlier ones;
                         -1: none. NULL as above */
    struct sl_offload *offload; /* state of sl_offload_rank */
} sl_rank_program;

typedef struct sl_program {
    int ranks, messages;
    int stages, parts; /* the problem's */
    int own_issues;    /* the order has its own, on every rank */
    sl_rank_program *rank;
    sl_message *message;
} sl_program;

/** Checks `order` (sl_order_check) and lowers it. SL_EINVAL if it is not a schedule of the problem: an op, a
 * send or a receive missing, twice or on the wrong side of its op, a dependency against the sequence, or a
 * cycle across ranks (deadlock; the message names the ops of the cycle). Messages never overtake each other
 * on a link; a rank may use them in another order, because an arrived message waits in its own buffer.
 * O(ops). Free with sl_program_free. */
sl_status sl_lower(const sl_problem *problem, const sl_order *order, sl_program *program);
/** The same, but the ranks may stop: a cycle across ranks is no error. */
sl_status sl_lower_any(const sl_problem *problem, const sl_order *order, sl_program *program);
void sl_program_free(sl_program *program);

/** The sender's queue of a message: all messages from one rank to another share one. */
sl_queue_kind sl_message_send_queue(const sl_program *program, const sl_message *message);
