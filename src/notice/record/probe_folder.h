/* The folder in which the probes of a node leave their files, and how such a file is made and read.
 *
 * Names are unique: PID-ID.THREAD.ring and PID-ID.gate, where ID is random. A process id is not enough, because
 * containers that share the folder count their processes separately, and because ids are used again. Files are
 * made exclusively, and a file has its name only when it is complete.
 *
 * The maker of a file holds a lock on it (flock) as long as it has it mapped: the lock belongs to the open file,
 * which the mapping keeps open. The kernel ends it with the process, also at exec and SIGKILL, and it works
 * across process namespaces, where process ids do not. So a reader can see whether the maker is still there.
 *
 * Every file begins with the same head, so that a reader of another version can say whose file it is. libc only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A process, unlike any other that ever uses the folder. */
typedef struct sl_process_id {
    uint64_t id;         /* random; never 0 */
    uint64_t space;      /* inode of its pid namespace; 0: not known */
    uint64_t start;      /* when it was started, clock ticks since boot; 0: not known. The same after exec */
    int32_t pid;         /* in its own namespace */
    uint32_t locked;     /* of a file's maker: 1: it holds the lock on this file. 0: the file system has none */
} sl_process_id;
_Static_assert(sizeof(sl_process_id) == 32, "the layout is part of the version");

#define SL_BUILD_SIZE 32

/* How every file begins, from layout 2 on. */
typedef struct sl_file_head {
    uint32_t magic, layout;    /* which file, and in which layout; magic is written last */
    char build[SL_BUILD_SIZE]; /* version of the slackline that made it */
    sl_process_id process;     /* that made it */
} sl_file_head;
_Static_assert(sizeof(sl_file_head) == 72, "the layout is part of the version");

/* What a file is for its reader. */
typedef enum sl_probe_file {
    SL_FILE_OURS,    /* of the kind that was asked for, made by this version */
    SL_FILE_OTHER,   /* of that kind, made by another version */
    SL_FILE_FOREIGN, /* something else */
} sl_probe_file;

/** This process, with a new id. Never fails. */
void sl_process_find(sl_process_id *process);

/** Writes the head in memory that nobody else sees yet. `magic` may be 0, to be written when all is
 * there, and `process` NULL. */
void sl_file_head_write(sl_file_head *head, uint32_t magic, uint32_t layout, const sl_process_id *process);

/** What a file of `bytes` bytes that begins like this is. For SL_FILE_OTHER text[size] gets both versions:
 * "of slackline 0.0.9, and this is slackline 0.1.0". */
sl_probe_file sl_file_head_read(const sl_file_head *head, size_t bytes, uint32_t magic, uint32_t layout,
                                char *text, size_t size);

/** Makes a file of `bytes` zeroes with room of its own on the file system, so that a full one is an error now
 * and no signal later, and maps it. It is locked, and named NAME.new until sl_folder_publish. Signals only delay
 * this. NULL: errno says why. */
void *sl_folder_make(const char *folder, const char *name, size_t bytes);

/** Gives the file that was made as `made` its name, which no other file may have (EEXIST). 0, or -1 with errno;
 * then the file is gone. */
int sl_folder_publish(const char *folder, const char *made, const char *name);

/** Maps a file of at least `least` bytes, its size in *bytes. NULL: errno says why (EINVAL: too small, or no
 * regular file). */
void *sl_folder_map(const char *folder, const char *name, int writable, size_t least, size_t *bytes);

/** Whether somebody holds the lock on the file: 1, 0 (nobody, or the file is gone), -1: it cannot be found out.
 */
int sl_folder_held(const char *folder, const char *name);
