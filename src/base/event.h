/* The event log: observations, measurements and decisions of a run, one JSON object per line (events.jsonl).
 * The kinds are one table; the documentation and the readers use it too. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <jansson.h>

/* clang-format off */
#define SL_EVENTS(X) \
    X(START, "start", "the run began: its plan and what it runs on") \
    X(FAULT, "fault", "the laboratory injected or removed trouble (what, where); detection does not see this") \
    X(ONSET, "onset", "measurements left their healthy level") \
    X(SWAP, "swap", "all ranks changed to a new schedule between two iterations") \
    X(KEEP, "keep", "a change was seen and the running schedule kept, with the reason") \
    X(RELIEF, "relief", "measurements returned to their healthy level") \
    X(RETURN, "return", "all ranks went back to the first schedule") \
    X(ARRANGE, "arrange", "processes took other seats, or replicas other numbers of microbatches, between two iterations; what it took") \
    X(DELEGATE, "delegate", "delegate processes carry the messages from the next iteration on") \
    X(DIRECT, "direct", "the ranks carry their messages themselves again; delegates are stopped") \
    X(RAIL, "rail", "a rail between two hosts was lost, or is used again") \
    X(STRANGER, "stranger", "somebody who is not of this run connected to a rail and was dropped") \
    X(REPLACED, "replaced", "a delegate process died and another took its place") \
    X(CHECKPOINT_WRITTEN, "checkpoint_written", "a checkpoint is whole and on the disk") \
    X(CHECKPOINT_FAILED, "checkpoint_failed", "a checkpoint could not be written and was removed; training went on") \
    X(CHECKPOINT_REFUSED, "checkpoint_refused", "a checkpoint is damaged or incomplete and was not resumed from, with the reason") \
    X(RESUMED, "resumed", "training goes on from a checkpoint, or starts anew where there is none") \
    X(WARNED, "warned", "a scheduler's warning (SIGTERM) came; a checkpoint is written and the run ends") \
    X(RESTART, "restart", "an attempt failed and the ranks are started again") \
    X(FAILED, "failed", "the command ended without having trained to the end, with the reason") \
    X(HOST, "host", "a host is left out, because it failed its test after a failure or is slow, or is used again") \
    X(DECISION, "decision", "the ladder of strategies: what it begins, what that brought, what it takes back (decisions.txt has all of it)") \
    X(LEAVE, "leave", "the run saves itself and is started again without a slow host, or why it is not") \
    X(LEFT, "left", "the run goes on without hosts that it left, and what that took") \
    X(SUSPECT, "suspect", "iterations became slow, and the first of them point at this") \
    X(TRACKED, "tracked", "the iteration of a watched program was found, or another one") \
    X(PROFILED, "profiled", "the calls of some iterations were compared: suspects, or a reference") \
    X(PROFILE, "profile", "the links of a running job were measured, slow or not") \
    X(HELD, "held", "a watched program stands at a consistent cut, or could not be held") \
    X(RELEASED, "released", "a held program goes on") \
    X(VALIDATED, "validated", "suspects were tested, with the evidence") \
    X(VERDICT, "verdict", "what is slow, or why nothing can be told") \
    X(ADVICE, "advice", "what would be done about something slow in a watched program, its gain and cost, or that it is to be done now") \
    X(HOOK, "hook", "the program of --on-event carried an advice out, or could not") \
    X(NODE, "node", "the agent of a node came, was lost, its processes changed, or it cannot read their calls") \
    X(STORE, "store", "the store was lost, or is back; the program runs on") \
    X(CONTROLLER, "controller", "another process controls the job from now on") \
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
    int rank;        /* -1: none */
    int has_replica; /* of several: `replica` is its number, and ranks are of its pipeline */
    int replica;
    char seen[256];    /* measured */
    char decided[128]; /* done about it */
    char why[256];
} sl_event;

/** An event of no link, rank or replica, without texts. */
sl_event sl_event_of(sl_event_kind kind, sl_time time, int iteration);
/** Its texts, cut to fit; NULL: none. */
void sl_event_say(sl_event *event, const char *seen, const char *decided, const char *why);

/** The object of a line; the caller's. NULL: no memory. */
json_t *sl_event_json(const sl_event *event);

/** One line of the log, with its end. Free with free(). SL_ENOMEM. */
sl_status sl_event_line(const sl_event *event, char **line);
