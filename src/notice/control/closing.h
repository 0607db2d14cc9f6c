/* The controller's side of a hold: collects the views of all gates in successive looks, runs the cut
 * (hold_cut.h), and gives the targets to raise. The first look only confirms that every gate is held; the cut
 * sees the later looks. */
#pragma once

#include "base/status.h"
#include "notice/control/hold_cut.h"
#include "notice/message/messages.h"

typedef struct sl_closing {
    sl_cut *cut; /* NULL: no hold */
    int64_t round;
    int ranks, look, came;
    sl_gate_view *views; /* [ranks] in one piece: the system gives no page that a gate's few channels leave
                            untouched */
    sl_gate_view **view; /* [ranks] each of them */
    char *seen;          /* [ranks] of this look */
    char trouble[192];   /* why the hold cannot close; "" */
} sl_closing;

/** SL_ENOMEM. */
sl_status sl_closing_begin(sl_closing *closing, int64_t round, int ranks, sl_cut_limits limits);
void sl_closing_end(sl_closing *closing);

/** One message of the log of views. */
void sl_closing_add(sl_closing *closing, const sl_message_head *head, const void *body);

/** Whether all ranks were seen in this look, or one of them cannot be held. */
int sl_closing_ready(const sl_closing *closing);

/** Ends the look: gives the verdict and the raises for the next look in the agents' format (new reference).
 * Increments the look's number. SL_ENOMEM. */
sl_status sl_closing_step(sl_closing *closing, sl_time now, sl_cut_verdict *verdict, json_t **raises);
