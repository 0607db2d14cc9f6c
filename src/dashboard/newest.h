/* The newest iteration that a run recorded op by op, as a picture: timeline.json is complete after each. Of a
 * large file the start and the newest part are read. A picture is made on request and kept until the file
 * changes. Making them takes a tenth of the time at most, whatever the number of requests. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include "plan/draw/style.h"

#include <stdio.h>
#include <sys/stat.h>

typedef struct sl_newest {
    char *path;                 /* of timeline.json */
    const sl_draw_style *style; /* NULL: the picture's own */
    struct stat file;
    char *svg; /* of this version of the file; NULL: none was made */
    sl_time next;
} sl_newest;

/** `folder` may be absent; `style` may be NULL, and stays the caller's. SL_ENOMEM. */
sl_status sl_newest_open(const char *folder, const sl_draw_style *style, sl_newest *newest);
void sl_newest_close(sl_newest *newest);

/** Writes the picture, SVG; if there is none, one with the reason. */
void sl_newest_put(sl_newest *newest, FILE *out);
