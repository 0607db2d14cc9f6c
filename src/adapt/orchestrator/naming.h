/* Who is named, and when: iterations become slow (an onset), what is suspected then, and by more iterations
 * the verdict.
 *
 * The change-point detector of `watch` (bocd-v) looks at iteration times, in terms of their work; and where
 * components were found slow already, two iterations that took a tenth longer are believed at once. The rows
 * since the onset are compared with what is healthy. The iteration time returns to its old level when an
 * adaptation takes trouble away, and rises when a schedule is changed: so what is over is told by the
 * components, not by the time, and an onset in which nothing is slow is told as "cannot tell", unless a
 * schedule was changed just then.
 *
 * Nobody is named where evidence does not single him out: two slow links of a rank may be its card or each of
 * them; what most devices have in common is something that they share, or load; and what is named must
 * explain half of what an iteration lost. */
#pragma once

#include "adapt/orchestrator/compare.h"
#include "notice/detect/change.h"
#include "notice/detect/suspect.h"

enum { SL_NAMED_MAX = 8 };

typedef struct sl_named {
    int replica; /* of the suspect; -1: of all, or not known. A group is a stage's, over the replicas */
    sl_suspect suspect;
} sl_named;

typedef enum sl_naming_kind { SL_NAMING_NOTHING, SL_NAMING_SUSPECT, SL_NAMING_VERDICT } sl_naming_kind;

typedef struct sl_naming_result {
    sl_naming_kind kind;
    int first;            /* the first slow iteration */
    double before, after; /* ms of an iteration, medians */
    int begins;           /* nothing but iteration times tells of it; */
    double over;          /* that this is over: ms of an iteration now; 0: it is not */
    int count;            /* at least one, maybe SL_COMPONENT_UNKNOWN with the reason in `why` */
    sl_named named[SL_NAMED_MAX];
} sl_naming_result;

typedef struct sl_naming {
    sl_detector *detector;
    int state;             /* 0: iterations are as usual; 1: an onset was told; 2: its verdict, too */
    int since;             /* row of the onset */
    int changed;           /* row of the last change of schedule, path or layout; -1 */
    int open;              /* row of an onset that the detector has told and that was not certain yet; -1 */
    int alone;             /* nothing but iteration times has told of the onset */
    sl_naming_result told; /* the last verdict, while iterations are slow */
    int altered; /* iterations take another time than at first because of what was done: their length alone
                    says nothing */
    sl_slowness comparison;
} sl_naming;

sl_status sl_naming_open(sl_naming *naming);
void sl_naming_close(sl_naming *naming);
/** From the next row on another order, path or layout runs. */
void sl_naming_changed(sl_naming *naming, const sl_history *series);
/** The last row of the series has come. `trouble`: components are known to be slow; `costly`: for `costly`
 * rows they have cost a tenth of an iteration. `uneven`: for so many some stage has had more work against
 * others than it had. SL_ENOMEM. */
sl_status sl_naming_step(sl_naming *naming, sl_history *series, int trouble, int costly, int uneven,
                         sl_naming_result *result);
/** Iterations are slow. */
static inline int sl_naming_is_slow(const sl_naming *naming) {
    return naming->state != 0;
}
