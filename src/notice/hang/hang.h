/* Notices that a watched job hangs or stalls: one of these per node, stepped by its watch.
 *
 * Each node looks at its own processes (look.h). While one of them has made no call for long, the node leaves
 * what they do in the store (`hang:NODE`). The watch in charge of the job reads that of all nodes, diagnoses
 * it (diagnosis.h), and reports what it found: a hang, which cannot end by itself, or a stall, which
 * might end; and that the job continues. What two looks in a row find is reported, each once. */
#pragma once

#include "base/event.h"
#include "notice/hang/diagnosis.h"
#include "notice/store/store.h"

typedef struct sl_hanging sl_hanging;

typedef struct sl_hanging_config {
    const char *folder; /* of this node's rings and gates */
    const char *node;
    sl_store *store; /* the caller's, sealed */
    sl_time after;   /* a job that makes no call for so long stalls */
    /* `state`: what all ranks do, and the verdict, as JSON (hang.json); NULL: as before. Both are the
     * caller's only during the call. */
    void (*report)(void *context, const sl_event *event, const json_t *state);
    void *context;
} sl_hanging_config;

/** The texts must outlive it. SL_ENOMEM. */
sl_status sl_hanging_open(const sl_hanging_config *config, sl_hanging **hanging);
void sl_hanging_close(sl_hanging *hanging);

/** Does what is due at `now`; `began` is the zero of events' times. `nodes`: the names of all nodes if this
 * watch is in charge; count 0: it is not. Trouble with the store is not an error. SL_ENOMEM. */
sl_status sl_hanging_step(sl_hanging *hanging, sl_time now, sl_time began, const char *const *nodes,
                          size_t count);

/** The program has ended well: a job that was reported to hang or stall made progress after all. */
void sl_hanging_finish(sl_hanging *hanging, sl_time now, sl_time began);

/** A verdict as JSON: cause, certain, rank, for_s, seen, why. NULL: no memory. */
json_t *sl_hang_verdict_json(const sl_hang_verdict *verdict);
