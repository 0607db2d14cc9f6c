/* Occupancy of a wire: the range-based model of CrossPipe (section 4.2.3). A message gets the earliest window
 * that is long enough, possibly before one that was booked earlier. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

typedef struct sl_window {
    sl_time start, end;
} sl_window;

typedef struct sl_windows { /* all zero: the wire is free */
    sl_window *taken;       /* ascending and disjoint; those before `first` are past */
    size_t first, count, capacity;
} sl_windows;

/** Books the earliest window of `length` that starts at or after `ready` and gives its end. `now`: no later
 * booking needs a window that starts before it. SL_ENOMEM. */
sl_status sl_windows_book(sl_windows *windows, sl_time now, sl_time ready, sl_time length, sl_time *end);
void sl_windows_free(sl_windows *windows);
