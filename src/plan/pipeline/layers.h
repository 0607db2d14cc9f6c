/* Layers: the source of stages if the problem gives costs of layers instead of times of stages. A cut has the
 * first layer of each stage (sl_problem_cut). */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "plan/pipeline/op.h"

/* `hosted` and the two after it come from `choose` alone, not from files: a cut then sets host_limit and the
 * times of moves, and leaves a rank without memory if more stays on its host than fits there. */
typedef struct sl_layers {
    int count;
    sl_time *time[SL_OP_KINDS]; /* [kind][layer] on a rank of speed 1 */
    double *delta[SL_OP_KINDS]; /* [kind][layer] */
    double *early;              /* [layer] memory that I or B takes while it is in that layer */
    double *input;              /* [layer] what F keeps of a layer of a stage that recomputes */
    double *weights;            /* [layer] memory that stays: parameters, gradients, optimizer */
    sl_time *gather, *reduce;   /* [layer] its share of a stage's collectives; NULL: given by stage */
    int recompute;              /* the search for a cut also chooses the stages that recompute */
    double *speed;              /* [ranks] 2: takes half the time */
    double *memory;             /* [ranks] memory of a rank, weights included; NULL: no limit */
    double *hosted;             /* [layer] what stays in host memory; NULL: nothing */
    double host_memory;         /* of each rank, for what stays and for activations */
    double host_pace;           /* ns per byte of an activation's move; needed where host_limit is there */
    int *first;                 /* [stages + 1] the present cut: stage s holds first[s] .. first[s+1] - 1 */
    char *letter; /* [count + 1] kinds of a layout (plan/pipeline/layer_layout.h), which also gives the only
                     cut; NULL: the cut is chosen */
} sl_layers;

sl_status sl_layers_make(int count, int ranks, int stages, sl_layers **layers);
/** Allocates gather and reduce, if they are not there. SL_ENOMEM. */
sl_status sl_layers_add_collectives(sl_layers *layers);
sl_status sl_layers_copy(const sl_layers *layers, int ranks, int stages, sl_layers **copy);
void sl_layers_free(sl_layers *layers);
