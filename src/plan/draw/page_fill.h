/* Pages that are compiled in as text (sl_embed) with @MARKS@ where something belongs that a program writes.
 */
#pragma once

#include "base/status.h"
#include <stdio.h>

typedef struct sl_page_mark {
    const char *name;                                 /* as it stands in the page: "@TITLE@" */
    sl_status (*put)(const void *context, FILE *out); /* writes what stands there instead */
} sl_page_mark;

/** Writes `page` with each of `count` marks replaced by what its function writes; an @ that begins no mark
 * stays. Gives the first error of a function; those of `out` show in ferror. */
sl_status sl_page_fill(const char *page, const sl_page_mark *marks, int count, const void *context,
                       FILE *out);
