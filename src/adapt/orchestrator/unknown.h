/* The model of a program with an unknown pipeline: the cost of each slow part, and the remaining loss with
 * each of the three possible strategies. Adapting the schedule and delegating the communication would need a
 * known pipeline.
 *
 * The model knows the iteration time, now and healthy, and the slowdown factors of devices, hosts and links.
 * It divides the difference of the two times among the slow parts in proportion to their excess, each at most
 * that of the iteration.
 *
 *   balance   ranks that do the same as the slow one (`replicas`) count as replicas of one data-parallel job,
 *             each with `microbatches`. A device that is f times as slow accounts for c of the healthy
 *             iteration; it costs c (f - 1) now, with c at most the iteration. sl_balance divides the same
 *             work over these speeds. On a slow host, replicas / nodes of them are slow.
 *   topology  a spare host replaces the slow one, or one end of a slow link. Without a spare, on 3 or more
 *             hosts, the two ranks with least traffic get the slow link, if it carries messages: their
 *             share of its loss remains. A slow device is as slow at any other position.
 *   restart   healthy again without the host, on one from the scheduler.
 *
 * Pure. */
#pragma once

#include "adapt/orchestrator/orchestrator_types.h"

/* Known properties of the program. */
typedef struct sl_unknown_job {
    int ranks;        /* processes; sl_slow_part names them */
    int nodes;        /* their hosts */
    int replicas;     /* ranks with the same role as the slow device, including it */
    int microbatches; /* per rank and iteration, at least 1 */
    int spares;       /* hosts that can replace another */
    double lightest;  /* traffic of the two ranks with the least, relative to the traffic of the slow link;
                         negative: unknown */
    double healthy;   /* ns of an iteration: before the slowdown, and in the present or last slow phase */
    double level;
    int slow;    /* the slow phase lasts */
    int changes; /* of the level so far, up or down */
} sl_unknown_job;

/* A device (process part.a), or with `host` all devices of its host; a link, or with part.b -1 the links of a
 * sum or another exchange among several, if no single one is known. part.slowdown is the factor, for links
 * too; 1 or less: unknown. */
typedef struct sl_unknown_part {
    sl_slow_part part;
    int host;
} sl_unknown_part;

typedef struct sl_unknown_view {
    const sl_unknown_job *job;
    const sl_unknown_part *part;
    int parts;
    unsigned refused; /* bits of sl_strategy_kind that cannot be carried out */
    sl_status
        *failed; /* set to SL_ENOMEM if an answer lacked memory and is therefore "cannot help"; or NULL */
} sl_unknown_view;

/** The cause of an incident of this part (adapt/ladder/strategy.h). */
unsigned sl_unknown_cause(const sl_unknown_part *part);

/** Time lost per second because of a part. */
double sl_unknown_loss(const sl_unknown_view *view, int part);
/** The same if `strategy` were applied. */
double sl_unknown_remaining(const sl_unknown_view *view, sl_strategy_kind strategy, int part);
/** The same if it stays after recovery. */
double sl_unknown_keeping(const sl_unknown_view *view, sl_strategy_kind strategy);
/** Why a strategy would not help for a part, in a few words; or "". */
void sl_unknown_why(const sl_unknown_view *view, sl_strategy_kind strategy, int part, char *text,
                    size_t size);

/** The split of `balance`: split[ranks]. SL_ENONE: the ranks with the same role are not known individually,
 * or no device is slow. SL_ENOMEM. */
sl_status sl_unknown_split(const sl_unknown_view *view, int *split);

/** Whether the level already shows the effect of a change made `iterations` and `passed` ago: a new level is
 * detected after some iterations. `changed`: the level has changed since. */
int sl_unknown_settled(int iterations, sl_time passed, int changed);
