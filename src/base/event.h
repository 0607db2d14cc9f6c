/* The event log: what was seen, measured and decided during a run, one JSON object a line (events.jsonl).
 * The kinds are one table; the documentation and the readers use it too. */
#ifndef SL_BASE_EVENT_H
#define SL_BASE_EVENT_H

#include "base/status.h"
#include "base/time.h"
#include <jansson.h>

typedef enum sl_event_kind {
    SL_EVENT_START,
    SL_EVENT_FAULT,
    SL_EVENT_ONSET,
    SL_EVENT_SWAP,
    SL_EVENT_KEEP,
    SL_EVENT_RELIEF,
    SL_EVENT_RETURN,
    SL_EVENT_ARRANGE,
    SL_EVENT_DELEGATE,
    SL_EVENT_DIRECT,
    SL_EVENT_RAIL,
    SL_EVENT_STRANGER,
    SL_EVENT_REPLACED,
    SL_EVENT_CHECKPOINT_WRITTEN,
    SL_EVENT_CHECKPOINT_FAILED,
    SL_EVENT_CHECKPOINT_REFUSED,
    SL_EVENT_RESUMED,
    SL_EVENT_WARNED,
    SL_EVENT_RESTART,
    SL_EVENT_FAILED,
    SL_EVENT_HOST,
    SL_EVENT_DECISION,
    SL_EVENT_LEAVE,
    SL_EVENT_LEFT,
    SL_EVENT_SUSPECT,
    SL_EVENT_TRACKED,
    SL_EVENT_PROFILED,
    SL_EVENT_PROFILE,
    SL_EVENT_HELD,
    SL_EVENT_RELEASED,
    SL_EVENT_VALIDATED,
    SL_EVENT_VERDICT,
    SL_EVENT_ADVICE,
    SL_EVENT_HOOK,
    SL_EVENT_NODE,
    SL_EVENT_STORE,
    SL_EVENT_CONTROLLER,
    SL_EVENT_END,
    SL_EVENT_KINDS
} sl_event_kind;

typedef struct sl_event_name {
    const char *name, *meaning;
} sl_event_name;

extern const sl_event_name sl_event_names[SL_EVENT_KINDS];

/* Empty texts and negative numbers are left out of the line. */
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

#endif
