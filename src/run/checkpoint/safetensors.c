#include "run/checkpoint/safetensors.h"
#include "base/memory.h"
#include "run/checkpoint/checksum.h"
#include "run/checkpoint/half.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX UINT64_C(100000000) /* the format's own limit */
#define PIECE ((size_t)1 << 16)        /* elements converted per step */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the data are little-endian");

struct sl_safetensors {
    char *path;
    int descriptor;
    json_t *header; /* owns the names */
    sl_tensor *tensor;
    int count;
    uint64_t size, data; /* of the file; where the data begin */
    uint64_t checksum;   /* of what is before the data */
};

typedef struct dtype_row {
    const char *name;
    unsigned bytes;
    sl_dtype dtype;
} dtype_row;

static const dtype_row dtypes[] = {
    {"F32", 4, SL_DTYPE_F32},       {"F16", 2, SL_DTYPE_F16},      {"BF16", 2, SL_DTYPE_BF16},
    {"F64", 8, SL_DTYPE_OTHER},     {"I64", 8, SL_DTYPE_OTHER},    {"I32", 4, SL_DTYPE_OTHER},
    {"I16", 2, SL_DTYPE_OTHER},     {"I8", 1, SL_DTYPE_OTHER},     {"U64", 8, SL_DTYPE_OTHER},
    {"U32", 4, SL_DTYPE_OTHER},     {"U16", 2, SL_DTYPE_OTHER},    {"U8", 1, SL_DTYPE_OTHER},
    {"BOOL", 1, SL_DTYPE_OTHER},    {"C64", 8, SL_DTYPE_OTHER},    {"F8_E4M3", 1, SL_DTYPE_OTHER},
    {"F8_E5M2", 1, SL_DTYPE_OTHER}, {"F8_E8M0", 1, SL_DTYPE_OTHER}};

static sl_status read_at(const sl_safetensors *f, void *out, size_t size, uint64_t at) {
    char *to = out;
    while (size > 0) {
        ssize_t got = pread(f->descriptor, to, size, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_error_errno(SL_EINVAL, "%s: cannot be read", f->path);
        if (got == 0)
            return sl_error(SL_EINVAL, "%s: ends at byte %llu, within a tensor", f->path,
                            (unsigned long long)at);
        to += got;
        at += (uint64_t)got;
        size -= (size_t)got;
    }
    return SL_OK;
}

/* ---- the header ---- */

static sl_status read_dtype(const sl_safetensors *f, const json_t *entry, sl_tensor *t, unsigned *bytes) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name)
        return sl_error(SL_EINVAL, "%s: tensor '%s' has no dtype", f->path, t->name);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            t->dtype = dtypes[i].dtype;
            snprintf(t->dtype_name, sizeof t->dtype_name, "%s", name);
            *bytes = dtypes[i].bytes;
            return SL_OK;
        }
    return sl_error(SL_EINVAL, "%s: tensor '%s' has dtype '%.16s', which is not known", f->path, t->name,
                    name);
}

static sl_status read_shape(const sl_safetensors *f, const json_t *entry, sl_tensor *t) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > SL_TENSOR_DIMENSIONS)
        return sl_error(SL_EINVAL, "%s: tensor '%s' has no shape of at most %d dimensions", f->path, t->name,
                        SL_TENSOR_DIMENSIONS);
    t->dimensions = (int)json_array_size(shape);
    t->count = 1;
    for (int i = 0; i < t->dimensions; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return sl_error(SL_EINVAL, "%s: tensor '%s' has a shape that is not a list of integers", f->path,
                            t->name);
        t->shape[i] = json_integer_value(size);
        if (__builtin_mul_overflow(t->count, (size_t)t->shape[i], &t->count))
            return sl_error(SL_EINVAL, "%s: tensor '%s' has a shape that overflows", f->path, t->name);
    }
    return SL_OK;
}

static sl_status read_offsets(const sl_safetensors *f, const json_t *entry, unsigned bytes, sl_tensor *t) {
    const json_t *offsets = json_object_get(entry, "data_offsets"), *begin = json_array_get(offsets, 0),
                 *end = json_array_get(offsets, 1);
    uint64_t data = f->size - f->data, size;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end) || json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return sl_error(SL_EINVAL, "%s: tensor '%s' has no data_offsets [begin, end]", f->path, t->name);
    t->begin = (uint64_t)json_integer_value(begin);
    t->end = (uint64_t)json_integer_value(end);
    if (t->end > data)
        return sl_error(SL_EINVAL,
                        "%s: tensor '%s' ends at byte %llu of the data, the file has only %llu (truncated?)",
                        f->path, t->name, (unsigned long long)t->end, (unsigned long long)data);
    if (__builtin_mul_overflow((uint64_t)t->count, (uint64_t)bytes, &size) || size != t->end - t->begin)
        return sl_error(SL_EINVAL, "%s: tensor '%s' has %llu bytes, which do not fit its shape and dtype %s",
                        f->path, t->name, (unsigned long long)(t->end - t->begin), t->dtype_name);
    t->begin += f->data;
    t->end += f->data;
    return SL_OK;
}

