/* What the controller knows about the job, as one plain value: the only input of the live view, the metrics
 * over HTTP and the report. */
#pragma once

#include "notice/detect/suspect.h"
#include <stdint.h>

typedef enum sl_watch_phase {
    SL_PHASE_WAITING,    /* no call yet */
    SL_PHASE_SEARCHING,  /* calls, but no period yet */
    SL_PHASE_TRACKING,   /* iteration times are watched for change points */
    SL_PHASE_PROFILING,  /* all calls of some iterations are collected and compared */
    SL_PHASE_HOLDING,    /* the gates are closing */
    SL_PHASE_VALIDATING, /* held; suspects are tested */
    SL_PHASE_ENDED,
    SL_PHASES
} sl_watch_phase;

/** "tracking", ... */
const char *sl_watch_phase_name(sl_watch_phase phase);

#define SL_STATUS_SUSPECTS 16

typedef struct sl_status_view {
    sl_watch_phase phase;
    int nodes, ranks;
    int period;        /* calls per iteration; 0: unknown */
    int64_t iteration; /* finished; -1: none */
    double time_ms;    /* of the last iteration (the slowest rank) */
    double level_ms;   /* the current level */
    double healthy_ms; /* the level before the first onset not yet relieved */
    int slow;          /* between an onset and its relief */
    int64_t onset;     /* its iteration; -1: none */
    int suspects, verdicts;
    sl_suspect suspect[SL_STATUS_SUSPECTS]; /* by profiling */
    sl_suspect verdict[SL_STATUS_SUSPECTS]; /* by validation, or by profiling alone if the job could not be
                                               held */
    int alike;                              /* ranks that make the same calls as the first slow device,
                                               including it; 0: unknown */
    double lightest;     /* the traffic of the pair of ranks that send each other least, as a share of the
                            messages' bytes over the first slow link; negative: unknown */
    int64_t calls, lost; /* records read, and overwritten before they were read */
    int holds, closed;   /* tried, and closed */
    double held_ms;      /* in all */
    int onsets, reliefs;
    int connected;   /* to the store */
    int64_t refused; /* messages there that were ignored (notice/store/store.h) */
} sl_status_view;
