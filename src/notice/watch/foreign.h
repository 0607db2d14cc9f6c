/* What is known of a foreign program, and what could be done about its slow devices and links by whoever can
 * change it: three strategies for the ladder (adapt/ladder/ladder.h), with the iteration time that each would
 * leave.
 *
 * What is measured: the iteration time now and when it was healthy, the verdicts with how much slower each
 * component is, ranks and nodes. The difference of the two times is divided among the verdicts by how far
 * each is off, at most as far as the iteration is; the share of one is its incident's loss.
 *
 *   balance   the ranks that make the same calls as the slow one (all, where that is not known) are taken for
 *             replicas of one data-parallel job that take `microbatches` each. A device that is f times as
 * slow held up `c` of the healthy iteration, c (f - 1) being what it costs now (c at most the iteration);
 * sl_balance divides the same work over the measured speeds. Of a host all ranks / nodes ranks are slow.
 *   topology  a spare host takes the place of the slow one, or of one end of a slow link. Without a spare, on
 *             three nodes or more, the two ranks that send each other least take the slow link, where that
 *             carried messages: of its loss their share remains. Among ranks that do alike a slow device is
 *             as slow at any other place.
 *   restart   healthy again without the host, on one that the scheduler gives.
 *
 * To adapt the schedule, or to delegate the communication, a pipeline would have to be known. Pure. */
#ifndef SL_NOTICE_WATCH_FOREIGN_H
#define SL_NOTICE_WATCH_FOREIGN_H

#include "adapt/ladder/strategy.h"
#include "notice/control/status.h"

typedef enum sl_foreign_strategy {
    SL_FOREIGN_BALANCE,
    SL_FOREIGN_TOPOLOGY,
    SL_FOREIGN_RESTART,
    SL_FOREIGN_STRATEGIES
} sl_foreign_strategy;

/** "balance", "topology", "restart": for options, hooks and JSON. */
const char *sl_foreign_name(int strategy);
/** "balance microbatches", ...: for people. */
const char *sl_foreign_words(int strategy);
/** Why the ladder's other strategies are left out. */
#define SL_FOREIGN_LEFT_OUT "adapt the schedule, delegate: left out, the program's pipeline is not known"

typedef struct sl_foreign_config {
    double cost_s[SL_FOREIGN_STRATEGIES]; /* until one has been carried out; negative: not offered */
    int microbatches;                     /* of a rank and iteration, at least 1 */
    int spares;                           /* hosts that could take another's place */
} sl_foreign_config;

/** 5 s, 60 s, 1800 s (Falcon, sections 5.3 and 7.5), 8 microbatches, no spare host. */
sl_foreign_config sl_foreign_defaults(void);

typedef struct sl_foreign {
    sl_foreign_config config;
    int ranks, nodes;
    double lightest; /* as in the view */
    int replicas;    /* ranks that do what the slow device does */
    double healthy_ms, level_ms;
    int count;
    sl_suspect slow[SL_STATUS_SUSPECTS]; /* by index; those without a known component are left out */
    unsigned refused;                    /* bits of strategies that nobody here can carry out */
} sl_foreign;

/** What a view says; `view` has verdicts and both levels. */
void sl_foreign_take(sl_foreign *foreign, const sl_status_view *view);

/** The cause that an incident of this component has; 0: none can be named. */
unsigned sl_foreign_cause(const sl_suspect *slow);

/** Time lost a second by slow[index]. */
double sl_foreign_loss(const sl_foreign *foreign, int index);
/** The same if `strategy` were applied. */
double sl_foreign_remaining(const sl_foreign *foreign, int strategy, int index);
/** The same where it stays although nothing is slow any more. */
double sl_foreign_keeping(const sl_foreign *foreign, int strategy);
/** Why it would be of no use for slow[index], or what is assumed, in a few words; "" where there is nothing
 * to say. */
void sl_foreign_why(const sl_foreign *foreign, int strategy, int index, char *text, size_t size);

/** The microbatches of each rank that `balance` would give, for the hook: split[ranks]. SL_ENONE: a slow
 * host's ranks are not known one by one, or there is no slow device. SL_ENOMEM. */
sl_status sl_foreign_split(const sl_foreign *foreign, int *split);

#endif
