/* Scanning: splits the bytes of a long JSON text into the items of its lists, without holding the whole text:
 * a trace of PyTorch's profiler and a large plan have hundreds of megabytes, an item some hundred bytes.
 * Bytes come in pieces of any size; each item is passed on as the text of one JSON object, which the receiver
 * parses.
 *
 * The text is an object, in which some members are such lists. A form may also allow the bare list, which may
 * lack its end (after the program was killed). */
#pragma once

#include "base/status.h"
#include <stddef.h>

typedef struct sl_scan_form {
    const char *what;        /* "a Chrome trace", for errors */
    const char *item;        /* "an event" */
    const char *const *list; /* keys of the lists, ended by NULL */
    int bare;                /* the first list must be there, and may stand alone */
    size_t most;             /* bytes of an item, or of another member */
} sl_scan_form;

/* The receiver. `text` has `size` bytes and a final zero, and is valid only during the call. */
typedef struct sl_scan_sink {
    /* An item of form->list[list]. */
    sl_status (*item)(void *object, int list, const char *text, size_t size, long line);
    /* A member that is no list of the form: its key and its JSON value. */
    sl_status (*member)(void *object, const char *key, const char *text, size_t size);
    void *object;
} sl_scan_sink;

typedef struct sl_scanner sl_scanner;

/** `name` stands for the file in errors; copied. `form` must outlive the scanner. Close with sl_scan_close.
 */
sl_status sl_scan_open(const char *name, const sl_scan_form *form, const sl_scan_sink *sink,
                       sl_scanner **scanner);
/** The next bytes. SL_EINVAL names file and line if they are not of the form, or a list is there twice
 * (unless it may stand alone: then its items are added); errors of the sink are passed on. */
sl_status sl_scan_feed(sl_scanner *scanner, const char *bytes, size_t size);
/** Whether list number `list` of the form has begun. */
int sl_scan_has(const sl_scanner *scanner, int list);
/** The end of the text: SL_EINVAL if it ends in the middle. */
sl_status sl_scan_end(sl_scanner *scanner);
void sl_scan_close(sl_scanner *scanner);
