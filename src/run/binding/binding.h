/* One rank's share of the training: its stages of the model, the data that feeds them and the optimizer,
 * bound to the engine's tables of functions. The trainer knows no more of the model than this.
 *
 * The assignment of stages to ranks changes no bit: all sums, hashes and comparisons over the model go stage
 * by stage, which is the canonical order of its parameters. */
#pragma once

#include "run/binding/reducer.h"
#include "run/binding/run_groups.h"
#include "run/engine/stage_ops.h"

typedef struct sl_binding sl_binding;
struct sl_parameter;

typedef struct sl_binding_sizes {
    /* of one microbatch, for each of this rank's stages: kept from F to W, and from I to W; the size for the
     * largest of them, because they share an arena (run/model/transformer.h, padding) */
    double forward_bytes, backward_bytes;
    double fixed_bytes;   /* weights, gradients, optimizer state and scratch of all stages */
    size_t message_bytes; /* largest message */
} sl_binding_sizes;

/** The memory of the stages of the rank in that position, without creating them. */
sl_status sl_binding_measure(const sl_run *run, sl_run_position position, sl_binding_sizes *sizes);

/** Number of scalar parameters of a stage of the problem that one rank holds. */
size_t sl_binding_elements(const sl_run *run, int number);

/** Creates the stages with their initial weights and reads the data. `in_flight`: max. microbatches between F
 * and W at the same time, counted once for each stage that holds one, which sizes the arena together with
 * device.memory_mb; `hosted`: max. in host memory, which gets its own arena (0: none). The groups in `groups`
 * must outlive the binding. SL_EINVAL: data missing or too short; SL_ENOMEM: over device.memory_mb. */
sl_status sl_binding_open(const sl_run *run, const sl_groups *groups, int in_flight, int hosted,
                          sl_binding **binding);
void sl_binding_close(sl_binding *binding);

/* ---- other positions, or another split, between two iterations (sl_rearrange) ----
 *
 * Weights and moments go from memory to memory into a binding for the new position, which reuses what it can:
 *   text and device    always
 *   stages             as they are, if a rank keeps its stages, its slices and (with ZeRO) its share, and its
 *                      memory suffices
 *   memory             if it suffices or can be extended a little (arena.h): incoming data wait in its free
 *                      room or, if that is too small, in host memory, until the old stages are freed
 * Otherwise device memory is needed twice until the old stages are freed, each within device.memory_mb by
 * itself. */

/** Like sl_binding_settle, for stages that are about to move: they can no longer compute. */
sl_status sl_binding_settle_last(sl_binding *binding);

/** Collective over the world of `groups`, in which rank w had the world rank was[w] before; after
 * sl_binding_settle_last. Every rank gives the parts of `old` that the next process of its old position
 * needs, and receives its own likewise, both at the same time and in pieces. Afterwards `old` holds no state;
 * both must still be closed, after an error *next first. *bytes: sent by this rank. SL_EPEER, SL_ENOMEM. */
sl_status sl_binding_move(sl_binding *old, const sl_run *run, const sl_groups *groups, int in_flight,
                          int hosted, const int *was, sl_binding **next, double *bytes);

/** The engine's tables: fills those of table[stages] that this rank holds. They live as long as the binding.
 */
void sl_binding_stages(sl_binding *binding, sl_stage *table);

/** Chooses the data of an iteration. The engine prepares each stage before its first F: makes its due update,
 * then clears its gradients and losses. */
void sl_binding_begin(sl_binding *binding, int iteration);

/** Mean losses of this replica's microbatches, nats per token, into losses[microbatches of the replica] on
 * the ranks that hold the last stage (of tensor ranks, the first), each of the microbatches that it ran;
 * returns their number: 0 on others. */
int sl_binding_losses(const sl_binding *binding, double *losses);

/** Number in the problem of this rank's stage `index`; -1: no more. */
int sl_binding_stage_at(const sl_binding *binding, int index);

/** After the last op: sleeps until the gradients of all stages held here are summed over the replicas, which
 * runs concurrently with the ops, and takes their sums of squares; times[stages held]: time of each sum (0:
 * one replica). Collective over the data group. */
sl_status sl_binding_reduce(sl_binding *binding, sl_reduction *times);

