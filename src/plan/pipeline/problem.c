#include "plan/pipeline/problem.h"
#include "base/memory.h"

#include <string.h>

sl_status sl_problem_make(int ranks, int stages, int microbatches, sl_problem *problem) {
    *problem = (sl_problem){.ranks = ranks, .stages = stages, .microbatches = microbatches, .queue = 1};
    sl_status status = sl_alloc(&problem->link, (size_t)ranks * (size_t)ranks, sizeof *problem->link);
    for (int kind = 0; kind < SL_OP_KINDS && status == SL_OK; kind++) {
        status = sl_alloc(&problem->time[kind], (size_t)stages, sizeof **problem->time);
        if (status == SL_OK)
            status = sl_alloc(&problem->delta[kind], (size_t)stages, sizeof **problem->delta);
    }
    if (status != SL_OK) {
        sl_problem_free(problem);
        return status;
    }
    for (int stage = 0; stage < stages; stage++) {
        problem->delta[SL_F][stage] = 1;
        problem->delta[SL_W][stage] = problem->delta[SL_B][stage] = -1;
    }
    return SL_OK;
}

sl_status sl_problem_copy(const sl_problem *problem, sl_problem *copy) {
    int ranks = problem->ranks, stages = problem->stages;
    SL_TRY(sl_problem_make(ranks, stages, problem->microbatches, copy));
    copy->placement = problem->placement;
    copy->communication = problem->communication;
    copy->queue = problem->queue;
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        memcpy(copy->time[kind], problem->time[kind], (size_t)stages * sizeof **copy->time);
        memcpy(copy->delta[kind], problem->delta[kind], (size_t)stages * sizeof **copy->delta);
    }
    memcpy(copy->link, problem->link, (size_t)ranks * (size_t)ranks * sizeof *copy->link);
    if (problem->limit) {
        sl_status status = sl_alloc(&copy->limit, (size_t)ranks, sizeof *copy->limit);
        if (status != SL_OK) {
            sl_problem_free(copy);
            return status;
        }
        memcpy(copy->limit, problem->limit, (size_t)ranks * sizeof *copy->limit);
    }
    return SL_OK;
}

void sl_problem_free(sl_problem *problem) {
    for (int kind = 0; kind < SL_OP_KINDS; kind++) {
        sl_free(problem->time[kind]);
        sl_free(problem->delta[kind]);
    }
    sl_free(problem->limit);
    sl_free(problem->link);
    *problem = (sl_problem){0};
}

int sl_problem_rank(const sl_problem *problem, int stage) {
    (void)problem; /* linear: stage s on rank s */
    return stage;
}
