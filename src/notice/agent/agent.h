/* The agent of a node: reads the rings and looks at the gates of the processes that this node's probes serve,
 * finds each rank's iterations, and does what the controller asks for: profiles, holds, raises, validation
 * processes.
 *
 * It is stepped by its caller (`slackline watch`), which sleeps in between; a step does what is due and never
 * waits for anybody but the store. Nothing that happens here can stop the program that is watched. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"

typedef struct sl_agent sl_agent;

typedef struct sl_agent_config {
    const char *folder;    /* of this node's rings and gates (SLACKLINE_PROBE); need not exist yet */
    const char *node;      /* its name, unlike that of every other node of the job */
    sl_store *store;       /* the caller's; used by the agent alone from now on */
    const char *store_url; /* for the processes that it starts */
    const char *key;       /* the same; NULL: they seal nothing */
    const char *job;
    const char *record; /* folder for call logs of each rank (CSV), NULL: none */
    int validate;       /* 0: never start a validation here */
} sl_agent_config;

/** SL_EINVAL, SL_ENOMEM. */
sl_status sl_agent_open(const sl_agent_config *config, sl_agent **agent);
/** Releases every hold, ends what it started. NULL is fine. */
void sl_agent_close(sl_agent *agent);

/** Does what is due; *next is when it wants to be called again (CLOCK_MONOTONIC). Trouble with the store or
 * with a process is not an error: it is told through the store, or once on the log. SL_ENOMEM. */
sl_status sl_agent_step(sl_agent *agent, sl_time now, sl_time *next);

/** Whether any process has made a call that was read. */
int sl_agent_saw_calls(const sl_agent *agent);

/** Why calls of the program cannot be read (another version of the probe makes them); "" while they can. */
const char *sl_agent_trouble(const sl_agent *agent);
