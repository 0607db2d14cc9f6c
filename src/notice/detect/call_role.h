/* What the calls of a communication library do, as far as matching them between ranks needs it. */
#pragma once

#include "notice/record/call.h"

typedef enum sl_call_role {
    SL_ROLE_OTHER,      /* nothing that ranks can be compared in: probes, starts, communicators */
    SL_ROLE_SEND,       /* to its peer */
    SL_ROLE_RECEIVE,    /* from its peer */
    SL_ROLE_COLLECTIVE, /* nobody leaves before the last has come */
    SL_ROLE_ROOTED,     /* some may leave before others come: broadcasts, gathers, scans */
    SL_ROLE_WAIT,
    SL_ROLE_TEST
} sl_call_role;

/** Of a call, by its number. MPI_Sendrecv sends; its completion (sl_call_is_exchange) receives. */
sl_call_role sl_call_role_of(int call);

/** Whether it sends to one rank and receives from another. */
int sl_call_is_exchange(int call);

/** Whether it only posts: what it does is told by a record of kind completion. */
int sl_call_only_posts(int call);
