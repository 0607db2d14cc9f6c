/* The laboratory's trouble: faults of the run file, put into force before each iteration.
 *
 * A fault belongs to processes, as a worn-out device or cable does to hosts: the run file names seats, and
 * means the processes that sat there when the attempt began (t->home). Where a running job changes who sits
 * where, a slow device takes its pace along, and a slow connection is whatever now goes between its two
 * processes: messages of a pipeline where they have become neighbours in one, sums over replicas where they
 * hold the same stages, nothing where they no longer talk. As long as nobody has moved, `link` is a link of
 * a pipeline and `replicas` a way of sums.
 *
 * Emulation happens at the sender (run/transport, run/collective), so each process looks after what it sends
 * itself. */
#ifndef SL_RUN_ARRANGE_FAULTS_H
#define SL_RUN_ARRANGE_FAULTS_H

#include "run/arrange/state.h"

/** What the directed connection from the process of home seat `from` to that of `to` is like in `iteration`:
 * of several faults the latencies add up and the last bandwidth counts. One that names a host is there while
 * one of the two is on it, as `t` knows; NULL: on none. */
sl_link_emulation sl_faults_between(const sl_run *run, const sl_trainer *t, int iteration, sl_seat from,
                                    sl_seat to);

/** The links that this process sends over become as in `iteration`. Between two iterations. */
void sl_faults_emulate(sl_trainer *t, int iteration);

/** All of `iteration`: links, this process' pace, and its death. */
void sl_faults_apply(sl_trainer *t, int iteration);

/** The leader, before `iteration`: an event for each fault that begins or ends with it. SL_ESYS. */
sl_status sl_faults_write(sl_trainer *t, int iteration);

#endif
