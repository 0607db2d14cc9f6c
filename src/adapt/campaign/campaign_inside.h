/* What the files of the campaign share.
 *
 *   campaign_time      how long an iteration takes: replicas, rings, all that is alike once
 *   campaign_setup     what a remedy makes of the job
 *   campaign_seats     ... and of the arrangement, through topology.h
 *   campaign_play      one strategy from the first iteration to the last, with its ladder
 *   campaign_hindsight the best that could have been done
 *
 * Words: a *world* is the set of faults that last; a *setup* is what has been made of the job: who sits
 * where, who takes how many microbatches, for what each replica was planned, who carries the messages. Both
 * are numbers of sl_keys, and so is a *replica* with what is slow in it (its traits), a plan, a replay. */
#ifndef SL_ADAPT_CAMPAIGN_INSIDE_H
#define SL_ADAPT_CAMPAIGN_INSIDE_H

#include "adapt/campaign/campaign.h"
#include "adapt/campaign/campaign_keys.h"
#include "plan/search/plan.h"

/* Something slow in a replica. NIC: `to` is -1. A device has `slowdown` alone. */
typedef struct sl_trait {
    int32_t from, to; /* ranks; a device: both the same */
    double slowdown;
    sl_time latency;
} sl_trait;

typedef struct sl_setup {
    int family;    /* 0: the job's schedule; else campaign->family[family - 1] */
    int delegated; /* delegates carry the messages */
    int adapted;   /* plans follow what is slow */
    int cures;
    int *cured;  /* [cures] faults that restarts have left behind */
    int *plan;   /* [replicas] traits that each was planned for; NULL: none has any */
    int *split;  /* [replicas] microbatches; NULL: the problem's */
    int moves;   /* positions whose device is not the first one */
    int *moved;  /* [moves] those positions, ascending */
    int *seated; /* [moves] the device of each */
} sl_setup;

typedef struct sl_replayed {
    sl_time *end; /* [stages] from the first F; NULL: no plan */
} sl_replayed;

typedef struct sl_simulation {
    const sl_campaign *campaign;
    sl_problem problem; /* without reductions; times and links are those of the replay at hand */
    int positions;
    sl_keys traits; /* number 0: healthy */
    sl_keys plan_keys, run_keys, time_keys, setup_keys, world_keys, derive_keys;
    sl_plan *plan; /* by plan number; without ops: none fits */
    size_t plan_room;
    sl_replayed *run; /* by run number */
    size_t run_room;
    sl_time *time; /* by time number */
    size_t time_room;
    sl_setup *setup; /* by setup number; 0: as at first */
    size_t setup_room;
    int *derived; /* by derive number: a setup */
    size_t derived_room;
    sl_time *ring, *ring_now; /* [stages] healthy; now */
    double *ring_step;        /* [stages] ns of transfer of one step */
    double ring_latency;      /* ns of one step */
    int *sig;                 /* [replicas] traits of each, of the last sl_simulation_look */
    struct sl_found *found;   /* traits of the world at hand */
    size_t found_room;
    int *active; /* faults of the world at hand that are not cured */
    size_t active_room;
    sl_keys solo_keys, search_keys;
    int **searched; /* by search number: arrangement of a cluster; NULL: as it is */
    size_t searched_room;
    double *solo; /* by solo number: what the faults of a world cost one by one, ns */
    size_t solo_room;
} sl_simulation;

/* A trait of one replica. */
typedef struct sl_found {
    int replica;
    sl_trait trait;
} sl_found;

sl_status sl_simulation_open(const sl_campaign *campaign, sl_simulation *simulation);
void sl_simulation_close(sl_simulation *simulation);

/* ---- campaign_time.c */
/** The number of a set of faults, ascending. */
sl_status sl_simulation_world(sl_simulation *s, const int *faults, int count, int *world);
/** Time of an iteration. SL_TIME_NEVER: no plan fits. */
sl_status sl_simulation_time(sl_simulation *s, int setup, int world, sl_time *time);
/** Fills sig[] and ring_now[] for this setup in this world; *count: traits found. */
sl_status sl_simulation_look(sl_simulation *s, const sl_setup *setup, int world, size_t *count);
/** Time of one replica with its stages' rings as they are now. */
sl_status sl_simulation_replica(sl_simulation *s, const sl_setup *setup, int traits, int plan,
                                int microbatches, sl_time *time);
/** Microbatches of a replica, and the traits that it was planned for. */
static inline int sl_setup_share(const sl_simulation *s, const sl_setup *setup, int replica) {
    return setup->split ? setup->split[replica] : s->campaign->problem.microbatches;
}
static inline int sl_setup_plan(const sl_setup *setup, int replica) {
    return setup->plan ? setup->plan[replica] : 0;
}
/** Where a device sits. */
static inline int sl_setup_position(const sl_setup *setup, int device) {
    for (int i = 0; i < setup->moves; i++)
        if (setup->seated[i] == device)
            return setup->moved[i];
    return device;
}
/** The faults of a world that are not cured: s->active[*count]. */
sl_status sl_simulation_active(sl_simulation *s, const sl_setup *setup, int world, int *count);
/** A link of a replica, with its traits. */
void sl_traits_apply(const sl_simulation *s, int traits, int delegated, sl_problem *problem);

/* ---- campaign_setup.c */
/** The setup of a remedy applied in this world; the same one where it cannot do better. `follow`: bits of
 * remedies that may come with it because they cost next to nothing. *cost: of all that was done (undefined
 * where it is the same). */
sl_status sl_simulation_apply(sl_simulation *s, int setup, int world, sl_campaign_remedy remedy,
                              unsigned follow, int *result, sl_time *cost);
/** The setup without a remedy. */
sl_status sl_simulation_undo(sl_simulation *s, int setup, int world, sl_campaign_remedy remedy, int *result);
/** What a fault costs a second in this setup and world: its share of all that is lost against `healthy`, by
 * what each costs alone. */
sl_status sl_simulation_loss(sl_simulation *s, int setup, int world, int fault, sl_time healthy,
                             double *loss);
/** The number of a setup; takes over its arrays. */
sl_status sl_simulation_keep(sl_simulation *s, sl_setup *setup, int *number);
sl_status sl_setup_copy(const sl_simulation *s, const sl_setup *setup, sl_setup *copy);
void sl_setup_free(sl_setup *setup);
/** What it costs to come from one setup to another, the undoing included. */
sl_time sl_setup_distance(const sl_simulation *s, int from, int to);

/* ---- campaign_seats.c */
/** Rearranges `setup` for this world; unchanged where topology.h does not apply. */
sl_status sl_setup_rearrange(sl_simulation *s, sl_setup *setup, int world);

/* ---- campaign_play.c */
/** Plays strategy with the remedies of a bit set (0: nothing is ever done) from setup `first`. */
sl_status sl_campaign_play(sl_simulation *s, const char *name, unsigned remedies, int first, int log,
                           sl_campaign_row *row);
/** One more stretch; joined with the last where it goes on. */
sl_status sl_row_add(sl_campaign_row *row, int iteration, int count, sl_time start, sl_time each);

/* ---- campaign_hindsight.c */
sl_status sl_campaign_hindsight(sl_simulation *s, const sl_campaign_row *others, int count,
                                sl_campaign_row *row);

#endif
