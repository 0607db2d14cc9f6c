/* A file of lines that somebody else writes, followed: each whole line once, as it comes. A file that is
 * absent, comes later, is cut off, is replaced or begun anew is no error: `anew` says that what was told
 * before no longer counts. That it was begun anew and has already grown past where we were is seen by its
 * first bytes. */
#ifndef SL_DASHBOARD_LINES_H
#define SL_DASHBOARD_LINES_H

#include "base/status.h"
#include <stdint.h>
#include <sys/types.h>

enum { SL_LINES_HEAD = 160, SL_LINES_LONGEST = 64 << 20 };

typedef struct sl_lines {
    char *path;
    int file; /* -1: not open */
    dev_t device;
    ino_t inode;
    off_t at, size; /* read so far; of the file */
    char head[SL_LINES_HEAD];
    size_t headed; /* bytes of it */
    char *text;    /* the begin of a line whose end has not come */
    size_t used, room;
    int passing; /* a line that is too long is passed over */
    int64_t number, damaged;
    int there;
    int refused; /* something of that name is there and cannot be read */
} sl_lines;

/** `path` is copied. SL_ENOMEM. */
sl_status sl_lines_open(const char *path, sl_lines *lines);
void sl_lines_close(sl_lines *lines);

/** A line without its end; SL_EINVAL: it is damaged, which is counted. */
typedef sl_status (*sl_lines_taker)(void *context, const char *line, size_t length);
/** Everything that was told no longer counts. */
typedef void (*sl_lines_anew)(void *context);

/** Reads at most `most` bytes of what has come. SL_ENOMEM, and what the taker fails with. */
sl_status sl_lines_step(sl_lines *lines, size_t most, sl_lines_taker take, sl_lines_anew anew, void *context);

#endif
