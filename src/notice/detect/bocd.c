/* The published batch algorithm. */
#include "notice/detect/change.h"

#include "base/memory.h"
#include "notice/detect/run_length.h"
#include <math.h>

#define EXACT 5000

static double mean_of(const double *sample, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += sample[i] / (double)(to - from);
    return sum;
}

/* 0 if no deviation can be distinguished from rounding: such a series never changes. */
static double deviation_of(const double *sample, size_t samples, double mean) {
    double sum = 0;
    for (size_t i = 0; i < samples; i++)
        sum += (sample[i] - mean) * (sample[i] - mean);
    double deviation = samples > 1 ? sqrt(sum / (double)(samples - 1)) : 0;
    return deviation > 1e-12 * fabs(mean) ? deviation : 0;
}

/* previous[i]: the beginning of the segment before one that begins at i, in the best segmentation up to i. */
static sl_status segment(const double *sample, size_t samples, int64_t *previous, int64_t *last) {
    double mean = mean_of(sample, 0, (int64_t)samples), deviation = deviation_of(sample, samples, mean);
    sl_run_prior prior = {.mean = 0, .strength = 1, .shape = 1, .rate = 1, .hazard = 0.01};
    prior.spacing = samples > EXACT ? 1.0 / 64 : 0;
    *last = 0;
    if (deviation == 0)
        return SL_OK;
    sl_run_lengths lengths;
    sl_status status = sl_run_lengths_open(&prior, samples > EXACT ? 0 : samples + 1, &lengths);
    for (size_t i = 0; status == SL_OK && i < samples; i++)
        previous[i] = sl_run_lengths_add(&lengths, (sample[i] - mean) / deviation);
    if (status == SL_OK)
        *last = lengths.best;
    sl_run_lengths_close(&lengths);
    return status;
}

sl_status sl_change_bocd(const double *sample, size_t samples, sl_change **change, size_t *changes) {
    int64_t *previous, last = 0;
    *change = NULL;
    *changes = 0;
    SL_TRY(sl_alloc(&previous, samples, sizeof *previous));
    sl_status status;
    SL_TRY_GOTO(done, status, segment(sample, samples, previous, &last));
    for (int64_t i = last; i > 0; i = previous[i])
        ++*changes;
    SL_TRY_GOTO(done, status, sl_alloc(change, *changes, sizeof **change));
    size_t left = *changes;
    for (int64_t i = last, end = (int64_t)samples; i > 0; end = i, i = previous[i])
        (*change)[--left] = (sl_change){.index = i,
                                        .seen = (int64_t)samples - 1,
                                        .kind = SL_CHANGE_ANY,
                                        .before = mean_of(sample, previous[i], i),
                                        .after = mean_of(sample, i, end)};
done:
    sl_free(previous);
    return status;
}
