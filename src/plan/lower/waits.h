/* Whether ranks can stop: a proof for all times, not the result of one run.
 *
 * The events of a program are its steps and, for both ends of each message, that the end is reached and that
 * it is done (plan/timing/fifo.c has the rules). Each event waits for all of a set of others, which the
 * program fixes: no event has a choice. So, whatever the times are, exactly those events do not happen that
 * lie on a cycle of waits or wait for one, and the ranks can stop if and only if there is a cycle. */
#pragma once

#include "plan/lower/issue.h"

typedef enum sl_wait_kind { SL_WAIT_STEP, SL_WAIT_SEND, SL_WAIT_RECEIVE } sl_wait_kind;

/* An event of a cycle; each waits for the next one, and the last for the first. */
typedef struct sl_wait {
    sl_wait_kind kind;
    int32_t rank;
    int32_t at; /* step, or position among the rank's issues */
} sl_wait;

typedef struct sl_wait_cycle {
    sl_wait *wait; /* NULL: there is none */
    int length;
} sl_wait_cycle;

/** The shortest cycle of `program` with these issues (NULL: without communicators, each step waits for the
 * op that makes its message) if communicators and eager messages are as in `problem`. *cycle is made here;
 * free it with sl_wait_cycle_free. O(events), and where there is a cycle O(events * events on cycles) at
 * worst. SL_ENOMEM. */
sl_status sl_waits_check(const sl_problem *problem, const sl_program *program, const sl_issuer *issuer,
                         sl_wait_cycle *cycle);
void sl_wait_cycle_free(sl_wait_cycle *cycle);
