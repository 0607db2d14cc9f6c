/* The engine: runs one rank's program (plan/lower), iteration after iteration: any placement, several stages
 * per rank, ops in parts, overlapped pairs.
 *
 * A block is a step, or two paired steps. For each block the engine posts the receives that fall due
 * (plan/lower/post.h), waits for the messages that the block needs, runs the stages' functions, holds the
 * block to its pace and hands the results to the transport, or through a buffer to the next stage of this
 * rank. Records of this go into a ring. Programs are swapped between iterations.
 *
 * Pace. A paced block does its real arithmetic and then lasts until start + pace by absolute time, where
 * start is the later of the time the rank is free and the arrival of its messages: like a kernel on a
 * device's own queue, it does not start late because the host thread woke late, and lateness never
 * accumulates. Data are handed to the transport when the arithmetic is done, marked ready at the block's end.
 * A block whose arithmetic takes longer than its pace ends with the arithmetic, and is counted as an overrun.
 * Without a pace, start and end are those of the arithmetic.
 *
 * Queuing. A device may only queue the work of an op (run/device/device.h). Then, without pace and in the
 * decoupled regime, the engine queues the next block, if its messages are there, before it waits for this
 * one and hands its results over, so that the device has no gap between two ops.
 *
 * Regimes exactly as plan/timing/replay.h times them. decoupled: sends never hold the rank. inorder: a send
 * takes one of `queue` slots towards its peer until it has arrived; if none is free, it and the next block
 * wait. batched: the next block starts after this one's sends and its own receives have arrived. fifo: sends
 * and receives run on a separate thread (messenger_state.h), in the order of issue of their communicators.
 *
 * Before a stage's first F of an iteration the engine has the stage prepare itself (its update of weights).
 * That takes the rank's time from when it is free, whether or not the F's message has arrived, and is not
 * part of the F.
 *
 * The program's moves to host memory and back run on a separate thread (copier.h), through the stages'
 * offload and fetch; a block also waits for those that its steps name.
 *
 * Buffers (README.md): receives and handovers inside the rank use as many as lowering counts, reused; a
 * send's buffer is free when the message has arrived, and there are as many as were ever under way. */
#pragma once

#include "base/clock.h"
#include "notice/record/record.h"
#include "plan/lower/issue.h"
#include "run/device/device.h"
#include "run/engine/stage_ops.h"
#include "run/transport/transport.h"

typedef struct sl_engine sl_engine;

typedef struct sl_engine_config {
    int rank;
    sl_clock *clock;
    /* may be NULL if no program has messages. Slots: 2 * microbatches * stages of a rank are enough */
    sl_transport *transport;
    /* at least 3 * parts + 2 records (6 with moves to host memory) per microbatch and stage of this rank and
     * one per stage, for one iteration */
    sl_record_ring *ring;
    sl_device *device;     /* whose copies reach the messages' buffers; NULL: none. Must outlive the engine */
    const sl_stage *stage; /* [stages] by stage number, copied; only this rank's entries are filled in */
    int stages;            /* of the problem */
    sl_regime regime;
    int queue;
    sl_time patience; /* a message that takes longer is an error that names the link */
} sl_engine_config;

typedef struct sl_engine_result {
    sl_time end; /* of the last op, absolute */
    int ops, moves, overruns;
    int receive_buffers, local_buffers; /* of the program */
    int send_buffers;                   /* max. in flight so far */
} sl_engine_result;

/* Op durations; a problem's arrays fit (sl_problem's time and saved). */
typedef struct sl_pace {
    const sl_time *time[SL_OP_KINDS]; /* [kind][stage]; NULL or 0: the duration of the arithmetic */
    const sl_time *saved;             /* [stage] as in the problem, for pairs; NULL: nothing */
    const sl_time *offload;           /* [stage] a move to host memory or back; NULL or 0: its own duration */
} sl_pace;

sl_status sl_engine_open(const sl_engine_config *config, sl_engine **engine);
void sl_engine_close(sl_engine *engine);

/** Uses a program for the next iterations; sufficient buffers are kept. The program stays the caller's and
 * must live until the next swap. `post[program->messages]`: the step of its consumer before which each
 * message's receive is posted (sl_program_post; copied); NULL: all before the first op. SL_EINVAL if this
 * rank's part cannot run here (W not ascending per stage, a stage without a table, moves of a stage that
 * cannot move). */
sl_status sl_engine_swap(sl_engine *engine, const sl_program *program, const int32_t *post);

/** Regime fifo: the order of issue of the program just swapped in, which this takes from `issuer`, and its
 * communicators and eager messages, as in `problem`; copied. Every rank must get the same. SL_ENOMEM. */
sl_status sl_engine_issue(sl_engine *engine, const sl_problem *problem, const sl_issuer *issuer);

/** Sets op durations from now on; copied. A part takes its share (sl_part_time), a pair sl_pair_time. */
void sl_engine_pace(sl_engine *engine, const sl_pace *pace);

/** Sets the regime from the next iteration on; the config's until then. */
void sl_engine_arrange(sl_engine *engine, sl_regime regime, int queue);

/** One iteration; no op starts before `begin` (absolute). Returns when the last op has ended and every
 * message of this rank has arrived. */
sl_status sl_engine_run(sl_engine *engine, uint32_t iteration, sl_time begin, sl_engine_result *result);
