/* What the files of the campaign share.
 *
 *   campaign_world     how long an iteration really takes: every replica's plan replayed with what is slow in
 * it campaign_play      one strategy from the first iteration to the last: what the orchestrator's body does
 * in a run campaign_hindsight the best that could have been done
 *
 * A *scene* is what an iteration's time depends on: who sits where, who takes how many microbatches, who
 * carries the messages, which plan each replica runs, which faults last. A *case* is a replica in it: its
 * share, its path and what is slow in it, whoever it is. Cases, plans and replays are numbers of sl_keys;
 * what is alike is replayed once, for all strategies. */
#pragma once

#include "adapt/campaign/campaign.h"
#include "adapt/campaign/campaign_keys.h"
#include "adapt/model/alike.h"
#include "adapt/orchestrator/measured.h"
#include "plan/search/plan.h"

typedef struct sl_scene {
    const sl_job_layout *layout;
    const int *plan;  /* [replicas] the number of the plan that each runs */
    const int *fault; /* [faults] that last and were not left behind */
    int faults;
} sl_scene;

/* A case and what is known of it. */
typedef struct sl_situation {
    int best;     /* the shortest of the plans that were replayed in it */
    sl_time time; /* of that */
    int made;     /* the plan that was made for what is slow in it; -1: none */
} sl_situation;

typedef struct sl_replica_run {
    sl_time time;          /* of the replica's iteration */
    sl_measured *measured; /* NULL: not asked for, or dropped since */
} sl_replica_run;

typedef struct sl_world {
    const sl_campaign *campaign;
    sl_job job;                 /* bytes are such that a healthy link takes 1 ns for one */
    double *sum;                /* [stages] job.sum */
    sl_problem healthy;         /* a replica's, its rings included */
    const sl_problem **replica; /* [replicas] all are `healthy` */
    sl_plan first;              /* the job's own */
    sl_model *model;            /* of the truth; sees what was last asked for */
    sl_slow_part *part;         /* that it sees */
    size_t parts, part_room;
    int *seen; /* [seens] faults that it sees */
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
    sl_likeness *like;      /* [replicas] of the scene at hand */
    int *of;                /* [replicas] case of each in the scene at hand */
    int *at;                /* [replicas] run of each, after sl_world_time */
    sl_measured **measured; /* [replicas] after sl_world_time with `measure` */
    long long replays;
} sl_world;

/** What is slow for the model: w->part. */
sl_status sl_world_open(const sl_campaign *campaign, sl_world *world);
void sl_world_close(sl_world *world);
/** Time of an iteration, ns; `measure`: w->measured has what a run would measure of every replica. */
sl_status sl_world_time(sl_world *w, const sl_scene *scene, int measure, sl_time *time);
/** w->model sees these faults. */
sl_status sl_world_see(sl_world *w, const int *fault, int faults);
/** The number of a plan for so many microbatches; copied when it is new. */
sl_status sl_world_number(sl_world *w, const sl_plan *plan, int microbatches, int *number);
/** The plan of the job's own schedule, or where there is none of the new plans' one, for so many
 * microbatches. SL_ENONE: there is none. */
sl_status sl_world_first(sl_world *w, int microbatches, int *number);
/** The best plan known for each replica of a scene that something slow concerns, into plan[replicas]: its
 * first, a new one, or one that was played. */
sl_status sl_world_adapt(sl_world *w, const sl_scene *scene, int *plan);

/* ---- campaign_play.c */
/** Plays a strategy that can do `can` (0: nothing is ever done) with a plan for each replica. */
sl_status sl_campaign_play(sl_world *w, const char *name, unsigned can, int plan, int log,
                           sl_campaign_row *row);
/** One more stretch; joined with the last where it goes on. */
sl_status sl_row_add(sl_campaign_row *row, int iteration, int count, sl_time start, sl_time each);
/** What a stop costs this layout; `delegates`: whether the strategy can start them. */
sl_time sl_campaign_stop_cost(const sl_campaign *c, const sl_campaign_fault *fault,
                              const sl_job_layout *layout, int delegates);

/* ---- campaign_hindsight.c */
sl_status sl_campaign_hindsight(sl_world *w, const sl_campaign_row *others, int count, sl_campaign_row *row);
