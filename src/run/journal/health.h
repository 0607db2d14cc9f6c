/* How links and ranks are, in a few words for one line: the incidents that last. */
#ifndef SL_RUN_JOURNAL_HEALTH_H
#define SL_RUN_JOURNAL_HEALTH_H

#include "adapt/orchestrator/orchestrator.h"

/** "links ok; ranks ok"; "links 1-2 +58 ms; ranks ok"; of several the costliest first, in at most `width`
 * characters: "links 17-18 +58 ms, 4 more slow; rank 3 x1.5". `incidents[count]`, the costliest first; ranks
 * are those of pipelines. Returns whether something is slow. */
int sl_health_words(const sl_job *job, const sl_incident_view *incidents, int count, int width, char *text,
                    size_t size);

#endif
