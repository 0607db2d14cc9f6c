/* One rank's share of the training: its stage of the model, the data that feeds it and the optimizer, bound
 * to the engine's table of functions. The trainer knows no more of the model than this. */
#ifndef SL_RUN_TRAIN_BINDING_H
#define SL_RUN_TRAIN_BINDING_H

#include "run/collective/group.h"
#include "run/engine/stage.h"
#include "run/train/run.h"

typedef struct sl_binding sl_binding;

typedef struct sl_binding_sizes {
    double activation_bytes; /* kept from F to W for one microbatch, by this rank */
    double fixed_bytes;      /* weights, gradients, optimizer state and scratch */
    size_t message_bytes;    /* largest message */
} sl_binding_sizes;

/** What stage `rank` of `run` takes, without making it. */
sl_status sl_binding_measure(const sl_run *run, int rank, sl_binding_sizes *sizes);

/** Makes the stage with its initial weights and reads the data. `in_flight`: most microbatches between F and
 * W at once, which sizes the arena. SL_EINVAL: data missing or too short; SL_ENOMEM: over device.memory_mb.
 */
sl_status sl_binding_open(const sl_run *run, int rank, int in_flight, sl_binding **binding);
void sl_binding_close(sl_binding *binding);

/** The engine's table; its object is the binding. */
sl_stage sl_binding_stage(sl_binding *binding);

/** Chooses the data of an iteration and clears gradients and losses. */
sl_status sl_binding_begin(sl_binding *binding, int iteration);

/** Mean loss of the iteration in nats a byte, summed by microbatch in ascending order; on the last stage. */
double sl_binding_loss(const sl_binding *binding);

/** Collective: tied embedding, norm, clipping and AdamW. SL_ENONE when the gradient norm is not finite. */
sl_status sl_binding_update(sl_binding *binding, sl_group *group, int iteration);

/** Collective: mean loss over the held-out text, by forward passes that keep nothing; NaN on other ranks than
 * 0. */
sl_status sl_binding_validate(sl_binding *binding, sl_group *group, double *loss);

/** Collective: xxh64 over all parameters in canonical order, on rank 0. */
sl_status sl_binding_hash(sl_binding *binding, sl_group *group, uint64_t *hash);

/** Entropy of single bytes of the text, nats a byte. */
double sl_binding_entropy(const sl_binding *binding);
/** Highest use of the device arena so far, bytes. */
size_t sl_binding_peak(const sl_binding *binding);
/** Name of the instruction set that the kernels use. */
const char *sl_binding_isa(const sl_binding *binding);

#endif
