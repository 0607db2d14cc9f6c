/* watch.json: how a watched job stands, for those who look at the folder (src/dashboard), while it runs and
 * afterwards. One object: `job`, `program`, `status` as in /status.json, and lists of short lists, because
 * jobs may be large (docs/watching.md). */
#ifndef SL_NOTICE_WATCH_STANDING_TEXT_H
#define SL_NOTICE_WATCH_STANDING_TEXT_H

#include "notice/control/controller.h"

/** A line; free(). NULL: no memory. */
char *sl_standing_text(const sl_controller *controller, const char *job, const char *program);

#endif
