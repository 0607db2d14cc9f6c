#include "notice/control/leadership.h"

#include "base/clock.h"
#include "base/memory.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEY "controller"

void sl_leadership_open(sl_leadership *leadership) {
    char host[64] = "";
    *leadership = (sl_leadership){.mine = 0};
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = 0;
    snprintf(leadership->name, sizeof leadership->name, "%s.%d.%lld.%p", host, (int)getpid(),
             (long long)sl_now(), (void *)leadership); /* two in one process differ as well */
}

static sl_status find_leader(const sl_leadership *leadership, sl_store *store, int *taken, int *mine) {
    void *bytes;
    size_t size;
    SL_TRY(sl_store_get(store, KEY, &bytes, &size));
    *taken = bytes != NULL;
    *mine = bytes && size == strlen(leadership->name) && memcmp(bytes, leadership->name, size) == 0;
    sl_free(bytes);
    return SL_OK;
}

/* Between the look and the renewal, another process may take a leadership that has just expired; the first
 * then finds itself replaced at its next look, and one of the two remains. Their orders until then have
 * different rounds. */
sl_status sl_leadership_step(sl_leadership *leadership, sl_store *store, sl_time now) {
    int taken = 0, mine = 0;
    if (now < leadership->next)
        return SL_OK;
    leadership->next = now + SL_LEADERSHIP_TIME / 4;
    SL_TRY(find_leader(leadership, store, &taken, &mine));
    if (!taken) {
        SL_TRY(sl_store_claim(store, KEY, leadership->name, strlen(leadership->name), SL_LEADERSHIP_TIME,
                              &leadership->mine));
        return SL_OK;
    }
    leadership->mine = mine;
    return mine ? sl_store_set(store, KEY, leadership->name, strlen(leadership->name), SL_LEADERSHIP_TIME)
                : SL_OK;
}

void sl_leadership_renew(sl_leadership *leadership) {
    leadership->next = 0;
}

void sl_leadership_leave(sl_leadership *leadership, sl_store *store) {
    int taken, mine = 0;
    if (leadership->mine && find_leader(leadership, store, &taken, &mine) == SL_OK && mine)
        sl_store_remove(store, KEY);
    leadership->mine = 0;
}
