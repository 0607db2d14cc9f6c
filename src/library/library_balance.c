#include "adapt/balance/balance.h"
#include "adapt/balance/pipelines.h"
#include "base/memory.h"
#include "library/library_handles.h"

static sl_status by_formula(const slackline_replica *replica, int replicas, int microbatches, int *split,
                            double *makespan) {
    sl_replica_rate *copy;
    double ignored;
    SL_TRY(sl_library_between("replicas", replicas, 1, SL_MAX_REPLICAS));
    if (microbatches < 0)
        return sl_error(SL_EINVAL, "microbatches must be at least 1, got %d", microbatches);
    SL_TRY(sl_alloc(&copy, (size_t)replicas, sizeof *copy));
    for (int i = 0; i < replicas; i++)
        copy[i] =
            (sl_replica_rate){.time = replica[i].time, .fill = replica[i].fill, .limit = replica[i].limit};
    sl_status status = sl_balance(copy, replicas, microbatches, split, makespan ? makespan : &ignored);
    sl_free(copy);
    return status;
}

SL_PUBLIC slackline_status slackline_balance(const slackline_replica *replica, int replicas, int microbatches,
                                             int *split, double *makespan) {
    return sl_library_status(by_formula(replica, replicas, microbatches, split, makespan));
}

/* The maximum number of microbatches that any replica may need to take. */
static sl_status max_of(int replicas, int microbatches, const int *limit, int *room, int *most) {
    *most = 1;
    for (int i = 0; i < replicas; i++)
        room[i] = limit ? limit[i] : 0;
    SL_TRY(sl_balance_room(replicas, microbatches, room));
    for (int i = 0; i < replicas; i++)
        *most = room[i] > *most ? room[i] : *most;
    return SL_OK;
}

static sl_status divide(const slackline_problem *const *problem, int replicas, int microbatches,
                        const int *limit, sl_pipelines *pipelines, int *split, int64_t *time) {
    for (int i = 0; i < replicas; i++)
        SL_TRY(sl_pipelines_add(pipelines, &problem[i]->problem, 0));
    return sl_pipelines_balance(pipelines, microbatches, limit, split, time);
}

static sl_status by_pipelines(const slackline_problem *const *problem, int replicas, int microbatches,
                              const char *schedule, const int *limit, int *split, int64_t *time) {
    sl_pipelines *pipelines = NULL;
    int64_t *own = NULL;
    int most;
    SL_TRY(sl_library_between("replicas", replicas, 1, SL_MAX_REPLICAS));
    if (microbatches < 0)
        return sl_error(SL_EINVAL, "microbatches must be at least 1, got %d", microbatches);
    SL_TRY(max_of(replicas, microbatches, limit, split, &most));
    SL_TRY(sl_pipelines_open(schedule, most, &pipelines));
    sl_status status = time ? SL_OK : sl_alloc(&own, (size_t)replicas, sizeof *own);
    SL_THEN(status, divide(problem, replicas, microbatches, limit, pipelines, split, time ? time : own));
    sl_free(own);
    sl_pipelines_close(pipelines);
    return status;
}

SL_PUBLIC slackline_status slackline_balance_pipelines(const slackline_problem *const *problem, int replicas,
                                                       int microbatches, const char *schedule,
                                                       const int *limit, int *split, int64_t *time_ns) {
    SL_PLAIN_NUMBERS;
    return sl_library_status(by_pipelines(problem, replicas, microbatches, schedule, limit, split, time_ns));
}
