/* The properties that a resumed run must share with its checkpoint: model, data, batch and optimizer, by the
 * keys of the run file. The layout, the devices and the number of iterations may change. */
#pragma once

#include "run/binding/binding.h"
#include "run/checkpoint/checkpoint_state.h"
#include "run/checkpoint/safetensors.h"

/* The two small files that let other tools load a checkpoint: config.json, in the form of Hugging Face's
 * transformers for GPT-2 and Llama, and model.safetensors.index.json, which maps each tensor to its file. */

typedef enum sl_describe_kind { SL_DESCRIBE_GPT2, SL_DESCRIBE_LLAMA } sl_describe_kind;

typedef struct sl_model_description {
    sl_describe_kind kind;
    int layers, width, heads, kv_heads, hidden, context, vocabulary, tied;
    double rope_base, epsilon;
} sl_model_description;

/** Writes config.json. SL_ESYS, SL_ENOMEM. */
sl_status sl_describe_model(const char *path, const sl_model_description *model, sl_file_seal *seal);

/** Writes FOLDER/model.safetensors.index.json for the files `names`[count] of the folder, whose headers it
 * reads (and so checks). SL_EINVAL, SL_ESYS, SL_ENOMEM. */
sl_status sl_describe_index(const char *folder, const char *const *names, int count, sl_file_seal *seal);

/** Fills key[SL_CHECKPOINT_KEYS]; returns how many. The training text counts, not the names of its files. */
int sl_identity_keys(const sl_run *run, const sl_binding *binding, sl_checkpoint_key *key);

/** The model, for config.json. */
sl_model_description sl_identity_model(const sl_binding *binding);
