/* The laboratory's trouble: faults of the run file, put into force before each iteration.
 *
 * A fault belongs to processes, as a worn-out device or cable does to hosts: the run file names seats, and
 * means the processes that sat there when the attempt began (t->home). Where a running job changes who sits
 * where, a slow device takes its pace along, and a slow connection is whatever now goes between its two
 * processes: messages of a pipeline where they have become neighbours in one, sums over replicas where they
 * hold the same stages, nothing where they no longer talk. As long as nobody has moved, `link` is a link of
 * a pipeline and `replicas` a way of sums.
 *
 * A network card is that of a process, whatever goes between it and others, or that of a host, for what goes
 * between processes on it and on other hosts: messages of a pipeline and sums over replicas, both ways. Its
 * latency is added to each of them; its bandwidth is a wire per direction that all of them share, a word of
 * t->cards. Sums over tensor ranks, and what a run says about itself, do not pass it.
 *
 * Emulation happens at the sender (run/transport, run/collective), so each process looks after what it sends
 * itself. So what several hosts send to one card shares its wire host by host only (wires.h). */
#pragma once

#include "run/arrange/trainer_state.h"

/** Maps the wires of slow network cards, where the run has any with a bandwidth. Before the first emulation;
 * close with sl_faults_close, also on error. SL_ESYS. */
sl_status sl_faults_open(sl_trainer *t);
void sl_faults_close(sl_trainer *t);

/** What the directed connection from the process of home seat `from` to that of `to` is like in `iteration`:
 * of several faults the latencies add up and the last bandwidth of a link, or of a card, counts. One that
 * names a host is there while one of the two is on it, as `t` knows, which has the wires, too; NULL: on none,
 * and cards have no bandwidth. */
sl_link_emulation sl_faults_between(const sl_run *run, const sl_trainer *t, int iteration,
                                    sl_run_position from, sl_run_position to);

/** The links that this process sends over become as in `iteration`. Between two iterations. */
void sl_faults_emulate(sl_trainer *t, int iteration);

/** All of `iteration`: links, this process' pace, and its death. */
void sl_faults_apply(sl_trainer *t, int iteration);

/** The leader, before `iteration`: an event for each fault, or spell of it, that begins or ends with it.
 * SL_ESYS. */
sl_status sl_faults_write(sl_trainer *t, int iteration);
