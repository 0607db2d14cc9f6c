/* The value of adapting: an iteration before an incident, one during it, and one after the change that saved
 * most, as one picture with the cost and the gain marked. */
#pragma once

#include "report/gain.h"
#include "report/recorded.h"

/* Similar iterations: rows first..end-1 of the metrics. */
typedef struct sl_report_stretch {
    size_t first, end;
    double time;   /* ms, the median; NaN: there is none */
    long recorded; /* the recorded iteration with the closest time; -1: none */
} sl_report_stretch;

typedef enum sl_adaptation_part {
    SL_ADAPTATION_BEFORE,
    SL_ADAPTATION_DURING,
    SL_ADAPTATION_AFTER,
    SL_ADAPTATION_PARTS
} sl_adaptation_part;

/* The change that saved most. Consecutive changes with no fault or relief in between count as one. A run
 * without changes has no `after`, one without incidents only a `before`. */
typedef struct sl_adaptation {
    sl_report_stretch part[SL_ADAPTATION_PARTS];
    const sl_run_data_event *change, *last; /* the first and the last of the changes; NULL: no change */
} sl_adaptation;

/** SL_ENOMEM. */
sl_status sl_adaptation_find(const sl_run_data *data, const sl_recorded *recorded, const sl_gain *gain,
                             size_t gains, sl_adaptation *adaptation);

/** Whether the iterations that were taken for healthy took longer than the slow ones, as after a start on a busy
 * machine: neither a slowdown nor its cost is known. */
int sl_adaptation_is_contradicted(const sl_adaptation *adaptation);

/** Writes the picture; nothing if no iteration was recorded. A part without a recorded iteration is omitted.
 * The bound is that of the problem in the last part, as measured. `style` NULL: as wide as a page. SL_ENOMEM,
 * SL_ESYS. */
sl_status sl_adaptation_draw(const sl_run_data *data, const sl_recorded *recorded,
                             const sl_adaptation *adaptation, const sl_draw_style *style, FILE *out);

/** Writes the answer as a sentence or two: what was slow, in which iterations, what was changed, and what an
 * iteration took before, during and after; or that nothing was slow; or that the healthy time was learned from
 * slower iterations, and no slowdown is known. Nothing without iterations. Plain text, with the run's own words:
 * a page has to escape it. */
void sl_adaptation_report(const sl_run_data *data, const sl_adaptation *adaptation, FILE *out);
