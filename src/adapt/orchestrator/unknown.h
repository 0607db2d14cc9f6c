/* The model of a program whose pipeline nobody knows: what each slow part costs, and what would remain with
 * each of the three strategies that whoever can change it may carry out. To adapt the schedule, or to
 * delegate the communication, a pipeline would have to be known.
 *
 * Known are the time of an iteration, now and when healthy, and which devices, hosts and links are how many
 * times as slow. The difference of the two times is divided among the slow parts by how far each is off, at
 * most as far as the iteration is.
 *
 *   balance   ranks that do the same as the slow one (`replicas`) are taken for replicas of one data-parallel
 * job, each with `microbatches`. A device that is f times as slow holds up c of the healthy iteration; c (f -
 * 1) is what it costs now, with c at most the iteration. sl_balance divides the same work over these speeds.
 * Of a slow host replicas / nodes of them are slow. topology  a spare host takes the place of the slow one,
 * or of one end of a slow link. Without a spare, on three hosts or more, the two ranks that send each other
 * least take the slow link, if that carries messages: their share of its loss remains. A slow device is as
 * slow at any other place. restart   healthy again without the host, on one that the scheduler gives.
 *
 * Pure. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"

/* What is known of the program. */
typedef struct sl_unknown_job {
    int ranks;        /* processes; sl_slow_part names them */
    int nodes;        /* hosts that they are on */
    int replicas;     /* ranks that do what the slow device does, that one included */
    int microbatches; /* of a rank and iteration, at least 1 */
    int spares;       /* hosts that could take another's place */
    double lightest;  /* what the two ranks that send each other least send, as a share of what goes over the
                         slow link;  negative: not known */
    double healthy;   /* ns of an iteration before it became slow, and since: in the slow phase that lasts, or
                         the last */
    double level;
    int slow;    /* that phase lasts */
    int changes; /* of the level so far, up or down */
} sl_unknown_job;

/* A device (process part.a), or with `host` all of its host; a link, or with part.b -1 the links of a sum or
 * another exchange among several, of which no single one is known. part.slowdown is how many times as slow,
 * of links too; 1 or less: not known. */
typedef struct sl_unknown_part {
    sl_slow_part part;
    int host;
} sl_unknown_part;

typedef struct sl_unknown_view {
    const sl_unknown_job *job;
    const sl_unknown_part *part;
    int parts;
    unsigned refused; /* bits of sl_strategy_kind that nobody can carry out */
    sl_status
        *failed; /* becomes SL_ENOMEM where an answer lacked memory, and is that nothing helps; or NULL */
} sl_unknown_view;

/** The cause of an incident of this part (adapt/ladder/strategy.h). */
unsigned sl_unknown_cause(const sl_unknown_part *part);

/** Time lost a second because of a part. */
double sl_unknown_loss(const sl_unknown_view *view, int part);
/** The same if `strategy` were applied. */
double sl_unknown_remaining(const sl_unknown_view *view, sl_strategy_kind strategy, int part);
/** The same if it stays although nothing is slow any more. */
double sl_unknown_keeping(const sl_unknown_view *view, sl_strategy_kind strategy);
/** Why it would be of no use for a part, in a few words; "" if there is nothing to say. */
void sl_unknown_why(const sl_unknown_view *view, sl_strategy_kind strategy, int part, char *text,
                    size_t size);

/** The microbatches that `balance` would give: split[ranks]. SL_ENONE: the ranks that do the same are not
 * known one by one, or no device is slow. SL_ENOMEM. */
sl_status sl_unknown_split(const sl_unknown_view *view, int *split);

/** Whether the level shows what a change has brought that was made so long ago: a new level needs some
 * iterations until it is seen. `changed`: the level has changed since. */
int sl_unknown_settled(int iterations, sl_time passed, int changed);
