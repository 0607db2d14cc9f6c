/* What a run must share with the checkpoint from which it goes on: model, data, batch and optimizer, by the
 * keys of the run file. The layout, the devices and the number of iterations may change. */
#ifndef SL_RUN_SAVING_IDENTITY_H
#define SL_RUN_SAVING_IDENTITY_H

#include "run/binding/binding.h"
#include "run/checkpoint/describe.h"
#include "run/checkpoint/state.h"

/** Fills key[SL_CHECKPOINT_KEYS]; returns how many. The text that is trained on counts, not the names of its
 * files. */
int sl_identity_keys(const sl_run *run, const sl_binding *binding, sl_checkpoint_key *key);

/** The model, for config.json. */
sl_model_description sl_identity_model(const sl_binding *binding);

#endif
