#include "notice/detect/change.h"

#include "base/memory.h"
#include "notice/detect/run_length.h"
#include <math.h>

#define RING 256     /* samples kept; a power of two */
#define BEFORE 40    /* samples that make the level before a change */
#define SUSTAINED 4  /* samples that a new level must have lasted */
#define DECIDED 24   /* after this many samples the plain 10% check decides */
#define LONGEST 96   /* a run that began earlier is not new */
#define WARM 5       /* samples for the first level, needed before the first onset */
#define SETTLED 16   /* samples needed before a first relief: fewer are a start that settles */
#define NOISE 64     /* differences that make the scale */
#define FINEST 0.01  /* relative noise is never taken for less */
#define CLIP 10.0    /* a sample counts for at most this many times the scale */
#define NEAR 16      /* samples around the collapse among which the change is placed */
#define WINDOW 10    /* samples of the sliding window */
#define REFERENCE 50 /* samples that its median is compared with */

struct sl_detector {
    sl_change_algorithm algorithm;
    int64_t samples;
    int64_t level;        /* first sample of the confirmed level */
    int64_t origin;       /* first sample that the recursion knows */
    int reported;         /* changes so far */
    double known;         /* the level as it was confirmed; 0: the first one */
    double healthy;       /* the level before the last onset, as long as that has not gone; else 0 */
    double centre, scale; /* ln of the level; relative noise */
    double sample[RING], log_sample[RING];
    sl_run_lengths lengths;
};

sl_status sl_detector_open(sl_change_algorithm algorithm, sl_detector **detector) {
    sl_run_prior prior = {
        .mean = 0, .strength = 0.03, .shape = 1, .rate = 1, .hazard = 0.01, .spacing = 0.25};
    *detector = NULL;
    SL_TRY(sl_alloc(detector, 1, sizeof **detector));
    (*detector)->algorithm = algorithm;
    (*detector)->scale = 2 * FINEST;
    sl_status status = sl_run_lengths_open(&prior, 0, &(*detector)->lengths);
    if (status != SL_OK) {
        sl_detector_close(*detector);
        *detector = NULL;
    }
    return status;
}

void sl_detector_close(sl_detector *detector) {
    if (detector)
        sl_run_lengths_close(&detector->lengths);
    sl_free(detector);
}

/* The lower half of `value` before its middle one, which it returns (quickselect). */
static double middle(double *value, int count) {
    int low = 0, high = count - 1, wanted = count / 2;
    while (low < high) {
        double pivot = value[(low + high) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (value[i] < pivot)
                i++;
            while (value[j] > pivot)
                j--;
            if (i <= j) {
                double swap = value[i];
                value[i++] = value[j];
                value[j--] = swap;
            }
        }
        if (wanted <= j)
            high = j;
        else if (wanted >= i)
            low = i;
        else
            break;
    }
    return value[wanted];
}

static double log_at(const sl_detector *d, int64_t index) {
    return d->log_sample[index % RING];
}

/* Median of the samples [from, to), all of them still in the ring. */
static double median(const sl_detector *d, int64_t from, int64_t to) {
    double value[RING];
    int count = 0;
    for (int64_t i = from; i < to; i++)
        value[count++] = d->sample[i % RING];
    if (count == 0)
        return 0;
    double upper = middle(value, count);
    if (count % 2)
        return upper;
    double lower = value[0];
    for (int i = 1; i < count / 2; i++)
        lower = fmax(lower, value[i]);
    return (lower + upper) / 2;
}

/* The relative noise: 1.4826 times the median difference between neighbors, over the square root of 2. */
static void measure_noise(sl_detector *d) {
    double value[NOISE];
    int count = 0;
    for (int64_t i = d->samples - 1; i > 0 && count < NOISE; i--)
        value[count++] = fabs(log_at(d, i) - log_at(d, i - 1));
    double finest = d->samples < SETTLED ? 2 * FINEST : FINEST;
    d->scale = count ? fmax(finest, 1.0484 * middle(value, count)) : finest;
}

static void feed(sl_detector *d, int64_t index) {
    double z = (log_at(d, index) - d->centre) / d->scale;
    sl_run_lengths_add(&d->lengths, fmax(-CLIP, fmin(CLIP, z)));
}

/* From now on `value` is the level, from sample `from`. */
static void settle(sl_detector *d, int64_t from, double value) {
    d->origin = from;
    d->centre = log(fmax(value, 1e-300));
    sl_run_lengths_reset(&d->lengths);
    for (int64_t i = from; i < d->samples; i++)
        feed(d, i);
}

/* Standard error of the median of the samples from `start` on, relative; by their range when they are few. */
static double error_of(const sl_detector *d, int64_t start, double after) {
    double value[RING], low = INFINITY, high = -INFINITY, centre = log(fmax(after, 1e-300));
    int count = 0;
    for (int64_t i = start; i < d->samples; i++) {
        low = fmin(low, log_at(d, i));
        high = fmax(high, log_at(d, i));
        value[count++] = fabs(log_at(d, i) - centre);
    }
    double spread = count < 8 ? (high - low) / 2.5 : 1.4826 * middle(value, count);
    return 1.25 * fmax(spread, d->scale) / sqrt((double)count);
}

/* The misfit of `sample` and `level`; limited to the distance between the two levels, so that a spike fits
 * both equally badly. */
static double misfit(double sample, double level, double most) {
    return fmin(fabs(sample - level), most);
}

