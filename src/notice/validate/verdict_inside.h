/* The verdict from inside: what is expected and who is worse (expect.c), who is named (accuse.c), and what
 * cannot be told (doubt.c). */
#pragma once

#include "notice/validate/verdict.h"

typedef struct sl_judge {
    sl_validation *m;
    sl_verdicts *v;
    double *value; /* scratch: [largest of devices, links] */
} sl_judge;

/** One more verdict. SL_ENOMEM. */
sl_status sl_judge_add(sl_judge *j, const sl_suspect *suspect);
/** A verdict that names nobody yet. */
sl_suspect sl_judge_nobody(void);

/** SL_LINKS_NEAR or SL_LINKS_FAR. */
int sl_judge_kind(const sl_measured_link *link);

/** The median of `value[count]`, which are sorted; of an even number the better of the two in the middle. 0
 * for none. */
double sl_judge_median(double *value, int count, int larger_is_better);

/* Share of time without a processor from which on a device is kept waiting. */
#define SL_JUDGE_WAITING 0.25
/** How long most devices are, but for quotas. */
double sl_judge_waiting(sl_judge *j);

/** Fills the kinds, then expected and slow of every device and direction. */
void sl_judge_expect(sl_judge *j, const sl_reference *reference);
/** Whether it is its rate that is slow. */
int sl_judge_by_rate(const sl_judge *j, const sl_measured_link *link);

/** Names hosts, devices and links. SL_ENOMEM. */
sl_status sl_judge_accuse(sl_judge *j);
/** Says what cannot be told. SL_ENOMEM. */
sl_status sl_judge_doubt(sl_judge *j);