static sl_status read_metadata(const sl_safetensors *f, json_t *metadata) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return sl_error(SL_EINVAL, "%s: __metadata__ is not a map of texts", f->path);
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return sl_error(
        SL_EINVAL, "%s: __metadata__ is not a map of texts", f->path);
    return SL_OK;
}

/* The checksums of the tensors in the header; other programs write none. */
static sl_status read_checksums(sl_safetensors *f) {
    const json_t *metadata = json_object_get(f->header, "__metadata__");
    for (int i = 0; i < f->count && metadata; i++) {
        char key[256];
        sl_tensor *t = &f->tensor[i];
        if (snprintf(key, sizeof key, SL_TENSOR_CHECKSUM "%s", t->name) >= (int)sizeof key)
            continue;
        const char *digits = json_string_value(json_object_get(metadata, key));
        t->sealed = digits != NULL;
        if (digits && (strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16))
            return sl_error(SL_EINVAL, "%s: %s is not an xxh64 of 16 digits", f->path, key);
        t->checksum = digits ? strtoull(digits, NULL, 16) : 0;
    }
    return SL_OK;
}

static sl_status read_entries(sl_safetensors *f) {
    const char *name;
    json_t *entry;
    SL_TRY(sl_alloc(&f->tensor, json_object_size(f->header), sizeof *f->tensor));
    json_object_foreach(f->header, name, entry) {
        sl_tensor *t = &f->tensor[f->count];
        unsigned bytes = 0;
        if (strcmp(name, "__metadata__") == 0) {
            SL_TRY(read_metadata(f, entry));
            continue;
        }
        *t = (sl_tensor){.name = name};
        if (!json_is_object(entry))
            return sl_error(SL_EINVAL, "%s: tensor '%s' is not described by a map", f->path, name);
        SL_TRY(read_dtype(f, entry, t, &bytes));
        SL_TRY(read_shape(f, entry, t));
        SL_TRY(read_offsets(f, entry, bytes, t));
        f->count++;
    }
    return read_checksums(f);
}

static int by_offset(const void *a, const void *b) {
    const sl_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sl_tensor *)a)->name, ((const sl_tensor *)b)->name);
}

/* Every byte of the data belongs to one tensor: no overlaps or holes. */
static sl_status check_cover(sl_safetensors *f) {
    uint64_t at = f->data;
    qsort(f->tensor, (size_t)f->count, sizeof *f->tensor, by_offset);
    for (int i = 0; i < f->count; i++) {
        const sl_tensor *t = &f->tensor[i];
        if (t->begin != at)
            return sl_error(SL_EINVAL, "%s: tensor '%s' %s", f->path, t->name,
                            t->begin < at ? "overlaps the one before" : "leaves a hole before it");
        at = t->end;
    }
    if (at != f->size)
        return sl_error(SL_EINVAL, "%s: %llu bytes after the last tensor belong to no tensor", f->path,
                        (unsigned long long)(f->size - at));
    qsort(f->tensor, (size_t)f->count, sizeof *f->tensor, by_name);
    return SL_OK;
}

/* One line of jansson's message, for any bytes in the file. */
static sl_status parse_header(sl_safetensors *f, const char *text, size_t length) {
    json_error_t error;
    f->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    for (char *c = error.text; !f->header && *c; c++)
        if ((unsigned char)*c < 32)
            *c = ' ';
    if (!f->header)
        return sl_error(SL_EINVAL, "%s: the header is not JSON: %s", f->path, error.text);
    if (!json_is_object(f->header))
        return sl_error(SL_EINVAL, "%s: the header is not a JSON object", f->path);
    SL_TRY(read_entries(f));
    return check_cover(f);
}

static sl_status read_header(sl_safetensors *f) {
    unsigned char length[8];
    uint64_t size = 0;
    struct stat found;
    char *text;
    if (fstat(f->descriptor, &found) != 0 || !S_ISREG(found.st_mode))
        return sl_error(SL_EINVAL, "%s: is not a regular file", f->path);
    f->size = (uint64_t)found.st_size;
    if (f->size < sizeof length)
        return sl_error(SL_EINVAL, "%s: %llu bytes are too few for a safetensors file", f->path,
                        (unsigned long long)f->size);
    SL_TRY(read_at(f, length, sizeof length, 0));
    for (int i = 7; i >= 0; i--)
        size = size << 8 | length[i];
    if (size > HEADER_MAX || size > f->size - sizeof length || size < 2)
        return sl_error(SL_EINVAL, "%s: a header of %llu bytes does not fit a file of %llu (truncated?)",
                        f->path, (unsigned long long)size, (unsigned long long)f->size);
    f->data = sizeof length + size;
    SL_TRY(sl_alloc(&text, (size_t)f->data + 1, 1));
    memcpy(text, length, sizeof length);
    sl_status status = read_at(f, text + sizeof length, (size_t)size, sizeof length);
    f->checksum = sl_checksum(text, (size_t)f->data);
    if (status == SL_OK && text[sizeof length] != '{')
        status = sl_error(SL_EINVAL, "%s: the header does not begin with '{'", f->path);
    SL_THEN(status, parse_header(f, text + sizeof length, (size_t)size));
    sl_free(text);
    return status;
}

