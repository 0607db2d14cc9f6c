/* Compressing with gzip while writing. */
#pragma once

#include "base/status.h"

#include <stddef.h>

typedef struct sl_packer sl_packer;

/** Whether the name of a file asks for it: it ends in .gz. */
int sl_packs(const char *path);

/** Compresses what is put, into the open file `descriptor`, which stays open. `path` is for errors.
 * SL_ENOMEM; SL_EINVAL: this build has no zlib. Close with sl_packer_close. */
sl_status sl_packer_open(const char *path, int descriptor, sl_packer **packer);
/** 0, or errno. */
int sl_packer_put(sl_packer *packer, const char *bytes, size_t size);
/** Writes the rest. 0, or errno. NULL is allowed. */
int sl_packer_close(sl_packer *packer);
