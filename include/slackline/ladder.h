/* SPDX-License-Identifier: Apache-2.0 */
/* What to do about something slow, and when: a ladder of strategies, climbed by the time lost (ski rental).
 *
 * The program says what it could do (each strategy: for which causes, at what cost, what would still be lost
 * with it) and what it sees (incidents begin, change, are relieved). The ladder answers with one action at a
 * time: apply a strategy for some incidents, undo it, profile the network. The program carries it out between
 * two iterations and says how long that took. What costs next to nothing comes at once, the others when the
 * time lost has come to what they cost, the cheapest first; what cannot help is left out; after relief a
 * strategy is undone when keeping it has lost what it cost. The log says why, in sentences.
 *
 * Times are nanoseconds of the program's clock (or a simulation's), which never goes back. Nothing here reads
 * a clock or starts anything. One ladder is for one thread at a time. */
#ifndef SLACKLINE_LADDER_H
#define SLACKLINE_LADDER_H

#include <slackline/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLACKLINE_STRATEGIES_MOST 8
#define SLACKLINE_NEVER INT64_MAX

/* Bits: a strategy may answer several. */
#define SLACKLINE_CAUSE_LINK 1u         /* between two stages */
#define SLACKLINE_CAUSE_REPLICA_LINK 2u /* in the sum over replicas */
#define SLACKLINE_CAUSE_DEVICE 4u
#define SLACKLINE_CAUSE_HOST 8u /* all devices or all links of a host */
#define SLACKLINE_CAUSES_ANY 15u

/* Something slow, from its onset to its relief. */
typedef struct slackline_incident {
    int id; /* of the program's choice, not negative; the same when it comes again in the same place */
    unsigned cause;   /* one of SLACKLINE_CAUSE_... */
    double loss;      /* time lost a second because of it: 0.2 where an iteration of 1 s takes 1.25 s */
    const char *seen; /* for the log, up to 95 bytes: "link 0-1: 60 ms one way, healthy 0"; or NULL */
} slackline_incident;

typedef struct slackline_strategy {
    const char *name; /* for the log */
    unsigned causes;  /* that it answers */
    int64_t cost_ns;  /* of the job's time, once; until an application has taken its own */
    int64_t undo_cost_ns;
    int replaces; /* applied, it takes what is in effect for the same incidents out of effect (a restart) */

    /* Time lost a second by this incident if the strategy were applied now, beside all that is in effect; as
     * much as incident->loss, or no number: it cannot help. */
    double (*remaining)(void *user, const slackline_incident *incident);
    /* Time lost a second where it stays in effect after relief; NULL: none. */
    double (*keeping)(void *user, const slackline_incident *incident);
    /* Carries it out, or begins to, for slackline_ladder_carry_out; NULL: the program acts on the action by
     * itself. */
    slackline_status (*apply)(void *user, const int *incidents, int count);
    slackline_status (*undo)(void *user, const int *incidents, int count);
    void *user;
} slackline_strategy;

typedef struct slackline_ladder_options {
    int64_t at_once_ns;       /* what costs at most so much is applied as soon as it helps */
    double least_gain;        /* share of a loss that a strategy must save, or it "cannot help"; 0 to 1 */
    double news;              /* a loss that is off by more than this share is new information; 0 or more */
    int64_t calm_ns;          /* at least so long after relief before anything is undone */
    int64_t profile_every_ns; /* the network is profiled again so long after the last time; 0: never */
} slackline_ladder_options;

/** Fills in 100 ms, 5 %, 10 %, 10 s, 10 min. */
void slackline_ladder_defaults(slackline_ladder_options *options);

typedef struct slackline_ladder slackline_ladder;

/** A ladder of `count` strategies, at most SLACKLINE_STRATEGIES_MOST; copies them and their names, not what
 * `user` points at. `options` NULL: the defaults. Free with slackline_ladder_free. */
slackline_status slackline_ladder_make(const slackline_ladder_options *options,
                                       const slackline_strategy *strategies, int count,
                                       slackline_ladder **ladder);
void slackline_ladder_free(slackline_ladder *ladder);

/* ---- what is told to it; SLACKLINE_INVALID when time goes back or an id or loss makes no sense */

/** An incident begins, or comes again. */
slackline_status slackline_ladder_begins(slackline_ladder *ladder, int64_t now_ns,
                                         const slackline_incident *incident);
/** What it loses now. The first time after an application that is what the application brought: to be
 * measured wholly after it. */
slackline_status slackline_ladder_changes(slackline_ladder *ladder, int64_t now_ns, int id, double loss);
slackline_status slackline_ladder_relieved(slackline_ladder *ladder, int64_t now_ns, int id);
/** The action under way has ended and took so much of the job's time, which replaces its cost. Not `done`: it
 * failed; it comes again when twice as much as for the last attempt has been lost, and after three failures
 * no more until the incident is over. */
slackline_status slackline_ladder_ended(slackline_ladder *ladder, int64_t now_ns, int64_t took_ns, int done);

/* ---- what it says */

typedef enum slackline_action_kind {
    SLACKLINE_DO_NOTHING,
    SLACKLINE_DO_APPLY,
    SLACKLINE_DO_UNDO,
    SLACKLINE_DO_PROFILE
} slackline_action_kind;

typedef struct slackline_action {
    slackline_action_kind kind;
    int strategy;         /* index in what the ladder was made with; -1: none */
    const int *incidents; /* ids, `count` of them; the ladder's, until its next call */
    int count;
} slackline_action;

/** What to do now. After APPLY and UNDO there is nothing more until slackline_ladder_ended; a PROFILE needs
 * no answer. */
slackline_status slackline_ladder_next(slackline_ladder *ladder, int64_t now_ns, slackline_action *action);
/** When there will be an action if nothing is told until then; SLACKLINE_NEVER. */
int64_t slackline_ladder_due(const slackline_ladder *ladder);
/** Calls the strategy's apply or undo; SLACKLINE_OK without one, otherwise what it returns. */
slackline_status slackline_ladder_carry_out(const slackline_ladder *ladder, const slackline_action *action);

/** What applying a strategy is estimated to cost now, where that changes although it has not been applied:
 * counts from the next news on. SLACKLINE_INVALID: negative, or there is no such strategy. */
slackline_status slackline_ladder_estimate(slackline_ladder *ladder, int strategy, int64_t cost_ns);
/** The cost that is counted on now; -1 where there is no such strategy. */
int64_t slackline_ladder_cost(const slackline_ladder *ladder, int strategy);
/** Whether a strategy is in effect for any incident. */
int slackline_ladder_in_effect(const slackline_ladder *ladder, int strategy);

/* ---- why */

/** All that was seen, considered and decided since the beginning or the last clearing, a line each: seconds
 * and a sentence. *text is freed with slackline_free; *size (may be NULL) without the final 0. */
slackline_status slackline_ladder_log(const slackline_ladder *ladder, char **text, size_t *size);
void slackline_ladder_clear_log(slackline_ladder *ladder);

#ifdef __cplusplus
}
#endif
#endif
