/* Which process controls the job: the one that holds the key `controller`. The key expires when its holder no
 * longer renews it; then the first process that asks gets it. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"

#define SL_LEADERSHIP_TIME (3 * SL_SECOND)

typedef struct sl_leadership {
    char name[96]; /* of this process, unique */
    int mine;
    sl_time next; /* of the next request or renewal */
} sl_leadership;

void sl_leadership_open(sl_leadership *leadership);

/** Requests or renews leadership when that is due. *mine is unchanged if the store does not answer. SL_EPEER,
 * SL_ENOMEM. */
sl_status sl_leadership_step(sl_leadership *leadership, sl_store *store, sl_time now);

/** Asks again at the next step, as after a loss of the store. */
void sl_leadership_renew(sl_leadership *leadership);

/** Gives up leadership. */
void sl_leadership_leave(sl_leadership *leadership, sl_store *store);
