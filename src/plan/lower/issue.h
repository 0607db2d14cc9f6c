/* The order in which each rank issues its sends and receives, between its ops.
 *
 * An order may have its own (sl_order.issue). Otherwise it is that of PyTorch's own lowering: all rows run in
 * turns, one cell a turn. A send is issued right after the op that produces the message, and the peer issues
 * its receive in the same turn. So the issues of all ranks follow one sequence, which also holds their ops,
 * and each waits only for what is earlier in it: whatever the times and communicators, the ranks cannot stop.
 */
#pragma once

#include "plan/lower/program.h"

typedef struct sl_issuer sl_issuer;

/* Of a rank: 2 peers, 2 directions, 2 kinds. */
#define SL_COMMUNICATORS_MAX 8

/** The communicator of an end of a message among those of its rank (problem, `communicators`). */
int sl_communicator(const sl_problem *problem, const sl_program *program, const sl_message *message,
                    int receive);

/** Whether a message may leave before its receive is issued (problem, `eager_kb`). Never fails. */
int sl_message_is_eager(const sl_problem *problem, const sl_message *message);

/** For issues of `program`, which must outlive it, in its present or a later order of steps. SL_ENOMEM. Free
 * with sl_issuer_close. */
sl_status sl_issuer_open(const sl_program *program, sl_issuer **issuer);
/** The issues of the program as it is now: its own, or as PyTorch adds them as far as its ranks can run.
 * O(ops). SL_ENOMEM. */
sl_status sl_issuer_run(sl_issuer *issuer);
void sl_issuer_close(sl_issuer *issuer);

/** Gives a rank issues of its own instead: `count` is the number of its ends. For an issuer that is not
 * run. */
void sl_issuer_give(sl_issuer *issuer, int rank, const sl_message_issue *issue, int count);

/** Issues of a rank, in order; the issuer's, until it runs again. */
const sl_message_issue *sl_issues_of(const sl_issuer *issuer, int rank, int *count);
