/* Waves: sets of members' devices that are tested at the same time. Members of one machine that share
 * processors must not compete, or the test would measure its own load; a wave holds those that can have
 * processors to themselves. The number of waves is the number of members per processor, for any number of
 * machines. Pure. */
#pragma once

#include "base/status.h"
#include "notice/validate/readings.h"

typedef struct sl_wave_member {
    int host;          /* index of the machine */
    int threads;       /* 0: not tested */
    sl_core_set cores; /* that it may use */
} sl_wave_member;

/** wave[members]: the wave of each, -1 for those not tested; *waves: number of waves. SL_ENOMEM. */
sl_status sl_waves(const sl_wave_member *member, int members, int *wave, int *waves);
