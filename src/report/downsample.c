#include "report/downsample.h"

#include <math.h>

static size_t add(size_t *index, size_t kept, size_t one) {
    if (kept == 0 || index[kept - 1] < one)
        index[kept++] = one;
    return kept;
}

size_t sl_downsample(const double *y, size_t count, size_t most, size_t *index) {
    size_t kept = 0, pieces = most / 3 > 0 ? most / 3 : 1;
    if (count <= most)
        pieces = count;
    for (size_t p = 0; p < pieces; p++) {
        size_t from = count * p / pieces, to = count * (p + 1) / pieces, low = from, high = from;
        for (size_t i = from; i < to; i++) {
            low = y[i] < y[low] || isnan(y[low]) ? i : low;
            high = y[i] > y[high] || isnan(y[high]) ? i : high;
        }
        if (from == to)
            continue;
        kept = add(index, kept, from);
        kept = add(index, kept, low < high ? low : high);
        kept = add(index, kept, low < high ? high : low);
    }
    return count > 0 ? add(index, kept, count - 1) : 0;
}
