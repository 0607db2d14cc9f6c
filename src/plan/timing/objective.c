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
        return sl_rerun_open(replayer, &e->rerun);
    size_t instants = (size_t)sl_replayer_instants(replayer);
    SL_TRY(sl_alloc(&e->instant, 3 * instants, sizeof *e->instant));
    e->middle = e->instant + instants;
    e->now = e->middle + instants;
    return SL_OK;
}

void sl_evaluator_close(sl_evaluator *e) {
    sl_free(e->instant);
    sl_rerun_close(e->rerun);
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

/* The objective of a program that has ended at `end`. */
static void evaluate(const sl_evaluator *e, sl_time end, const sl_timeline *timeline, sl_evaluation *found) {
    if (end == SL_TIME_NEVER)
        return;
    found->timeline = timeline;
    found->value = end;
    if (e->problem->objective == SL_SPAN) {
        found->rank = longest_rank(timeline);
        found->value = sl_timeline_span(timeline);
    }
}

void sl_evaluator_run(sl_evaluator *e, sl_evaluation *found) {
    const sl_timeline *timeline;
    *found = (sl_evaluation){.value = SL_TIME_NEVER, .rank = -1};
    e->cost += (overlaps(e->problem) ? 2 : 1) * sl_replayer_steps(e->replayer);
    if (overlaps(e->problem)) {
        run_twice(e, found);
    } else if (e->rerun) {
        evaluate(e, sl_rerun_begin(e->rerun), sl_rerun_timeline(e->rerun), found);
    } else {
        sl_time makespan = sl_replayer_run(e->replayer, &timeline);
        evaluate(e, e->problem->objective == SL_PERIOD && timeline ? sl_timeline_end(timeline) : makespan,
                 timeline, found);
    }
}

void sl_evaluator_change(sl_evaluator *e, int rank, int first, int last) {
    if (e->rerun)
        sl_rerun_change(e->rerun, rank, first, last);
}

/* Tails do not bound a span. */
void sl_evaluator_rerun(sl_evaluator *e, sl_time limit, sl_evaluation *found) {
    if (!e->rerun) {
        sl_evaluator_run(e, found);
        return;
    }
    *found = (sl_evaluation){.value = SL_TIME_NEVER, .rank = -1};
    sl_time end = sl_rerun_run(e->rerun, e->problem->objective == SL_SPAN ? SL_TIME_NEVER : limit);
    evaluate(e, end, sl_rerun_timeline(e->rerun), found);
}

/* Instants are kept near 0, so that no number of programs takes them out of range. */
void sl_evaluator_keep(sl_evaluator *e) {
    if (e->rerun)
        sl_rerun_keep(e->rerun);
    int instants = e->instant ? sl_replayer_instants(e->replayer) : 0;
    sl_time least = SL_TIME_NEVER;
    for (int rank = 0; rank < e->problem->ranks && e->instant; rank++)
        least = sl_sooner(least, e->now[rank]);
    for (int i = 0; i < instants; i++)
        e->instant[i] = e->now[i] - least;
}

void sl_evaluator_undo(sl_evaluator *e) {
    if (e->rerun)
        sl_rerun_undo(e->rerun);
}

/* A step that is timed again takes about as long as so many of a replay in full. */
enum { RERUN_COST = 2 };

int64_t sl_evaluator_cost(sl_evaluator *e) {
    int64_t cost = e->cost + (e->rerun ? RERUN_COST * sl_rerun_cost(e->rerun) : 0);
    e->cost = 0;
    return cost;
}
