/* Waves: which devices of the members are tested at the same time. Members of one machine that share
 * processors must not press on each other, or the test would find its own load; a wave holds those that can
 * have processors to themselves. As many waves as members come on a processor, however many machines there
 * are. Pure. */
#pragma once

#include "base/status.h"
#include "notice/validate/readings.h"

typedef struct sl_wave_member {
    int host;       /* index of the machine */
    int threads;    /* 0: it is not tested */
    sl_core_set cores; /* that it may use */
} sl_wave_member;

/** wave[members]: the wave of each, -1 for those that are not tested; *waves of them. SL_ENOMEM. */
sl_status sl_waves(const sl_wave_member *member, int members, int *wave, int *waves);
