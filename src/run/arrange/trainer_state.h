/* The state of a rank's training: what run/train creates once, and what this folder creates for each
 * arrangement. Internal to these two.
 *
 *   planning         before ranks take their seats: sizes, problems, first orders
 *   seated           a rank's state in its seat: connections, records, engine, programs
 *   rearrange        changes the rank map and the split of microbatches between two iterations
 *   departure        leaving a slow host: restart without it
 *   path             carries messages by ranks or delegates
 *   exchange         orders and clocks, from the leader to all
 *   network_profile  measures every link periodically
 *   faults           injected faults
 *   run_events       events, and the pending line of the journal */
#pragma once

#include "adapt/orchestrator/orchestrator.h"
#include "run/arrange/network_profile.h"
#include "run/arrange/run_site.h"
#include "run/binding/binding.h"
#include "run/engine/engine.h"
#include "run/journal/journal.h"
#include "run/journal/measure.h"
#include "run/journal/ping.h"
#include "run/journal/progress.h"
#include "run/saving/resume.h"
#include "run/saving/saving.h"
#include "run/transport/wires.h"

/* The leader's state of each replica. */
typedef struct sl_trainer_replica {
    sl_problem problem;
    sl_plan plan; /* the first in this layout */
    char schedule[64];
    sl_time expected;          /* its predicted time */
    const sl_program *program; /* the running one: of the first plan, or one held by the orchestrator */
    int ran;                   /* it has run */
    /* [ranks] peak memory predicted for it, and for those that ran before it */
    double *peak, *peak_before;
} sl_trainer_replica;

/* A rank's report at the end of an iteration: this, then the losses of its microbatches. */
typedef struct sl_rank_report {
    sl_time end; /* its own clock */
    int32_t ops, overruns;
    int32_t warned, unused;
} sl_rank_report;

/* The leader's data from all ranks, rank by rank. */
typedef struct sl_rank_reports {
    char *reports; /* [world] reports, each followed by its losses, packed */
    size_t reports_capacity, *report_bytes;
    sl_record *records;
    size_t records_capacity, *record_bytes;
    sl_record *replica; /* those of one replica, in its clock */
} sl_rank_reports;

/* The host of a process. */
typedef struct sl_process_host {
    char host[256];   /* its own host name */
    char listed[256]; /* its name in the run's list of hosts; empty: not in it */
    int32_t entry;    /* in that list; -1: none */
} sl_process_host;

/* The state of every rank; the lower half only on the leader. */
typedef struct sl_trainer {
    const sl_run *run;  /* `own` */
    sl_run own;         /* the caller's, except batch.split, which may change and is freed here */
    const char *folder; /* the run's */
    const sl_run_site *place;
    sl_group *origin;      /* all processes as started by MPI: by their homes */
    sl_groups groups;      /* its world: `origin`, or after a rearrangement one by seats */
    int world, world_rank; /* all ranks of the run, and this one among them */
    int *home; /* [world] world rank of each process when the attempt began; kept when seats change */
    sl_process_host *process_host; /* [world] by home */
    struct sl_departure *departure;
    sl_wires cards;  /* of slow network cards (faults.c) */
    int departed;    /* all ranks end before the next iteration, and are restarted without a host */
    int leader;      /* the rank of the world whose home is 0: it plans, decides and writes for all */
    int rank, ranks; /* of this one's pipeline */
    sl_clock *clock;
    sl_binding *binding;
    sl_resume resume;
    sl_saving *saving;
    sl_transport *transport;
    sl_engine *engine;
    sl_record_ring *ring;
    uint64_t position, lost;
    sl_problem problem;    /* of this rank's replica */
    sl_order first;        /* the order that it began with */
    sl_program program[2]; /* running and previous, lowered from what was broadcast */
    int running;
    /* [stages] minimum op times of this iteration for the engine: the problem's times, slowed down */
    sl_time *paced[SL_OP_KINDS], *saved;
    int delegates;        /* carrying the messages of a link and direction; 0: the ranks do */
    sl_time path_cost;    /* duration of the last change of path */
    sl_time path_settled; /* when it was complete */
    sl_record *records;   /* of this rank, one iteration */
    size_t record_capacity;
    sl_reduction *reduction; /* [stages held] */
    char *report;            /* a report and losses */
    size_t report_bytes;
    int *remote; /* [world] on a host other than the leader's */
    long ops, moves, overruns;
    int warned;   /* leader: a rank was warned */
    int leaves;   /* all ranks end before this iteration */
    int fresh;    /* the first iteration in this rank map: without a pace no op was measured before it */
    int profiles; /* all measure the network after this iteration */

    double message_bytes; /* of an activation between stages */

    sl_journal *journal;
    sl_progress *progress;
    sl_ping_link *ping;  /* [ranks * ranks] the links before the first iteration, slowest replica's */
    sl_network_profile network;  /* the latest measurement, for decisions about the topology */
    sl_trainer_replica *replica; /* [data] */
    sl_rank_reports gathered;
    sl_offset *clocks; /* [world] */
    sl_arrivals arrivals;
    sl_orchestrator *orchestrator; /* detects slowdowns and decides */
    struct sl_searcher *searcher;  /* searches longer for plans */
    int searched;                  /* iteration of the last question; -1: none */
    sl_time opened;                /* time to open everything at the start */
    sl_time started;
    sl_time around[9]; /* time of the last iterations before their first op and after their last */
    int arounds;
    sl_time swap_cost[64];
    int swaps, troubled_before;
    char schedule[192]; /* of all replicas together */
    sl_time last_begin;
    sl_iteration pending;          /* written when its period is known */
    char pending_schedule[192];    /* a swap may change `schedule` before that */
    sl_measured **measured;        /* [data] in the last iteration */
    sl_timeline *pending_timeline; /* [data] */
} sl_trainer;

/** Whether this rank is the leader, which plans, decides and writes for all. */
static inline int sl_trainer_leads(const sl_trainer *t) {
    return t->world_rank == t->leader;
}

/** The seat, when the attempt began, of the process that is now `world_rank`: the device, host and links that
 * a fault of the run file refers to. */
static inline sl_run_position sl_trainer_home(const sl_trainer *t, int world_rank) {
    return sl_run_seat(t->run, t->home[world_rank]);
}

/** Lowers an order and runs it from the next iteration on. */
sl_status sl_trainer_run_order(sl_trainer *t, const sl_order *order);
