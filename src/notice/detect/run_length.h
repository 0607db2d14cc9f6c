/* How long ago the level of a series last changed, as a probability: the recursion of Bayesian online
 * change-point detection (Adams and MacKay 2007; Falcon, section 4.2 and appendix 9.1), in log space.
 *
 * Between changes samples are normal with unknown mean and variance (normal-inverse-gamma prior), so a
 * sample's predictive density within a run is Student-t. A change comes before any sample with the same
 * probability, the hazard; hence P(run length 0) always is the hazard, and is no evidence of a change. Each
 * run has a probability and the score of the best segmentation whose last segment is that run: the collapse
 * of the most probable run indicates a change.
 *
 * Exact, the recursion keeps every run, n for n samples. With `spacing` s > 0, runs that are older than 8
 * samples and whose ages differ by less than s relative are merged: their probabilities add up, the better
 * one stays. So an old run length is known to s relative, and 1 / s * log(n) runs remain of n. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct sl_run_prior {
    double mean;     /* of the level */
    double strength; /* samples that the prior mean counts as */
    double shape;    /* of the variance's inverse gamma */
    double rate;
    double hazard;  /* 0 < hazard < 1 */
    double spacing; /* 0: exact */
} sl_run_prior;

/* One hypothesis: the level began with sample `start`. */
typedef struct sl_run_length {
    int64_t start;
    double weight; /* log of its probability given all samples; the weights' exponentials sum to 1 */
    double score;  /* log of the best segmentation that ends in this run, relative to the best of all runs (0)
                    */
    double mean, rate, log_rate; /* posterior of the level */
} sl_run_length;

typedef struct sl_run_lengths {
    sl_run_prior prior;
    double log_hazard, log_stay;
    int64_t samples;
    int64_t best; /* first sample of the last segment of the best segmentation of all samples; 0 for none */
    sl_run_length *run; /* [runs] by start; the last is the empty run that begins with the next sample */
    size_t runs, capacity;
    double *normaliser; /* [SL_RUN_NORMALISERS] of the predictive density, by run length */
} sl_run_lengths;

#define SL_RUN_NORMALISERS 4096

/** Room for `runs` simultaneous runs; exact needs samples + 1; 0: the bound with merging, for any number of
 * samples. SL_ENOMEM. Close with sl_run_lengths_close, also on error. */
sl_status sl_run_lengths_open(const sl_run_prior *prior, size_t runs, sl_run_lengths *lengths);
void sl_run_lengths_close(sl_run_lengths *lengths);

/** Forgets all samples. */
void sl_run_lengths_reset(sl_run_lengths *lengths);

/** Adds one sample, finite. Never fails, never allocates. Returns where the last segment began in the best
 * segmentation of the samples before this one, -1 for the first sample. */
int64_t sl_run_lengths_add(sl_run_lengths *lengths, double sample);
