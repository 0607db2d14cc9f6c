#include "plan/draw/axis.h"

#include <math.h>
#include <stdio.h>

static const double leads[] = {1, 2, 5};

/* 10^exponent; as a quotient below 1, where pow is not exact and 1/10 would not be 0.1. */
static double scaled(double lead, int exponent) {
    return exponent >= 0 ? lead * pow(10, exponent) : lead / pow(10, -exponent);
}

/* Nearly whole counts as whole: 0.3 / 0.1 is 2.9999999999999996. */
static double steps_below(double value, double step) {
    double steps = value / step, nearest = round(steps);
    return fabs(steps - nearest) < 1e-6 ? nearest : floor(steps);
}

static double steps_above(double value, double step) {
    return -steps_below(-value, step);
}

sl_chart_axis sl_axis_around(double low, double high, int most) {
    if (!isfinite(low) || !isfinite(high) || low > high) {
        low = 0;
        high = 1;
    }
    double size = fmax(fabs(low), fabs(high));
    if (high - low <= 1e-9 * size || high == low) {
        double half = size > 1e-200 ? size / 20 : 0.5;
        low -= half;
        high += half;
    }
    int exponent = (int)floor(log10((high - low) / most));
    for (int i = 0;; i++) {
        int power = exponent + i / 3;
        double step = scaled(leads[i % 3], power), first = steps_below(low, step),
               last = steps_above(high, step);
        if (last - first <= most)
            return (sl_chart_axis){.low = first * step,
                                   .high = last * step,
                                   .step = step,
                                   .steps = (int)(last - first),
                                   .decimals = power < 0 ? -power : 0};
    }
}

sl_chart_axis sl_axis_whole(double low, double high, int most) {
    low = floor(low);
    high = fmax(ceil(high), low + 1);
    if (!(high - low <= most))
        return sl_axis_around(low, high, most);
    return (sl_chart_axis){.low = low, .high = high, .step = 1, .steps = (int)(high - low)};
}

double sl_axis_tick(const sl_chart_axis *axis, int i) {
    double value = (round(axis->low / axis->step) + i) * axis->step;
    return value == 0 ? 0 : value; /* not -0 */
}

void sl_axis_label(const sl_chart_axis *axis, int i, char *text, size_t size) {
    if (axis->decimals > 9 || fabs(axis->low) >= 1e15 || fabs(axis->high) >= 1e15)
        snprintf(text, size, "%.6g", sl_axis_tick(axis, i));
    else
        snprintf(text, size, "%.*f", axis->decimals, sl_axis_tick(axis, i));
}

double sl_axis_share(const sl_chart_axis *axis, double value) {
    return (value - axis->low) / (axis->high - axis->low);
}
