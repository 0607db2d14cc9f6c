/* What is slow in a profile, before anybody is suspected: ranks by their computing, groups by their
 * transfers. Internal to call_measure.c and call_compare.c. */
#pragma once

#include "notice/detect/call_profile.h"

/* A rank or a group, against what was expected. */
typedef struct sl_call_measure {
    double now, expected; /* ns: groups of one transfer, ranks of the window's computing */
    double excess;        /* ns over the window */
    double ratio;
    int slow, known; /* known: there was something to compare with */
} sl_call_measure;

typedef struct sl_call_comparison {
    const sl_call_profile *now, *healthy;
    double clock_error, span; /* span: of the longest window */
    sl_call_measure *rank;    /* [ranks] */
    sl_call_measure *group;   /* [groups] */
    int blurred;              /* the rank that polls and looks slow; -1: none */
    int unmatched;            /* the rank that seems slow, but has nobody to compare with; -1: none */
} sl_call_comparison;

/** Fills rank and group, which the caller frees, also on error; the rest is set. SL_ENOMEM. */
sl_status sl_call_measure_all(sl_call_comparison *comparison);
