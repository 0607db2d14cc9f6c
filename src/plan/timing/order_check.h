/* What becomes of an order in each regime: whether its ranks can stop, how long it takes, and which of its
 * sends and receives hold up others. */
#pragma once

#include "base/time.h"
#include "plan/lower/waits.h"
#include "plan/lower/written.h"

enum { SL_CHECKED_REGIMES = 5, SL_BLOCKERS = 5 };

/* A send or receive that was not done when a message could have moved but for it. */
typedef struct sl_blocker {
    int32_t rank, issue; /* its position among the rank's issues */
    sl_time time;        /* of all messages that waited for it directly */
} sl_blocker;

typedef struct sl_checked_regime {
    sl_regime regime; /* decoupled: sends of any size wait for nothing; fifo: all wait for their receive */
    sl_communicators communicators;
    sl_wait_cycle cycle; /* with no wait: the ranks cannot stop */
    sl_time makespan;    /* SL_TIME_NEVER: they do stop, or the ops take no time */
    int blockers;
    sl_blocker blocker[SL_BLOCKERS]; /* longest first */
} sl_checked_regime;

/** Fills checked[SL_CHECKED_REGIMES]: decoupled, then fifo with each kind of communicators. `timed`: the
 * problem's times are known. Free each with sl_checked_regime_free, also on error. SL_ENOMEM. */
sl_status sl_order_check_regimes(const sl_written *written, int timed, sl_checked_regime *checked);
void sl_checked_regime_free(sl_checked_regime *checked);
