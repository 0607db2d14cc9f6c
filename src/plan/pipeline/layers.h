/* Layers: the source of stages if the problem gives costs of layers instead of times of stages. A cut has the
 * first layer of each stage; setting it fills the problem's times, deltas and limits. */
#pragma once

#include "plan/pipeline/problem.h"

typedef struct sl_layers {
    int count;
    sl_time *time[SL_OP_KINDS]; /* [kind][layer] on a rank of speed 1 */
    double *delta[SL_OP_KINDS]; /* [kind][layer] */
    double *weights;            /* [layer] memory that stays: parameters, gradients, optimizer */
    double *speed;              /* [ranks] 2: takes half the time */
    double *memory;             /* [ranks] memory of a rank, weights included; NULL: no limit */
    int *first;                 /* [stages + 1] the present cut: stage s holds first[s] .. first[s+1] - 1 */
} sl_layers;

sl_status sl_layers_make(int count, int ranks, int stages, sl_layers **layers);
sl_status sl_layers_copy(const sl_layers *layers, int ranks, int stages, sl_layers **copy);
void sl_layers_free(sl_layers *layers);

/** Cuts: first[0] = 0, ascending, every stage at least one layer, first[stages] = count. Fills times, deltas
 * and limits of `problem` (the layers' `memory` minus the weights of the rank; 0 if nothing is left).
 * Bidirectional: the stages of the second pipeline are cut like those of the first. */
void sl_problem_cut(sl_problem *problem, const int *first);
