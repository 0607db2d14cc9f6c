/* The two small files by which other tools load a checkpoint: config.json, as Hugging Face's transformers
 * write it for GPT-2 and Llama, and model.safetensors.index.json, which says which tensor lies in which file.
 */
#ifndef SL_RUN_CHECKPOINT_DESCRIBE_H
#define SL_RUN_CHECKPOINT_DESCRIBE_H

#include "run/checkpoint/safetensors.h"

typedef enum sl_describe_kind { SL_DESCRIBE_GPT2, SL_DESCRIBE_LLAMA } sl_describe_kind;

typedef struct sl_model_description {
    sl_describe_kind kind;
    int layers, width, heads, kv_heads, hidden, context, vocabulary, tied;
    double rope_base, epsilon;
} sl_model_description;

/** Writes config.json. SL_ESYS, SL_ENOMEM. */
sl_status sl_describe_model(const char *path, const sl_model_description *model, sl_file_seal *seal);

/** Writes FOLDER/model.safetensors.index.json over the files `names`[count] of the folder, whose headers it
 * reads (and so checks). SL_EINVAL, SL_ESYS, SL_ENOMEM. */
sl_status sl_describe_index(const char *folder, const char *const *names, int count, sl_file_seal *seal);

#endif
