/* Whether a device is idle, checked while the rank is held (gate.h). The streams of enqueued NCCL calls are
 * remembered, without calls of the CUDA runtime. A parked thread records an event on each, which comes after
 * the last call there, and polls it. The functions come from the runtime that the program has loaded. Not
 * while a stream is captured, where an event would become part of the program's graph. */
#pragma once

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
