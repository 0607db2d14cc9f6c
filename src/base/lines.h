/* Follows a file of lines that another program writes: delivers each whole line once. The file may be absent,
 * appear later, be truncated, replaced or started over: `restarted` means that the lines delivered before are
 * obsolete. A file that was started over and has already grown past our position is recognized by its first
 * bytes and by those before our position. */
#pragma once

#include "base/status.h"
#include <stdint.h>
#include <sys/types.h>

enum { SL_LINES_KNOWN = 160, SL_LINES_LONGEST = 64 << 20 };

typedef struct sl_lines {
    char *path;
    int file; /* -1: not open */
    dev_t device;
    ino_t inode;
    off_t at, size;                                  /* read so far; of the file */
    char head[SL_LINES_KNOWN], last[SL_LINES_KNOWN]; /* its first bytes; those before `at` */
    size_t known;                                    /* of both */
    char *text;                                      /* start of an incomplete line */
    size_t used, room;
    int passing;                          /* a line that is too long is skipped */
    int64_t number, good, damaged, first; /* lines; `first`: number of the first damaged one */
    int is_cut;                           /* sl_lines_end: the last line has no end, and is damaged */
    int there;
    int refused; /* exists, but cannot be read: errno, or -1 if it is not a regular file */
} sl_lines;

/** `path` is copied. SL_ENOMEM. */
sl_status sl_lines_open(const char *path, sl_lines *lines);
void sl_lines_close(sl_lines *lines);

/** A line without its end; SL_EINVAL: it is damaged, which is counted. */
typedef sl_status (*sl_lines_taker)(void *context, const char *line, size_t length);
/** All delivered lines are obsolete. */
typedef void (*sl_lines_restarted)(void *context);

/** Reads at most `most` new bytes. The first step never calls `restarted`. SL_ENOMEM, or the taker's failure:
 * then the next step begins with that line. */
sl_status sl_lines_step(sl_lines *lines, size_t most, sl_lines_taker take, sl_lines_restarted restarted,
                        void *context);

/** For the last read: also takes the text after the last whole line as a line. */
sl_status sl_lines_end(sl_lines *lines, sl_lines_taker take, void *context);

/** After sl_lines_end: missing or damaged lines as a sentence, without a path; "": none. */
void sl_lines_trouble(const sl_lines *lines, char *text, size_t size);
