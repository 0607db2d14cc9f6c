/* Files that may be compressed with gzip: read in pieces, or as a whole. What is not of gzip passes
 * unchanged.
 *
 * A small file may hold very much, so each reader has a limit. A file that ends too early, or whose checksum
 * is wrong, is an error. Without zlib (SL_ZLIB), a compressed file is refused. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* The receiver of the bytes. */
typedef struct sl_unpack_sink {
    sl_status (*feed)(void *object, const char *bytes, size_t size);
    void *object;
} sl_unpack_sink;

/** Gives the bytes of the open file `descriptor`, which is closed. `path` is for errors. SL_EINVAL: it cannot
 * be read or unpacked, or has more than `most` bytes; errors of the sink are passed on. */
sl_status sl_unpack(const char *path, int descriptor, uint64_t most, const sl_unpack_sink *sink);
/** The same of the file `path` ("-": standard input). */
sl_status sl_unpack_file(const char *path, uint64_t most, const sl_unpack_sink *sink);

/** At most `room` first bytes, as they are if they cannot be unpacked. SL_EINVAL: the file cannot be read. */
sl_status sl_unpack_head(const char *path, char *head, size_t room, size_t *size);
