/* Fills the stages that a rank holds from files: a checkpoint of this project, or weights by Hugging Face's
 * names. Each rank reads what it holds (of matrices that tensor ranks cut by columns, all rows); the layout
 * that wrote the files does not matter. */
#pragma once

#include "run/binding/binding.h"

/** Weights and moments from the checkpoint folder `path`; `stages` of this run. What this rank reads is
 * checked, up to `seal`, that of the state which rank 0 has found (run/checkpoint/checkpoint_state.h).
 * SL_ESYS names the file and tensor that differ. */
sl_status sl_load_checkpoint(const char *path, uint64_t seal, int stages, sl_binding *binding);

/** Weights from a folder (or file) of somebody else's; moments stay 0. SL_EINVAL, beginning with the key
 * 'model.weights', names a tensor that is missing, unknown or of another shape. Buffers that Hugging Face's
 * GPT-2 keeps beside its weights (attn.bias, attn.masked_bias) are passed over, and a head that is tied to
 * the embedding. */
sl_status sl_load_weights(const char *path, int stages, sl_binding *binding);
