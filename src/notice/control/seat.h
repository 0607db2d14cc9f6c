/* Who controls the job: the process that holds the key `controller`, which goes when its holder no longer
 * renews it; then whoever asks first has it. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"

#define SL_SEAT_LASTS (3 * SL_SECOND)

typedef struct sl_leadership {
    char name[96]; /* of who asks, unlike any other */
    int mine;
    sl_time next; /* time to ask, or to renew */
} sl_leadership;

void sl_leadership_open(sl_leadership *seat);

/** Asks for the seat or renews it, where it is time. *mine as it was when the store answers nothing.
 * SL_EPEER, SL_ENOMEM. */
sl_status sl_leadership_step(sl_leadership *seat, sl_store *store, sl_time now);

/** Gives it up. */
void sl_leadership_leave(sl_leadership *seat, sl_store *store);
