/* Several safetensors files as one set of tensors by name: the shards of a checkpoint, or third-party weights
 * (one file model.safetensors, or shards with model.safetensors.index.json). Only the needed slices are
 * read. */
#pragma once

#include "run/checkpoint/checkpoint_state.h"
#include "run/checkpoint/safetensors.h"

typedef struct sl_weights sl_weights;

/** The tensors of a checkpoint: every .safetensors file in its state. `path` is its folder. SL_EINVAL names a
 * file whose header differs from the state's (reading then checks each tensor against its header), or, for
 * an older checkpoint without checksums in its headers, a file whose bytes differ. */
sl_status sl_weights_open_checkpoint(const char *path, const sl_checkpoint_state *state,
                                     sl_weights **weights);

/** Third-party weights: `path` is a folder with model.safetensors.index.json or model.safetensors, or such a
 * file itself. SL_EINVAL describes the error: no such file, an index entry that no file holds, the same
 * tensor in two files. */
sl_status sl_weights_open(const char *path, sl_weights **weights);
void sl_weights_close(sl_weights *weights);

/* A tensor that a model needs from a set. */
typedef struct sl_weight_need {
    const char *name;
    int rows, columns; /* rows 0: a vector of `columns` */
} sl_weight_need;

/* Allowed names in a set in addition to the model's own. */
typedef struct sl_weight_rules {
    const char *prefix; /* optional prefix of names, such as "transformer."; NULL: none */
    /** Nonzero: a tensor of this name (without prefix) is not a weight and is skipped. NULL: there are
     * none. */
    int (*passed_over)(const char *name);
} sl_weight_rules;

/** Checks that the set holds exactly the needed tensors in the right shape and a readable type: SL_EINVAL
 * names in one line the first that is missing, extra or of another shape, and the number of others. From
 * here on reading takes names without the prefix. */
sl_status sl_weights_check(sl_weights *weights, const sl_weight_need *needs, int count,
                           const sl_weight_rules *rules);

/** Whether there is a tensor of that name. */
int sl_weights_has(const sl_weights *weights, const char *name);

/** Elements [first, first + count) of a tensor as f32; `rows` and `columns` (rows 0: a vector) must be its
 * shape. SL_EINVAL. */
sl_status sl_weights_read(const sl_weights *weights, const char *name, int rows, int columns, size_t first,
                          size_t count, float *out);
