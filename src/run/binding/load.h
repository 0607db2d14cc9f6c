/* Fills a rank's stages from files: a checkpoint of this project, or weights with Hugging Face names. Each
 * rank reads its own parts (of matrices that tensor ranks cut by columns, all rows); the layout that wrote
 * the files does not matter. */
#pragma once

#include "run/binding/binding.h"

/** Weights and moments from the checkpoint folder `path`; `stages` of this run. The parts read by this rank
 * are checked, up to `seal`, that of the state found by rank 0 (run/checkpoint/checkpoint_state.h). SL_ESYS
 * names the file and tensor that differ. */
sl_status sl_load_checkpoint(const char *path, uint64_t seal, int stages, sl_binding *binding);

/** Third-party weights from a folder (or file); moments stay 0. SL_EINVAL, starting with the key
 * 'model.weights', names a tensor that is missing, unknown or of another shape. Buffers that Hugging Face's
 * GPT-2 stores with its weights (attn.bias, attn.masked_bias) are skipped, and so is a head that is tied to
 * the embedding. */
sl_status sl_load_weights(const char *path, int stages, sl_binding *binding);
