/* Streaming xxh64, the checksum of every checkpoint file in state.json. */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Of `size` bytes, seed 0 (the XXH64 of xxHash's specification). */
uint64_t sl_checksum(const void *bytes, size_t size);

typedef struct sl_checksum_stream sl_checksum_stream;

/** The same for a stream of bytes, cut anywhere. SL_ENOMEM. */
sl_status sl_checksum_open(sl_checksum_stream **stream);
void sl_checksum_add(sl_checksum_stream *stream, const void *bytes, size_t size);
uint64_t sl_checksum_value(const sl_checksum_stream *stream);
void sl_checksum_close(sl_checksum_stream *stream);

/** Reads a regular file to its end: its bytes and their checksum. SL_EINVAL if it cannot be read. */
sl_status sl_checksum_file(const char *path, uint64_t *size, uint64_t *checksum);
