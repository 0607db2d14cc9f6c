/* A pickle of plain values as JSON: the dumps of PyTorch's flight recorder (protocol 2 to 5). Nothing is
 * executed: opcodes that name or call something are refused, and so is everything else that such a dump does
 * not contain. */
#pragma once

#include "base/status.h"

#include <jansson.h>

/** `name` is for errors. Tuples become lists, numbers as keys their texts, bytes texts if they are UTF-8. The
 * caller's. SL_EINVAL: not such a pickle, with its position. SL_ENOMEM. */
sl_status sl_pickle_read(const char *name, const void *bytes, size_t size, json_t **json);
