#include "run/checkpoint/checksum.h"
#include "run/checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)4 << 20) /* bytes between two looks at `stop` */
#define ALIGNED 64              /* of the data's beginning, so that others may map it */

typedef struct tensor_writer {
    const char *path;
    int descriptor;
    const atomic_int *stop;
    sl_checksum_stream *checksum;
    uint64_t size, header;
} tensor_writer;

static size_t bytes_of(const sl_tensor_source *t) {
    size_t count = sizeof(float);
    for (int i = 0; i < t->dimensions; i++)
        count *= (size_t)t->shape[i];
    return count;
}

static int put_checksum(json_t *metadata, const sl_tensor_source *t) {
    char key[sizeof SL_TENSOR_CHECKSUM + sizeof t->name], digits[17];
    snprintf(key, sizeof key, SL_TENSOR_CHECKSUM "%s", t->name);
    snprintf(digits, sizeof digits, "%016" PRIx64, sl_checksum(t->data, bytes_of(t)));
    return json_object_set_new(metadata, key, json_string(digits));
}

/* The header's text, padded with spaces to the alignment; free with free(). */
static sl_status make_header(const sl_tensor_source *tensors, int count, char **text, uint64_t *data) {
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t at = 0;
    int failed = !header;
    for (int i = 0; i < count && !failed; i++) {
        const sl_tensor_source *t = &tensors[i];
        uint64_t end = at + bytes_of(t);
        json_t *shape = json_pack(t->dimensions == 2 ? "[I,I]" : "[I]", (json_int_t)t->shape[0],
                                  (json_int_t)(t->dimensions == 2 ? t->shape[1] : 0));
        failed = put_checksum(json_object_get(header, "__metadata__"), t) |
                 json_object_set_new(header, t->name,
                                     json_pack("{s:s, s:o, s:[I,I]}", "dtype", "F32", "shape", shape,
                                               "data_offsets", (json_int_t)at, (json_int_t)end));
        at = end;
    }
    *text = failed ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    *data = at;
    return *text ? SL_OK : sl_error(SL_ENOMEM, "out of memory for a header");
}

static sl_status put(tensor_writer *w, const void *bytes, size_t size) {
    const char *from = bytes;
    while (size > 0) {
        if (w->stop && atomic_load_explicit(w->stop, memory_order_relaxed))
            return sl_error(SL_ENONE, "%s: stopped", w->path);
        ssize_t done = write(w->descriptor, from, size < PIECE ? size : PIECE);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sl_error_errno(SL_ESYS, "%s: cannot be written", w->path);
        sl_checksum_add(w->checksum, from, (size_t)done);
        from += done;
        size -= (size_t)done;
        w->size += (uint64_t)done;
    }
    return SL_OK;
}

/* A full disk is detected here. File systems that cannot reserve fail later. */
static sl_status reserve(tensor_writer *w, uint64_t size) {
    if (size == 0 || fallocate(w->descriptor, 0, 0, (off_t)size) == 0 || errno == EOPNOTSUPP ||
        errno == ENOSYS || errno == EINTR)
        return SL_OK;
    return sl_error_errno(SL_ESYS, "%s: %llu bytes cannot be written", w->path, (unsigned long long)size);
}

static sl_status write_all(tensor_writer *w, const sl_tensor_source *tensors, int count, char *text,
                           uint64_t data) {
    static const char spaces[ALIGNED + 1] =
        "                                                                ";
    unsigned char length[8];
    size_t used = strlen(text), padded = (used + 8 + ALIGNED - 1) / ALIGNED * ALIGNED - 8;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(padded >> (8 * i));
    SL_TRY(reserve(w, sizeof length + padded + data));
    SL_TRY(put(w, length, sizeof length));
    SL_TRY(put(w, text, used));
    SL_TRY(put(w, spaces, padded - used));
    w->header = sl_checksum_value(w->checksum);
    for (int i = 0; i < count; i++)
        SL_TRY(put(w, tensors[i].data, bytes_of(&tensors[i])));
    if (fsync(w->descriptor) != 0)
        return sl_error_errno(SL_ESYS, "%s: cannot be written", w->path);
    return SL_OK;
}

sl_status sl_safetensors_write(const char *path, const sl_tensor_source *tensors, int count,
                               const atomic_int *stop, sl_file_seal *seal) {
    tensor_writer w = {.path = path, .stop = stop};
    char *text;
    uint64_t data;
    sl_status status;
    SL_TRY(make_header(tensors, count, &text, &data));
    w.descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w.descriptor < 0)
        SL_TRY_GOTO(free_text, status, sl_error_errno(SL_ESYS, "%s: cannot be written", path));
    SL_TRY_GOTO(close_file, status, sl_checksum_open(&w.checksum));
    status = write_all(&w, tensors, count, text, data);
close_file:
    if (close(w.descriptor) != 0 && status == SL_OK)
        status = sl_error_errno(SL_ESYS, "%s: cannot be written", path);
    if (status == SL_OK)
        *seal = (sl_file_seal){.size = w.size, .checksum = sl_checksum_value(w.checksum), .header = w.header};
    else
        unlink(path);
    sl_checksum_close(w.checksum);
free_text:
    free(text);
    return status;
}
