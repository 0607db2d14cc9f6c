#include "base/text.h"
#include "notice/validate/verdict_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BEYOND 1.1
enum { MIN = 3 }; /* GPUs that can be compared */

/* The median of one rate of GPUs with this name, and the factor from which one is slow; 0: too few. */
static double usual(sl_assessment *j, const char *name, int which, double *factor) {
    int count = 0;
    for (int i = 0; i < j->m->gpus; i++)
        if (strcmp(j->m->gpu[i].test.state.name, name) == 0 && j->m->gpu[i].test.rates.rate[which] > 0)
            j->value[count++] = j->m->gpu[i].test.rates.rate[which];
    double median = sl_assessment_median(j->value, count, 1);
    for (int i = 0; i < count; i++)
        j->value[i] = fabs(j->value[i] - median);
    *factor = BEYOND + (median > 0 ? 2 * 1.4826 * sl_assessment_median(j->value, count, 0) / median : 0);
    return count >= MIN ? median : 0;
}

/* "bf16 products 310 of 640 TFLOP/s expected" for each rate that is slow. */
static int compare(sl_assessment *j, sl_measured_gpu *g, const sl_reference *reference, char *why,
                   size_t size) {
    int worst = -1, alike = reference && strcmp(reference->gpu, g->test.state.name) == 0;
    double most = 1;
    why[0] = 0;
    for (int r = 0; r < SL_GPU_RATES; r++) {
        double factor, found = g->test.rates.rate[r];
        double others = usual(j, g->test.state.name, r, &factor);
        g->expected[r] = alike && reference->gpu_rate[r] > 0 ? reference->gpu_rate[r] : others;
        if (found <= 0 || g->expected[r] <= factor * found)
            continue;
        size_t used = strlen(why);
        snprintf(why + used, size - used, "%s%s %.3g of %.3g %s expected", used ? ", " : "",
                 sl_gpu_rate_name[r], found, g->expected[r], sl_gpu_rate_unit[r]);
        if (g->expected[r] / found > most) {
            most = g->expected[r] / found;
            worst = r;
        }
    }
    return worst;
}

static sl_status assess(sl_assessment *j, sl_measured_gpu *g, const sl_reference *reference) {
    char cause[96], fault[200], rates[300], clocks[80];
    int worst = compare(j, g, reference, rates, sizeof rates);
    sl_gpu_faults(&g->test, cause, sizeof cause, fault, sizeof fault);
    g->slow = worst >= 0 || fault[0];
    if (!g->slow)
        return SL_OK;
    sl_suspect s = sl_assessment_nobody();
    s.component = SL_COMPONENT_DEVICE;
    s.rank = g->rank;
    if (worst >= 0) {
        s.measured = g->test.rates.rate[worst];
        s.expected = g->expected[worst];
        sl_gpu_clocks(&g->test.state, clocks, sizeof clocks);
        if (!cause[0] && clocks[0])
            snprintf(cause, sizeof cause, "%s", clocks);
    }
    sl_text_format(s.cause, sizeof s.cause, "GPU%s%s", cause[0] ? ": " : "", cause);
    sl_text_format(s.why, sizeof s.why, "GPU %d (%s): %s%s%s", g->test.index, g->test.state.pci, fault,
                   fault[0] && rates[0] ? "; " : "", rates);
    return sl_assessment_add(j, &s);
}

sl_status sl_assessment_gpus(sl_assessment *j, const sl_reference *reference) {
    for (int i = 0; i < j->m->gpus; i++)
        SL_TRY(assess(j, &j->m->gpu[i], reference));
    return SL_OK;
}
