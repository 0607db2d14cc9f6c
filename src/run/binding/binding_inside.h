/* The binding from inside: what its files share.
 *
 *   binding  opening, the engine's tables, losses
 *   sums     behind a stage's last W: sums over replicas, the tied embedding's two accumulators
 *   clip     sums of squares, the norm over all ranks, the clip factor
 *   update   before a stage's next first F: AdamW, ZeRO's gather, the tied head's copy, packing
 *   plot     where the blocks of all stages are: shares over replicas, slices over tensor ranks
 *   move     other seats: what is handed over, what goes from memory to memory
 *   whole    what concerns the whole model: validation, hash; full tensors from their slices and back */
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
    int stage, index; /* index: among those that this rank holds */
    sl_model_stage *model;
    /* The model's, asked for once: it packs weights anew for each time that somebody asks. `tied`: the head's
     * accumulator and copy on the last stage, else NULL. */
    sl_parameter *list, *tied;
    int parameters;
    float *moment[2]; /* ZeRO: AdamW's of this replica's share, piece by piece; else NULL */
    int left;         /* parts of W that are still to come in this iteration */
    size_t squares;   /* where its sums of squares lie among the rank's */
    int squared, due; /* they have been taken in this iteration; its update is still to be made */
    sl_shares head;   /* last stage: of the head's accumulator; else empty */
} sl_held;

/* Where the blocks of a stage are, seen from one tensor rank. */
typedef struct sl_plot {
    sl_shares cut; /* of its slices, over the replicas */
    /* [parameters] place of each one's first block in the canonical order of all blocks: by stage, parameter,
     * tensor rank; SL_NO_PLACE: what every tensor rank holds whole counts at the first one */
    size_t *place;
} sl_plot;

#define SL_NO_PLACE SIZE_MAX

struct sl_binding {
    const sl_run *run;
    sl_groups own;           /* while it is replaced by another one, the run's are already others */
    const sl_groups *groups; /* that copy */
    sl_problem shape;        /* of its replica: which rank holds which stage */
    int rank, stages, iteration;
    int first; /* global number of the replica's first microbatch */
    sl_model_config config;
    sl_device *device;
    sl_arena *arena, *host; /* host: NULL without host memory */
    sl_model_bytes need;    /* of all stages here */
    size_t limit, room;     /* of the arena */
    size_t hosted;          /* of host memory */
    sl_held *held;          /* [helds] ascending stages */
    int helds;
    sl_data *data;
    sl_optimizer optimizer;
    uint16_t *tokens, *targets; /* [batch][context] of the microbatch at hand */
    sl_reduce reduce;
    sl_reducer *reducer; /* NULL: one replica, and one stage here */
    int passes;          /* the tied embedding and its head lie on two ranks */
    sl_passing passing;  /* of the head's gradient to the first stage, or of its copy to the last */
    /* Sums of squares of blocks: those of this rank's shares, stage by stage; those of all ranks as they are
     * gathered; the latter in canonical order. */
    double *squares, *gathered, *all_squares;
    size_t own_squares;
    /* What the stages' due updates are made with; this rank has still to pass the head's copy. */
    int due_iteration, copy_due;
    int leaving; /* updates are the last ones here: nothing is packed behind them */
    float factor;
    sl_plot *plot; /* [stages * tensor ranks] of every stage of the model */
    size_t all_blocks;
    float *tensor_scratch;
    size_t tensor_capacity;
    float *head;          /* first of several stages: the head's gradient as it arrives from another rank */
    float *activation[2]; /* validation: in and out of a stage */
};

int sl_binding_rank_of(const sl_binding *b, int stage);
/** NULL: another rank holds it. */
sl_held *sl_binding_held_of(const sl_binding *b, int stage);
sl_model_stage *sl_binding_model_of(const sl_binding *b, int stage);

/** The cut of a stage's slices of this tensor rank over the replicas. */
const sl_shares *sl_binding_cut(const sl_binding *b, int stage);
/** Blocks [*begin, *end) of a stage whose moments this rank holds: all, or with ZeRO its replica's share. */
void sl_binding_updated(const sl_binding *b, int stage, size_t *begin, size_t *end);
/** The cut of a stage as config's tensor rank sees it. Free with sl_shares_free. */
sl_status sl_binding_cut_stage(const sl_model_config *config, int stage, int stages, int replicas,
                               sl_shares *cut);
/** Cuts of all stages: before the stages are opened. */
sl_status sl_binding_plot(sl_binding *b);
void sl_binding_close_plot(sl_binding *b);
/** The moments of a held stage from the arena, where ZeRO divides them. */
sl_status sl_binding_open_moments(sl_binding *b, sl_held *held);

/* ---- the steps of opening, for move.c too */

/** A binding without memory, text and device. */
sl_status sl_binding_make(const sl_run *run, const sl_groups *groups, sl_binding **binding);
/** What memory it needs; a device where there is none yet. */
sl_status sl_binding_size(sl_binding *b, int in_flight, int hosted);
/** That memory; the stages in it; what works on them. */
sl_status sl_binding_open_memory(sl_binding *b);
sl_status sl_binding_open_stages(sl_binding *b);
sl_status sl_binding_open_buffers(sl_binding *b);
void sl_binding_close_stages(sl_binding *b);

/** A W of a held stage has ended, or will at `end`; its `left` counts it. */
sl_status sl_binding_weights_added(sl_held *held, sl_time end);
/** Sums of squares of a stage whose gradients are whole, once an iteration; those of a tied embedding, which
 * is joined later, are left to sl_binding_clip. */
void sl_binding_take_squares(sl_binding *b, sl_held *held, int threads);
/** The stage's due update, if any. In ascending order on every rank; collective like sl_binding_settle. */
sl_status sl_binding_update_stage(sl_held *held);
/** What sums and norm need; after the stages. */
sl_status sl_binding_open_sums(sl_binding *b);
void sl_binding_close_sums(sl_binding *b);
sl_status sl_binding_open_clip(sl_binding *b);
void sl_binding_close_clip(sl_binding *b);
