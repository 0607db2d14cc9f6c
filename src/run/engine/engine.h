/* The engine: runs one rank's program (plan/lower), iteration after iteration.
 *
 * For each step it waits for the message that the step needs, runs the stage's function, holds the op to its
 * pace and hands the result to the transport. Receives of the whole iteration are posted before its first op.
 * What happened goes as records into a ring. Programs are swapped between iterations.
 *
 * Pace. A paced op does its real arithmetic and then lasts until start + pace by absolute time, where start
 * is the later of the previous op's end and the arrival of its message: like a kernel on a device's own
 * queue, it does not begin late because the host thread woke late, and lateness never accumulates. Data are
 * handed to the transport when the arithmetic is done, marked ready at the op's end. An op whose arithmetic
 * takes longer than its pace ends when it ends, and is counted as an overrun. Without a pace, start and end
 * are those of the arithmetic.
 *
 * Regimes as in plan/timing/replay.h. decoupled: sends never hold the rank. inorder: a send takes one of
 * `queue` places towards its peer until it has arrived; with none free, it and everything behind it waits. */
#ifndef SL_RUN_ENGINE_ENGINE_H
#define SL_RUN_ENGINE_ENGINE_H

#include "base/clock.h"
#include "notice/record/record.h"
#include "plan/lower/program.h"
#include "run/engine/stage.h"
#include "run/transport/transport.h"

typedef struct sl_engine sl_engine;

typedef struct sl_engine_config {
    int rank;
    sl_clock *clock;
    sl_transport *transport; /* may be NULL when no program has messages */
    sl_record_ring *ring;    /* at least 4 records per microbatch and iteration */
    sl_stage stage;          /* of this rank; the engine runs one stage a rank so far */
    sl_regime regime;
    int queue;
    sl_time patience; /* a message that takes longer than this is an error that names the link */
} sl_engine_config;

typedef struct sl_engine_result {
    sl_time end; /* of the last op, absolute */
    int ops, overruns;
} sl_engine_result;

sl_status sl_engine_open(const sl_engine_config *config, sl_engine **engine);
void sl_engine_close(sl_engine *engine);

/** Takes over a program for the next iterations; buffers are kept where they suffice. The program stays the
 * caller's and must live until the next swap. SL_EINVAL when this rank's part cannot run here (W not
 * ascending, stages). */
sl_status sl_engine_swap(sl_engine *engine, const sl_program *program);

/** How long each kind of op lasts from now on, [SL_OP_KINDS]; 0: as long as its arithmetic. */
void sl_engine_pace(sl_engine *engine, const sl_time *pace);

/** One iteration; no op starts before `begin` (absolute). Returns when the last op has ended and every
 * message of this rank has arrived. */
sl_status sl_engine_run(sl_engine *engine, uint32_t iteration, sl_time begin, sl_engine_result *result);

#endif
