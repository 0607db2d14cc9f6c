/* Shared by the readers of a model (model_work.h): the sizes of a transformer before they are layers. */
#pragma once

#include "choose/model/model_work.h"

#define SL_MAX_MODEL_LAYERS 10000
#define SL_MAX_CONFIG_CONTEXT                                                                                \
    8192 /* the default context of a config.json: most models are trained at less than                       \
            the longest that they can read */

typedef struct sl_transformer {
    int layers, dense_layers, context; /* dense_layers: the first ones, without experts */
    sl_layer_sizes block;
    double dense_vectors, expert_vectors, head_vectors; /* vectors of a block of each kind, and of the head */
    int positions, tied;
    int gpt2_names;
} sl_transformer;

extern const sl_key sl_transformer_keys[];
/** `model:` of a model file. SL_EINVAL names file, line and key. */
sl_status sl_transformer_read(const sl_yaml *map, sl_transformer *transformer);
/** Whether the root of a document is a Hugging Face config.json, and what it describes. */
int sl_model_config_is(const sl_yaml *root);
sl_status sl_model_config_read(const sl_yaml *root, sl_transformer *transformer, const char **name);
/** Checks that the sizes fit each other; `where` is the node that errors name. */
sl_status sl_transformer_check(const sl_yaml *where, const sl_transformer *transformer);
/** Layers and kinds of the model. */
sl_status sl_transformer_layers(const sl_transformer *transformer, sl_model_work *model);

extern const sl_key sl_measured_layer_keys[], sl_measured_keys[];
/** `layers:` and `measured:` (may be NULL) into layers and kinds. */
sl_status sl_measured_layers_read(const sl_yaml *list, const sl_yaml *measured, sl_model_work *model);
