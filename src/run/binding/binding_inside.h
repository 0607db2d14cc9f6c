/* The inside of the binding, shared by its files.
 *
 *   binding  opening, the engine's tables, losses
 *   sums     after a stage's last W: sums over replicas, the tied embedding's two accumulators
 *   clip     sums of squares, the norm over all ranks, the clip factor
 *   update   before a stage's next first F: AdamW, ZeRO's gather, the tied head's copy, packing
 *   plot     positions of the blocks of all stages: shares over replicas, slices over tensor ranks
 *   move     other positions: handing over memory, moving data from memory to memory
 *   whole    the whole model: validation, hash; full tensors from their slices and back */
#pragma once

#include "run/binding/binding.h"
#include "run/binding/data.h"
#include "run/binding/gradient_norm.h"
#include "run/binding/optimizer.h"
#include "run/binding/passing.h"
#include "run/binding/reduce.h"
#include "run/model/transformer.h"

/* A stage that this rank holds: the object of the engine's table. */
typedef struct sl_held {
    struct sl_binding *binding;
    int stage, index; /* of the model; index: among those that this rank holds */
    int number;       /* of the problem: which copy it is (sl_run_copies) */
    /* If both copies are on this rank (the middle one of an odd number): the other. The first one sums both
     * gradients and is updated, the second one takes over its weights. */
    struct sl_held *twin;
    sl_model_stage *model;
    /* From the model, requested once: it repacks weights after each request. `tied`: the head's accumulator
     * and copy on the last stage, else NULL. */
    sl_parameter *list, *tied;
    int parameters;
    float *moment[2]; /* ZeRO: AdamW's of this replica's share, piece by piece; else NULL */
    int left;         /* remaining parts of W in this iteration */
    size_t squares;   /* position of its sums of squares among the rank's */
    int squared, due; /* they have been taken in this iteration; its update is due */
    sl_shares head;   /* last stage: of the head's accumulator; else empty */
} sl_held;

/* Positions of the blocks of a stage, seen from one tensor rank. */
typedef struct sl_plot {
    sl_shares cut; /* of its slices, over the holders */
    /* [parameters] position of each one's first block in the canonical order of all blocks: by stage,
     * parameter, tensor rank; SL_NO_POSITION: parameters that every tensor rank holds whole count at the
     * first one */
    size_t *position;
} sl_plot;

#define SL_NO_POSITION SIZE_MAX

struct sl_binding {
    const sl_run *run;
    sl_groups own;               /* a copy: the run's change before this binding is replaced */
    const sl_groups *groups;     /* that copy */
    sl_problem shape;            /* of its replica: the rank of each stage */
    int rank, stages, iteration; /* stages: of the model */
    int holders, holder;         /* of each stage here; the number of this rank among them */
    int first;                   /* global number of the replica's first microbatch */
    sl_model_config config;
    sl_device *device;
    sl_arena *arena, *host; /* host: NULL without host memory */
    sl_model_bytes need;    /* of all stages here */
    size_t limit, room;     /* of the arena */
    size_t hosted;          /* of host memory */
    sl_held *held;          /* [helds] ascending stages of the model */
    int helds;
    sl_data *data;
    sl_optimizer optimizer;
    /* [batch][context] of the microbatch at hand and of the one before, which the device may still copy */
    uint16_t *tokens[2], *targets[2];
    int text;         /* which */
    uint64_t samples; /* sl_binding_samples */
    sl_reduce reduce;
    sl_reducer *reducer; /* NULL: one holder, and one stage here */
    int passes;          /* the tied embedding and its head are on two ranks */
    sl_passing passing;  /* of the head's gradient to the first stage, or of its copy to the last */
    /* Sums of squares of blocks: those of this rank's shares, stage by stage; those of all ranks as gathered;
     * the latter in canonical order. */
    double *squares, *gathered, *all_squares;
    size_t own_squares;
    /* The iteration of the due updates; whether this rank must still pass the head's copy. */
    int due_iteration, copy_due;
    int leaving; /* the updates are the last ones here: nothing is packed afterwards */
    float factor;
    sl_plot *plot; /* [stages * tensor ranks] of every stage of the model */
    size_t all_blocks;
    float *tensor_scratch;
    size_t tensor_capacity;
    /* The tied embedding's values between two ranks, on the host: the head's gradient received by the first
     * stage's rank, and what either sends or receives if the host does not reach the device's memory. */
    float *head;
    float *activation[2]; /* validation: in and out of a stage */
};

/** The pipeline rank of a stage's first holder. */
int sl_binding_rank_of(const sl_binding *b, int stage);
/** Whether a rank holds a stage. */
int sl_binding_holds(const sl_binding *b, int rank, int stage);
/** Whether it is the second of two copies on this rank. */
int sl_binding_is_second(const sl_held *held);
/** NULL: another rank holds it. */
sl_held *sl_binding_held_of(const sl_binding *b, int stage);
sl_model_stage *sl_binding_model_of(const sl_binding *b, int stage);

/** The cut of a stage's slices of this tensor rank over its holders. */
const sl_shares *sl_binding_cut(const sl_binding *b, int stage);
/** Blocks [*begin, *end) of a stage whose moments this rank holds: all, or with ZeRO its share. */
void sl_binding_updated(const sl_binding *b, int stage, size_t *begin, size_t *end);
/** The cut of a stage as seen by config's tensor rank. Free with sl_shares_free. */
sl_status sl_binding_cut_stage(const sl_model_config *config, int stage, int stages, int holders,
                               sl_shares *cut);
/** Cuts of all stages: before the stages are opened. */
sl_status sl_binding_plot(sl_binding *b);
void sl_binding_close_plot(sl_binding *b);
/** Allocates the moments of a held stage from the arena, if ZeRO divides them. */
sl_status sl_binding_open_moments(sl_binding *b, sl_held *held);

/* ---- the steps of opening, for move.c too */

/** A binding without memory, text and device. */
sl_status sl_binding_make(const sl_run *run, const sl_groups *groups, sl_binding **binding);
/** The device of this rank. SL_EINVAL: there is none such; SL_ESYS. */
sl_status sl_binding_open_device(const sl_run *run, sl_device **device);
/** Computes its memory; opens a device if there is none yet. */
sl_status sl_binding_size(sl_binding *b, int in_flight, int hosted);
/** Opens that memory, the stages in it, and their workers. */
sl_status sl_binding_open_memory(sl_binding *b);
sl_status sl_binding_open_stages(sl_binding *b);
sl_status sl_binding_open_buffers(sl_binding *b);
void sl_binding_close_stages(sl_binding *b);

/** A W of a held stage has ended, or will at `end`; its `left` counts it. */
sl_status sl_binding_weights_added(sl_held *held, sl_time end);
/** Sums of squares of a stage with complete gradients, once per iteration; those of a tied embedding, which
 * is joined later, are left to sl_binding_clip. */
sl_status sl_binding_take_squares(sl_binding *b, sl_held *held, int threads);
/** `count` values of the device that are to be sent, where the host reaches them: there, or in b->head, for
 * which no passing may be under way. Waits. */
sl_status sl_binding_to_host(sl_binding *b, float *values, size_t count, float **host);
/** The stage's due update, if any. In ascending order on every rank; collective like sl_binding_settle. */
sl_status sl_binding_update_stage(sl_held *held);
/** Opens the resources of sums and norm; after the stages. */
sl_status sl_binding_open_sums(sl_binding *b);
void sl_binding_close_sums(sl_binding *b);
sl_status sl_binding_open_clip(sl_binding *b);
void sl_binding_close_clip(sl_binding *b);
