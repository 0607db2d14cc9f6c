/* Plans in the forms of the frameworks that people train with. A form is written from a problem, its plan,
 * and the shape of the job around the pipeline, which a plan does not have. Each framework has a function in
 * a file of its own; sl_exports is the table of them for commands.
 *
 * What a form cannot express is an error (SL_ENONE), or a comment line in the output that says what is lost.
 * The names of keys and flags are those of the versions in the comments of the functions;
 * tests/torch/test_export_*.py gives the output to the frameworks' own code.
 *
 * The cut of a problem with layers is its present one. Without layers, each stage counts as one layer, and a
 * comment says so. */
#pragma once

#include "plan/search/plan.h"

typedef struct sl_export_shape {
    int tensor, data, context, expert; /* ranks of each direction; at least 1 */
    int zero;                          /* stage of ZeRO, 0 to 3 */
    int microbatch_size;               /* sequences, at least 1 */
    int sequence;                      /* tokens; 0: not known, not written */
    int64_t global_batch;              /* sequences of an iteration; 0: what the pipeline and `data` make */
    int sequence_parallel;             /* tensor ranks also divide what is between products */
    int offload;                       /* the optimizer's state is in host memory */
    int recompute;                     /* all layers recompute; else the stages of the problem that do */
    const char *const *layer_name;     /* [layers] fully qualified module names; NULL: by position */
    const char *csv; /* torchtitan: path of the order, which the caller writes; NULL: comments at the end */
} sl_export_shape;

/* 1 rank in each direction, microbatches of 1 sequence. */
extern const sl_export_shape sl_export_shape_standard;

typedef sl_status (*sl_export_write)(const sl_problem *problem, const sl_plan *plan,
                                     const sl_export_shape *shape, FILE *out);

typedef struct sl_export {
    const char *name, *help;
    sl_export_write write;
} sl_export;

/* torchtitan, megatron, deepspeed, primus, pytorch; ended by a NULL name. */
extern const sl_export sl_exports[];

/** NULL: unknown. */
const sl_export *sl_export_find(const char *name);

/** Reads "tensor=2,data=4": tensor, data, context, expert, zero, microbatch_size, sequence, global_batch,
 * recompute, offload (0 or 1). SL_EINVAL: another key, or a wrong value. */
sl_status sl_export_shape_parse(const char *text, sl_export_shape *shape);

/* All: SL_ENONE: the framework cannot run the plan, or not in this shape; SL_EINVAL: a shape that contradicts
 * itself; SL_ENOMEM; SL_ESYS. */

/** torchtitan 0.3.0: fields of its ParallelismConfig and TrainingConfig as TOML, with the modules of each
 * stage; the order is CSV (plan/pipeline/csv.h). */
sl_status sl_export_torchtitan(const sl_problem *problem, const sl_plan *plan, const sl_export_shape *shape,
                               FILE *out);
/** Megatron-LM with megatron-core 0.16.1: flags as a shell array, with the layout of layers. Its orders are
 * code: the plan must be one of them, except for the warm-up of 1F1B, which comments give. */
sl_status sl_export_megatron(const sl_problem *problem, const sl_plan *plan, const sl_export_shape *shape,
                             FILE *out);
/** DeepSpeed 0.19.8: JSON with the instructions of a PipeSchedule per stage, the partition of layers, and
 * keys of the configuration. */
sl_status sl_export_deepspeed(const sl_problem *problem, const sl_plan *plan, const sl_export_shape *shape,
                              FILE *out);
/** Primus: JSON with the nodes of its schedule table. */
sl_status sl_export_primus(const sl_problem *problem, const sl_plan *plan, const sl_export_shape *shape,
                           FILE *out);
/** PyTorch's pipelining: sl_order_write_csv. */
sl_status sl_export_pytorch(const sl_problem *problem, const sl_plan *plan, const sl_export_shape *shape,
                            FILE *out);
