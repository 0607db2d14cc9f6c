/* Files and folders of tests of checkpoints: made byte by byte, so that nothing is checked against its own
 * writer. */
#ifndef SL_TESTS_CHECKPOINT_BYTES_H
#define SL_TESTS_CHECKPOINT_BYTES_H

#include "check.h"

#include "base/file.h"
#include "base/memory.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/slackline-checkpoint.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    (void)state;
    return sl_path_remove(folder) == SL_OK ? 0 : -1;
}

static inline const char *in_folder(const char *name) {
    static _Thread_local char path[4][4096];
    static _Thread_local unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* A safetensors file: its length field, its header, its data. */
static inline const char *put_file(const char *name, const char *header, const void *data, size_t size) {
    size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + size);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(bytes + 8, header, length);
    if (size)
        memcpy(bytes + 8 + length, data, size);
    assert_ok(sl_file_write(in_folder(name), bytes, 8 + length + size));
    free(bytes);
    return in_folder(name);
}

/* Changes one byte, counted from the end where `at` is negative. */
static inline void flip_byte(const char *path, long at) {
    char *text;
    size_t size;
    assert_ok(sl_file_read(path, &text, &size));
    text[at < 0 ? (long)size + at : at] ^= 0x10;
    assert_ok(sl_file_write(path, text, size));
    sl_free(text);
}

#endif
