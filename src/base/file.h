/* Files: whole reads, and writes that appear complete or not at all (temporary name beside it, fsync,
 * rename). */
#pragma once

#include "base/status.h"
#include <stddef.h>
#include <sys/stat.h>

/** The whole file ("-": standard input) with a 0 byte behind it. Free with sl_free. SL_EINVAL when it cannot
 * be read. */
sl_status sl_file_read(const char *path, char **content, size_t *size);
/** The same, and SL_EINVAL when there are more than `most` bytes (a device may never end). */
sl_status sl_file_read_most(const char *path, size_t most, char **content, size_t *size);

/** Replaces `path` by `size` bytes atomically; on failure the old file is untouched and nothing is left
 * behind. */
sl_status sl_file_write(const char *path, const void *content, size_t size);
/** The same for a secret: nobody but the user may read it, at no moment. */
sl_status sl_file_write_private(const char *path, const void *content, size_t size);
/** The same as sl_file_write without waiting for the disk, for what is written again and again: readers see
 * the old or the new file, but after a power cut it may be empty. */
sl_status sl_file_renew(const char *path, const void *content, size_t size);

/** Whether a file was written or replaced between two looks (st_ino 0: it was not there). */
int sl_file_differs(const struct stat *before, const struct stat *now);

/** Cuts what is behind the last whole line of a regular file, as who was killed while writing leaves it; the
 * file is read from its end, a piece at a time. Another kind of file and none are left alone. SL_ESYS. */
sl_status sl_file_cut_line(const char *path);

/** Makes a directory and its parents. */
sl_status sl_directory_make(const char *path);

/** Removes a file or a whole directory tree; absent is not an error. Does not follow links. */
sl_status sl_path_remove(const char *path);