sl_status sl_safetensors_open(const char *path, sl_safetensors **file) {
    sl_safetensors *f;
    sl_status status;
    *file = NULL;
    SL_TRY(sl_alloc(&f, 1, sizeof *f));
    f->descriptor = -1;
    SL_TRY_GOTO(err_close, status, sl_copy_text(&f->path, path));
    f->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->descriptor < 0)
        SL_TRY_GOTO(err_close, status, sl_error_errno(SL_EINVAL, "%s: cannot be read", path));
    SL_TRY_GOTO(err_close, status, read_header(f));
    *file = f;
    return SL_OK;
err_close:
    sl_safetensors_close(f);
    return status;
}

void sl_safetensors_close(sl_safetensors *f) {
    if (!f)
        return;
    if (f->descriptor >= 0)
        close(f->descriptor);
    json_decref(f->header);
    SL_FREE(f->tensor, f->path, f);
}

uint64_t sl_safetensors_header(const sl_safetensors *f) {
    return f->checksum;
}

int sl_safetensors_count(const sl_safetensors *f) {
    return f->count;
}

const sl_tensor *sl_safetensors_tensor(const sl_safetensors *f, int index) {
    return &f->tensor[index];
}

const sl_tensor *sl_safetensors_find(const sl_safetensors *f, const char *name) {
    const sl_tensor key = {.name = name};
    return f->count ? bsearch(&key, f->tensor, (size_t)f->count, sizeof *f->tensor, by_name) : NULL;
}

/* ---- values ---- */

static size_t bytes_of(const sl_tensor *t) {
    return t->dtype == SL_DTYPE_F32 ? sizeof(float) : sizeof(uint16_t);
}

static void widen(sl_dtype dtype, const void *from, size_t count, float *out) {
    const uint16_t *half = from;
    if (dtype == SL_DTYPE_F32)
        memcpy(out, from, count * sizeof *out);
    for (size_t i = 0; i < count && dtype == SL_DTYPE_BF16; i++)
        out[i] = sl_float_of_bf16(half[i]);
    for (size_t i = 0; i < count && dtype == SL_DTYPE_F16; i++)
        out[i] = sl_float_of_f16(half[i]);
}

static sl_status check(const sl_safetensors *f, const sl_tensor *t, uint64_t checksum) {
    return checksum == t->checksum
               ? SL_OK
               : sl_error(SL_EINVAL,
                          "%s: tensor '%s' was changed: its checksum is %016" PRIx64 ", not %016" PRIx64,
                          f->path, t->name, checksum, t->checksum);
}

/* Reads in pieces; reads all of a sealed tensor, whichever part is wanted. */
static sl_status read_pieces(const sl_safetensors *f, const sl_tensor *t, size_t first, size_t count,
                             char *piece, sl_checksum_stream *stream, float *out) {
    size_t at = stream ? 0 : first, end = stream ? t->count : first + count, each = bytes_of(t);
    for (size_t now; at < end; at += now) {
        now = end - at < PIECE ? end - at : PIECE;
        SL_TRY(read_at(f, piece, now * each, t->begin + at * each));
        if (stream)
            sl_checksum_add(stream, piece, now * each);
        size_t from = at > first ? at : first, to = at + now < first + count ? at + now : first + count;
        if (from < to)
            widen(t->dtype, piece + (from - at) * each, to - from, out + (from - first));
    }
    return stream ? check(f, t, sl_checksum_value(stream)) : SL_OK;
}

sl_status sl_safetensors_read(const sl_safetensors *f, const sl_tensor *t, size_t first, size_t count,
                              float *out) {
    if (t->dtype == SL_DTYPE_OTHER)
        return sl_error(SL_EINVAL, "%s: tensor '%s' has dtype %s; F32, F16 and BF16 are read", f->path,
                        t->name, t->dtype_name);
    if (first > t->count || count > t->count - first)
        return sl_error(SL_EINVAL, "%s: tensor '%s' has no elements %zu to %zu", f->path, t->name, first,
                        first + count);
    if (t->dtype == SL_DTYPE_F32 && (!t->sealed || count == t->count)) { /* straight to its destination */
        SL_TRY(read_at(f, out, count * sizeof *out, t->begin + first * sizeof *out));
        return t->sealed ? check(f, t, sl_checksum(out, count * sizeof *out)) : SL_OK;
    }
    char *piece = NULL;
    sl_checksum_stream *stream = NULL;
    sl_status status = t->sealed ? sl_checksum_open(&stream) : SL_OK;
    SL_THEN(status, sl_alloc(&piece, PIECE, bytes_of(t)));
    SL_THEN(status, read_pieces(f, t, first, count, piece, stream, out));
    sl_free(piece);
    sl_checksum_close(stream);
    return status;
}
