/* Device time of NCCL calls: an event before and one after on the call's stream, checked later, when they are
 * done; nothing ever waits for a device. The functions come from the CUDA runtime that the program has
 * loaded. Not while a stream is captured, where an event would become part of the program's graph. */
#pragma once

#include "notice/record/call.h"

#define SL_EVENTS 64 /* calls of one thread under way; more are not timed */

/** Before a call on `stream`: a slot for it, or -1 (device timing is off, no runtime, a capture, no room). */
int sl_events_before(void *stream);

/** After it: `call` is the content of the completion, with the device's time. */
void sl_events_after(int slot, void *stream, const sl_call *call);

/** Writes completions of calls that are done, without waiting. */
void sl_events_collect(void);

/* ---- whether a device is idle, checked while the rank is held (gate.h) ----
 * The streams of enqueued calls are remembered, without calls of the runtime. A parked thread
 * records an event on each, which comes after the last call there, and polls it. */

/** A call on `stream` has returned (in a group: was made; see sl_events_group_ended). */
void sl_events_enqueued(void *comm, void *stream);

/** The calls of a group have been enqueued. */
void sl_events_group_ended(void);

/** A communicator was destroyed: the streams that it used last are not touched again, as the program may
 * destroy them. */
void sl_events_forget(void *comm);

/** 1 when everything enqueued so far was seen done; never waits. 0 also without a CUDA runtime. */
int sl_events_drained(void);

/** Whether calls on `stream` are captured into a graph instead of enqueued. */
int sl_events_capturing(void *stream);
