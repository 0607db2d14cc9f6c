#include "notice/record/call.h"

#include <string.h>

#define NAME(name) #name,
static const char *const names[] = {"?", SL_CALLS(NAME)};

const char *sl_call_name(int call) {
    return call > 0 && call < SL_CALL_COUNT ? names[call] : names[0];
}

int sl_call_of(const char *name) {
    for (int i = 1; i < SL_CALL_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return SL_CALL_NOTHING;
}

void sl_call_write(sl_record_ring *ring, const sl_call *call) {
    sl_record record;
    memcpy(&record, call, sizeof record);
    sl_record_write(ring, &record);
}
