/* Results of commands on their way out: to standard output, or, complete or not at all, to the file of -o.
 *
 * A file is written as a stream, packed with gzip if its name ends in .gz. Standard output and files that
 * cannot be replaced (pipes, devices) get the result at its end, from memory, so that nothing is printed
 * after an error; so do pictures that another program makes. Signals that end the command wait until a file
 * is in place, or until what was begun has been removed. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>

/** Writes a finished result to standard output (`output` NULL or "-"), or to that file. */
sl_status sl_leaving_write(const char *output, const char *text, size_t size);

typedef struct sl_leaving_file sl_leaving_file;

/* A result to be written there, through `out`. */
typedef struct sl_leaving {
    const char *output;
    FILE *out;
    sl_leaving_file *file; /* NULL: it is collected in `text` */
    char *text;
    size_t size;
    int is_svg; /* FILE.png and FILE.pdf are made of it (picture.h) */
} sl_leaving;

/** `output` must stay valid. SL_ENOMEM. */
sl_status sl_leaving_open(const char *output, sl_leaving *leaving);
/** Completes the result, unless `status` is a failure. Returns `status`, or its own failure. */
sl_status sl_leaving_close(sl_leaving *leaving, sl_status status);
