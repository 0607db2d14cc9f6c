#include "plan/timing/objective.h"
#include "base/memory.h"
#include "plan/timing/steady_period.h"

#include <string.h>

/* ---- one program ---- */

sl_status sl_objective_value(const sl_problem *problem, const sl_program *program,
                             const sl_timeline *timeline, sl_time *value) {
    if (problem->objective == SL_PERIOD)
        return sl_period(problem, program, value);
    *value = problem->objective == SL_SPAN ? sl_timeline_span(timeline) : sl_timeline_makespan(timeline);
    return SL_OK;
}

sl_status sl_objective_of_order(const sl_problem *problem, const sl_order *order, sl_time *value) {
    sl_program program;
    sl_timeline timeline;
    SL_TRY(sl_lower(problem, order, &program));
    sl_status status = sl_replay(problem, &program, problem->communication, problem->queue, &timeline);
    if (status == SL_OK) {
        status = sl_objective_value(problem, &program, &timeline, value);
        sl_timeline_free(&timeline);
    }
    sl_program_free(&program);
    return status;
}

/* ---- one after the other ---- */

/* Its iterations overlap. */
static int overlaps(const sl_problem *p) {
    return p->objective == SL_PERIOD && p->synchronization != SL_SYNC_NORM;
}

sl_status sl_evaluator_open(const sl_problem *problem, sl_replayer *replayer, sl_evaluator *e) {
    *e = (sl_evaluator){.problem = problem, .replayer = replayer};
    if (!overlaps(problem))
        return SL_OK;
    size_t instants = (size_t)sl_replayer_instants(replayer);
    SL_TRY(sl_alloc(&e->instant, 3 * instants, sizeof *e->instant));
    e->middle = e->instant + instants;
    e->now = e->middle + instants;
    return SL_OK;
}

void sl_evaluator_close(sl_evaluator *e) {
    sl_free(e->instant);
    *e = (sl_evaluator){0};
}

/* The rank whose window is the longest. */
static int longest_rank(const sl_timeline *t) {
    sl_time longest = -1;
    int found = 0;
    for (int i = 0; i < t->spans;) {
        int first = i, rank = t->span[i].rank;
        while (i < t->spans && t->span[i].rank == rank)
            i++;
        if (t->span[i - 1].end - t->span[first].start > longest) {
            longest = t->span[i - 1].end - t->span[first].start;
            found = rank;
        }
    }
    return found;
}

/* No cycle's mean is above the largest growth of an instant per iteration, from any instants on. */
static void run_twice(sl_evaluator *e, sl_evaluation *found) {
    int instants = sl_replayer_instants(e->replayer), ranks = e->problem->ranks;
    if (!sl_replayer_repeat(e->replayer, e->instant, e->middle, NULL) ||
        !sl_replayer_repeat(e->replayer, e->middle, e->now, &found->timeline))
        return;
    found->begin = e->middle;
    sl_time most = 0;
    for (int i = 0; i < instants; i++)
        if (sl_replayer_waits_for(e->replayer, i) && e->now[i] - e->instant[i] > most) {
            most = e->now[i] - e->instant[i];
            found->rank = i < ranks ? i : i < 3 * ranks ? (i - ranks) / 2 : found->rank;
        }
    found->value = (most + 1) / 2;
}

void sl_evaluator_run(sl_evaluator *e, sl_evaluation *found) {
    *found = (sl_evaluation){.value = SL_TIME_NEVER, .rank = -1};
    if (overlaps(e->problem)) {
        run_twice(e, found);
        return;
    }
    found->value = sl_replayer_run(e->replayer, &found->timeline);
    if (e->problem->objective == SL_SPAN && found->timeline) {
        found->rank = longest_rank(found->timeline);
        found->value = sl_timeline_span(found->timeline);
    }
    if (e->problem->objective == SL_PERIOD && found->timeline)
        found->value = sl_timeline_end(found->timeline);
}

/* Instants are kept near 0, so that no number of programs takes them out of range. */
void sl_evaluator_keep(sl_evaluator *e) {
    int instants = e->instant ? sl_replayer_instants(e->replayer) : 0;
    sl_time least = SL_TIME_NEVER;
    for (int rank = 0; rank < e->problem->ranks && e->instant; rank++)
        least = sl_sooner(least, e->now[rank]);
    for (int i = 0; i < instants; i++)
        e->instant[i] = e->now[i] - least;
}
