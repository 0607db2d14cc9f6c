/* Internals of the verdict: expected values and comparisons (expect.c), suspects (accuse.c), GPUs
 * (gpus.c), and cases without an answer (doubt.c). */
#pragma once

#include "notice/validate/verdict.h"

typedef struct sl_assessment {
    sl_validation *m;
    sl_verdicts *v;
    double *value; /* scratch: [largest of devices, links, gpus] */
} sl_assessment;

/** Adds one verdict. SL_ENOMEM. */
sl_status sl_assessment_add(sl_assessment *j, const sl_suspect *suspect);
/** A verdict without a component. */
sl_suspect sl_assessment_nobody(void);

/** SL_LINKS_NEAR or SL_LINKS_FAR. */
int sl_assessment_kind(const sl_measured_link *link);

/** The median of `value[count]`, which it sorts; for an even number the better of the two in the middle. 0
 * for none. */
double sl_assessment_median(double *value, int count, int larger_is_better);

/* A device is kept waiting from this share of time without a processor. */
#define SL_ASSESSMENT_WAITING 0.25
/** The median share of time that devices wait, apart from quotas. */
double sl_assessment_waiting(sl_assessment *j);

/** Fills the kinds, then expected and slow of every device and direction. */
void sl_assessment_expect(sl_assessment *j, const sl_reference *reference);
/** Whether its rate is what is slow. */
int sl_assessment_by_rate(const sl_assessment *j, const sl_measured_link *link);

/** Fills expected and slow of the measured GPUs, and names those that are slow or faulty: slow is what is
 * more than 10% beyond their variation below a healthy reference of the same name, else below the median of
 * at least three of the same name, in one of its rates. SL_ENOMEM. */
sl_status sl_assessment_gpus(sl_assessment *j, const sl_reference *reference);
/** Names hosts, devices and links. SL_ENOMEM. */
sl_status sl_assessment_accuse(sl_assessment *j);
/** Adds the cases without an answer. SL_ENOMEM. */
sl_status sl_assessment_doubt(sl_assessment *j);
