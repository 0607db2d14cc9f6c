/* Device time of NCCL calls: an event before and one after on the call's stream, looked at later, when they
 * are done; nothing ever waits for a device. The functions come from the CUDA runtime that the program has
 * loaded. Not while a stream is captured, where an event would become part of the program's graph. */
#pragma once

#include "notice/record/call.h"

#define SL_EVENTS 64 /* calls of one thread under way; more are not timed */

/** Before a call on `stream`: a place for it, or -1 (device timing is not asked for, no runtime, a capture,
 * no room). */
int sl_events_before(void *stream);

/** After it: `call` is what the completion will say, with the device's time. */
void sl_events_after(int place, void *stream, const sl_call *call);

/** Writes completions of calls that are done by now, without waiting. */
void sl_events_collect(void);

/* ---- whether a device is idle, asked while the rank is held (gate.h) ----
 *
 * The streams that calls were enqueued on are remembered, with no call of the runtime. A parked thread
 * records an event on each, which comes after the last call there, and polls it. */

/** A call on `stream` has returned (in a group: has been made; see sl_events_group_ended). */
void sl_events_enqueued(void *comm, void *stream);

/** What the calls of a group enqueue is enqueued. */
void sl_events_group_ended(void);

/** A communicator is gone: streams that it used last are not touched again, the program may destroy them. */
void sl_events_forget(void *comm);

/** 1 when everything enqueued so far was seen done; never waits. 0 also when there is no CUDA runtime to ask.
 */
int sl_events_drained(void);

/** Whether calls on `stream` become part of a graph instead of being enqueued. */
int sl_events_capturing(void *stream);
