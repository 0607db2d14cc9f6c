/* The newest iteration that a run recorded op by op, as a picture: timeline.json is whole after each. Of a
 * large file the begin and the newest part are read; a picture is made when somebody asks, and kept until the
 * file is another. Making them takes a tenth of the time at most, however many ask. */
#pragma once

#include "base/status.h"
#include "base/time.h"

#include <stdio.h>
#include <sys/stat.h>

typedef struct sl_newest {
    char *path; /* of timeline.json */
    struct stat file;
    char *svg; /* of that one; NULL: none was made */
    sl_time next;
} sl_newest;

/** `folder` need not be there. SL_ENOMEM. */
sl_status sl_newest_open(const char *folder, sl_newest *newest);
void sl_newest_close(sl_newest *newest);

/** Writes the picture, SVG; where there is none, one that says why. */
void sl_newest_put(sl_newest *newest, FILE *out);
