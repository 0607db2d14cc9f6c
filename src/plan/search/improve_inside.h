/* An annealer, shared by improve.c (the critical path, the chain) and improve_moves.c (what it changes). */
#pragma once

#include "base/random.h"
#include "plan/search/improve.h"
#include "plan/timing/objective.h"

/* Shifts that a move may add on a rank to keep its memory limit. */
enum { SL_REPAIRS = 3 };

typedef struct sl_annealer {
    const sl_problem *problem;
    sl_program program; /* the current order; steps, producers and consumers follow every swap */
    sl_replayer *replayer;
    sl_evaluator evaluator;
    sl_order *best;
    double *room;    /* [ranks] limit, host memory included; NULL: no limit */
    double **memory; /* [ranks][steps + 1] in use before each step, all earlier ones ended */
    int32_t *pairs;  /* candidates: rank and position of critical neighbors */
    int pair_count;
    int32_t *blocks; /* rank, first and last step of every run of critical ops without a gap */
    int block_count;
    int32_t *done; /* shifts made by a move: rank, from, to */
    int done_count;
    int64_t ops; /* of the program */
    sl_time current, found;
    uint64_t random;
    double temperature;
} sl_annealer;

/** A random number below `limit`, or of 64 bits. */
static inline uint64_t sl_annealer_draw(sl_annealer *a) {
    return sl_random_mix(a->random += SL_RANDOM_STEP);
}
static inline int sl_annealer_draw_below(sl_annealer *a, int limit) {
    return (int)(sl_annealer_draw(a) % (uint64_t)limit);
}

/** Memory that an op takes or releases altogether. */
double sl_annealer_memory(const sl_problem *problem, const sl_op *op);
/** Draws moves until one has an effect, with a limit of tries: its shifts are then in `done`. None violates a
 * dependency or the memory limit. Returns the cost in replayed ops. */
int64_t sl_annealer_move(sl_annealer *a);
/** Takes the latest shifts back, until `left` are left. */
void sl_annealer_take_back(sl_annealer *a, int left);
