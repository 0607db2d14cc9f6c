/* Calls that the program's own layer reports, because no symbol can be wrapped: Gloo below torch.distributed,
 * which scripts call through Python (python/slackline/seen). Reported calls go into the same rings and pass
 * the same gate as MPI's and NCCL's calls. The functions are exported and found by name (dlsym, ctypes); this
 * is their whole interface:
 *
 *   sl_reported_world(rank, size); group = sl_reported_group("name", ranks, count);          once
 *   if (sl_reported_begin(call, group, peer, tag, bytes)) { ...the call...; request = sl_reported_end(1); }
 *   if (sl_reported_wait(request)) { ...wait...; sl_reported_waited(request, 1, -1); }      posted calls:
 * names with I
 *
 * Callers look up the numbers of calls by name (sl_reported_call), so they hold no copies. Nothing here
 * fails: a call that cannot be recorded or held is made as usual. Any thread; begin and end on the same one.
 */
#pragma once

#include <stdint.h>

/** Version of this interface: a caller with another one stays inactive. */
#define SL_REPORTED_VERSION 2
int sl_reported_version(void);

/** Functions around a wait at the gate, for callers that hold a lock which others need meanwhile
 * (PyEval_SaveThread and _RestoreThread); `take` gets what `release` returned. */
void sl_reported_pauses(void *(*release)(void), void (*take)(void *));

/** The number of a call ("glooAllreduce"); 0: unknown name. */
int sl_reported_call(const char *name);

/** This process is `rank` of `size`. 1: its calls may be reported. 0: nothing is recorded here, or MPI gives
 * another rank. */
int sl_reported_world(int rank, int size);

/** The group called `name`, equal on all its members, of `count` ranks of the world, including this one. Call
 * it when the group is made, on each member. Returns a number from 0 for the functions below; -1: no memory.
 */
int sl_reported_group(const char *name, const int32_t *ranks, int count);

/** A call begins: passes the gate, and its time starts. `peer`: rank of the world that a message goes to or
 * comes from, the root of a collective, -1 none, -2 any source. `tag`: -1 none. 1: sl_reported_end must
 * follow on this thread. 0: it is not recorded (it is part of another call, or there is no ring). */
int sl_reported_begin(int call, int group, int peer, int tag, uint64_t bytes);

/** The call has returned; `ok` 0: it failed. For a posted call, returns the request for the waits, to be
 * given back to sl_reported_forget; otherwise NULL. */
void *sl_reported_end(int ok);

/** A wait for one posted call begins. 1: sl_reported_waited must follow on this thread; 0: not recorded. */
int sl_reported_wait(void *request);

/** It has ended. `done` 1: complete, which is recorded (once per request); `peer`: the sender, if received
 * from any source, else -1. */
void sl_reported_waited(void *request, int done, int peer);

/** The request will not be waited for any more. NULL does nothing. */
void sl_reported_forget(void *request);
