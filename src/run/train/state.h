/* The state of a rank's training: what the set-up makes and the loop uses. Internal to the trainer. */
#ifndef SL_RUN_TRAIN_STATE_H
#define SL_RUN_TRAIN_STATE_H

#include "adapt/decision.h"
#include "run/engine/engine.h"
#include "run/train/binding.h"
#include "run/train/journal.h"
#include "run/train/measure.h"
#include "run/train/trainer.h"

/* What every rank holds; the lower half only rank 0. */
typedef struct sl_trainer {
    const sl_run *run;
    sl_group *group;
    int rank, ranks;
    sl_clock *clock;
    sl_binding *binding;
    sl_transport *transport;
    sl_engine *engine;
    sl_record_ring *ring;
    uint64_t position, lost;
    sl_problem problem;
    sl_plan plan;          /* first plan; on other ranks than 0 the order that was received */
    sl_program program[2]; /* running and previous, lowered from what rank 0 broadcast */
    int running;
    /* [stages] what the engine holds ops to in this iteration: the problem's times, slowed down */
    sl_time *paced[SL_OP_KINDS], *saved;
    int delegates;        /* that carry the messages of a link and direction; 0: the ranks do */
    sl_time path_cost;    /* what the last change of path took */
    sl_time path_settled; /* when it was complete */
    sl_record *records;   /* of this rank, one iteration */
    size_t record_capacity;
    long ops, moves, overruns;

    sl_journal *journal;
    sl_adaptation *adaptation;
    sl_record *gathered;
    size_t gathered_capacity;
    sl_offset *clocks; /* [ranks] */
    int *remote;       /* [ranks] on another host than rank 0 */
    sl_arrivals arrivals;
    sl_time started;
    sl_time tail[9]; /* last op to the end of the optimizer, of the last iterations */
    int tails;
    sl_time swap_cost[64];
    int swaps, troubled_before;
    char schedule[64];
    sl_time last_begin;
    sl_iteration pending;      /* written when its period is known */
    char pending_schedule[64]; /* a swap may change `schedule` before that */
    sl_problem pending_problem;
    sl_timeline pending_timeline;
} sl_trainer;

/** Plans, makes the stage, connects to the peers and opens the journal (rank 0). Collective. `t` holds run,
 * group, rank, ranks and clock, the rest is 0. Close with sl_trainer_close, also on error. */
sl_status sl_trainer_open(sl_trainer *t, const sl_place *place);
void sl_trainer_close(sl_trainer *t);

/** Lowers an order and runs it from the next iteration on. */
sl_status sl_trainer_run_order(sl_trainer *t, const sl_order *order);

#endif
