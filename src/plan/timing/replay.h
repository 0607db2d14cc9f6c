/* The timing model: one replay of a program on ranks and links (design.md, Problem, Semantics). Planner,
 * search, simulate, the engine's prediction and the campaign all use this one model.
 *
 * Work is O(ops); if several ranks share a wire, O(ops log ranks). Regimes: decoupled, a send never holds a
 * rank; inorder, it holds one of `queue` slots of its rank and peer until it has arrived; batched, the sends
 * of an op and the receives of the next complete together, so the next op starts after all have arrived; fifo
 * (fifo.c), sends and receives wait for each other within their communicator, next to the ops. In
 * all regimes the moves of a program (plan/lower/offload.h) run one after the other on the rank's copy engine
 * in parallel with its ops, each for its stage's offload time. */
#pragma once

#include "plan/lower/issue.h"
#include "plan/timing/timeline.h"

/** Start and end of every op and transfer of `program` with the times and links of `problem` under its
 * communication regime (or another: `regime`, `queue`), including gathers and reductions. SL_EINVAL:
 * deadlock. *timeline is made here; free it. */
sl_status sl_replay(const sl_problem *problem, const sl_program *program, sl_regime regime, int queue,
                    sl_timeline *timeline);

/** The same under regime fifo, with the communicators of `problem`, for issues of the program's own. */
sl_status sl_replay_issued(const sl_problem *problem, const sl_program *program, const sl_issuer *issuer,
                           sl_timeline *timeline);

/* Repeated replays without new allocations, for searches that change the program's order of steps in place
 * (sl_program_swap) or the problem's times. */
typedef struct sl_replayer sl_replayer;

/** Both must outlive it. Free with sl_replayer_close. */
sl_status sl_replayer_open(const sl_problem *problem, const sl_program *program, sl_replayer **replayer);
/** Gives every message its own latency from now on, [program->messages] (kept by the caller), instead of its
 * link's; NULL: its link's again. */
void sl_replayer_delay(sl_replayer *replayer, const sl_time *latency);
/** Gives every step its own time from now on, by rank, then step (kept by the caller), instead of its
 * stage's; pairs keep theirs. NULL: the stages' again. A problem whose `link` is NULL has links that take no
 * time: then every transfer is a step of its own. */
void sl_replayer_time(sl_replayer *replayer, const sl_time *time);
/** The makespan of the program in its present state, in the problem's regime; SL_TIME_NEVER: deadlock.
 * *timeline (owned by the replayer, overwritten by the next run, NULL after a deadlock) may be NULL. */
sl_time sl_replayer_run(sl_replayer *replayer, const sl_timeline **timeline);
/** Of all ranks. */
int sl_replayer_steps(const sl_replayer *replayer);
void sl_replayer_close(sl_replayer *replayer);

/* Iterations that repeat. An iteration leaves instants at which what it used is free again: its ranks,
 * wires, collectives, copy engines, and slots (inorder). They are all that the next one has to wait for, so a
 * run is a function from instants to instants; each of its results is the latest of some of the given
 * instants, each plus a constant. */

/** Number of instants; not for regime fifo or ranks that share wires. */
int sl_replayer_instants(const sl_replayer *replayer);
/** Whether a later iteration can depend on it: not on a wire that messages take no time to enter, whose ops
 * come in order anyway. */
int sl_replayer_waits_for(const sl_replayer *replayer, int instant);
/** Replays an iteration from the instants `begin` to the instants `end`, [sl_replayer_instants] each; may be
 * the same array. Instants may be negative. `timeline` as in sl_replayer_run. Returns 0 after a deadlock. */
int sl_replayer_repeat(sl_replayer *replayer, const sl_time *begin, sl_time *end,
                       const sl_timeline **timeline);

/* Which of several messages goes first, if a replay decides the order of issue: the one needed after the
 * fewest ops of its receiver, the one due first, or the one of the lowest microbatch. Those of one rank,
 * direction and kind go as they are needed. */
typedef enum sl_message_rule {
    SL_FIRST_NEEDED,
    SL_FIRST_DUE,
    SL_FIRST_MICROBATCH,
    SL_MESSAGE_RULES
} sl_message_rule;

/** Regime fifo: from now on, runs decide the order of issue (greedy.c). `due`: of each message, for
 * SL_FIRST_DUE (kept by the caller), else NULL. SL_ENOMEM. */
sl_status sl_replayer_order_messages(sl_replayer *replayer, sl_message_rule rule, const sl_time *due);
/** What the last such run decided for a rank, in order; the replayer's. */
const sl_message_issue *sl_replayer_issues(const sl_replayer *replayer, int rank, int *count);

/** Highest memory use of each rank in a replayed timeline: F takes memory at its start, and so do I and B
 * (delta.I_start, recomputation); I, W and B change it at their end; releases come before acquisitions of the
 * same instant; offloads release F's memory at their end, fetches take it at their start. peak[ranks]. */
sl_status sl_peak_memory(const sl_problem *problem, const sl_timeline *timeline, double *peak);

/* Memory use over time, as steps: `used` from `time` until the next one's. */
typedef struct sl_memory_step {
    int32_t rank;
    sl_time time;
    double used;
} sl_memory_step;

/** The same over time, without permanent use: by rank, then time, one step per instant. *steps is made here,
 * free it with sl_free; those of rank r are first[r] to first[r + 1], first[ranks + 1]. SL_ENOMEM. */
sl_status sl_memory_course(const sl_problem *problem, const sl_timeline *timeline, sl_memory_step **steps,
                           int *first);

/** Maximum of activations of each rank in host memory: from an offload's start to its fetch's end.
 * peak[ranks]. Never fails. */
void sl_peak_host(const sl_timeline *timeline, int *peak);
