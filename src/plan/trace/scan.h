/* Scanning: splits the bytes of a Chrome trace into its events, without holding the whole file: a trace of
 * PyTorch's profiler has hundreds of megabytes, an event some hundred bytes. Bytes come in pieces of any
 * size; each event is passed on as the text of one JSON object, which the receiver parses.
 *
 * Both forms are read: an object whose `traceEvents` is the list, and the bare list, which may lack its end
 * (after the program was killed). */
#pragma once

#include "base/status.h"
#include <stddef.h>

#define SL_MAX_EVENT_BYTES (64 << 20) /* an event, or another member next to `traceEvents` */

/* The receiver. `text` has `size` bytes and a final zero, and is valid only during the call. */
typedef struct sl_scan_sink {
    sl_status (*event)(void *object, const char *text, size_t size, long line);
    /* A member next to traceEvents: its key and its JSON value. */
    sl_status (*member)(void *object, const char *key, const char *text, size_t size);
    void *object;
} sl_scan_sink;

typedef struct sl_scanner sl_scanner;

/** `name` stands for the file in errors; copied. Close with sl_scan_close. */
sl_status sl_scan_open(const char *name, const sl_scan_sink *sink, sl_scanner **scanner);
/** The next bytes. SL_EINVAL names file and line if they are not a trace; errors of the sink are passed
 * on. */
sl_status sl_scan_feed(sl_scanner *scanner, const char *bytes, size_t size);
/** The end of the file: SL_EINVAL if it ends in the middle. */
sl_status sl_scan_end(sl_scanner *scanner);
void sl_scan_close(sl_scanner *scanner);
