/* The program of --on-event: which events it is called for, and what it is told. The event goes to its
 * standard input as JSON, the main fields into its environment (docs/watching.md has both tables). */
#ifndef SL_NOTICE_WATCH_CALLING_H
#define SL_NOTICE_WATCH_CALLING_H

#include "launch/hook.h"
#include "notice/watch/advice.h"

typedef struct sl_calling {
    sl_hook *hook;
    const char *job, *directory; /* the caller's */
} sl_calling;

/** Whether an event of this kind is one that the program is called for by itself: onset, verdict, relief. */
int sl_calling_wants(sl_event_kind kind);

/** Calls it for an event that asks nothing of it; its run's tag is 0. SL_ENONE: too many wait. SL_ENOMEM. */
sl_status sl_calling_event(const sl_calling *calling, const sl_event *event, const sl_status_view *view);

/** Calls it to carry an action out; its run's tag is action->id + 1. */
sl_status sl_calling_action(const sl_calling *calling, const sl_advice *advice,
                            const sl_orchestrator_action *action, const sl_event *event,
                            const sl_status_view *view);

#endif
