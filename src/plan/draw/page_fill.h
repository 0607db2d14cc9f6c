/* Pages compiled in as text (sl_embed), with @MARKS@ to be filled by a program. */
#pragma once

#include "base/status.h"
#include <stdio.h>

typedef struct sl_page_mark {
    const char *name;                                 /* as in the page: "@TITLE@" */
    sl_status (*put)(const void *context, FILE *out); /* writes the replacement */
} sl_page_mark;

/** Writes `page` with each of `count` marks replaced by the output of its function; any other @ stays.
 * Returns the first error of a function; those of `out` show in ferror. */
sl_status sl_page_fill(const char *page, const sl_page_mark *marks, int count, const void *context,
                       FILE *out);
