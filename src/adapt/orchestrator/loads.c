#include "adapt/orchestrator/loads.h"

#include <math.h>

void sl_loads_add(sl_loads *l, double work, double time) {
    l->work[l->rows % SL_LOADS] = work;
    l->time[l->rows % SL_LOADS] = time;
    l->rows++;
}

double sl_errors_of_student(double t, double freedom) {
    return (8 * freedom + 1) / (8 * freedom + 3) * sqrt(freedom * log1p(t * t / freedom));
}

void sl_sums_add(sl_sums *s, double value) {
    double apart = value - s->mean;
    s->mean += apart / ++s->count;
    s->squares += apart * (value - s->mean);
}

double sl_sums_errors(const sl_sums *before, const sl_sums *since) {
    double freedom = before->count + since->count - 2, more = since->mean - before->mean;
    if (!(before->count > 0) || !(since->count > 0) || freedom < 1 || !(more > 0))
        return 0;
    double variance = (before->squares + since->squares) / freedom * (1 / before->count + 1 / since->count);
    return sl_errors_of_student(more / sqrt(variance), freedom);
}

sl_growth sl_loads_grown(const sl_loads *l, int quiet, double least) {
    int announced = l->rows > 0 && l->work[(l->rows - 1) % SL_LOADS] > 0;
    const double *value = announced ? l->work : l->time;
    int first = l->rows > SL_LOADS ? l->rows - SL_LOADS : 0;
    first = l->since > first ? l->since : first;
    first = !announced && quiet > first ? quiet : first;
    sl_sums before[SL_LOADS + 1] = {{0}}, since = {0};
    sl_growth grown = {0};
    double most = SL_LOADS_ERRORS;
    for (int i = first; i < l->rows; i++) {
        before[i + 1 - first] = before[i - first];
        if (value[i % SL_LOADS] > 0)
            sl_sums_add(&before[i + 1 - first], log(value[i % SL_LOADS]));
    }
    for (int i = l->rows - 1; i >= first; i--) {
        const sl_sums *b = &before[i - first];
        if (value[i % SL_LOADS] > 0)
            sl_sums_add(&since, log(value[i % SL_LOADS]));
        if (b->count < SL_LOADS_MIN || since.count < SL_LOADS_MIN || since.mean - b->mean < log(least))
            continue;
        double errors = sl_sums_errors(b, &since);
        if (errors > most) {
            most = errors;
            grown = (sl_growth){l->rows - i, announced, exp(b->mean), exp(since.mean - b->mean)};
        }
    }
    return grown;
}
