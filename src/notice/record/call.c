#include "notice/record/call.h"

#include <stdio.h>
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

void sl_call_write(sl_record_ring *ring, uint32_t capacity, const sl_call *call) {
    sl_record record;
    memcpy(&record, call, sizeof record);
    sl_record_write(ring, capacity, &record);
}

void sl_ring_name(const sl_process_id *process, int thread, char name[SL_FILE_NAME]) {
    snprintf(name, SL_FILE_NAME, "%d-%016llx.%d.ring", process->pid, (unsigned long long)process->id, thread);
}

void sl_gate_name(const sl_process_id *process, char name[SL_FILE_NAME]) {
    snprintf(name, SL_FILE_NAME, "%d-%016llx.gate", process->pid, (unsigned long long)process->id);
}
