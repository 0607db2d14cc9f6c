/* The transport of a rank's pipeline: who is where, and the connections to those that it talks to. */
#ifndef SL_RUN_ARRANGE_CONNECT_H
#define SL_RUN_ARRANGE_CONNECT_H

#include "run/arrange/state.h"

/** Collective: t->transport for the messages of t->problem, the largest of `message_bytes` (NULL on a
 * pipeline of one rank), and t->remote. */
sl_status sl_connect(sl_trainer *t, size_t message_bytes);

#endif
