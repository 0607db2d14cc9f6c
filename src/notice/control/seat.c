#include "notice/control/seat.h"

#include "base/clock.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEY "controller"

void sl_leadership_open(sl_leadership *seat) {
    char host[64] = "";
    *seat = (sl_leadership){.mine = 0};
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    snprintf(seat->name, sizeof seat->name, "%s.%d.%lld.%p", host, (int)getpid(), (long long)sl_now(),
             (void *)seat); /* two in one process differ as well */
}

static sl_status whose(const sl_leadership *seat, sl_store *store, int *taken, int *mine) {
    void *bytes;
    size_t size;
    SL_TRY(sl_store_get(store, KEY, &bytes, &size));
    *taken = bytes != NULL;
    *mine = bytes && size == strlen(seat->name) && memcmp(bytes, seat->name, size) == 0;
    sl_free(bytes);
    return SL_OK;
}

/* Between the look and the renewal, another process may take a seat that has just expired; the first then
 * finds itself replaced at its next look, and one of the two remains. Their orders in the meantime have
 * different rounds. */
sl_status sl_leadership_step(sl_leadership *seat, sl_store *store, sl_time now) {
    int taken = 0, mine = 0;
    if (now < seat->next)
        return SL_OK;
    seat->next = now + SL_SEAT_LASTS / 4;
    SL_TRY(whose(seat, store, &taken, &mine));
    if (!taken) {
        SL_TRY(sl_store_claim(store, KEY, seat->name, strlen(seat->name), SL_SEAT_LASTS, &seat->mine));
        return SL_OK;
    }
    seat->mine = mine;
    return mine ? sl_store_set(store, KEY, seat->name, strlen(seat->name), SL_SEAT_LASTS) : SL_OK;
}

void sl_leadership_leave(sl_leadership *seat, sl_store *store) {
    int taken, mine = 0;
    if (seat->mine && whose(seat, store, &taken, &mine) == SL_OK && mine)
        sl_store_remove(store, KEY);
    seat->mine = 0;
}
