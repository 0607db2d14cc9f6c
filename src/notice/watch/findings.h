/* What a watch has found so far: the phases of its program, with suspects and verdicts, and its advice.
 * Collected by watch_report.c; answer.c sums it up. */
#pragma once

#include "base/event.h"
#include "notice/control/job_status.h"
#include "notice/watch/unseen.h"

typedef struct sl_report_phase {
    int slow;
    int64_t from, to;   /* iterations; to -1: until the end */
    sl_time begin, end; /* since the start */
    double level_ms;   /* as of its end's change, which compared it with the next; 0: unknown */
    double healthy_ms; /* of a slow one: the level before its onset; 0: unknown */
    char seen[256]; /* of its first event */
    int tested;     /* its verdicts rest on tests */
    int suspects, verdicts;
    sl_suspect suspect[SL_STATUS_SUSPECTS], verdict[SL_STATUS_SUSPECTS];
} sl_report_phase;

typedef struct sl_watch_report {
    char *const *command;
    char job[80];
    double began; /* seconds of the epoch */
    sl_report_phase *phase;
    size_t phases, room;
    int64_t left_out; /* phases */
    sl_event *advice; /* advice, and its results */
    size_t advices, advice_room;
    sl_status_view view; /* the last */
    int ranks, nodes;    /* the maximum */
    int has_view, events;
    sl_unseen unseen; /* reports of the program's own layers about calls that cannot be seen */
    sl_event hang;    /* the last hang or stall; time 0: none */
    sl_time hang_end; /* when the job made progress again; 0: not */
} sl_watch_report;
