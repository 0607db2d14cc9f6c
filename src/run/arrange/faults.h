/* Injected faults of the run file, applied before each iteration.
 *
 * A fault belongs to processes, as a worn-out device or cable belongs to hosts: the run file names positions,
 * and means the processes that had them when the attempt began (t->home). If positions change, a slow device
 * keeps its pace, and a slow connection is all traffic between its two processes: pipeline messages if they
 * are now neighbors in a pipeline, sums over replicas if they hold the same stages, nothing if they no longer
 * communicate. Until a process moves, `link` is a link of a pipeline and `replicas` a connection for sums.
 *
 * A network card belongs to a process, for all its traffic, or to a host, for traffic between its processes
 * and those of other hosts: pipeline messages and sums over replicas, both ways. Its latency is added to each
 * of them; its bandwidth is a wire per direction that they share, a word of effects.cards. Sums over tensor
 * ranks, and the run's own reports, do not pass it.
 *
 * Emulation happens at the sender (run/transport, run/collective), so each process handles its own sends. So
 * the sends of several hosts to one card share its wire only per host (link_emulator.h). */
#pragma once

#include "run/arrange/trainer.h"
#include "run/transport/link_emulator.h"

typedef struct sl_fault_effects {
    sl_wires cards; /* of slow network cards */
    /* [stages] minimum op times of this iteration for the engine: the problem's times, slowed down */
    sl_time *paced[SL_OP_KINDS], *saved;
} sl_fault_effects;

/** Maps the wires of slow network cards, if the run has any with a bandwidth. Before the first emulation;
 * close with sl_faults_close, also on error. SL_ESYS, SL_ENOMEM. */
sl_status sl_faults_open(sl_trainer *t);
void sl_faults_close(sl_trainer *t);

/** The emulation of the directed connection from the process of initial position `from` to that of `to` in
 * `iteration`: of several faults the latencies add up, and the last bandwidth of a link, or of a card,
 * counts. A fault that names a host applies while one of the two is on it according to `t`, which also has
 * the wires; `t` NULL: no host applies, and cards have no bandwidth. */
sl_link_emulation sl_faults_between(const sl_run *run, const sl_trainer *t, int iteration,
                                    sl_run_position from, sl_run_position to);

/** Emulates this process's outgoing links as of `iteration`. Between two iterations. */
void sl_faults_emulate(sl_trainer *t, int iteration);

/** Applies all faults of `iteration`: links, this process's pace, and its death. */
void sl_faults_apply(sl_trainer *t, int iteration);

/** The leader, before `iteration`: writes an event for each fault, or period of it, that begins or ends with
 * it. SL_ESYS. */
sl_status sl_faults_write(sl_trainer *t, int iteration);
