/* Calls that the program's own layer tells, where no symbol can be wrapped: Gloo below torch.distributed,
 * whose calls a script makes through Python (python/slackline/seen). What is told goes into the same rings
 * and passes the same gate as MPI's and NCCL's calls. The functions are exported and found by name (dlsym,
 * ctypes); this is their whole interface:
 *
 *   sl_told_world(rank, size); group = sl_told_group("name", ranks, count);          once
 *   if (sl_told_begin(call, group, peer, tag, bytes)) { ...the call...; request = sl_told_end(1); }
 *   if (sl_told_wait(request)) { ...wait...; sl_told_waited(request, 1, -1); }         posted calls: names
 * with I
 *
 * Numbers of calls are asked for by name (sl_told_call), so a caller holds no copy of them. Nothing here
 * fails: what cannot be recorded or held is not, and the call is made as it would be. Any thread; begin and
 * end on the same one. */
#pragma once

#include <stdint.h>

/** Of this interface: a caller that knows another steps aside. */
#define SL_TOLD_VERSION 1
int sl_told_version(void);

/** The number of a call ("glooAllreduce"); 0: there is none of that name. */
int sl_told_call(const char *name);

/** This process is `rank` of `size`. 1: its calls may be told. 0: nothing is recorded here, or MPI says
 * another rank. */
int sl_told_world(int rank, int size);

/** The group called `name`, alike on all its members, of `count` ranks of the world, this one among them. To
 * be called when the group is made, on each member. A number from 0 for the others below; -1: no memory. */
int sl_told_group(const char *name, const int32_t *ranks, int count);

/** A call begins: passes the gate, and its time begins. `peer`: rank of the world that a message goes to or
 * comes from, the root of a collective, -1 none, -2 whoever sends. `tag`: -1 none. 1: sl_told_end must follow
 * on this thread. 0: it is not recorded (it is part of another call, or there is no ring). */
int sl_told_begin(int call, int group, int peer, int tag, uint64_t bytes);

/** The call has returned; `ok` 0: it failed. Of a posted call the request that waits name, to be given
 * back to sl_told_forget; NULL else. */
void *sl_told_end(int ok);

/** A wait for one posted call begins. 1: sl_told_waited must follow on this thread; 0: not recorded. */
int sl_told_wait(void *request);

/** It has ended. `done` 1: complete, which is recorded (once a request); `peer`: who sent what came from
 * anybody, else -1. */
void sl_told_waited(void *request, int done, int peer);

/** The request will not be waited for any more. NULL does nothing. */
void sl_told_forget(void *request);
