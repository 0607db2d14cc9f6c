/* From iteration times to named components: an onset (iterations become slow) with its suspects, then the
 * verdict after more iterations.
 *
 * The change-point detector of `watch` (bocd-v) examines iteration times relative to their work. If
 * components were already found slow, two iterations that took a tenth longer suffice. The rows since the
 * onset are compared with healthy ones. Mitigations restore the iteration time and schedule changes can raise
 * it, so relief is decided by the components, not by the time. An onset in which no component is slow is
 * reported as "cannot tell", unless a schedule was changed just then.
 *
 * A component is named only if the evidence singles it out: two slow links of a rank may mean its card or
 * each link, and slowness shared by most devices may come from a shared resource or from load. The named
 * components must explain at least half of an iteration's loss. */
#pragma once

#include "adapt/orchestrator/compare.h"
#include "notice/detect/change.h"
#include "notice/detect/suspect.h"

enum { SL_NAMED_MAX = 8 };

typedef struct sl_named {
    int replica; /* of the suspect; -1: all, or unknown. A group belongs to a stage, across the replicas */
    sl_suspect suspect;
} sl_named;

typedef enum sl_naming_kind { SL_NAMING_NOTHING, SL_NAMING_SUSPECT, SL_NAMING_VERDICT } sl_naming_kind;

typedef struct sl_naming_result {
    sl_naming_kind kind;
    int first;            /* the first slow iteration */
    double before, after; /* median ms per iteration */
    int begins;           /* the onset shows in iteration times only */
    double over;          /* such an onset has ended: current ms per iteration; 0: it has not */
    int count;            /* at least one, maybe SL_COMPONENT_UNKNOWN with the reason in `why` */
    sl_named named[SL_NAMED_MAX];
} sl_naming_result;

typedef struct sl_naming {
    sl_detector *detector;
    int state;   /* 0: iterations are as usual; 1: an onset was reported; 2: its verdict, too */
    int since;   /* row of the onset */
    int changed; /* row of the last change of schedule, path or layout; -1 */
    int open;    /* row of an onset that the detector has reported but that is not certain yet; -1 */
    int alone;   /* the onset was reported from iteration times only */
    sl_naming_result announced; /* the last verdict, while iterations are slow */
    int altered; /* a mitigation has changed iteration times, so they prove nothing on their own */
    sl_slowness comparison;
} sl_naming;

sl_status sl_naming_open(sl_naming *naming);
void sl_naming_close(sl_naming *naming);
/** A new order, path or layout runs from the next row. */
void sl_naming_changed(sl_naming *naming, const sl_history *series);
/** Call after adding a row to the series. `trouble`: components are known to be slow; `costly`: number of
 * rows for which they have cost a tenth of an iteration. `uneven`: number of rows for which some stage has
 * had more work relative to the others than before. SL_ENOMEM. */
sl_status sl_naming_step(sl_naming *naming, sl_history *series, int trouble, int costly, int uneven,
                         sl_naming_result *result);
/** Whether iterations are slow. */
static inline int sl_naming_is_slow(const sl_naming *naming) {
    return naming->state != 0;
}
