#include "notice/detect/run_length.h"

#include "base/memory.h"
#include <assert.h>
#include <math.h>

#define YOUNG 8          /* runs up to this age are never merged */
#define SMALL 0.03       /* below it the series of log1p is exact to 2e-15 */
#define NEGLIGIBLE -36.0 /* log: a merged recursion forgets runs of less than 2.4e-16 in weight and score */
#define LN_2PI 1.8378770664093454836

/* The part of the predictive density of a run of `length` samples that depends on the length alone. For long
 * runs from the series of ln Gamma(x + 1/2) - ln Gamma(x) and of log1p, whose next terms are below 1e-15
 * there. */
static double normaliser(const sl_run_lengths *lengths, int64_t length) {
    if (length < SL_RUN_NORMALISERS)
        return lengths->normaliser[length];
    double u = 1 / (lengths->prior.strength + (double)length),
           x = lengths->prior.shape + 0.5 * (double)length;
    double gamma_step = 0.5 * log(x) - 1 / (8 * x) + 1 / (192 * x * x * x);
    return gamma_step - 0.5 * u * (1 - u * (1.0 / 2 - u * (1.0 / 3))) - 0.5 * LN_2PI;
}

static void fill_normalisers(sl_run_lengths *lengths) {
    for (int length = 0; length < SL_RUN_NORMALISERS; length++) {
        double strength = lengths->prior.strength + length, shape = lengths->prior.shape + 0.5 * length;
        lengths->normaliser[length] =
            lgamma(shape + 0.5) - lgamma(shape) - 0.5 * log1p(1 / strength) - 0.5 * LN_2PI;
    }
}

sl_status sl_run_lengths_open(const sl_run_prior *prior, size_t runs, sl_run_lengths *lengths) {
    *lengths = (sl_run_lengths){.prior = *prior};
    assert(prior->hazard > 0 && prior->hazard < 1 && (runs || prior->spacing > 0));
    /* ages up to 2^63 at one run an s-fold step, the young ones, and those since the last merging */
    lengths->capacity = runs ? runs : 64 + 4 * YOUNG + (size_t)(44 / log1p(prior->spacing));
    lengths->log_hazard = log(prior->hazard);
    lengths->log_stay = log1p(-prior->hazard);
    SL_TRY(sl_alloc(&lengths->normaliser, SL_RUN_NORMALISERS, sizeof *lengths->normaliser));
    SL_TRY(sl_alloc(&lengths->run, lengths->capacity, sizeof *lengths->run));
    fill_normalisers(lengths);
    sl_run_lengths_reset(lengths);
    return SL_OK;
}

void sl_run_lengths_close(sl_run_lengths *lengths) {
    SL_FREE(lengths->run, lengths->normaliser);
    *lengths = (sl_run_lengths){0};
}

static void begin_run(sl_run_lengths *lengths, double weight, double score) {
    assert(lengths->runs < lengths->capacity);
    lengths->run[lengths->runs++] = (sl_run_length){.start = lengths->samples,
                                                    .weight = weight,
                                                    .score = score,
                                                    .mean = lengths->prior.mean,
                                                    .rate = lengths->prior.rate,
                                                    .log_rate = log(lengths->prior.rate)};
}

void sl_run_lengths_reset(sl_run_lengths *lengths) {
    lengths->samples = 0;
    lengths->best = 0;
    lengths->runs = 0;
    begin_run(lengths, 0, 0);
}

/* log1p; the series, within its exact range, costs a third. */
static double log1p_of(double d) {
    if (d > SMALL)
        return log1p(d);
    double high = 1.0 / 5 - d * (1.0 / 6 - d * (1.0 / 7 - d * (1.0 / 8)));
    return d * (1 - d * (1.0 / 2 - d * (1.0 / 3 - d * (1.0 / 4 - d * high))));
}

/* The sample's log density in this run; updates the run's posterior with it: Student-t, written as the ratio
 * of marginal likelihoods. */
static double extend(const sl_run_lengths *lengths, sl_run_length *run, double sample) {
    int64_t length = lengths->samples - run->start;
    double strength = lengths->prior.strength + (double)length;
    double shape = lengths->prior.shape + 0.5 * (double)length, step = sample - run->mean;
    double grown = strength * step * step / (2 * (strength + 1)), log_grown = log1p_of(grown / run->rate);
    run->mean += step / (strength + 1);
    run->rate += grown;
    run->log_rate += log_grown;
    return normaliser(lengths, length) - 0.5 * run->log_rate - shape * log_grown;
}

static double add_logs(double a, double b) {
    double most = fmax(a, b);
    return most + log1p(exp(-fabs(a - b)));
}

/* Merges adjacent runs of nearly the same age; drops negligible ones. */
static void merge(sl_run_lengths *lengths) {
    size_t kept = 0;
    for (size_t i = 0; i < lengths->runs; i++) {
        sl_run_length *run = &lengths->run[i], *last = kept ? &lengths->run[kept - 1] : NULL;
        double age = (double)(lengths->samples - run->start);
        int negligible = age > 1 && run->weight < NEGLIGIBLE && run->score < NEGLIGIBLE;
        int near = last && age > YOUNG && (double)(run->start - last->start) <= lengths->prior.spacing * age;
        if (near) {
            double weight = add_logs(last->weight, run->weight);
            if (run->score > last->score)
                *last = *run;
            last->weight = weight;
        } else if (!negligible)
            lengths->run[kept++] = *run;
    }
    lengths->runs = kept;
}

int64_t sl_run_lengths_add(sl_run_lengths *lengths, double sample) {
    if (lengths->prior.spacing > 0 && lengths->samples % YOUNG == 0)
        merge(lengths);
    double most = -INFINITY, best = -INFINITY, sum = 0;
    int64_t previous = lengths->samples > 0 ? lengths->best : -1;
    for (size_t i = 0; i < lengths->runs; i++) {
        sl_run_length *run = &lengths->run[i];
        double density = extend(lengths, run, sample);
        run->weight += density;
        run->score += density;
        most = run->weight > most ? run->weight : most;
        if (run->score > best) {
            best = run->score;
            lengths->best = run->start;
        }
    }
    for (size_t i = 0; i < lengths->runs; i++) {
        double below = lengths->run[i].weight - most;
        if (below > -40) /* less changes no bit of a sum */
            sum += exp(below);
    }
    double evidence = most + log(sum);
    for (size_t i = 0; i < lengths->runs; i++) {
        lengths->run[i].weight += lengths->log_stay - evidence;
        lengths->run[i].score += lengths->log_stay - (best + lengths->log_stay);
    }
    lengths->samples++;
    begin_run(lengths, lengths->log_hazard, lengths->log_hazard - lengths->log_stay);
    return previous;
}
