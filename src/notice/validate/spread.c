#include "base/median.h"
#include "notice/validate/verdict.h"

#include <math.h>
#include <stdlib.h>

void sl_spread(double *value, int count, double *median, double *cv) {
    double mean = 0, squares = 0;
    *median = *cv = 0;
    if (count < 1)
        return;
    qsort(value, (size_t)count, sizeof *value, sl_ascending_numbers);
    *median = count % 2 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
    for (int i = 0; i < count; i++)
        mean += value[i] / count;
    for (int i = 0; i < count; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    if (count > 1 && mean > 0)
        *cv = sqrt(squares / (count - 1)) / mean;
}
