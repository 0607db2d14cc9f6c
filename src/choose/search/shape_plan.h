/* The complete plan of a shape: its problem, cut and planned with all microbatches, and what an iteration
 * takes then. What the searches over shapes share. */
#pragma once

#include "choose/search/positions.h"
#include "choose/search/shape.h"
#include "plan/search/plan.h"

typedef struct sl_choose_options {
    sl_shape_fixed fixed;
    const char *const *schedules; /* the only families that may be planned, ended by NULL; NULL: any order */
    double time_limit;            /* s */
    int most;                     /* choices in the result */
    int threads;                  /* 0: one per processor, at most 8 */
    uint64_t seed;
    const atomic_int *stop; /* nonzero: the search ends with the best so far; or NULL */
} sl_choose_options;

typedef struct sl_choice {
    sl_shape shape;
    sl_problem problem; /* with its cut; of the replica that takes longest */
    sl_plan plan;
    sl_shape_parts parts;
    int *split;         /* [data] microbatches of each replica; NULL: all have as many */
    int *device;        /* [devices] index of the device at each position (sl_shape_device); NULL: the same */
    sl_time time;       /* of an iteration: the plan and the update of weights */
    sl_time bound;      /* of this shape */
    double memory;      /* bytes of the rank that needs most */
    double host_memory; /* likewise, in host memory */
    double tokens_per_s;
} sl_choice;

void sl_choice_free(sl_choice *choice);

/** Microbatches of a replica. Never fails. */
int sl_choice_microbatches(const sl_choice *choice, int replica);
/** The device of a rank. Ranks are numbered as in frameworks: tensor ranks fastest, then context ranks,
 * replicas, pipeline ranks. Never fails. */
int sl_choice_device(const sl_choice *choice, int rank);

/* What plans are made from. Positions of every shape are in the table before several threads plan. */
typedef struct sl_shape_planning {
    const sl_model_work *model;
    const sl_devices *devices;
    const sl_choose_options *options;
    sl_position_table *positions;
} sl_shape_planning;

/** sl_shape_problem at the shape's positions; the slowest replica counts. Free also on error. */
sl_status sl_shape_problem_of(const sl_shape_planning *planning, const sl_shape *shape, int microbatches,
                              sl_problem *problem, sl_shape_parts *parts);

/** The most balanced cut and the best family; of the allowed ones, if there are some. Without layers, the cut
 * stays. SL_ENONE: none fits. */
sl_status sl_shape_plan_quickly(const sl_shape_planning *planning, sl_problem *problem, sl_plan *plan);

/** With a search of `seconds`, for the cut, too. `made` has time, memory and so on, and as bound the larger
 * one of `bound` and the plan's. SL_ENONE: nothing fits. Free with sl_choice_free, also on error. */
sl_status sl_shape_plan(const sl_shape_planning *planning, const sl_shape *shape, sl_time bound,
                        double seconds, int threads, sl_choice *made);

/** The same for a problem whose cut stays. */
sl_status sl_shape_plan_cut(const sl_shape_planning *planning, const sl_problem *problem, double seconds,
                            int threads, sl_plan *plan);

/** Time and memory of `made`, whose shape, problem, plan and parts are set. Never fails. */
void sl_shape_measure(const sl_shape_planning *planning, sl_choice *made);

/** What an iteration takes besides its makespan, which begins with the first F: the gather before it, and the
 * update at the end; ns. Never fails. */
double sl_shape_besides(const sl_problem *problem, const sl_shape_parts *parts);
/** What a microbatch takes of the busiest rank or link, ns. Never fails. */
double sl_shape_busiest(const sl_problem *problem);
/** Memory of the rank that needs most. Never fails. */
double sl_shape_memory(const sl_problem *problem, const sl_plan *plan);
