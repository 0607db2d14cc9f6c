/* The state of a rank's training: what run/train makes once, and what this folder makes for each arrangement.
 * Internal to these two.
 *
 *   planning   before ranks take their seats: sizes, problems, first orders
 *   seated     what a rank has in its seat: connections, records, engine, programs
 *   rearrange  who sits where and how many microbatches replicas take, changed between two iterations
 *   departure  leaving a slow host: restart without it
 *   path       who carries the messages
 *   exchange   orders and clocks, from the rank that leads to all
 *   network    every link measured, from time to time
 *   faults     the laboratory's trouble
 *   telling    events, and the pending line of the journal */
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

/* What the rank that leads holds of each replica. */
typedef struct sl_trainer_replica {
    sl_problem problem;
    sl_plan plan; /* the first in this layout */
    char schedule[64];
    sl_time expected;          /* what it was predicted to take */
    const sl_program *program; /* that runs: of the first plan, or of one that the orchestrator holds */
    int ran;                   /* it has run */
    /* [ranks] highest memory foretold for it, and for those that ran before it */
    double *peak, *peak_before;
} sl_trainer_replica;

/* What a rank reports at the end of an iteration: this, then the losses of its microbatches. */
typedef struct sl_rank_report {
    sl_time end; /* its own clock */
    int32_t ops, overruns;
    int32_t warned, unused;
} sl_rank_report;

/* What the rank that leads has from all ranks, rank by rank. */
typedef struct sl_rank_reports {
    char *reports; /* [world] reports with losses behind them, packed */
    size_t reports_capacity, *report_bytes;
    sl_record *records;
    size_t records_capacity, *record_bytes;
    sl_record *replica; /* those of one replica, in its clock */
} sl_rank_reports;

/* The host of a process. */
typedef struct sl_process_host {
    char host[256];   /* as it calls itself */
    char listed[256]; /* as the run's list of hosts names it; empty: it does not */
    int32_t entry;    /* there; -1: none */
} sl_process_host;

/* What every rank holds; the lower half only the rank that leads. */
typedef struct sl_trainer {
    const sl_run *run;  /* `own` */
    sl_run own;         /* the caller's, but for batch.split, which may change and is freed here */
    const char *folder; /* the run's */
    const sl_run_site *place;
    sl_group *origin;      /* all processes as MPI has started them: by their homes */
    sl_groups groups;      /* its world: `origin`, or since a rearrangement one by seats */
    int world, world_rank; /* all ranks of the run, and this one among them */
    int *home; /* [world] what each of them was when the attempt began: processes keep it when they change
                  seats */
    sl_process_host *process_host; /* [world] by home */
    struct sl_departure *departure;
    sl_wires cards;  /* of slow network cards (faults.c) */
    int departed;    /* all ranks end before the next iteration, and are started again without a host */
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
    /* [stages] what the engine holds ops to in this iteration: the problem's times, slowed down */
    sl_time *paced[SL_OP_KINDS], *saved;
    int delegates;        /* that carry the messages of a link and direction; 0: the ranks do */
    sl_time path_cost;    /* what the last change of path took */
    sl_time path_settled; /* when it was complete */
    sl_record *records;   /* of this rank, one iteration */
    size_t record_capacity;
    sl_reduction *reduction; /* [stages held] */
    char *report;            /* a report and losses */
    size_t report_bytes;
    int *remote; /* [world] on another host than the rank that leads */
    long ops, moves, overruns;
    int warned;   /* who leads: some rank was */
    int leaves;   /* all ranks end before this iteration */
    int fresh;    /* the first iteration as everybody sits: without a pace no op was measured before it */
    int profiles; /* all measure the network behind this iteration */

    double message_bytes; /* of an activation between stages */

    sl_journal *journal;
    sl_progress *progress;
    sl_ping_link *ping;  /* [ranks * ranks] the links before the first iteration, of replicas the slowest */
    sl_network_profile network;  /* measured last, for whoever decides about the topology */
    sl_trainer_replica *replica; /* [data] */
    sl_rank_reports gathered;
    sl_offset *clocks; /* [world] */
    sl_arrivals arrivals;
    sl_orchestrator *orchestrator; /* what is slow, and what to do about it */
    struct sl_searcher *searcher;  /* looks longer for plans */
    int searched;                  /* iteration of the last question; -1: none */
    sl_time opened;                /* what it took to open everything in the beginning */
    sl_time started;
    sl_time around[9]; /* what the last iterations took before their first op and behind their last */
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

/** Whether this rank plans, decides and writes for all. */
static inline int sl_trainer_leads(const sl_trainer *t) {
    return t->world_rank == t->leader;
}

/** Where the process that is `world_rank` now sat when the attempt began: the device, host and links that a
 * fault of the run file means. */
static inline sl_run_position sl_trainer_home(const sl_trainer *t, int world_rank) {
    return sl_run_seat(t->run, t->home[world_rank]);
}

/** Lowers an order and runs it from the next iteration on. */
sl_status sl_trainer_run_order(sl_trainer *t, const sl_order *order);
