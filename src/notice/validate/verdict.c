#include "notice/validate/verdict.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "notice/validate/verdict_inside.h"
#include <math.h>
#include <stdlib.h>

void sl_verdicts_free(sl_verdicts *verdicts) {
    sl_free(verdicts->suspect);
    *verdicts = (sl_verdicts){0};
}

sl_status sl_assessment_add(sl_assessment *j, const sl_suspect *suspect) {
    sl_verdicts *v = j->v;
    SL_TRY(sl_grow(&v->suspect, &v->room, (size_t)v->count + 1, sizeof *v->suspect));
    v->suspect[v->count++] = *suspect;
    return SL_OK;
}

sl_suspect sl_assessment_nobody(void) {
    return (sl_suspect){.component = SL_COMPONENT_UNKNOWN, .rank = -1, .from = -1, .to = -1};
}

sl_status sl_verdict(sl_validation *measured, const sl_reference *reference, sl_verdicts *verdicts) {
    sl_assessment j = {.m = measured, .v = verdicts};
    int most = measured->devices > measured->links ? measured->devices : measured->links;
    most = measured->gpus > most ? measured->gpus : most;
    *verdicts = (sl_verdicts){0};
    SL_TRY(sl_alloc(&j.value, (size_t)most, sizeof *j.value));
    sl_assessment_expect(&j, reference);
    sl_status status = sl_assessment_accuse(&j);
    SL_THEN(status, sl_assessment_gpus(&j, reference));
    SL_THEN(status, sl_assessment_doubt(&j));
    sl_free(j.value);
    return status;
}

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
