/* The event log: observations, measurements and decisions of a run, one JSON object per line (events.jsonl).
 * The kinds are one table; the documentation and the readers use it too. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <jansson.h>

/* clang-format off */
#define SL_EVENTS(X) \
    X(START, "start", "the run started: its plan and its devices") \
    X(FAULT, "fault", "a fault was injected or removed for a test (which, where); detection does not see this event") \
    X(ONSET, "onset", "measurements left their healthy level") \
    X(SWAP, "swap", "all ranks changed to a new schedule between two iterations") \
    X(KEEP, "keep", "a change was seen and the running schedule kept, with the reason") \
    X(RELIEF, "relief", "measurements returned to their healthy level") \
    X(RETURN, "return", "all ranks returned to the first schedule") \
    X(ARRANGE, "arrange", "processes exchanged their positions, or replicas got new numbers of microbatches, between two iterations; how long it took") \
    X(DELEGATE, "delegate", "delegate processes carry the messages, starting with the next iteration") \
    X(DIRECT, "direct", "the ranks carry their own messages again; delegates are stopped") \
    X(RAIL, "rail", "a rail between two hosts was lost, or is used again") \
    X(STRANGER, "stranger", "a connection to a rail did not belong to this run and was dropped") \
    X(REPLACED, "replaced", "a delegate process died and was replaced") \
    X(CHECKPOINT_WRITTEN, "checkpoint_written", "a checkpoint is complete and on disk") \
    X(CHECKPOINT_FAILED, "checkpoint_failed", "a checkpoint could not be written and was removed; training continued") \
    X(CHECKPOINT_REFUSED, "checkpoint_refused", "a checkpoint is damaged or incomplete and was not used, with the reason") \
    X(RESUMED, "resumed", "training continues from a checkpoint, or starts over if there is none") \
    X(WARNED, "warned", "a scheduler's warning (SIGTERM) arrived; a checkpoint is written and the run ends") \
    X(RESTART, "restart", "an attempt failed and the ranks are restarted") \
    X(FAILED, "failed", "the command ended before training was complete, with the reason") \
    X(RAISED, "raised", "a step of an adapted PyTorch job raised an error on its first rank; the job ends or goes on") \
    X(HOST, "host", "a host is excluded, because it failed its test after a failure or is slow, or is used again") \
    X(DECISION, "decision", "the ladder of strategies: a strategy was applied, its effect measured, or it was reverted (decisions.txt has all details)") \
    X(LEAVE, "leave", "the run saves itself and restarts without a slow host, or the reason why not") \
    X(LEFT, "left", "the run continues without the excluded hosts; how long that took") \
    X(GROW, "grow", "lost slots are available again: an elastic run saves itself and restarts in a larger layout, or the reason why not") \
    X(LAYOUT, "layout", "an elastic run is restarted in another layout, because slots were lost or are available again") \
    X(RESIZED, "resized", "the run continues in another layout: from which iteration, and how long that took") \
    X(SUSPECT, "suspect", "iterations became slow; what the first slow ones indicate") \
    X(TRACKED, "tracked", "the iteration of a watched program was found, or has changed") \
    X(PROFILED, "profiled", "the calls of some iterations were compared: suspects, or a reference") \
    X(PROFILE, "profile", "the links of a running job were measured, slow or not; the healthy steps of a PyTorch job") \
    X(HELD, "held", "a watched program is held at a consistent cut, or could not be held") \
    X(RELEASED, "released", "a held program continues") \
    X(VALIDATED, "validated", "suspects were tested, with the evidence") \
    X(VERDICT, "verdict", "what is slow, or why this is unresolved") \
    X(HANG, "hang", "a watched program hangs: no call of it can end, and why") \
    X(STALL, "stall", "a watched program stalls and might continue: the rank that the others wait for, and what it does") \
    X(MOVES, "moves", "a watched program that stalled continues") \
    X(ADVICE, "advice", "the strategy for a slow component of a watched program, with its gain and cost, and whether to apply it now") \
    X(HOOK, "hook", "the program of --on-event applied advice, or could not") \
    X(NODE, "node", "the agent of a node joined or was lost, its processes changed, or it cannot read their calls") \
    X(STORE, "store", "the store was lost, or is available again; the program continues") \
    X(CONTROLLER, "controller", "another process now controls the job") \
    X(END, "end", "the run ended")
/* clang-format on */
#define SL_EVENT_KIND(kind, name, meaning) SL_EVENT_##kind,
typedef enum sl_event_kind { SL_EVENTS(SL_EVENT_KIND) SL_EVENT_KINDS } sl_event_kind;
#undef SL_EVENT_KIND

typedef struct sl_event_name {
    const char *name, *meaning;
} sl_event_name;

extern const sl_event_name sl_event_names[SL_EVENT_KINDS];

/* Empty texts and negative numbers are omitted from the line. */
typedef struct sl_event {
    sl_event_kind kind;
    sl_time time; /* since the run's start */
    int iteration;
    int from, to;    /* a link; -1: none */
    int both;        /* both directions of the link */
    int rank;        /* -1: none */
    int has_replica; /* of several: `replica` is its number, and ranks are of its pipeline */
    int replica;
    char seen[256];    /* measured */
    char decided[128]; /* done about it */
    char why[256];
    char facts[512]; /* further members of its JSON object, as "key":value, ... (sl_event_fact) */
} sl_event;

/** An event of no link, rank or replica, without texts. */
sl_event sl_event_of(sl_event_kind kind, sl_time time, int iteration);
/** Its texts, cut to fit; NULL: none. */
void sl_event_say(sl_event *event, const char *seen, const char *decided, const char *why);

/** Adds a member to its JSON object, for programs: the texts may be worded differently. Takes `value`. What
 * does not fit, or is NULL, is left out. */
void sl_event_fact(sl_event *event, const char *key, json_t *value);

/** A number that sl_event_fact added; NaN: none. */
double sl_event_number(const sl_event *event, const char *key);

/** The object of a line; the caller's. NULL: no memory. */
json_t *sl_event_json(const sl_event *event);

/** One line of the log, with its end. Free with free(). SL_ENOMEM. */
sl_status sl_event_line(const sl_event *event, char **line);
