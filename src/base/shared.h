/* Memory shared by several processes, fully allocated from the start. A hole would cause a SIGBUS on the
 * first touch if memory has run out, and the first touch of a page costs up to 10 us on a virtual machine:
 * the first messages of a path would be many times slower. */
#pragma once

#include "base/status.h"

#include <stddef.h>

/** Sizes `file` and allocates its blocks; new ones are zero. `what` names it in errors. SL_ESYS. */
sl_status sl_shared_reserve(int file, size_t bytes, const char *what);

/** *memory (a pointer to a pointer) becomes the first `bytes` of `file`, readable and writable, shared, with
 * every page mapped (before Linux 5.14: on first touch). Release with munmap. SL_ESYS. */
sl_status sl_shared_map(int file, size_t bytes, const char *what, void *memory);
