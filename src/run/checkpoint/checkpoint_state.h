/* state.json: the contents of a checkpoint, and size and checksum of every other file in its folder. The file
 * seals itself: `seal` is the xxh64 of its own text with sixteen zeros in place of the seal, so that no byte
 * of a checkpoint can change undetected. */
#pragma once

#include "base/status.h"
#include <stdint.h>

#define SL_CHECKPOINT_FORMAT "slackline-checkpoint-1"

typedef struct sl_checkpoint_file {
    char name[96];
    uint64_t size, checksum; /* bytes; xxh64 */
    uint64_t header;         /* safetensors: xxh64 of its header, which has those of its tensors; 0: none */
} sl_checkpoint_file;

/* A property that must be the same in the resumed run: a key of the run file by its dotted path, and its
 * value as JSON (`64`, `0.001`, `"gpt2"`). */
typedef struct sl_checkpoint_key {
    char name[40], value[64];
} sl_checkpoint_key;

#define SL_CHECKPOINT_KEYS 32

typedef struct sl_checkpoint_state {
    int iteration; /* completed iterations: the number of the next one */
    int stages;
    sl_checkpoint_key key[SL_CHECKPOINT_KEYS];
    int keys;
    sl_checkpoint_file *file;
    int files;
    uint64_t seal; /* as it was read */
} sl_checkpoint_state;

void sl_checkpoint_state_free(sl_checkpoint_state *state);

/** Writes PATH (state.json) completely or not at all. SL_ESYS, SL_ENOMEM. */
sl_status sl_checkpoint_state_write(const char *path, const sl_checkpoint_state *state);

/** Reads and checks it: SL_EINVAL describes the error, without the path. Free with
 * sl_checkpoint_state_free. */
sl_status sl_checkpoint_state_read(const char *path, sl_checkpoint_state *state);

/** SL_EINVAL names the first key whose values differ (or that only one has): a run with `now` cannot resume
 * from a checkpoint with `then`, called `name`. */
sl_status sl_checkpoint_compare(const char *name, const sl_checkpoint_state *then,
                                const sl_checkpoint_key *now, int keys);
