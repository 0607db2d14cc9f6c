/* Who controls the job: the process that holds the key `controller`, which goes when its holder no longer
 * renews it; then whoever asks first has it. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "notice/store/store.h"

#define SL_SEAT_LASTS (3 * SL_SECOND)

typedef struct sl_seat {
    char name[96]; /* of who asks, unlike any other */
    int mine;
    sl_time next; /* time to ask, or to renew */
} sl_seat;

void sl_seat_open(sl_seat *seat);

/** Asks for the seat or renews it, where it is time. *mine as it was when the store answers nothing.
 * SL_EPEER, SL_ENOMEM. */
sl_status sl_seat_step(sl_seat *seat, sl_store *store, sl_time now);

/** Gives it up. */
void sl_seat_leave(sl_seat *seat, sl_store *store);
