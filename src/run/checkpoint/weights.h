/* Several safetensors files as one set of tensors by name: the shards of a checkpoint, or weights from
 * elsewhere (one file model.safetensors, or shards with model.safetensors.index.json). Slices are read, never
 * more. */
#pragma once

#include "run/checkpoint/checkpoint_state.h"
#include "run/checkpoint/safetensors.h"

typedef struct sl_weights sl_weights;

/** The tensors of a checkpoint: every .safetensors file that its state names. `path` is its folder. SL_EINVAL
 * names a file whose header is not the one of the state (reading then checks each tensor against its header),
 * or of an older checkpoint, whose headers state nothing, a file whose bytes are not. */
sl_status sl_weights_open_checkpoint(const char *path, const sl_checkpoint_state *state,
                                     sl_weights **weights);

/** Weights from elsewhere: `path` is a folder with model.safetensors.index.json or model.safetensors, or such
 * a file itself. SL_EINVAL names what is wrong: no such file, an index that names what no file holds, the
 * same tensor in two files. */
sl_status sl_weights_open(const char *path, sl_weights **weights);
void sl_weights_close(sl_weights *weights);

/* What a model needs of a set. */
typedef struct sl_weight_need {
    const char *name;
    int rows, columns; /* rows 0: a vector of `columns` */
} sl_weight_need;

/* What the names in a set may look like beside the model's own. */
typedef struct sl_weight_rules {
    const char *prefix; /* that names may bear in front, such as "transformer."; NULL: none */
    /** Nonzero: a tensor of this name (without prefix) is no weight and is passed over. NULL: there are none.
     */
    int (*passed_over)(const char *name);
} sl_weight_rules;

/** The set holds all that is needed in the right shape and readable type, and nothing else: SL_EINVAL names
 * in one line the first that is missing, extra or of another shape, and how many more there are. From here on
 * reading takes names without the prefix. */
sl_status sl_weights_check(sl_weights *weights, const sl_weight_need *needs, int count,
                           const sl_weight_rules *rules);

/** Whether there is a tensor of that name. */
int sl_weights_has(const sl_weights *weights, const char *name);

/** Elements [first, first + count) of a tensor as f32; `rows` and `columns` (rows 0: a vector) must be its
 * shape. SL_EINVAL. */
sl_status sl_weights_read(const sl_weights *weights, const char *name, int rows, int columns, size_t first,
                          size_t count, float *out);