/** Collective, after sl_binding_reduce: adds the two accumulators of a tied embedding on the first stage,
 * where the head's arrived during the ops. Then gradients are those of the whole batch (with ZeRO: each
 * replica's share of them). */
sl_status sl_binding_join(sl_binding *binding);

/** Collective, after sl_binding_join: the norm over all ranks and the clip factor. From here on AdamW is due:
 * the engine runs it stage by stage before each one's first F of the next iteration; sl_binding_settle runs
 * it immediately. SL_ENONE if the gradient norm is not finite. */
sl_status sl_binding_clip(sl_binding *binding);

/** Collective, between two iterations: makes the due updates, with ZeRO's gather of weights and the tied
 * head's copy. All functions below that read weights or moments call it first. */
sl_status sl_binding_settle(sl_binding *binding);

/** Collective: mean loss over the held-out text, by forward passes that keep nothing; NaN on ranks other than
 * the leader. */
sl_status sl_binding_validate(sl_binding *binding, double *loss);

/** Collective: xxh64 over all parameters in canonical order, on the leader. */
sl_status sl_binding_hash(sl_binding *binding, uint64_t *hash);

/* ---- full tensors, as checkpoints and other programs see them ---- */

typedef enum sl_binding_value {
    SL_VALUE_WEIGHT,
    SL_VALUE_GRADIENT,
    SL_VALUE_MOMENT1,
    SL_VALUE_MOMENT2
} sl_binding_value;

/** Collective over the ranks that hold `stage` (others may call it too; it does nothing there): the full
 * tensor of parameter `index` of its canonical list, from the slices of its tensor ranks and, with ZeRO, the
 * shares of its replicas, into full[sl_parameter_full_count] at replica 0, tensor rank 0; NULL is fine
 * elsewhere. Between two iterations; gradients after sl_binding_join. */
sl_status sl_binding_collect(sl_binding *binding, int stage, int index, sl_binding_value value, float *full);

/** Collective: visits every full tensor in canonical order on the leader. */
sl_status sl_binding_each(sl_binding *binding, sl_binding_value value,
                          sl_status (*visit)(void *object, const struct sl_parameter *tensor,
                                             const float *full),
                          void *object);

/** The reverse, on each rank separately: copies this rank's part of parameter `index` of `stage` from the
 * full tensor; does nothing if another rank holds the stage. SL_ENOMEM. */
sl_status sl_binding_put(sl_binding *binding, int stage, int index, sl_binding_value value,
                         const float *full);
/** The same for the tied head's copy of the embedding on the last stage; does nothing if there is none. */
sl_status sl_binding_put_head(sl_binding *binding, const float *full);

/** The model's shape. */
const struct sl_model_config *sl_binding_config(const sl_binding *binding);
/** What this rank has fed to the first stage since sl_binding_begin: the sum, modulo 2^64, of the xxh64 of
 * the tokens of each microbatch (uint16, little-endian). Only one rank counts a microbatch, so the sum over
 * all ranks is that of the iteration's samples, in any layout. */
uint64_t sl_binding_samples(const sl_binding *binding);

/** The text: number of tokens, and their xxh64. */
void sl_binding_data(const sl_binding *binding, uint64_t *tokens, uint64_t *checksum);

/** Entropy of single tokens of the text, nats per token. */
double sl_binding_entropy(const sl_binding *binding);
/** Peak use of the device arena since the last change of positions, bytes. */
size_t sl_binding_peak(const sl_binding *binding);
/** The same for host memory; 0 if there is none. */
size_t sl_binding_host_peak(const sl_binding *binding);
/** Its device, also after it has moved. */
struct sl_device *sl_binding_device(const sl_binding *binding);
/** Name of the instruction set that the kernels use. */
const char *sl_binding_isa(const sl_binding *binding);

/* The gradients of an iteration as files, to compare layouts with each other and with other programs:
 * gradients/iteration-000000.f32 holds all tensors one after the other in canonical order (little-endian
 * f32), of the whole batch, before clipping; gradients/tensors.json has name, shape and offset in bytes of
 * each. */

/** Collective, between sl_binding_join and sl_binding_clip; rank 0 of the world writes below `folder`, which
 * must exist. SL_ESYS names the file. */
sl_status sl_gradients_write(sl_binding *binding, int leads, const char *folder, int iteration);
