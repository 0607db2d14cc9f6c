/* The engine: runs one rank's program (plan/lower), iteration after iteration: any placement, several stages
 * a rank, ops in parts, overlapped pairs.
 *
 * A block is a step, or two that are paired. For each block the engine posts the receives that fall due
 * (plan/lower/post.h), waits for the messages that the block needs, runs the stages' functions, holds the
 * block to its pace and hands the results to the transport, or to the next stage of this rank through a
 * buffer. What happened goes as records into a ring. Programs are swapped between iterations.
 *
 * Pace. A paced block does its real arithmetic and then lasts until start + pace by absolute time, where
 * start is the later of the moment the rank is free and the arrival of its messages: like a kernel on a
 * device's own queue, it does not begin late because the host thread woke late, and lateness never
 * accumulates. Data are handed to the transport when the arithmetic is done, marked ready at the block's end.
 * A block whose arithmetic takes longer than its pace ends when it ends, and is counted as an overrun.
 * Without a pace, start and end are those of the arithmetic.
 *
 * Regimes exactly as plan/timing/replay.h times them. decoupled: sends never hold the rank. inorder: a send
 * takes one of `queue` places towards its peer until it has arrived; with none free, it and the next block
 * wait. batched: the next block starts when this one's sends have arrived and its own receives are there.
 *
 * Before a stage's first F of an iteration the engine has the stage prepare itself (its update of weights):
 * that takes the rank's time from when it is free on, whether or not the F's message is there, and is no part
 * of the F.
 *
 * Moves to host memory and back that the program holds run on a thread of their own (copier.h), through the
 * stages' offload and fetch; a block also waits for those that its steps name.
 *
 * Buffers (README.md): receives and handovers inside the rank use as many as lowering counts, each again and
 * again; a send's buffer is free when the message has arrived, and there are as many as were ever under way.
 */
#pragma once

#include "base/clock.h"
#include "notice/record/record.h"
#include "plan/lower/program.h"
#include "run/engine/stage_ops.h"
#include "run/transport/transport.h"

typedef struct sl_engine sl_engine;

typedef struct sl_engine_config {
    int rank;
    sl_clock *clock;
    /* may be NULL when no program has messages. Slots: 2 * microbatches * stages of a rank are enough */
    sl_transport *transport;
    /* at least 3 * parts + 2 records (6 with moves to host memory) per microbatch and stage of this rank and
     * one per stage, for one iteration */
    sl_record_ring *ring;
    const sl_stage *stage; /* [stages] by stage number, copied; those that this rank holds are filled in */
    int stages;            /* of the problem */
    sl_regime regime;
    int queue;
    sl_time patience; /* a message that takes longer than this is an error that names the link */
} sl_engine_config;

typedef struct sl_engine_result {
    sl_time end; /* of the last op, absolute */
    int ops, moves, overruns;
    int receive_buffers, local_buffers; /* of the program */
    int send_buffers;                   /* most that were under way at once, up to now */
} sl_engine_result;

/* How long ops last; the arrays of a problem fit (sl_problem's time and saved). */
typedef struct sl_pace {
    const sl_time *time[SL_OP_KINDS]; /* [kind][stage]; NULL or 0: as long as the arithmetic */
    const sl_time *saved;             /* [stage] as in the problem, for pairs; NULL: nothing */
    const sl_time *offload; /* [stage] a move to host memory or back; NULL or 0: as long as it takes */
} sl_pace;

sl_status sl_engine_open(const sl_engine_config *config, sl_engine **engine);
void sl_engine_close(sl_engine *engine);

/** Takes over a program for the next iterations; buffers are kept where they suffice. The program stays the
 * caller's and must live until the next swap. `post[program->messages]`: before which of its consumer's steps
 * each message's receive is posted (sl_program_post; copied); NULL: all before the first op. SL_EINVAL when
 * this rank's part cannot run here (W not ascending per stage, a stage that has no table, moves of a stage
 * that cannot). */
sl_status sl_engine_swap(sl_engine *engine, const sl_program *program, const int32_t *post);

/** How long ops last from now on; copied. A part takes its share (sl_part_time), a pair sl_pair_time. */
void sl_engine_pace(sl_engine *engine, const sl_pace *pace);

/** The regime from the next iteration on; the config's until then. */
void sl_engine_arrange(sl_engine *engine, sl_regime regime, int queue);

/** One iteration; no op starts before `begin` (absolute). Returns when the last op has ended and every
 * message of this rank has arrived. */
sl_status sl_engine_run(sl_engine *engine, uint32_t iteration, sl_time begin, sl_engine_result *result);
