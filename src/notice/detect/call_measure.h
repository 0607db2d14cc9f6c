/* What is slow in a profile, before any suspect is named: ranks by their computing, groups by their
 * transfers. Internal to call_measure.c and the files of call_verdict.h. */
#pragma once

#include "notice/detect/call_profile.h"

/* A rank or a group, compared with its expected value. */
typedef struct sl_call_measure {
    double now, expected; /* ns: per transfer for groups, computing in the window for ranks */
    double excess;        /* ns over the window */
    double error;         /* its standard error, of ranks compared with a healthy profile */
    double ratio;
    int slow, known; /* known: there was something to compare with */
} sl_call_measure;

typedef struct sl_call_comparison {
    const sl_call_profile *now, *healthy;
    double clock_error, span; /* span: of the longest window */
    int partial;              /* ranks have no calls in `now`: a collective may have more members than seen */
    sl_call_measure *rank;    /* [ranks] */
    sl_call_measure *group;   /* [groups] */
    int blurred;              /* a rank that is slow only with its blurred gaps; -1: none */
    int unmatched;            /* a rank that seems slow, but has no rank to compare with; -1: none */
} sl_call_comparison;

/** Fills rank and group, which the caller frees, also on error; the rest is set. SL_ENOMEM. */
sl_status sl_call_measure_all(sl_call_comparison *comparison);
