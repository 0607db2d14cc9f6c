/* A rank that trains: its position among the ranks of its run, and the position of every process. All that a
 * rank holds for its work at its position is in rank_state.h, which only this folder reads.
 *
 *   trainer_open     opens and closes all of it
 *   planning         before ranks take their positions: sizes, problems, first orders
 *   rank_open        a rank's state at its position: connections, engine, programs
 *   iterate          one iteration of a rank, and its records for the leader
 *   rearrange        changes the rank map and the split of microbatches between two iterations
 *   departure        leaving a slow host: restart without it
 *   path             carries messages by ranks or delegates
 *   exchange         orders and clocks, from the leader to all
 *   network_profile  measures every link periodically
 *   faults           injected faults */
#pragma once

#include "notice/record/offset.h"
#include "run/arrange/run_site.h"
#include "run/binding/binding.h"
#include "run/journal/run_log.h"
#include "run/saving/saving.h"

/* Written by this folder alone. */
typedef struct sl_trainer {
    const sl_run *run; /* the caller's, except batch.split, which a rearrangement changes */
    const sl_run_site *site;
    sl_clock *clock;
    sl_groups groups;      /* its world: that of MPI, or after a rearrangement one by positions */
    int world, world_rank; /* all ranks of the run, and this one among them */
    int rank, ranks;       /* of this one's pipeline */
    int leader;            /* world rank of the initial rank 0, which plans, decides and writes for all */
    int *home; /* [world] world rank of each process when the attempt began; kept when positions change */
    sl_offset *clocks; /* [world], known to the leader */
    sl_binding *binding;
    sl_saving *saving;
    sl_run_log *log;      /* the leader's */
    int first;            /* iteration with which the attempt begins */
    int departed;         /* all ranks end before the next iteration, and are restarted without a host */
    double message_bytes; /* of an activation between stages */
    long moves;           /* to and from host memory, in all iterations */
    struct sl_rank_state *state;
} sl_trainer;

/** Whether this rank is the leader, which plans, decides and writes for all. */
static inline int sl_trainer_leads(const sl_trainer *t) {
    return t->world_rank == t->leader;
}

/** The position, when the attempt began, of the process that is now `world_rank`: the device, host and links
 * that a fault of the run file refers to. */
static inline sl_run_position sl_trainer_home(const sl_trainer *t, int world_rank) {
    return sl_run_position_of(t->run, t->home[world_rank]);
}
