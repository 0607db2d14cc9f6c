/* What a member has measured, on its way to the others, and all of that as one picture. */
#pragma once

#include "notice/validate/link_test.h"
#include "notice/validate/round.h"

/* One end of a link. */
typedef struct sl_link_end {
    int32_t pair;  /* of the membership's links */
    int32_t state; /* sl_wire_state */
    sl_link_evidence evidence;
    char why[96];
} sl_link_end;

typedef struct sl_member_samples {
    int repeats;    /* begun and finished */
    double *gflops; /* [repeats] */
    int devices;    /* 0: the device was not tested */
    sl_evidence evidence;
    sl_link_end *end; /* [ends] */
    int ends;
    sl_link_sample *link; /* [ends][room] */
    int room;             /* most repeats */
} sl_member_samples;

/** Room for `repeats` of `ends` ends. SL_ENOMEM. Free with sl_member_samples_free, also on error. */
sl_status sl_member_samples_open(int repeats, int ends, sl_member_samples *samples);
void sl_member_samples_free(sl_member_samples *samples);

/** As bytes for the others; free with sl_free. SL_ENOMEM. */
sl_status sl_member_samples_pack(const sl_member_samples *samples, void **bytes, size_t *size);

/** Everybody's bytes into result->measured and what it points at; who brought none is missing. SL_EPEER: they
 * make no sense. SL_ENOMEM. */
sl_status sl_member_samples_join(const sl_allgather_parts *all, sl_round_result *result);
