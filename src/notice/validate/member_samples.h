/* A member's measurements, as sent to the others, and their union. */
#pragma once

#include "notice/gpu/gpu.h"
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
    int repeats;    /* started and finished */
    double *gflops; /* [repeats] */
    int devices;    /* 0: the device was not tested */
    sl_evidence evidence;
    sl_link_end *end; /* [ends] */
    int ends;
    sl_link_sample *link; /* [ends][room] */
    int room;             /* most repeats */
    sl_gpu_result *gpu;   /* [gpus] */
    int gpus;
} sl_member_samples;

/** Allocates `repeats` of `ends` ends, and `gpus`. SL_ENOMEM. Free with sl_member_samples_free, also on
 * error. */
sl_status sl_member_samples_open(int repeats, int ends, int gpus, sl_member_samples *samples);
void sl_member_samples_free(sl_member_samples *samples);

/** As bytes to send; free with sl_free. SL_ENOMEM. */
sl_status sl_member_samples_pack(const sl_member_samples *samples, void **bytes, size_t *size);

/* The result of a round, from the samples of all members. */
typedef struct sl_round_result {
    sl_membership membership;
    sl_validation measured;
    const char **host; /* names; measured.host */
    sl_absent *missing;
    int reports;      /* this member is the first one present: it reports the verdict */
    char joined[160]; /* why the test did not run where the rank runs; "": it did, or there is no rank */
} sl_round_result;

/** Combines the bytes of all members into result->measured and its data; a member without bytes is missing.
 * SL_EPEER: invalid bytes. SL_ENOMEM. */
sl_status sl_member_samples_join(const sl_allgather_parts *all, sl_round_result *result);

void sl_round_result_free(sl_round_result *result);
