/* Which replicas of a layout are alike, for whoever asks about many layouts and keeps what he knows of each
 * replica. */
#pragma once

#include "adapt/model/model.h"

/* Two replicas, of any layouts and whatever was seen in between, that are equal in all of this have the same
 * sl_model_problem; those that differ in `sums` alone have the same pipeline. No gaps: it may be a key. */
typedef struct sl_likeness {
    uint64_t pipeline[2]; /* 128 bits that stand for a replica's healthy problem and what is slow in it */
    uint64_t sums[2];     /* for what sums over replicas take more */
    int32_t microbatches, delegated;
} sl_likeness;

/** 128 bits that stand for a problem with its microbatches. Never fails. */
void sl_model_digest(const sl_problem *problem, uint64_t word[2]);

/** What each replica is like in a layout: like[replicas]. SL_ENOMEM. */
sl_status sl_model_alike(sl_model *model, const sl_job_layout *layout, sl_likeness *like);
