/* The agent of a node: reads the rings and gates of the processes that this node's probes serve, finds each
 * rank's iterations, and does what the controller orders: profiles, holds, raises, validation processes.
 *
 * Its caller (`slackline watch`) steps it and sleeps in between; a step does what is due and waits only for
 * the store. Nothing here can stop the watched program. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"

typedef struct sl_agent sl_agent;

typedef struct sl_agent_config {
    const char *folder;    /* of this node's rings and gates (SLACKLINE_PROBE); need not exist yet */
    const char *node;      /* its name, unique among the nodes of the job */
    sl_store *store;       /* the caller's; from now on only the agent uses it */
    const char *store_url; /* for the processes that it starts */
    const char *key;       /* the same; NULL: they do not seal */
    const char *job;
    const char *record; /* folder for call logs of each rank (CSV), NULL: none */
    int validate;       /* 0: never start a validation here */
} sl_agent_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_agent_open(const sl_agent_config *config, sl_agent **agent);
/** Releases every hold, ends its processes. NULL is fine. */
void sl_agent_close(sl_agent *agent);

/** Does what is due; *next is the time of the next call (CLOCK_MONOTONIC). Trouble with the store or with a
 * process is not an error: it is reported through the store, or once in the log. SL_ENOMEM. */
sl_status sl_agent_step(sl_agent *agent, sl_time now, sl_time *next);

/** Whether a call of any process has been read. */
int sl_agent_saw_calls(const sl_agent *agent);

/** Why the program's calls cannot be read (its probe is another version); "" if they can. */
const char *sl_agent_trouble(const sl_agent *agent);
