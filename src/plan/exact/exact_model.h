/* The problem as CpModelProto (ortools/sat/cp_model.proto), complete, with a known solution as hint. */
#pragma once

#include "plan/exact/protobuf.h"
#include "plan/pipeline/problem.h"
#include "plan/timing/timeline.h"

typedef struct sl_exact_model {
    sl_protobuf proto;
    sl_time unit;   /* ns of one unit of the model: the greatest common divisor of all times */
    int32_t *start; /* [(stage * microbatches + microbatch) * 3 + kind] variable of its start; -1: none */
    int variables;
    int memory_exact; /* 0: memory was rounded so that solutions keep the limit, but some may be missing */
    int64_t upper;    /* units; the makespan is no longer */
    int64_t begin;    /* units; the objective is the makespan plus this */
} sl_exact_model;

/** `hint`: the replayed timeline of an order of F, I and W; its makespan is the model's upper bound; NULL:
 * none. `known_bound`: ns. SL_ENONE: too large, or an F needs more memory than its rank has. Free with
 * sl_exact_model_free, also on error. */
sl_status sl_exact_model_make(const sl_problem *problem, const sl_timeline *hint, sl_time known_bound,
                              sl_exact_model *model);
void sl_exact_model_free(sl_exact_model *model);
