/* Files: whole reads, and atomic writes (temporary name in the same folder, fsync, rename). */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <sys/stat.h>

/** The whole file ("-": standard input) followed by a 0 byte. Free with sl_free. SL_EINVAL if it cannot be
 * read. */
sl_status sl_file_read(const char *path, char **content, size_t *size);
/** The same, and SL_EINVAL if there are more than `most` bytes (a device may never end). */
sl_status sl_file_read_max(const char *path, size_t most, char **content, size_t *size);

/** Replaces `path` by `size` bytes atomically; on failure the old file is untouched and nothing else
 * remains. */
sl_status sl_file_write(const char *path, const void *content, size_t size);
/** The same for a secret: only the user may read it, at any time. */
sl_status sl_file_write_private(const char *path, const void *content, size_t size);
/** The same as sl_file_write without waiting for the disk, for frequent writes: readers see the old or the
 * new file, but after a power failure it may be empty. */
sl_status sl_file_renew(const char *path, const void *content, size_t size);

/* A file in the making, which is written in pieces. */
typedef struct sl_new_file {
    const char *path;
    int descriptor;
    char temporary[4096]; /* its name until it is complete, in the same folder */
} sl_new_file;

/** Begins a file that replaces `path`, which must stay valid and be absent or a regular file. Write to
 * file->descriptor. SL_EINVAL, SL_ESYS. */
sl_status sl_file_begin(const char *path, sl_new_file *file);
/** Ends it: with SL_OK it is in place, as after sl_file_write; otherwise nothing remains. Returns `status`,
 * or its own failure. */
sl_status sl_file_end(sl_new_file *file, sl_status status);

/** Whether a file was written or replaced between two stat calls (st_ino 0: it did not exist). */
int sl_file_differs(const struct stat *before, const struct stat *now);

/** Removes an incomplete last line of a regular file, such as after a kill during a write; reads the file
 * from its end in pieces. Ignores missing files and other kinds. SL_ESYS. */
sl_status sl_file_cut_line(const char *path);

/** Makes a directory and its parents. */
sl_status sl_directory_make(const char *path);

/** Removes a file or a whole directory tree; absent is not an error. Does not follow links. */
sl_status sl_path_remove(const char *path);
