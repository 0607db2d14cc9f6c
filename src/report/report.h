/* A run's folder as one HTML page that needs nothing else: iteration time with what happened, what each
 * change gained, events, decisions, loss, the Gantt chart of any recorded iteration, links, devices,
 * configuration. Without script still pictures take the place of the chart that is zoomed in; print takes
 * them, too. */
#ifndef SL_REPORT_REPORT_H
#define SL_REPORT_REPORT_H

#include "base/status.h"
#include <stddef.h>

/** The page of `folder` into *text (free with free), `size` bytes. SL_EINVAL: nothing of a run can be read
 * there; SL_ENOMEM. */
sl_status sl_report_make(const char *folder, char **text, size_t *size);

#endif
