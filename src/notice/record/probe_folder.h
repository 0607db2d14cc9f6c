/* The folder in which the probes of a node leave their files, and how such a file is made and read.
 *
 * Names are unique: PID-ID.THREAD.ring and PID-ID.gate, where ID is random. A process id is not enough,
 * because containers that share the folder count their processes separately, and because ids are reused.
 * Files are created exclusively, and a file gets its name only when it is complete.
 *
 * The process that made a file holds a lock on it (flock) while the file is mapped: the lock belongs to the
 * open file, which the mapping keeps open. The kernel ends it with the process, also at exec and SIGKILL, and
 * it works across process namespaces, where process ids do not. So a reader can see whether that process
 * still runs.
 *
 * Every file begins with the same head, so a reader of another version can identify the version that made it.
 * libc only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A process, distinct from any other that ever uses the folder. */
typedef struct sl_process_id {
    uint64_t id;     /* random; never 0 */
    uint64_t space;  /* inode of its pid namespace; 0: unknown */
    uint64_t start;  /* its start, clock ticks since boot; 0: unknown. The same after exec */
    int32_t pid;     /* in its own namespace */
    uint32_t locked; /* in a file's head: 1: the process holds the lock on this file. 0: the file system
                        has no locks */
} sl_process_id;
_Static_assert(sizeof(sl_process_id) == 32, "the layout is part of the version");

#define SL_BUILD_SIZE 32

/* The beginning of every file, from layout 2. */
typedef struct sl_file_head {
    uint32_t magic, layout;    /* kind and layout of the file; magic is written last */
    char build[SL_BUILD_SIZE]; /* of the slackline that made it (base/build_id.h) */
    sl_process_id process;     /* that made the file */
} sl_file_head;
_Static_assert(sizeof(sl_file_head) == 72, "the layout is part of the version");

/* The kind of a file, for its reader. */
typedef enum sl_probe_file {
    SL_FILE_OURS,    /* of the requested kind, made by this version */
    SL_FILE_OTHER,   /* of that kind, made by another version */
    SL_FILE_FOREIGN, /* something else */
} sl_probe_file;

/** This process, with a new id. Never fails. */
void sl_process_find(sl_process_id *process);

/** Writes the head in memory that is not shared yet. `magic` may be 0, to be written when the rest is
 * complete, and `process` NULL. */
void sl_file_head_write(sl_file_head *head, uint32_t magic, uint32_t layout, const sl_process_id *process);

/** The kind of a file of `bytes` bytes with this beginning. For SL_FILE_OTHER text[size] gets both versions:
 * "of slackline 0.0.9, and this is slackline 0.1.0". */
sl_probe_file sl_file_head_read(const sl_file_head *head, size_t bytes, uint32_t magic, uint32_t layout,
                                char *text, size_t size);

/** Makes a file of `bytes` zeros with allocated room, so that a full file system is an error now, not a
 * signal later, and maps it. It is locked, and named NAME.new until sl_folder_publish. Signals only delay
 * this. NULL: errno is set. */
void *sl_folder_make(const char *folder, const char *name, size_t bytes);

/** Renames the file made as `made` to its final name, which no other file may have (EEXIST). 0, or -1 with
 * errno; then the file is removed. */
int sl_folder_publish(const char *folder, const char *made, const char *name);

/** Maps a file of at least `least` bytes, its size in *bytes. NULL: errno is set (EINVAL: too small, or not a
 * regular file). */
void *sl_folder_map(const char *folder, const char *name, int writable, size_t least, size_t *bytes);

/** Whether the file is locked: 1, 0 (not locked, or no such file), -1: unknown. */
int sl_folder_held(const char *folder, const char *name);
