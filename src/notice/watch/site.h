/* The folder of a node, which contains the probe's rings and gates, and the choice of the node's agent. All
 * ranks of the node share it with a lock each (launch/directory.h): the last to leave removes it, and the
 * next start clears what killed ones left. The agent is the first to take the lock on its file `agent.lock`:
 * the rank with the lowest number tries immediately, the others a little later, because a launcher's host may
 * be several nodes (network namespaces). */
#pragma once

#include "launch/directory.h"
#include "notice/watch/launch_position.h"

typedef struct sl_site {
    sl_launch_directory directory;
    int agent;  /* open file with the agent's lock; -1: another has it */
    int member; /* open file with a shared lock of the other ranks; -1 */
    int is_agent;
} sl_site;

/** Clears the rest of dead runs, makes or joins the folder. SL_ESYS. Close it also on error. */
sl_status sl_site_open(const sl_launch_position *position, sl_site *site);
void sl_site_close(sl_site *site);

/** Makes this process the agent of a node without one; returns whether it is. */
int sl_site_claim(sl_site *site);

/** For the agent: no other rank of the node is still watched. */
int sl_site_alone(const sl_site *site);
