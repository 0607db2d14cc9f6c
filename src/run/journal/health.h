/* How links and ranks are, in a few words for one line: what an iteration measured against what it should be.
 *
 * A link is judged by the delay of its messages beyond what was planned for (the worse of its directions), a
 * rank by the time of its ops against its pace, or where nothing prescribes one, against its own first
 * iterations: other ranks may simply have more to do. Small differences are noise and not told. */
#ifndef SL_RUN_JOURNAL_HEALTH_H
#define SL_RUN_JOURNAL_HEALTH_H

#include "plan/pipeline/problem.h"

typedef struct sl_health sl_health;

/** `planned`: what the run was planned for; `paced`: its op times are what ops are held to. Copied. */
sl_status sl_health_open(const sl_problem *planned, int paced, sl_health **health);
void sl_health_close(sl_health *health);

/** Takes an iteration's measurements. With several replicas: each of them, before the words are asked for;
 * the worst counts. `iteration`: the first one of a run is cold and no level to compare with. Never fails. */
void sl_health_observe(sl_health *health, int iteration, const sl_problem *measured);

/** "links ok; ranks ok"; "links 0-1 ok, 1-2 +58 ms, 2-3 ok; ranks ok"; of many, or where there is less room,
 * the worst first: "links 17-18 +58 ms, 62 ok; rank 3 x1.5"; in at most `width` characters. Then forgets what
 * was observed. Returns whether something is slow. */
int sl_health_words(sl_health *health, int width, char *text, size_t size);

#endif
