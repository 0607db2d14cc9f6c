/* What only the leader has, which plans, decides and writes for all ranks: its view of the replicas, and the
 * parts that the files of this folder keep for themselves. NULL on other ranks. Internal to this folder. */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "run/arrange/trainer.h"

/* A replica in the present arrangement. */
typedef struct sl_leader_replica {
    char schedule[64];
    sl_time expected;          /* its predicted time */
    const sl_program *program; /* the running one: of the first plan, or one held by the orchestrator */
    int ran;                   /* it has run */
    /* [ranks] peak memory predicted for it, and for those that ran before it */
    double *peak, *peak_before;
} sl_leader_replica;

typedef struct sl_leader {
    sl_trainer *t;
    sl_leader_replica *replica; /* [data] */
    char schedule[192];         /* of all replicas together */
    int fresh;  /* the first iteration in this rank map: without a pace no op was measured before it */
    int warned; /* a rank was warned */
    sl_orchestrator *orchestrator;  /* detects slowdowns and decides (body.c) */
    struct sl_body *body;           /* body.c */
    struct sl_assess_state *assess; /* assess.c */
} sl_leader;

/** The view of the first arrangement. `t` must stay. Close with sl_leader_close, also on error. SL_ENOMEM. */
sl_status sl_leader_open(sl_trainer *t, sl_leader **leader);
void sl_leader_close(sl_leader *leader);

/** Starts over with the plans of an arrangement, which runs from `iteration` on. */
void sl_leader_rearranged(sl_leader *leader, int iteration);
/** Sets the name of the current schedule: replica 0's, or all if they differ. */
void sl_leader_name_schedule(sl_leader *leader);

/** Whether op times are prescribed. */
static inline int sl_leader_is_paced(const sl_leader *leader) {
    return leader->t->run->device.pace_ms[SL_F] != NULL;
}
