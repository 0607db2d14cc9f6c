/* Shared by the files of the campaign.
 *
 *   campaign_world     true iteration times: every replica's plan replayed with its slow components
 *   campaign_play      one strategy from the first iteration to the last, as the orchestrator's caller
 *   campaign_hindsight the best choice in hindsight
 *
 * A *scene* is everything that determines an iteration's time: the layout (positions, split, delegates), each
 * replica's plan, and the lasting faults. A *situation* is a replica in it: its share, path and slow
 * components, regardless of its index. Situations, plans and replays are numbers of sl_keys; equal ones are
 * replayed once, for all strategies. */
#pragma once

#include "adapt/campaign/campaign.h"
#include "adapt/campaign/campaign_keys.h"
#include "adapt/model/model_alike.h"
#include "adapt/orchestrator/measured.h"
#include "plan/search/plan.h"

typedef struct sl_scene {
    const sl_job_layout *layout;
    const int *plan;  /* [replicas] number of each one's running plan */
    const int *fault; /* [faults] that last, without those left behind by a restart */
    int faults;
} sl_scene;

/* A situation and its known results. */
typedef struct sl_situation {
    int best;     /* the shortest of the plans replayed in it */
    sl_time time; /* of that */
    int made;     /* the plan made for its slow components; -1: none */
} sl_situation;

typedef struct sl_replica_run {
    sl_time time;          /* of the replica's iteration */
    sl_measured *measured; /* NULL: not requested, or dropped since */
} sl_replica_run;

typedef struct sl_world {
    const sl_campaign *campaign;
    sl_job job;                 /* scaled so that a healthy link takes 1 ns per byte */
    double *sum;                /* [stages] job.sum */
    sl_problem healthy;         /* a replica's, including its rings */
    const sl_problem **replica; /* [replicas] all are `healthy` */
    sl_plan first;              /* the job's own */
    sl_model *model;            /* of the truth; has the faults of the last request */
    sl_slow_part *part;         /* of the model */
    size_t parts, part_room;
    int *seen; /* [seens] faults of the model */
    int seens;
    size_t seen_room;
    sl_keys situation_keys, plan_keys, run_keys, scene_keys;
    sl_situation *situation;
    size_t situation_room;
    sl_plan *plan; /* by plan number, without timelines; 0: the first */
    size_t plan_room;
    int *first_plan; /* by microbatches: plan number + 1 */
    size_t first_room;
    sl_replica_run *run;    /* by run number */
    size_t run_room, held;  /* held: runs with measurements */
    sl_likeness *like;      /* [replicas] of the current scene */
    int *of;                /* [replicas] situation of each in the current scene */
    int *at;                /* [replicas] run of each, after sl_world_time */
    sl_measured **measured; /* [replicas] after sl_world_time with `measure` */
    long long replays;
} sl_world;

/** Slow components for the model: w->part. */
sl_status sl_world_open(const sl_campaign *campaign, sl_world *world);
void sl_world_close(sl_world *world);
/** Time of an iteration, ns; `measure`: fills w->measured with what a run would measure per replica. */
sl_status sl_world_time(sl_world *w, const sl_scene *scene, int measure, sl_time *time);
/** Gives these faults to w->model. */
sl_status sl_world_see(sl_world *w, const int *fault, int faults);
/** The number of a plan for this number of microbatches; a new plan is copied. */
sl_status sl_world_number(sl_world *w, const sl_plan *plan, int microbatches, int *number);
/** The plan of the job's own schedule, else of the schedule of new plans, for this number of microbatches.
 * SL_ENONE: neither. */
sl_status sl_world_first(sl_world *w, int microbatches, int *number);
/** The best known plan for each replica of a scene with slow components, into plan[replicas]: its first, a
 * new one, or one already played. */
sl_status sl_world_adapt(sl_world *w, const sl_scene *scene, int *plan);

/* ---- campaign_play.c */
/** Plays a strategy with the abilities `can` (0: no actions) and a first plan for each replica. */
sl_status sl_campaign_play(sl_world *w, const char *name, unsigned can, int plan, int log,
                           sl_campaign_row *row);
/** Adds a stretch; joins it with the last one if it continues it. */
sl_status sl_row_add(sl_campaign_row *row, int iteration, int count, sl_time start, sl_time each);
/** The cost of a stop in this layout; `delegates`: whether the strategy can start them. */
sl_time sl_campaign_stop_cost(const sl_campaign *c, const sl_campaign_fault *fault,
                              const sl_job_layout *layout, int delegates);

/* ---- campaign_hindsight.c */
sl_status sl_campaign_hindsight(sl_world *w, const sl_campaign_row *others, int count, sl_campaign_row *row);
