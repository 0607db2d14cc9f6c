/* The state of a replay, shared by replay.c and fifo.c. */
#pragma once

#include "plan/timing/replay.h"

#define NOT_GATHERED INT64_MIN

/* The messages from a rank to one of its two neighbors on the ring, in order. Placements connect no
 * others. */
typedef struct replay_lane {
    int32_t first; /* its messages' arrivals: arrival[first .. first + sent) */
    int32_t sent, most;
    int32_t wire; /* the wire whose occupancy it waits for */
} replay_lane;

/* A block of one or two steps of a rank that has ended, or will. */
typedef struct replay_moment {
    sl_time time; /* its sends are issued */
    int32_t microbatch;
    int32_t rank; /* fifo: or ranks + message */
} replay_moment;

struct sl_replayer {
    const sl_problem *problem;
    const sl_program *program;
    sl_regime regime;
    int queue;
    const sl_time *latency; /* of each message; NULL: the links' */
    const sl_time *time;    /* of each step, by rank; NULL: the stages' */
    const sl_time *begin;   /* [sl_replayer_instants] the iteration before ended at; NULL: at 0 */
    int32_t *next;          /* [ranks] step to run */
    sl_time *free;          /* [ranks] time at which the rank is idle again */
    int32_t *first_span;    /* [ranks + 1] */
    replay_lane *lane;      /* [2 * ranks] */
    sl_time *wire_free;     /* [2 * ranks] time at which the last message has left it */
    sl_time *arrival;       /* [messages], by lane, in sending order */
    unsigned char *arrived; /* [messages] the arrival in the timeline is known */
    sl_time *gathered;      /* [stages] time at which its first F may start; NOT_GATHERED: unknown */
    int collective;         /* there are gathers or reductions */
    int shared;             /* ranks share wires: blocks end in order of time */
    int moving;             /* activations may go to host memory */
    sl_time *move_end;      /* by rank, in order, starting at first_move */
    int32_t *first_move;    /* [ranks] */
    int32_t *moved;         /* [ranks] moves whose times are known */
    int32_t *stack;         /* ranks that may be able to continue */
    unsigned char *on_stack;
    int depth;
    replay_moment
        *heap; /* [ranks; fifo: and messages]: running blocks, if ranks share wires; messages that may move */
    unsigned char *running; /* [ranks] steps of the block */
    unsigned char *issued;  /* [ranks] which of them have issued their sends, by bit */
    int moments;
    const sl_issuer *issuer;  /* fifo: given; NULL: PyTorch's lowering */
    struct sl_fifo *fifo;     /* NULL: another regime */
    struct sl_greedy *greedy; /* fifo: decides the order of issue; NULL: it is fixed */
    sl_timeline timeline;
    sl_status status; /* of the last run: of its memory (fifo) */
};

/** The lane of a message. */
replay_lane *sl_replay_lane(const sl_replayer *replayer, const sl_message *message);
/** A message takes its wire as soon as that is free, `time` at the earliest: its transfer. */
void sl_replay_move(sl_replayer *replayer, int32_t message, sl_time time);
/** Notes that a rank may be able to continue. */
void sl_replay_push(sl_replayer *replayer, int32_t rank);
/** Starts the blocks of the noted ranks that can; each ends in a moment of its own. */
void sl_replay_start_ranks(sl_replayer *replayer);
/** Moments by time, then microbatch, then number: the earliest is removed. */
void sl_replay_add(sl_replayer *replayer, replay_moment moment);
replay_moment sl_replay_take(sl_replayer *replayer);

/** Regime fifo: its state, and a run of all ranks as far as they get. SL_ENOMEM. NULL is fine to close. */
sl_status sl_fifo_open(sl_replayer *replayer);
sl_status sl_fifo_run(sl_replayer *replayer);
/** The issues that it runs. */
const sl_issuer *sl_fifo_issuer(const sl_replayer *replayer);
void sl_fifo_close(struct sl_fifo *fifo);

/** The same, deciding the order of issue. NULL is fine to close. */
void sl_greedy_run(sl_replayer *replayer);
void sl_greedy_close(struct sl_greedy *greedy);
