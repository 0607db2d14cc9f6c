/* Files that are told something and that nobody waits for: logs, views and reports, written by a thread of
 * their own. A disk that is full or gone, or a file system that hangs, then costs what would have stood in
 * the file, and nothing else.
 *
 * What waits to be written is bounded. Of a file that is written whole, the newest text replaces one that
 * still waits; a file that grows loses what comes while too much waits. What fails leaves the file as it was,
 * so that it ends with a whole text, and the next text is tried all the same. The first trouble of each file
 * is kept for the caller to say, once.
 *
 * Order is kept within a file. Put and trouble are for any thread, open and close for one. */
#pragma once

#include "base/status.h"
#include "base/time.h"
#include <stddef.h>

#define SL_WRITER_MAX ((size_t)64 << 20) /* bytes that wait: enough for minutes of any log of ours */
#define SL_WRITER_PATIENCE (10 * SL_SECOND)

typedef enum sl_writer_how {
    SL_WRITER_APPEND, /* behind the last whole line that is there */
    SL_WRITER_ANEW,   /* the same, in an empty file */
    SL_WRITER_WHOLE,  /* in place of the file, on the disk when it is done (sl_file_write) */
    SL_WRITER_RENEW,  /* the same without waiting for the disk (sl_file_renew) */
    SL_WRITER_REMOVE  /* no such file */
} sl_writer_how;

typedef struct sl_writer sl_writer;

/** `most`: bytes that may wait. SL_ENOMEM, SL_ESYS. */
sl_status sl_writer_open(size_t most, sl_writer **writer);

/** Copies text[size] for the file `path` and returns at once. The next text to be appended takes the place of
 * the last `tail` bytes: a file with an end of its own is whole after each. */
void sl_writer_put(sl_writer *writer, const char *path, sl_writer_how how, const char *text, size_t size,
                   size_t tail);

/** The next trouble that was not said yet, in one line: text[size]. 0: there is none. */
int sl_writer_trouble(sl_writer *writer, char *text, size_t size);

/** Waits until all is written, or nothing has been for so long: 0, and what still waits has trouble. What
 * hangs is waited for once: the next time returns at once unless something was written meanwhile. */
int sl_writer_flush(sl_writer *writer, sl_time patience);

/** Ends the thread. What still waits is lost; a thread that hangs in a file stays behind, with its memory.
 * NULL is fine. */
void sl_writer_close(sl_writer *writer);
