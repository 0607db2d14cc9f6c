/* The controller's side of a hold: collects the views of all gates, a look after the other, runs the cut
 * (hold_cut.h), and says what is to be raised. The first look only tells that every gate is held; the cut
 * sees the looks that follow. */
#pragma once

#include "base/status.h"
#include "notice/control/hold_cut.h"
#include "notice/message/messages.h"

typedef struct sl_closing {
    sl_cut *cut; /* NULL: no hold */
    int64_t round;
    int ranks, look, came;
    sl_gate_view **view; /* [ranks] */
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

/** The look is over: the verdict, and the raises for the next one as agents read them (new reference). The
 * number of the look goes up. SL_ENOMEM. */
sl_status sl_closing_step(sl_closing *closing, sl_time now, sl_cut_verdict *verdict, json_t **raises);
