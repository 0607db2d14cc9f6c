/* The axis of a chart: a range of numbers in steps of 1, 2 or 5 times a power of ten. */
#pragma once

#include <stddef.h>

typedef struct sl_chart_axis {
    double low, high, step; /* both ends are whole steps */
    int steps;              /* from low to high, at least 1 */
    int decimals;           /* needed to distinguish two ticks */
} sl_chart_axis;

/** The smallest axis of at most `most` steps (at least 2) whose ends enclose [low, high]. A range without
 * width is widened; ends that are not finite give 0 to 1. Never fails. */
sl_chart_axis sl_axis_around(double low, double high, int most);

/** The same for whole numbers: every tick is one. */
sl_chart_axis sl_axis_whole(double low, double high, int most);

/** The number at tick `i`, 0 to steps: without the rounding errors of a sum. */
double sl_axis_tick(const sl_chart_axis *axis, int i);
/** Its label, with the axis' decimals. */
void sl_axis_label(const sl_chart_axis *axis, int i, char *text, size_t size);

/** The position of a value on the axis: 0 at low, 1 at high. */
double sl_axis_share(const sl_chart_axis *axis, double value);
