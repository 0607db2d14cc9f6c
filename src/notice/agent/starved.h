/* How long a process wanted a processor and had none, as the system says (/proc/PID/task/TID/schedstat): what
 * co-located load or a quota took from it, but neither waiting for others nor computing slowly. */
#ifndef SL_NOTICE_AGENT_STARVED_H
#define SL_NOTICE_AGENT_STARVED_H

#include "base/time.h"

/** Of the thread of process `pid` that starved longest since it began, ns; -1: the system does not say. */
sl_time sl_starved(int pid);

#endif
