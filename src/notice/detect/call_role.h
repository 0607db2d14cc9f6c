/* What the calls of a communication library do, as far as needed to match them between ranks. */
#pragma once

#include "notice/record/call.h"

typedef enum sl_call_role {
    SL_ROLE_OTHER,      /* nothing to compare ranks by: probes, starts, communicators */
    SL_ROLE_SEND,       /* to its peer */
    SL_ROLE_RECEIVE,    /* from its peer */
    SL_ROLE_COLLECTIVE, /* no member leaves before the last has come */
    SL_ROLE_ROOTED,     /* some may leave before others come: broadcasts, gathers, scans */
    SL_ROLE_WAIT,
    SL_ROLE_TEST
} sl_call_role;

/** Role of a call, by its number. MPI_Sendrecv sends; its completion (sl_call_is_exchange) receives. */
sl_call_role sl_call_role_of(int call);

/** Whether it sends to one rank and receives from another. */
int sl_call_is_exchange(int call);

/** Whether it only posts: a record of kind completion reports what it does. */
int sl_call_only_posts(int call);
