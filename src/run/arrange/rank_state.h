/* What a rank holds for its work. Internal to this folder; each part is the file's that is named for it. */
#pragma once

#include "plan/lower/program.h"
#include "run/arrange/trainer.h"
#include "run/engine/engine.h"
#include "run/saving/resume.h"

typedef struct sl_rank_state {
    sl_run own;       /* the caller's, except batch.split, which may change and is freed with this */
    sl_group *origin; /* all processes as started by MPI: by initial position */
    int *remote;      /* [world] on a host other than the leader's */
    sl_resume resume;
    struct sl_departure *departure;
    struct sl_process_host *process_host; /* [world] by initial position */
    struct sl_fault_effects *effects;
    struct sl_network_profile *network;
    int delegates;                   /* that carry the messages of a link and direction; 0: the ranks do */
    sl_time path_cost, path_settled; /* of the last change of path: duration and end; 0: none yet */
    /* Opened again for each arrangement. */
    sl_problem problem;           /* of this rank's replica */
    sl_order first;               /* the order that it began with */
    struct sl_replica_plan *plan; /* the leader's [data] */
    sl_transport *transport;
    sl_engine *engine;
    sl_program program[2]; /* running and previous, lowered from what was broadcast */
    int running;
    struct sl_iteration_records *records;
} sl_rank_state;
