#include "base/numbers.h"

#include <math.h>
#include <stdlib.h>

int sl_ascending_times(const void *a, const void *b) {
    sl_time x = *(const sl_time *)a, y = *(const sl_time *)b;
    return x < y ? -1 : x > y;
}

sl_time sl_median(sl_time *values, int count) {
    if (count <= 0)
        return 0;
    qsort(values, (size_t)count, sizeof *values, sl_ascending_times);
    return values[count / 2];
}

int sl_ascending_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double sl_median_of_numbers(double *values, int count) {
    if (count <= 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, sl_ascending_numbers);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

int sl_ascending_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

sl_time sl_percentile(sl_time *values, int count, double percentile) {
    if (count <= 0)
        return 0;
    qsort(values, (size_t)count, sizeof *values, sl_ascending_times);
    int rank = (int)ceil(percentile / 100 * count * (1 - 1e-12));
    return values[rank < 1 ? 0 : rank > count ? count - 1 : rank - 1];
}
