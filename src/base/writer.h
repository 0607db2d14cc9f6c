/* Files written in the background: logs, views and reports, by a separate thread. A full or missing disk, or
 * a file system that hangs, then costs only the content of the file.
 *
 * The waiting text is bounded. For a file that is written whole, the newest text replaces a waiting one; a
 * growing file loses new text while too much waits. A failed write leaves the file unchanged, so that it ends
 * with a complete text; later texts are still tried. The first error of each file is kept for the caller to
 * report, once.
 *
 * Order is kept within a file. Put and trouble are for any thread, open and close for one. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

#define SL_WRITER_MAX ((size_t)64 << 20) /* bytes that wait: enough for minutes of any log of ours */
#define SL_WRITER_PATIENCE (10 * SL_SECOND)

typedef enum sl_writer_how {
    SL_WRITER_APPEND, /* appends after its last whole line, also if another process wrote that */
    SL_WRITER_OVER,   /* the same, after emptying the file */
    SL_WRITER_WHOLE,  /* replaces the file, and waits for the disk (sl_file_write) */
    SL_WRITER_RENEW,  /* the same without waiting for the disk (sl_file_renew) */
    SL_WRITER_REMOVE  /* removes the file */
} sl_writer_how;

typedef struct sl_writer sl_writer;

/** `most`: bytes that may wait. SL_ENOMEM, SL_ESYS. */
sl_status sl_writer_open(size_t most, sl_writer **writer);

/** Copies text[size] for the file `path` and returns at once. The next appended text replaces the last `tail`
 * bytes: so a file with a closing part is complete after each. */
void sl_writer_put(sl_writer *writer, const char *path, sl_writer_how how, const char *text, size_t size,
                   size_t tail);

/** The next unreported trouble, in one line: text[size]. 0: none. */
int sl_writer_trouble(sl_writer *writer, char *text, size_t size);

/** Waits until all is written. Returns 0 if there was no progress for this long; the waiting files then have
 * an error. A hanging write is waited for only once: the next call returns at once unless something was
 * written meanwhile. */
int sl_writer_flush(sl_writer *writer, sl_time patience);

/** Ends the thread. Waiting text is lost; a thread that hangs in a file is leaked, with its memory. NULL is
 * allowed. */
void sl_writer_close(sl_writer *writer);
