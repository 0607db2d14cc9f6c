/* Times in the events of Chrome traces. */
#pragma once

#include "base/time.h"
#include <jansson.h>

/** Microseconds, as a number or (from some writers) as text, into ns. Limited to the years 1970 to 2039, so
 * that twice the difference of two, including a file's base, fits int64. 0: it is no such time. */
int sl_event_time(const json_t *value, sl_time *time);