/* Where two levels part with the smallest sum of misfits, near the start of the run. */
static int64_t change_index(const sl_detector *d, int64_t start, double before, double after) {
    int64_t from = start - NEAR, to = start + DECIDED;
    from = from < d->level + 1 ? d->level + 1 : from;
    to = to > d->samples ? d->samples : to;
    double a = log(before), b = log(after), most = fabs(a - b), sum = 0, least = INFINITY;
    int64_t best = start;
    for (int64_t i = from; i < to; i++) {
        if (sum < least - 1e-12) {
            least = sum;
            best = i;
        }
        sum += misfit(log_at(d, i), a, most) - misfit(log_at(d, i), b, most);
    }
    return best;
}

/* Whether most samples from `start` on, and at least as many as a level must last, are near their median: a
 * median between spikes is not a level. */
static int agree(const sl_detector *d, int64_t start, double after) {
    double centre = log(fmax(after, 1e-300)), width = 0.05 + fmin(2 * d->scale, 0.05);
    int64_t count = 0;
    for (int64_t i = start; i < d->samples; i++)
        count += fabs(log_at(d, i) - centre) <= width;
    return count >= SUSTAINED && 2 * count > d->samples - start;
}

/* Not reported: settling after a start, and the second half of a change that took two steps. */
static int is_settling(const sl_detector *d, int64_t index, int onset) {
    int64_t least = d->reported ? SUSTAINED : onset ? WARM : SETTLED;
    return index - d->level < least;
}

/* The levels are known to differ: the change is placed, which takes as many samples after it, and reported
 * unless it is part of another. */
static int confirm(sl_detector *d, int64_t start, double before, double after, sl_change *change) {
    int64_t index = change_index(d, start, before, after);
    if (d->samples - index < SUSTAINED)
        return 0;
    int onset = after > before, counts = !is_settling(d, index, onset);
    *change = (sl_change){.index = index,
                          .seen = d->samples - 1,
                          .kind = onset ? SL_CHANGE_ONSET : SL_CHANGE_RELIEF,
                          .before = before,
                          .after = after};
    d->level = index;
    d->known = after;
    d->reported += counts;
    d->healthy = !onset || !counts ? 0 : d->healthy > 0 ? d->healthy : before;
    settle(d, index, after);
    return counts;
}

/* The relief of a reported onset may fall a little short of the onset, by drift: a return counts from two
 * thirds of 10% if it ends at the level before the onset. */
static double min_of(const sl_detector *d, double before, double after) {
    int back = d->healthy > 0 && after < before && fabs(log(after / d->healthy)) < 0.03;
    return back ? log1p(SL_CHANGE_MIN * 2 / 3) : log1p(SL_CHANGE_MIN);
}

/* The 10% check, with more than that asked of few samples: `needed` standard errors on top. */
static int verify(sl_detector *d, sl_change *change) {
    int64_t start = d->origin + d->lengths.best, count = d->samples - start;
    if (start <= d->origin || count < SUSTAINED)
        return 0;
    int64_t first = start - BEFORE > d->level ? start - BEFORE : d->level;
    if (count > LONGEST) {
        settle(d, d->samples - DECIDED, median(d, d->samples - DECIDED, d->samples));
        return 0;
    }
    int64_t until = count > DECIDED ? start + DECIDED : d->samples;
    double before = start - d->level < WARM * 2 && d->known > 0 ? d->known : median(d, first, start);
    double after = median(d, start, until);
    double needed = count < 8 ? 3 : count < 16 ? 2 : count < DECIDED ? 1 : 0;
    double ratio = before > 0 && after > 0 ? fabs(log(after / before)) : 0;
    double error = needed > 0 ? error_of(d, start, after) : 0;
    if (ratio > 0 && ratio >= min_of(d, before, after) + needed * error &&
        (count >= DECIDED || agree(d, start, after)))
        return confirm(d, start, before, after, change);
    if (count >= DECIDED)
        settle(d, start, after);
    return 0;
}

static int add_bocd_v(sl_detector *d, sl_change *change) {
    if (d->samples < WARM)
        return 0;
    if (d->samples == WARM) {
        measure_noise(d);
        settle(d, 0, median(d, 0, WARM));
        return 0;
    }
    if (d->samples < NOISE || d->samples % 8 == 0)
        measure_noise(d);
    feed(d, d->samples - 1);
    return verify(d, change);
}

/* Falcon's baseline: the window's median is 10% from the level's. */
static int add_window(sl_detector *d, sl_change *change) {
    int64_t from = d->samples - WINDOW, first = from - REFERENCE;
    first = first < d->level ? d->level : first;
    if (from - first < WINDOW)
        return 0;
    double before = median(d, first, from), after = median(d, from, d->samples);
    if (before <= 0 || after <= 0 || fabs(log(after / before)) < log1p(SL_CHANGE_MIN))
        return 0;
    int onset = after > before;
    while (from < d->samples - 1) {
        double ratio = d->sample[from % RING] / before;
        if (onset ? ratio >= 1 + SL_CHANGE_MIN : ratio <= 1 / (1 + SL_CHANGE_MIN))
            break;
        from++;
    }
    *change = (sl_change){.index = from,
                          .seen = d->samples - 1,
                          .kind = onset ? SL_CHANGE_ONSET : SL_CHANGE_RELIEF,
                          .before = before,
                          .after = after};
    d->level = from;
    return 1;
}

int sl_detector_add(sl_detector *d, double sample, sl_change *change) {
    d->sample[d->samples % RING] = sample;
    d->log_sample[d->samples % RING] = log(fmax(sample, 1e-300));
    d->samples++;
    return d->algorithm == SL_CHANGE_WINDOW ? add_window(d, change) : add_bocd_v(d, change);
}

double sl_detector_level(const sl_detector *d) {
    int64_t first = d->samples - BEFORE > d->level ? d->samples - BEFORE : d->level;
    return median(d, first, d->samples);
}
