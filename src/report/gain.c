#include "report/gain.h"
#include "base/memory.h"
#include "base/numbers.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int is_among(const char *kind, const char *const *kinds) {
    for (; *kinds; kinds++)
        if (strcmp(kind, *kinds) == 0)
            return 1;
    return 0;
}

int sl_gain_is_change(const sl_run_data_event *e) {
    static const char *const kinds[] = {"swap", "return", "arrange", "delegate", "direct", "left", NULL};
    return is_among(e->kind, kinds);
}

static int is_boundary(const sl_run_data_event *e) {
    static const char *const kinds[] = {"fault", "onset", "relief", "restart", "resumed", "replaced", NULL};
    return is_among(e->kind, kinds) || sl_gain_is_change(e);
}

static int differs(const sl_run_data *t, size_t row) {
    return row > 0 && row < t->iterations &&
           (t->iteration[row].schedule != t->iteration[row - 1].schedule ||
            (t->iteration[row].delegates > 0) != (t->iteration[row - 1].delegates > 0));
}

int sl_gain_first(const sl_run_data *t, const sl_run_data_event *e) {
    long row = sl_run_data_find(t, e->iteration);
    int positions = strcmp(e->kind, "arrange") == 0 || strcmp(e->kind, "left") == 0;
    if (positions || row < 0)
        return e->iteration;
    return differs(t, (size_t)row) && !differs(t, (size_t)row + 1) ? e->iteration : e->iteration + 1;
}

static int begin_of(const sl_run_data *t, const sl_run_data_event *e) {
    return sl_gain_is_change(e) ? sl_gain_first(t, e) : e->iteration;
}

/* Rows of iterations from..to-1. */
static void rows_of(const sl_run_data *t, int from, int to, size_t *first, size_t *end) {
    for (*first = 0; *first < t->iterations && t->iteration[*first].iteration < from;)
        ++*first;
    for (*end = *first; *end < t->iterations && t->iteration[*end].iteration < to;)
        ++*end;
}

static double median_of(const sl_run_data *t, size_t first, size_t end, int *count) {
    double times[SL_GAIN_MAX];
    *count = 0;
    for (size_t i = first; i < end && *count < SL_GAIN_MAX; i++)
        if (!isnan(t->iteration[i].time))
            times[(*count)++] = t->iteration[i].time;
    return sl_median_of_numbers(times, *count);
}

static void measure(const sl_run_data *t, sl_gain *g) {
    size_t first, end;
    rows_of(t, g->since, g->first, &first, &end);
    if (end - first > SL_GAIN_MAX)
        first = end - SL_GAIN_MAX;
    g->before = median_of(t, first, end, &g->before_count);
    rows_of(t, g->first, g->until, &first, &end);
    g->after = median_of(t, first, end, &g->after_count);
    for (size_t i = first; i < end; i++)
        if (!isnan(t->iteration[i].time) && g->before_count > 0) {
            g->whole++;
            g->gained += g->before - t->iteration[i].time;
        }
}

static int compare_gains(const void *a, const void *b) {
    const sl_gain *x = a, *y = b;
    return x->first != y->first  ? (x->first < y->first ? -1 : 1)
           : x->event < y->event ? -1
                                 : x->event > y->event;
}

/* Changes at one iteration cannot be distinguished: they are one. */
static size_t join(sl_gain *gain, size_t count) {
    size_t kept = 0;
    if (count > 0)
        qsort(gain, count, sizeof *gain, compare_gains);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || gain[kept - 1].first != gain[i].first)
            gain[kept++] = gain[i];
    return kept;
}

/* Whether anything besides a change happened at its start. */
static int is_mixed(const sl_run_data *t, int first) {
    for (size_t i = 0; i < t->events; i++)
        if (t->event[i].iteration == first && is_boundary(&t->event[i]) && !sl_gain_is_change(&t->event[i]))
            return 1;
    return 0;
}

sl_status sl_gain_make(const sl_run_data *t, sl_gain **gain, size_t *count) {
    int *boundary;
    size_t boundaries = 0, next = 0;
    sl_status status;
    *count = 0;
    *gain = NULL;
    SL_TRY(sl_alloc(&boundary, t->events, sizeof *boundary));
    SL_TRY_GOTO(done, status, sl_alloc(gain, t->events, sizeof **gain));
    for (size_t i = 0; i < t->events; i++) {
        if (is_boundary(&t->event[i]))
            boundary[boundaries++] = begin_of(t, &t->event[i]);
        if (sl_gain_is_change(&t->event[i]))
            (*gain)[(*count)++] = (sl_gain){.event = i, .first = begin_of(t, &t->event[i])};
    }
    *count = join(*gain, *count);
    if (boundaries > 0)
        qsort(boundary, boundaries, sizeof *boundary, sl_ascending_ints);
    for (size_t i = 0; i < *count; i++) {
        sl_gain *g = &(*gain)[i];
        while (next < boundaries && boundary[next] < g->first)
            next++;
        size_t after = next;
        while (after < boundaries && boundary[after] == g->first)
            after++;
        g->until = after < boundaries ? boundary[after] : INT_MAX;
        g->since = next > 0 ? boundary[next - 1] : 0;
        g->is_mixed = is_mixed(t, g->first);
        measure(t, g);
    }
done:
    sl_free(boundary);
    return status;
}
