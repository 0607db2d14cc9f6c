/* The binding from inside: what its files share.
 *
 *   binding  opening, the engine's tables, losses
 *   update   what happens between the last W and the next iteration: sums over replicas, norm, AdamW
 *   whole    what concerns the whole model: validation, hash */
#ifndef SL_RUN_TRAIN_BINDING_INSIDE_H
#define SL_RUN_TRAIN_BINDING_INSIDE_H

#include "run/model/model.h"
#include "run/train/binding.h"
#include "run/train/data.h"
#include "run/train/norm.h"
#include "run/train/optimizer.h"
#include "run/train/reduce.h"

/* A stage that this rank holds: the object of the engine's table. */
typedef struct sl_held {
    struct sl_binding *binding;
    int stage, index; /* index: among those that this rank holds */
    sl_model_stage *model;
    int left;       /* parts of W that are still to come in this iteration */
    sl_shares head; /* last stage: of the head's accumulator; else empty */
} sl_held;

struct sl_binding {
    const sl_run *run;
    const sl_groups *groups; /* NULL: this rank is alone */
    sl_problem shape;        /* of its replica: which rank holds which stage */
    int rank, stages, iteration;
    int first; /* global number of the replica's first microbatch */
    sl_model_config config;
    sl_device *device;
    sl_arena *arena, *host; /* host: NULL without host memory */
    sl_held *held;          /* [helds] ascending stages */
    int helds;
    sl_data *data;
    sl_optimizer optimizer;
    uint16_t *tokens, *targets; /* [batch][context] of the microbatch at hand */
    sl_reduce reduce;
    sl_reducer *reducer; /* NULL: one replica */
    /* Sums of squares of blocks: those of this rank's shares; those of all ranks as they are gathered; the
     * latter in canonical order. */
    double *squares, *gathered, *all_squares;
    sl_shares *blocks; /* [stages] of every stage of the model, over the replicas */
    size_t all_blocks;
    float *head;          /* first of several stages: the head's gradient as it arrives from another rank */
    float *activation[2]; /* validation: in and out of a stage */
};

int sl_binding_rank_of(const sl_binding *b, int stage);
/** NULL: another rank holds it. */
sl_model_stage *sl_binding_model_of(const sl_binding *b, int stage);

/** The sums over replicas of held stage `index`, for the reducer. */
sl_status sl_binding_sum_stage(void *binding, int index);
/** Shares of all stages and what the norm needs. */
sl_status sl_binding_open_update(sl_binding *b);
void sl_binding_close_update(sl_binding *b);

#endif
