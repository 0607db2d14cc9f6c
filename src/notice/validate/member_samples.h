/* What a member has measured, on its way to the others, and all of that as one picture. */
#pragma once

#include "notice/validate/introduction.h"
#include "notice/validate/link_test.h"
#include "notice/validate/verdict.h"

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

/* What a round has found, from the samples of all members. */
typedef struct sl_round_result {
    sl_membership membership;
    sl_validation measured;
    const char **host; /* names; measured.host */
    sl_absent *missing;
    int reports;      /* this member is the first of those that are there: it says the verdict */
    char joined[160]; /* why the test did not run where the rank does; "": it did, or there is none */
} sl_round_result;

/** Everybody's bytes into result->measured and what it points at; who brought none is missing. SL_EPEER: they
 * make no sense. SL_ENOMEM. */
sl_status sl_member_samples_join(const sl_allgather_parts *all, sl_round_result *result);

void sl_round_result_free(sl_round_result *result);
