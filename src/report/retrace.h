/* A recorded iteration looked at again: its order lowered to the program that ran, replayed on what was known
 * before the iteration (the ops of the iteration before and its links, as metrics.jsonl has them), and what
 * held each op up, in the replay and as measured. */
#ifndef SL_REPORT_RETRACE_H
#define SL_REPORT_RETRACE_H

#include "plan/draw/highlight.h"
#include "report/recorded.h"

typedef struct sl_retraced {
    sl_timeline measured;  /* with a program its transfers are in the order of the program's messages */
    sl_timeline predicted; /* its first op begins when the measured one does */
    sl_problem problem;    /* what was known before */
    sl_program program;
    int has_program, has_predicted;
    int32_t *cause;           /* [measured.spans] as sl_critical_cause tells it; NULL without a program */
    int32_t *predicted_cause; /* [predicted.spans] */
    sl_highlight measured_path, predicted_path; /* where there are a program and a prediction */
    char why_not[320];                          /* why nothing is foretold; else empty */
} sl_retraced;

/** SL_ENOMEM. An order that is no schedule of the run's profile gives the measured timeline alone. Free with
 * sl_retraced_free, also on error. */
sl_status sl_retrace(const sl_told *told, const sl_recorded *recorded, size_t index, sl_retraced *retraced);
void sl_retraced_free(sl_retraced *retraced);

#endif
