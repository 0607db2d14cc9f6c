/* A run's folder as one self-contained HTML page: iteration time with events, the gain of each change,
 * events, decisions, loss, the Gantt chart of any recorded iteration, links, devices, configuration. Without
 * scripts, and in print, still pictures replace the zoomable chart. */
#pragma once

#include "base/status.h"
#include <stddef.h>

#define SL_REPORT_SLOWEST (-1) /* SL_CHOSEN_SLOWEST */

/** The page of `folder` into *text (free with free), `size` bytes. `iteration`: the recorded one shown first
 * and included in the still pictures, or SL_REPORT_SLOWEST. SL_EINVAL: no readable file of a run; SL_ENONE:
 * that iteration was not recorded; SL_ENOMEM. */
sl_status sl_report_make(const char *folder, int iteration, char **text, size_t *size);

/** The same pictures as SVG files into the folder `pictures`, which is created: iteration-time.svg, loss.svg,
 * iterations.svg (before, during and after a change), gains.svg, recording.svg (screens.h), links.svg,
 * devices.svg, and iteration-N.svg (-replica-R if several) of the still pictures; empty ones are omitted.
 * *written: their number. Errors as above, SL_ESYS. */
sl_status sl_report_draw(const char *folder, int iteration, const char *pictures, int *written);

/** Writes report.html and iterations.svg into a run's own folder, at the end of the run. Errors as above. */
sl_status sl_report_leave(const char *folder);
