/* Equal replicas of a layout, for callers that evaluate many layouts and cache results per replica. */
#pragma once

#include "adapt/model/model.h"

/* Two replicas with equal values have the same sl_model_problem, in any layouts and at any time; those that
 * differ only in `sums` have the same pipeline. No gaps: it may be a key. */
typedef struct sl_likeness {
    uint64_t pipeline[2]; /* 128-bit digest of a replica's healthy problem and its slow components */
    uint64_t sums[2];     /* digest of the additional time of sums over replicas */
    int32_t microbatches, delegated;
} sl_likeness;

/** 128-bit digest of a problem with its microbatches. Never fails. */
void sl_model_digest(const sl_problem *problem, uint64_t word[2]);

/** The likeness of each replica in a layout: like[replicas]. SL_ENOMEM. */
sl_status sl_model_alike(sl_model *model, const sl_job_layout *layout, sl_likeness *like);
