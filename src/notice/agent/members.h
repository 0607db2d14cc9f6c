/* The validation processes of an agent: `slackline healthcheck --join ...`, one per rank of its node that takes
 * part in a round. They are this process's children and end with their round, or with it.
 *
 * The store's URL may contain a password, and the job's key is secret: both are passed in files in memory
 * (--join @/dev/fd/3 --key @/dev/fd/4). */
#pragma once

#include "base/status.h"
#include "base/subprocess.h"
#include "base/time.h"
#include <stdint.h>

typedef struct sl_members {
    sl_subprocess *child; /* [children] */
    size_t children, capacity;
    int64_t round;
    sl_time until;    /* time at which they are ended */
    sl_time patience; /* wait for killed ones that do not end; 0: 2 s, because the agent has other work */
} sl_members;

typedef struct sl_member {
    int64_t round;
    int member, members; /* its number, and their count */
    int rank, pid;       /* the watched process that it accompanies */
    int gemm;            /* its device is tested */
    int64_t deadline_ms; /* from now: no repeat starts that might end after it */
    const char *links;   /* "0-1,1-2" of ranks; "": those of a ring */
    const char *store_url, *job;
    const char *key; /* NULL: no sealing */
} sl_member;

/** Starts one. A failure is logged and is not an error: the round then ends by its own limits. SL_ENOMEM. */
sl_status sl_members_start(sl_members *members, const sl_member *member, sl_time until);

/** Reaps those that have ended; ends those that are late. */
void sl_members_look(sl_members *members, sl_time now);

/** Ends all of them. Those that do not end are logged and abandoned. */
void sl_members_end(sl_members *members);
void sl_members_close(sl_members *members);
